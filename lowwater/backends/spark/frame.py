"""Rows of one input as a Spark DataFrame. Expressions are left to Spark's own engine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa
from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import DataFrame, SparkSession

from lowwater.backends.spark.backend import SparkBackend
from lowwater.backends.spark.connect import size_in_bytes, streaming_sources
from lowwater.backends.spark.handover import ROWS, fixed_or_not, handed_over
from lowwater.backends.spark.host import IngestRun
from lowwater.backends.spark.messages import PACKED
from lowwater.backends.spark.read_once import Apply, ReadOnce, Select, Step, WithColumn
from lowwater.backends.spark.versions import arrow_schema, check
from lowwater.errors import LowwaterError
from lowwater.model.columns import KEEP
from lowwater.operators.rowwise import RowFunction
from lowwater.plan.plan import Plan


@dataclass(frozen=True)
class SparkFrame:
    """A DataFrame, and what bounds the batches that apply() reads."""

    df: DataFrame
    applied_rows: int = ROWS
    sample: pa.Table | None = field(default=None, repr=False, compare=False)
    """The first rows, where they are known without running Spark. Only of a frame without steps."""
    begun: DataFrame | None = None
    """The rows before all steps, if there are steps (read_once.py)."""
    steps: tuple[Step, ...] = ()
    how: str = ""

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
        inputs: Sequence[Sequence[tuple[SparkFrame, Sequence[int]]]], plan: Plan, shards: int, late: bool
    ) -> list[DataFrame]:
        found = []
        for readings in inputs:
            runs = [IngestRun(plan, entries, shards, late) for _, entries in readings]
            once = ReadOnce.of([frame for frame, _ in readings])
            found.append(handed_over(once.df, once.df.columns, once.run(runs), PACKED))
        return found

    def batch_rows(self, *others: SparkFrame) -> int:
        df = ReadOnce.of([self, *others]).df
        return min(fixed_or_not(df.schema, df.columns), *(frame.applied_rows for frame in (self, *others)))

    def scanned(self) -> SparkFrame:
        return self

    def size(self) -> int | None:
        return size_in_bytes(self.df)

    @property
    def schema(self) -> pa.Schema:
        return arrow_schema(self.df.drop(KEEP).schema)

    def with_column(self, name: str, expression: str) -> SparkFrame:
        step = WithColumn(name, expression)
        return self._then(step, analysed(lambda: step(self.df, ()), expression))

    def select(self, columns: Sequence[str]) -> SparkFrame:
        step = Select(tuple(columns))
        return self._then(step, step(self.df, ()))

    def _then(self, step: Step, df: DataFrame) -> SparkFrame:
        begun = self.df if self.begun is None else self.begun
        return replace(self, df=df, sample=None, begun=begun, steps=(*self.steps, step))

    def first_rows(self, n: int) -> pa.Table | None:
        return None if self.sample is None else self.sample.slice(0, n)

    def arrived(self, columns: Sequence[str]) -> pa.Table:
        if self.streaming:
            raise LowwaterError(
                "disorder_report() reads all rows of a finite DataFrame; of a stream that runs, read "
                "query.metrics().disorder."
            )
        return self.select(columns).df.toArrow()

    def apply(self, function: RowFunction, schema: pa.Schema) -> SparkFrame:
        rows = min(self.applied_rows, fixed_or_not(self.df.schema, self.df.columns))
        step = Apply(function, schema)
        return replace(self._then(step, step(self.df, ())), applied_rows=rows)


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
    check(df.sparkSession, df.isStreaming)
    if KEEP in df.columns:
        raise LowwaterError(f"The DataFrame has a column {KEEP!r}, which lowwater uses itself; rename it.")
    return SparkFrame(df, sample=sample)
