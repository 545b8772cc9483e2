"""Parquet files as a source that is read by Arrow itself.

Spark's scan turns columns into rows and rows into Arrow before Python sees them: over half of what a simple query costs
beyond the fixed part of a micro-batch (decision 0007). Here Spark's file source only keeps the books (which files are
new, which micro-batch they belong to, what to replay after a failure), and each task opens its files with pyarrow and
reads the columns that the plan needs.

Results are the same as over `spark.readStream.parquet`; a step that needs Spark's expression engine (where,
with_column, apply) falls back to exactly that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import reduce

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lowwater.backends.spark.arrow_files import opened
from lowwater.backends.spark.backend import SparkBackend
from lowwater.backends.spark.frame import SparkFrame
from lowwater.backends.spark.handover import ROWS
from lowwater.backends.spark.host import IngestRun
from lowwater.backends.spark.messages import PACKED
from lowwater.backends.spark.session import PARTITIONS
from lowwater.backends.spark.versions import arrow_schema, check, spark_schema
from lowwater.errors import LowwaterError
from lowwater.plan.plan import Plan
from lowwater.runtime.ingest import Ingest, Together

_BINARY_FILE = "path string, modificationTime timestamp, length long, content binary"
_ROWS = 1 << 18
"""Rows of a batch read from a file: large enough for the kernels, small enough to bound a task's memory."""


@dataclass(frozen=True)
class ParquetFrame:
    """A directory of parquet files, as a stream. Options are those of Spark's file source (maxFilesPerTrigger, ...).

    Files of a run are read in the order of their modification times: that is their order of arrival.
    """

    spark: SparkSession
    path: str
    schema: pa.Schema
    options: dict[str, str] = field(default_factory=dict)
    given: pa.Schema | None = None
    """All columns, if some were selected."""
    how = ""

    @property
    def streaming(self) -> bool:
        return True

    @property
    def replays(self) -> bool:
        return True

    @property
    def pauses(self) -> bool:
        return True

    @property
    def backend(self) -> SparkBackend:
        return SparkBackend(self.spark)

    def first_rows(self, n: int) -> None:
        return None  # the files may be far away, and more of them come

    def dataframe(self) -> SparkFrame:
        """The same rows by Spark's own scan."""
        reader = self.spark.readStream.schema(spark_schema(self.given or self.schema)).options(**self.options)
        frame = SparkFrame(reader.parquet(self.path))
        return frame if self.given is None else frame.select(self.schema.names)

    scanned = dataframe

    def with_column(self, name: str, expression: str) -> SparkFrame:
        return self.dataframe().with_column(name, expression)

    def apply(self, function: Callable[[pa.Table], pa.Table], schema: pa.Schema) -> SparkFrame:
        return self.dataframe().apply(function, schema)

    def arrived(self, columns: Sequence[str]) -> pa.Table:
        return self.dataframe().arrived(columns)

    def select(self, columns: Sequence[str]) -> ParquetFrame:
        schema = pa.schema([self.schema.field(name) for name in columns])
        return ParquetFrame(self.spark, self.path, schema, self.options, self.given or self.schema)

    @staticmethod
    def ingested(
        inputs: Sequence[Sequence[tuple[ParquetFrame, Sequence[int]]]], plan: Plan, shards: int, late: bool
    ) -> list[DataFrame]:
        """Directories share their tasks, as many as the query has partitions.

        Spark cuts the new files of each directory into as many partitions as there are cores. Several directories would
        have several times as many tasks, each with its fixed cost and its own partial aggregates.
        """
        runs = [
            ParquetRun([(IngestRun(plan, entries, shards, late), f.schema.names) for f, entries in readings])
            for readings in inputs
        ]
        firsts = [readings[0][0] for readings in inputs]
        files = [frame._files().withColumn("input", F.lit(number)) for number, frame in enumerate(firsts)]
        arrived = reduce(DataFrame.union, files)
        if len(inputs) > 1:
            arrived = arrived.coalesce(int(firsts[0].spark.conf.get(PARTITIONS) or shards))
        return [arrived.mapInArrow(ParquetRuns(runs), PACKED)]

    def _files(self) -> DataFrame:
        """The files that arrive: their paths and times."""
        reader = self.spark.readStream.format("binaryFile").schema(_BINARY_FILE)
        reader = reader.options(**({"pathGlobFilter": "*.parquet"} | self.options))
        return reader.load(self.path).select("path", "modificationTime")

    def batch_rows(self, *others: ParquetFrame) -> int:
        """Spark hands over paths only."""
        return ROWS

    def size(self) -> None:
        return None


class ParquetRuns:
    """Ingest of the files of one task, whatever directories they are in. Inputs of a union are reduced together."""

    def __init__(self, runs: Sequence[ParquetRun]) -> None:
        self._runs = tuple(runs)

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        files = [file for batch in batches for file in batch.to_pylist()]
        together = Together()
        waiting: list[tuple[IngestRun, Ingest]] = []
        for number, run in enumerate(self._runs):
            own = [file for file in files if file["input"] == number]
            if own:
                paths = (file["path"] for file in sorted(own, key=lambda f: (f["modificationTime"], f["path"])))
                for reading, ingest in run.read(paths, together):
                    if ingest.waits:
                        waiting.append((reading, ingest))
                    else:  # its rows need not stay in memory
                        yield from reading.sent(ingest)
        for reading, ingest in waiting:
            yield from reading.sent(ingest)


class ParquetRun:
    """Ingest of files of one directory, in the order in which they have arrived, by all that read them."""

    def __init__(self, readings: Sequence[tuple[IngestRun, Sequence[str]]]) -> None:
        self._readings = [(run, list(columns)) for run, columns in readings]
        self._columns = list(dict.fromkeys(name for _, columns in self._readings for name in columns))

    def read(self, paths: Iterable[str], together: Together) -> list[tuple[IngestRun, Ingest]]:
        """Each reading with its ingest, which has read all files."""
        found = [(run, run.read((), together), columns) for run, columns in self._readings]
        for path in paths:
            for rows in self._rows(path):
                for _, ingest, columns in found:
                    ingest.read([rows.select(columns)])
        return [(run, ingest) for run, ingest, _ in found]

    def _rows(self, path: str) -> Iterator[pa.RecordBatch]:
        system, name = opened(path)
        with system.open_input_file(name) as file:
            parquet = pq.ParquetFile(file, coerce_int96_timestamp_unit="us")
            missing = [column for column in self._columns if column not in parquet.schema_arrow.names]
            if missing:
                raise LowwaterError(
                    f"{path} lacks column {missing[0]!r}; read directories with partition columns or changing schemas "
                    "by spark.readStream.parquet instead."
                )
            yield from parquet.iter_batches(_ROWS, columns=self._columns, use_threads=False)


def parquet_files(spark: SparkSession, path: str, **options: object) -> ParquetFrame:
    """Parquet files that arrive in a directory, as a stream for `lowwater.stream`."""
    check(spark, streaming=True)
    schema = arrow_schema(spark.read.parquet(path).schema)
    return ParquetFrame(spark, path, schema, {name: str(value) for name, value in options.items()})
