"""Results as parquet files, written by Arrow in the tasks that make them.

To hand results to Spark's own writer they would leave the worker, become rows in the JVM and columns again in its
writer: of a join with many results most of a micro-batch. Here the host writes the tables it has, as they are, one file
a shard, and what goes on to Spark is numbers.

    driver   begin(batch)      clears what an attempt before may have left
    tasks    put(batch, ...)   a file named by the shard, not by the attempt, which appears when it is complete
    driver   complete(batch)   a file without rows if there is none, so that there is a schema, and `_SUCCESS`

A task that is run again, and a micro-batch that is repeated, put the same results in the same place.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession


@dataclass(frozen=True)
class Outlet:
    """A directory on a plain file system with a part for every micro-batch."""

    directory: str
    schema: pa.Schema

    def begin(self, batch: int) -> None:
        shutil.rmtree(self._part(batch), ignore_errors=True)
        self._part(batch).mkdir(parents=True)

    def put(self, batch: int, shard: int, tables: Sequence[pa.Table]) -> None:
        if any(table.num_rows for table in tables):
            self._write(self._part(batch), f"part-{shard:05d}.parquet", tables)

    def complete(self, batch: int) -> None:
        part = self._part(batch)
        if not any(part.glob("*.parquet")):
            self._write(part, "part-00000.parquet", [])
        (part / "_SUCCESS").touch()

    def _part(self, batch: int) -> Path:
        return Path(part_of(self.directory, batch))

    def _write(self, part: Path, name: str, tables: Sequence[pa.Table]) -> None:
        part.mkdir(parents=True, exist_ok=True)
        hidden = part / f".{uuid4().hex}.tmp"
        with pq.ParquetWriter(str(hidden), self.schema) as writer:
            for table in tables:
                writer.write_table(table.select(self.schema.names).cast(self.schema))
        os.replace(hidden, part / name)


def part_of(directory: str, batch: int) -> str:
    """Where a micro-batch goes: a repeated one overwrites its own part."""
    return f"{directory.rstrip('/')}/lw_batch={batch:08d}"


def outlet(spark: SparkSession, directory: str, schema: pa.Schema) -> Outlet | None:
    """An outlet to the directory, or None: what is not a plain file system Spark's own writer knows."""
    jvm: Any = spark._jvm
    path = jvm.org.apache.hadoop.fs.Path(directory)
    qualified = str(path.getFileSystem(spark._jsc.hadoopConfiguration()).makeQualified(path).toString())
    return Outlet("/" + qualified[len("file:") :].lstrip("/"), schema) if qualified.startswith("file:") else None
