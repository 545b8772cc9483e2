"""Results as parquet files, written by Arrow in the tasks that make them.

To hand results to Spark's own writer they would leave the worker, become rows in the JVM and columns again in its
writer: of a join with many results most of a micro-batch. Here the host writes the tables it has, as they are, one file
per stage and shard, and sends only the name of the file on to Spark. The driver moves these files to their place
(directory.py).

The name of a file follows from the checkpoint, the stage and the shard. So a micro-batch that is repeated has files of
the same names, and a stream that reads the directory takes none of them twice (decision 0034).
"""

from __future__ import annotations

from dataclasses import dataclass
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq

from lowwater.backends.spark.arrow_files import opened

STAGING = ".lw_batch="


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
    """Where tasks write: a directory that Arrow opens. `run` is the part of all names that the checkpoint gives.

    Each attempt of a task writes a file of its own, named by the file that it is to become and the attempt.
    """

    directory: str
    schema: pa.Schema
    run: str

    def open(self, batch: int, stage: int, shard: int) -> Writing:
        """A file of one attempt of a task, which takes rows as they are made."""
        return self._open(batch, f"part-{stage}-{shard:05d}-{self.run}.parquet")

    def empty(self, batch: int) -> str:
        """A file without rows, for a micro-batch without results: a reader finds the columns in it."""
        return self._open(batch, f"part-none-{self.run}.parquet").close()

    def _open(self, batch: int, final: str) -> Writing:
        system, directory = opened(self.directory)
        staging = f"{directory}/{staging_of(batch)}"
        system.create_dir(staging, recursive=True)
        name = f"{final}.{uuid4().hex}"
        return Writing(name, self.schema, pq.ParquetWriter(f"{staging}/{name}", self.schema, filesystem=system))


def final_name(written: str) -> str:
    """The name that a file of an outlet is to have.

    >>> final_name("part-0-00003-1f0c.parquet.6c0e")
    'part-0-00003-1f0c.parquet'
    """
    return written.rpartition(".")[0]


def part_of(batch: int) -> str:
    """The part of a directory that belongs to a micro-batch."""
    return f"lw_batch={batch:08d}"


def staging_of(batch: int) -> str:
    """Where the files of a micro-batch are until they are shown: readers skip a hidden directory."""
    return f".{part_of(batch)}"


def written_by_arrow(schema: pa.Schema) -> bool:
    """Whether Arrow writes all columns as Spark would. Spark writes intervals and times of day in its own way."""
    return not any(_is_sparks(field.type) for field in schema)


def _is_sparks(type: pa.DataType) -> bool:
    inner = [type.field(i).type for i in range(type.num_fields)]
    return (
        pa.types.is_duration(type)
        or pa.types.is_interval(type)
        or pa.types.is_time(type)
        or any(map(_is_sparks, inner))
    )
