"""The checkpoint directory of a query: whose it is, the plan that is pinned in it, and the control directory.

Any file system that Spark can reach will do.
"""

from __future__ import annotations

import json
import uuid
from typing import Any

from pyspark.sql import SparkSession

from lowwater.errors import CheckpointMismatch, LowwaterError
from lowwater.runtime.inputs import check_fingerprint


class Checkpoint:
    """The checkpoint directory: whose it is, and the control directory inside it. Any file system Spark can reach."""

    def __init__(self, spark: SparkSession, directory: str) -> None:
        self._jvm: Any = spark._jvm
        self._conf = spark._jsc.hadoopConfiguration()
        self._directory = directory.rstrip("/")
        self.control = f"{self._directory}/lowwater/control"
        self._owner = f"{self._directory}/lowwater/query.json"
        self._finished = f"{self._directory}/lowwater/finished"

    def shards(self) -> int | None:
        """The number of shards that the checkpoint was made with."""
        stored = self._read(self._owner)
        return None if stored is None else int(json.loads(stored)["shards"])

    def pinned(self) -> dict[str, Any] | None:
        """The choices of the plan that the checkpoint was made with."""
        stored = self._read(self._owner)
        return None if stored is None else json.loads(stored)["plan"]

    def claim(self, fingerprint: dict[str, Any]) -> None:
        """Writes down whose checkpoint this is, or refuses if it is another query's, or one that was finished."""
        stored = self._read(self._owner)
        if stored is not None:
            check_fingerprint(json.loads(stored), fingerprint)
            if self._exists(self._finished):
                raise CheckpointMismatch(
                    f"The query of {self._directory} was finished, and all its windows are answered; "
                    "use a new checkpoint directory for what comes after."
                )
            return
        if self._exists(f"{self._directory}/offsets"):
            raise CheckpointMismatch(
                f"{self._directory} is the checkpoint of another Spark query; give start() a directory of its own."
            )
        self._path(self.control).getFileSystem(self._conf).mkdirs(self._path(self.control))
        self._write(self._owner, json.dumps(fingerprint))

    def finished(self) -> None:
        self._write(self._finished, "")

    def command(self, text: str) -> None:
        self._write(f"{self.control}/{uuid.uuid4().hex}.txt", text)

    def _path(self, name: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(name)

    def _exists(self, name: str) -> bool:
        path = self._path(name)
        return bool(path.getFileSystem(self._conf).exists(path))

    def _read(self, name: str) -> str | None:
        if not self._exists(name):
            return None
        path = self._path(name)
        stream = path.getFileSystem(self._conf).open(path)
        try:
            return str(self._jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))
        finally:
            stream.close()

    def _write(self, name: str, text: str) -> None:
        """Written beside and renamed, so that a reader sees all of it or nothing."""
        path, beside = self._path(name), self._path(f"{name.rsplit('/', 1)[0]}/.{uuid.uuid4().hex}.tmp")
        system = path.getFileSystem(self._conf)
        stream = system.create(beside)
        stream.write(bytearray(text.encode()))
        stream.close()
        if not system.rename(beside, path):
            raise LowwaterError(f"Cannot write {name}; check that the checkpoint directory can be written to.")
