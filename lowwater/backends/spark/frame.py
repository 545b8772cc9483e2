"""Rows of one input as a Spark DataFrame. Expressions are left to Spark's own engine."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa
from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from lowwater.backends.spark.backend import SparkBackend
from lowwater.backends.spark.connect import size_in_bytes, streaming_sources
from lowwater.backends.spark.handover import ROWS, by_number, fixed_or_not, handed_over
from lowwater.backends.spark.host import IngestRun
from lowwater.backends.spark.messages import PACKED
from lowwater.backends.spark.quoting import quoted
from lowwater.backends.spark.versions import arrow_schema, check
from lowwater.errors import LowwaterError
from lowwater.model.columns import KEEP
from lowwater.operators.rowwise import mapped_where
from lowwater.plan.plan import Plan


@dataclass(frozen=True)
class SparkFrame:
    """A DataFrame, and what bounds the batches that apply() reads."""

    df: DataFrame
    applied_rows: int = ROWS
    sample: pa.Table | None = field(default=None, repr=False, compare=False)
    """The first rows, where they are known without running Spark. Only of a frame without steps."""

    @property
    def backend(self) -> SparkBackend:
        return SparkBackend(self.spark)

    @property
    def spark(self) -> SparkSession:
        return self.df.sparkSession

    @property
    def streaming(self) -> bool:
        return self.df.isStreaming

    @property
    def replays(self) -> bool:
        return "socket" not in streaming_sources(self.df)

    @property
    def pauses(self) -> bool:
        return all(name == "FileSource" for name in streaming_sources(self.df))

    @staticmethod
    def ingested(
        inputs: Sequence[tuple[SparkFrame, Sequence[int]]], plan: Plan, shards: int, late: bool
    ) -> list[DataFrame]:
        return [
            handed_over(frame.df, frame.df.columns, IngestRun(plan, entries, shards, late), PACKED)
            for frame, entries in inputs
        ]

    def batch_rows(self) -> int:
        return min(self.applied_rows, fixed_or_not(self.df.schema, self.df.columns))

    def size(self) -> int | None:
        return size_in_bytes(self.df)

    @property
    def schema(self) -> pa.Schema:
        return arrow_schema(self.df.drop(KEEP).schema)

    def with_column(self, name: str, expression: str) -> SparkFrame:
        return self._then(analysed(lambda: self.df.withColumn(name, F.expr(expression)), expression))

    def select(self, columns: Sequence[str]) -> SparkFrame:
        return self._then(self.df.select(*(F.col(quoted(name)) for name in columns)))

    def _then(self, df: DataFrame) -> SparkFrame:
        return replace(self, df=df, sample=None)

    def first_rows(self, n: int) -> pa.Table | None:
        return None if self.sample is None else self.sample.slice(0, n)

    def arrived(self, columns: Sequence[str]) -> pa.Table:
        if self.streaming:
            raise LowwaterError(
                "disorder_report() reads all rows of a finite DataFrame; of a stream that runs, read "
                "query.metrics().disorder."
            )
        return self.select(columns).df.toArrow()

    def apply(self, function: Callable[[pa.Table], pa.Table], schema: pa.Schema) -> SparkFrame:
        out = schema if KEEP not in self.df.columns else schema.append(pa.field(KEEP, pa.bool_()))
        rows = min(self.applied_rows, fixed_or_not(self.df.schema, self.df.columns))
        df = by_number(self.df, ApplyRun(function, schema), from_arrow_schema(out))
        return replace(self._then(df), applied_rows=rows)


class ApplyRun:
    """The user's function over Arrow batches, inside Spark; marks of a filter are carried around it."""

    def __init__(self, function: Callable[[pa.Table], pa.Table], schema: pa.Schema) -> None:
        self._function = function
        self._schema = schema

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            rows = mapped_where(pa.Table.from_batches([batch]), KEEP, self._function, self._schema)
            yield from rows.combine_chunks().to_batches()


def analysed(make: Callable[[], DataFrame], expression: str) -> DataFrame:
    """A DataFrame with an expression in it, or a refusal in Spark's words."""
    try:
        df = make()
        df.schema  # noqa: B018  analyses it
        return df
    except (AnalysisException, ParseException) as error:
        first = str(error).strip().splitlines()[0]
        raise LowwaterError(f"Spark cannot evaluate {expression!r}: {first}") from error


def frame(df: DataFrame, sample: pa.Table | None = None) -> SparkFrame:
    """A frame of a batch or streaming DataFrame. `sample` are its first rows, if they are known."""
    check(df.sparkSession)
    if KEEP in df.columns:
        raise LowwaterError(f"The DataFrame has a column {KEEP!r}, which lowwater uses itself; rename it.")
    return SparkFrame(df, sample=sample)
