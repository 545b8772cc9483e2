"""Expressions that only Spark can evaluate, between two stages or behind the last one.

Rows on their way leave the packed form: `Unfold` turns them into rows of a DataFrame, Spark evaluates the steps on
them, and `Fold` lays them out for the operator that reads them. Everything else on the way (messages of other edges,
punctuation, results) passes beside them in the same DataFrame, because a stage has one output only. Punctuation needs
no expression: it arrives in the same micro-batch, and rows of a micro-batch are taken before its punctuation.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark import TaskContext
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lowwater.backends.spark.handover import by_number
from lowwater.backends.spark.host import addressed
from lowwater.backends.spark.messages import OUTSIDE, PACKED, SCHEMA, Pieces, batches, packets_of
from lowwater.backends.spark.quoting import quoted
from lowwater.backends.spark.versions import arrow_schema, spark_schema
from lowwater.operators.rowwise import mapped
from lowwater.plan.plan import OutsideStep, Plan
from lowwater.runtime.crossing import Outgoing
from lowwater.state.segments import unpack

_AS = "__lw_packed_"
"""Before the names of the packed columns, so that they meet no user's."""
_ROW = "__lw_row"
"""Whether a row is a user's."""


def evaluated_between(output: DataFrame, plan: Plan, stage: int, shards: int) -> DataFrame:
    """The output of a stage after Spark has evaluated the steps of its edges."""
    for number, edge in enumerate(plan.edges):
        if not edge.outside or plan.operators[edge.source].stage != stage:
            continue
        before = plan.operators[edge.source].spec.result
        unfolded = output.mapInArrow(Unfold(number, before), spark_schema(_unfolded(before)))
        for step in edge.outside:
            unfolded = _step(unfolded, step)
        after = arrow_schema(unfolded.drop(_ROW, *(_AS + name for name in SCHEMA.names)).schema)
        output = by_number(unfolded, Fold(plan, number, shards, after), PACKED)
    return output


def steps_on(rows: DataFrame, steps: Sequence[OutsideStep]) -> DataFrame:
    """Results after Spark has evaluated the steps behind the last operator."""
    for step in steps:
        if step.kind == "filter":
            rows = rows.where(step.expression)
        elif step.kind == "derive":
            rows = rows.withColumn(step.name, F.expr(step.expression))
        elif step.kind == "project":
            rows = rows.select(*(F.col(quoted(name)) for name in step.columns))
        else:
            rows = _mapped(rows, step)
    return rows


def _unfolded(rows: pa.Schema) -> pa.Schema:
    packed = [pa.field(_AS + f.name, f.type) for f in SCHEMA]
    return pa.schema([pa.field(_ROW, pa.bool_()), *packed, *(pa.field(f.name, f.type) for f in rows)])


def _step(rows: DataFrame, step: OutsideStep) -> DataFrame:
    """One step, on the user's rows only: an expression must not see rows that are none."""
    if step.kind == "filter":
        return rows.where(F.when(F.col(_ROW), F.coalesce(F.expr(step.expression), F.lit(False))).otherwise(True))
    if step.kind == "derive":
        return rows.withColumn(step.name, F.when(F.col(_ROW), F.expr(step.expression)))
    packed = [_ROW, *(_AS + name for name in SCHEMA.names)]
    if step.kind == "project":
        return rows.select(*packed, *(F.col(quoted(name)) for name in step.columns))
    return _mapped(rows, step, packed)


def _mapped(rows: DataFrame, step: OutsideStep, packed: Sequence[str] = ()) -> DataFrame:
    assert step.schema is not None
    before = arrow_schema(rows.schema)
    carried = [before.field(name) for name in (*packed, *step.hidden)]
    return by_number(rows, Mapped(step, packed), spark_schema(pa.schema([*carried, *step.schema])))


class Unfold:
    """Takes the rows of one edge out of their packed form; everything else passes."""

    def __init__(self, edge: int, schema: pa.Schema) -> None:
        self._edge, self._schema = edge, schema
        self._whole = _unfolded(schema)

    def __call__(self, rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        pieces = Pieces()
        for batch in rows:
            is_own = pc.and_(pc.equal(batch.column("kind"), OUTSIDE), pc.equal(batch.column("operator"), self._edge))
            for piece in packets_of(batch.filter(is_own)):
                packet = pieces.take(piece)
                if packet is not None:
                    own = unpack(packet.blob)["rows"].select(self._schema.names)
                    yield from self._filled(own.cast(self._schema).combine_chunks(), None)
            others = batch.filter(pc.invert(is_own))
            if others.num_rows:
                yield from self._filled(None, others)
        pieces.finish()

    def _filled(self, own: pa.Table | None, others: pa.RecordBatch | None) -> list[pa.RecordBatch]:
        assert (own is None) != (others is None)
        n = others.num_rows if own is None else own.num_rows  # type: ignore[union-attr]
        columns: list[Any] = [pa.array([own is not None] * n)]
        columns += [pa.nulls(n, f.type) if others is None else others.column(f.name) for f in SCHEMA]
        columns += [pa.nulls(n, f.type) if own is None else own.column(f.name) for f in self._schema]
        return pa.table(columns, schema=self._whole).combine_chunks().to_batches()  # type: ignore[no-any-return]


class Fold:
    """Lays out the user's rows for the operator that reads them; everything else passes."""

    def __init__(self, plan: Plan, edge: int, shards: int, schema: pa.Schema) -> None:
        self._plan, self._edge, self._shards, self._schema = plan, edge, shards, schema

    def __call__(self, rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        task = context.partitionId() if context is not None else 0
        edge = self._plan.edges[self._edge]
        outgoing = Outgoing(self._plan, self._edge, task % self._shards, self._shards, None)
        some = False
        for batch in rows:
            table = pa.Table.from_batches([batch])
            own = table.filter(table.column(_ROW))
            if own.num_rows:
                some = True
                outgoing.rows(own.select(self._schema.names).cast(self._schema))
            others = table.filter(pc.invert(table.column(_ROW)))
            if others.num_rows:
                packed = others.select([_AS + name for name in SCHEMA.names]).rename_columns(SCHEMA.names)
                yield from packed.cast(SCHEMA).combine_chunks().to_batches()
        if some:
            stage = self._plan.operators[edge.operator].stage
            yield from batches(addressed(outgoing.finish(), stage, (1 << 31) + self._edge * (1 << 16) + task))


class Mapped:
    """A user's function over Arrow tables, with other columns carried around it."""

    def __init__(self, step: OutsideStep, packed: Sequence[str]) -> None:
        self._step, self._packed = step, list(packed)

    def __call__(self, rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in rows:
            table = pa.Table.from_batches([batch])
            own, others = table, None
            if self._packed:
                own, others = table.filter(table.column(_ROW)), table.filter(pc.invert(table.column(_ROW)))
            step, carried = self._step, [*self._packed, *self._step.hidden]
            assert step.schema is not None
            assert step.function is not None
            whole = pa.schema([*(table.schema.field(name) for name in carried), *step.schema])
            changed = mapped(own, step.function, step.schema, carried, step.unchanged)
            for part in (changed, others):
                if part is not None:
                    yield from _in_columns(part, whole).combine_chunks().to_batches()


def _in_columns(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """Rows in the columns of a schema; those that they lack are null."""
    columns = [rows.column(f.name) if f.name in rows.column_names else pa.nulls(rows.num_rows, f.type) for f in schema]
    return pa.table(columns, schema=schema)
