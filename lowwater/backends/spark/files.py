"""Files of any file system that Spark can reach, as the driver sees them.

A reader sees a file that is written here as a whole or not at all: it is written beside its place and renamed.
"""

from __future__ import annotations

import uuid
from typing import Any

from py4j.java_gateway import is_instance_of
from pyspark.sql import SparkSession

from lowwater.errors import LowwaterError

_CHECKSUMMED = "org.apache.hadoop.fs.ChecksumFileSystem"


class Files:
    """The files below one directory. Names are relative to it; the empty name is the directory itself."""

    def __init__(self, spark: SparkSession, directory: str) -> None:
        self._jvm: Any = spark._jvm
        self.directory = directory.rstrip("/") or "/"
        root = self._path("")
        system = root.getFileSystem(spark._jsc.hadoopConfiguration())
        self.qualified = str(system.makeQualified(root).toString()).rstrip("/")
        # A local file gets no checksum file beside it, which would have to be renamed and removed with it.
        checksummed = is_instance_of(spark.sparkContext._gateway, system, _CHECKSUMMED)
        self._system = system.getRawFileSystem() if checksummed else system

    @property
    def local(self) -> str | None:
        """The directory as a plain path, if it is on a plain file system."""
        system, colon, path = self.qualified.partition("file:")
        return "/" + path.lstrip("/") if colon and not system else None

    def __truediv__(self, name: str) -> str:
        return f"{self.directory}/{name}"

    def _path(self, name: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(self / name if name else self.directory)

    def exists(self, name: str) -> bool:
        return bool(self._system.exists(self._path(name)))

    def names(self, name: str = "") -> list[str]:
        """The names in a directory, in order; none if there is no such directory."""
        path = self._path(name)
        if not self._system.exists(path):
            return []
        return sorted(str(found.getPath().getName()) for found in self._system.listStatus(path))

    def read(self, name: str) -> str | None:
        if not self.exists(name):
            return None
        stream = self._system.open(self._path(name))
        try:
            return str(self._jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))
        finally:
            stream.close()

    def write(self, name: str, text: str) -> None:
        folder, _, last = name.rpartition("/")
        beside = f"{folder}/.{last}.{uuid.uuid4().hex}".lstrip("/")
        stream = self._system.create(self._path(beside))
        try:
            stream.write(bytearray(text.encode()))
        finally:
            stream.close()
        self.replace(beside, name)

    def replace(self, name: str, by: str) -> None:
        """Renames a file. One that is there already gives way, on a local file system in the same moment."""
        source, target = self._path(name), self._path(by)
        if self.local is None and self._system.exists(target):
            self._system.delete(target, False)
        if not self._system.rename(source, target):
            raise LowwaterError(f"Cannot write {self / by}; check that the directory can be written to.")

    def delete(self, name: str) -> None:
        self._system.delete(self._path(name), True)

    def make(self, name: str) -> None:
        self._system.mkdirs(self._path(name))

    def same(self, one: str, other: str) -> bool:
        """Whether two files have the same bytes."""
        paths = [self._path(one), self._path(other)]
        if len({self._system.getFileStatus(path).getLen() for path in paths}) > 1:
            return False
        streams = [self._system.open(path) for path in paths]
        try:
            return bool(self._jvm.org.apache.commons.io.IOUtils.contentEquals(*streams))
        finally:
            for stream in streams:
                stream.close()
