"""What the demo needs of Spark: files that arrive as a stream, and the batch answer that its results are checked with.

The benchmarks read the same kind of files (`benchmarks/engine.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lowwater.backends.spark.parquet import ParquetFrame, parquet_files


@dataclass(frozen=True)
class Files:
    """A directory of parquet files as a stream, `a_batch` of them at a time; or one with several such directories."""

    directory: Path
    a_batch: int
    first: int | None = None
    """Only so many files, the first that arrive; all of them if not said."""

    def each(self, sides: Sequence[str]) -> list[Files]:
        """The streams of these directories below; this one itself if none is named."""
        return [replace(self, directory=self.directory / side) for side in sides] or [self]

    def frame(self, spark: SparkSession) -> DataFrame:
        """By Spark's own scan."""
        schema = spark.read.parquet(str(self.directory)).schema
        return spark.readStream.schema(schema).options(**self._options()).parquet(str(self.directory))

    def by_arrow(self, spark: SparkSession) -> ParquetFrame:
        return parquet_files(spark, str(self.directory), **self._options())

    def _options(self) -> dict[str, str]:
        options = {"maxFilesPerTrigger": str(self.a_batch)}
        if self.first is not None:
            names = sorted(path.name for path in self.directory.glob("*.parquet"))
            options["pathGlobFilter"] = f"{{{','.join(names[: self.first])}}}"
        return options


def batch_counts(rows: DataFrame, range: str, slide: str, by: list[str]) -> pa.Table:
    """The batch answer to a count over windows, by Spark's own window(): the second opinion of the demo."""
    counted = rows.groupBy(F.window("ts", range, slide), *by).agg(F.count("*").alias("n"))
    start = F.unix_micros("window.start").alias("window_start")
    return counted.select(start, *by, F.col("n").cast("long")).toArrow()
