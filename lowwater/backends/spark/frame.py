"""Rows of one input as a Spark DataFrame. Conditions and expressions are left to Spark's own engine.

A select does not drop rows here: it marks them in a column, since progress is learned from all rows (Select passes
punctuation, TH 8.2). Ingest drops what is not marked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import BooleanType

from lowwater.backends.spark.backend import SparkBackend
from lowwater.backends.spark.handover import ROWS, fixed_or_not, handed_over
from lowwater.backends.spark.host import MESSAGE, IngestRun
from lowwater.errors import LowwaterError, NeedsConfiguration
from lowwater.operators.base import Batch
from lowwater.operators.stateless import Apply, applied
from lowwater.query.plan import Planned

KEEP = "__lw_keep"


@dataclass(frozen=True)
class SparkFrame:
    """A DataFrame, whether it carries marks of a select, and what bounds the batches that apply() reads."""

    df: DataFrame
    keep: str | None = None
    applied_rows: int = ROWS

    @property
    def backend(self) -> SparkBackend:
        return SparkBackend()

    @property
    def spark(self) -> SparkSession:
        return self.df.sparkSession

    @property
    def streaming(self) -> bool:
        return self.df.isStreaming

    def ingested(self, plan: Planned, port: int, shards: int, late: bool) -> DataFrame:
        """Spark's scan hands over the columns that the plan reads, or all where late rows are wanted whole."""
        return handed_over(self.df, self._handed(plan, port, late), IngestRun(plan, port, shards, late), MESSAGE)

    def batch_rows(self, plan: Planned, port: int, late: bool) -> int:
        return min(self.applied_rows, fixed_or_not(self.df.schema, self._handed(plan, port, late)))

    def _handed(self, plan: Planned, port: int, late: bool) -> list[str]:
        return list(self.df.columns if late else plan.read_by(port))

    @property
    def schema(self) -> pa.Schema:
        return to_arrow_schema(self.df.drop(KEEP).schema, timezone="UTC")

    def where(self, condition: str) -> SparkFrame:
        holds = F.coalesce(F.expr(condition), F.lit(False))
        marked = holds if self.keep is None else F.when(F.col(KEEP), holds).otherwise(F.lit(False))
        df = _analysed(lambda: self.df.withColumn(KEEP, marked), condition)
        if not isinstance(df.schema[KEEP].dataType, BooleanType):
            raise LowwaterError(f"where() needs a condition, but {condition!r} is not true or false.")
        return replace(self, df=df, keep=KEEP)

    def with_column(self, name: str, expression: str) -> SparkFrame:
        value = F.expr(expression)
        if self.keep is not None:  # rows that a select took out must not fail in an expression after it
            value = F.when(F.col(KEEP), value)
        return replace(self, df=_analysed(lambda: self.df.withColumn(name, value), expression))

    def select(self, columns: Sequence[str]) -> SparkFrame:
        carried: list[Column] = [F.col(f"`{name}`") for name in [*columns, *([KEEP] if self.keep else [])]]
        return replace(self, df=self.df.select(*carried))

    def apply(self, function: Callable[[pa.Table], pa.Table], schema: pa.Schema) -> SparkFrame:
        out = schema if self.keep is None else schema.append(pa.field(KEEP, pa.bool_()))
        rows = min(self.applied_rows, fixed_or_not(self.df.schema, self.df.columns))
        df = self.df.mapInArrow(ApplyRun(function, schema), from_arrow_schema(out))
        return replace(self, df=df, applied_rows=rows)


class ApplyRun:
    """The user's function over Arrow batches, inside Spark; marks of a select are carried around it."""

    def __init__(self, function: Callable[[pa.Table], pa.Table], schema: pa.Schema) -> None:
        self._function = function
        self._schema = schema

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        apply = Apply(lambda rows: applied(rows, KEEP, self._function, self._schema), self._schema.names)
        for batch in batches:
            (message,) = apply.on_batch(0, Batch(pa.Table.from_batches([batch])))
            assert isinstance(message, Batch)
            yield from message.rows.combine_chunks().to_batches()


def _analysed(make: Callable[[], DataFrame], expression: str) -> DataFrame:
    try:
        return make()
    except (AnalysisException, ParseException) as error:
        first = str(error).strip().splitlines()[0]
        raise LowwaterError(f"Spark cannot evaluate {expression!r}: {first}") from error


def frame(df: DataFrame) -> SparkFrame:
    """A frame of a batch or streaming DataFrame."""
    if ".connect." in type(df).__module__:
        raise NeedsConfiguration(
            "lowwater brings stateful operators of its own, which Spark Connect does not take; use a classic session."
        )
    if KEEP in df.columns:
        raise LowwaterError(f"The DataFrame has a column {KEEP!r}, which lowwater uses itself; rename it.")
    return SparkFrame(df)
