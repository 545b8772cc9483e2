"""Results as parquet files, written by Arrow in the tasks that unpack them.

Results leave the host packed in Arrow tables. To hand them to Spark's own writer they would become rows in the JVM and
columns again in its writer; of a join with many results that is most of a micro-batch. Here a task writes the tables it
has, as they are, into one file.

A file has the name of its task, not of the attempt, and appears under it when complete: a task that is run again, and a
micro-batch that is repeated, writes the same results to the same place. The first task writes a file without rows too,
so that a directory of an empty micro-batch has a schema.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark import TaskContext
from pyspark.sql import DataFrame

from lowwater.state.segments import unpack

WROTE = "file string, rows long"


class WriteRun:
    """The packed tables of one kind in a partition, as one file in `directory`."""

    def __init__(self, kind: str, schema: pa.Schema, directory: str) -> None:
        self._kind, self._schema, self._directory = kind, schema, directory

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        task, attempt = (0, 0) if context is None else (context.partitionId(), context.taskAttemptId())
        place = Path(self._directory)
        hidden, name = place / f".part-{task:05d}-{attempt}.tmp", place / f"part-{task:05d}.parquet"
        writer, rows = None, 0
        for table in self._tables(batches, task == 0):
            writer = writer or pq.ParquetWriter(str(hidden), self._schema)
            writer.write_table(table)
            rows += table.num_rows
        if writer is not None:
            writer.close()
            os.replace(hidden, name)
            yield pa.RecordBatch.from_pydict({"file": [str(name)], "rows": [rows]})

    def _tables(self, batches: Iterator[pa.RecordBatch], first: bool) -> Iterator[pa.Table]:
        if first:
            yield self._schema.empty_table()
        for batch in batches:
            for kind, blob in zip(batch.column("kind"), batch.column("blob"), strict=True):
                if kind.as_py() == self._kind:
                    yield unpack(blob.as_buffer())["rows"].select(self._schema.names).cast(self._schema)


def by_arrow(host: DataFrame, directory: str) -> str | None:
    """The directory as a path of this machine, or None: what is not a plain file system Spark's own writer knows."""
    jvm: Any = host.sparkSession._jvm
    path = jvm.org.apache.hadoop.fs.Path(directory)
    system = path.getFileSystem(host.sparkSession._jsc.hadoopConfiguration())
    qualified = str(system.makeQualified(path).toString())
    return "/" + qualified[len("file:") :].lstrip("/") if qualified.startswith("file:") else None


def write(host: DataFrame, kind: str, schema: pa.Schema, directory: str) -> None:
    """All rows of one kind of a micro-batch, in the place of what may be there from an attempt before."""
    shutil.rmtree(directory, ignore_errors=True)
    Path(directory).mkdir(parents=True)
    host.select("kind", "blob").mapInArrow(WriteRun(kind, schema, directory), WROTE).collect()
