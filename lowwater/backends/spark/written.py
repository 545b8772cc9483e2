"""Results as parquet files, written by Arrow in the tasks that make them.

To hand results to Spark's own writer they would leave the worker, become rows in the JVM and columns again in its
writer: of a join with many results most of a micro-batch. Here the host writes the tables it has, as they are, one file
a shard, and what goes on to Spark is numbers.

    driver   begin(batch)             clears what an attempt before may have left
    tasks    open(batch, shard)       a hidden file per attempt, whose name goes to the driver with the task's numbers
    driver   complete(batch, wrote)   shows just the files it was told of; one without rows if there are none, so that
                                      there is a schema; then `_SUCCESS`

Spark takes the word of one attempt of each task. So whatever else ran, twice, too long or beside a query that was
started anew, stays hidden, and a micro-batch that is repeated replaces its own part.
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

from lowwater.errors import LowwaterError


@dataclass(frozen=True)
class Writing:
    """A file that is being written."""

    name: str
    schema: pa.Schema
    writer: pq.ParquetWriter

    def write(self, rows: pa.Table) -> None:
        self.writer.write_table(rows.select(self.schema.names).cast(self.schema))

    def close(self) -> str:
        """The name of the file, which is complete."""
        self.writer.close()
        return self.name


@dataclass(frozen=True)
class Outlet:
    """A directory on a plain file system with a part for every micro-batch."""

    directory: str
    schema: pa.Schema

    def begin(self, batch: int) -> None:
        if self._part(batch).exists():
            shutil.rmtree(self._part(batch))
        self._part(batch).mkdir(parents=True, exist_ok=True)

    def open(self, batch: int, shard: int) -> Writing:
        """A hidden file of one attempt of a task, which takes rows as they are made."""
        name = f".part-{shard:05d}-{uuid4().hex}.parquet"
        part = self._part(batch)
        part.mkdir(parents=True, exist_ok=True)
        return Writing(name, self.schema, pq.ParquetWriter(str(part / name), self.schema))

    def complete(self, batch: int, wrote: Sequence[str]) -> None:
        part = self._part(batch)
        for name in wrote:
            try:
                os.replace(part / name, part / name.lstrip("."))
            except FileNotFoundError:
                raise LowwaterError(
                    f"A task has written to {part}, but its file is not there: {self.directory} must be a directory "
                    "that all machines share; name one that is, or give start() a function."
                ) from None
        for left in part.glob(".part-*"):
            left.unlink(missing_ok=True)
        if not wrote:
            pq.ParquetWriter(str(part / "part-00000.parquet"), self.schema).close()
        (part / "_SUCCESS").touch()

    def _part(self, batch: int) -> Path:
        return Path(part_of(self.directory, batch))


def part_of(directory: str, batch: int) -> str:
    """Where a micro-batch goes: a repeated one overwrites its own part."""
    return f"{directory.rstrip('/')}/lw_batch={batch:08d}"


def outlet(spark: SparkSession, directory: str, schema: pa.Schema) -> Outlet | None:
    """An outlet to the directory, or None: Spark's own writer knows other file systems, and types of its own."""
    path = qualified(spark, directory)
    if not path.startswith("file:") or any(_is_sparks(field.type) for field in schema):
        return None
    return Outlet("/" + path[len("file:") :].lstrip("/"), schema)


def qualified(spark: SparkSession, directory: str) -> str:
    """The directory with its file system."""
    jvm: Any = spark._jvm
    path = jvm.org.apache.hadoop.fs.Path(directory)
    return str(path.getFileSystem(spark._jsc.hadoopConfiguration()).makeQualified(path).toString())


def _is_sparks(type: pa.DataType) -> bool:
    """Whether Spark writes a type in a way of its own: intervals and times of day, also inside others."""
    inner = [type.field(i).type for i in range(type.num_fields)]
    return (
        pa.types.is_duration(type)
        or pa.types.is_interval(type)
        or pa.types.is_time(type)
        or any(map(_is_sparks, inner))
    )
