"""Row-wise operators: Select, Derive, Project, Map. They keep no state and need no order (TH 8.2).

    Select   passes every punctuation: a row that cannot come cannot pass a filter either
    Derive   passes punctuation that does not name the new column. A time plus a constant is promised as that time is
    Project  passes punctuation whose attributes are all kept
    Map      passes punctuation whose attributes the function returns unchanged

They run on Arrow in the shard of their input, behind an aggregation or a join: HAVING, a ratio of two aggregates.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lowwater.errors import LowwaterError
from lowwater.expressions import Expression, zone_of
from lowwater.model.properties import GREATEST, LEAST
from lowwater.model.punctuation import Punctuation
from lowwater.model.ticks import END
from lowwater.operators.base import Batch, Emit, Ended, Operator, Payload, batch_of
from lowwater.operators.layout import Layout, RowLayout
from lowwater.operators.spec import Need, OperatorSpec, carried
from lowwater.state.store import Store

RowMask = Callable[[pa.Table], npt.NDArray[np.bool_]]
RowFunction = Callable[[pa.Table], pa.Table]


class RowwiseSpec(OperatorSpec):
    """The base of row-wise specs: rows can be in any shard."""

    before: pa.Schema

    def need(self, port: int) -> Need:
        return Need(None)

    def layout(self, port: int, route: tuple[str, ...] | None) -> Layout:
        return RowLayout(tuple(self.before.names), route)

    def partitioned(self, routes: Sequence[tuple[str, ...] | None]) -> tuple[str, ...] | None:
        return carried(routes, self.result.names)

    def lines(self) -> list[tuple[str, str]]:
        return []


@dataclass(frozen=True)
class SelectSpec(RowwiseSpec):
    """Rows for which a condition holds."""

    before: pa.Schema
    condition: str
    name = "Select"

    @property
    def result(self) -> pa.Schema:
        return self.before

    @property
    def title(self) -> str:
        return f"Select  {self.condition}"

    def open(self, store: Store, shards: int) -> Operator:
        return Select(holding(Expression.condition(self.condition, self.before, zone_of(self.before))), store)


@dataclass(frozen=True)
class DeriveSpec(RowwiseSpec):
    """A column added or replaced. `moves` are the times that the column moves with: (attribute, ticks ahead)."""

    before: pa.Schema
    column: pa.Field
    expression: str
    moves: tuple[tuple[str, int], ...] = ()
    name = "Apply"

    @property
    def result(self) -> pa.Schema:
        at = self.before.get_field_index(self.column.name)
        return self.before.append(self.column) if at < 0 else self.before.set(at, self.column)

    @property
    def title(self) -> str:
        return f"Apply  {self.column.name} = {self.expression}"

    def partitioned(self, routes: Sequence[tuple[str, ...] | None]) -> tuple[str, ...] | None:
        return carried(routes, [name for name in self.before.names if name != self.column.name])

    def open(self, store: Store, shards: int) -> Operator:
        return Derive(self.column, Expression.of(self.expression, self.before, zone_of(self.before)), self.moves, store)


@dataclass(frozen=True)
class ProjectSpec(RowwiseSpec):
    """Some columns."""

    before: pa.Schema
    columns: tuple[str, ...]
    name = "Project"

    @property
    def result(self) -> pa.Schema:
        return pa.schema([self.before.field(name) for name in self.columns])

    @property
    def title(self) -> str:
        return f"Project  {', '.join(self.columns)}"

    def open(self, store: Store, shards: int) -> Operator:
        return Project(self.columns, store)


@dataclass(frozen=True)
class MapSpec(RowwiseSpec):
    """A function over Arrow tables. It does not see hidden columns, which stay with their rows."""

    before: pa.Schema
    function: RowFunction
    shown: pa.Schema
    hidden: tuple[str, ...] = ()
    times: tuple[str, ...] = ()
    """The columns on which its rows progress, and which the function must not change."""
    name = "Apply"

    @property
    def result(self) -> pa.Schema:
        return pa.schema([*self.shown, *(self.before.field(name) for name in self.hidden)])

    @property
    def title(self) -> str:
        return f"Apply  {getattr(self.function, '__name__', type(self.function).__name__)}"

    def partitioned(self, routes: Sequence[tuple[str, ...] | None]) -> tuple[str, ...] | None:
        """The function may have changed any column; only rows that are all in one shard stay as they lie."""
        return carried(routes, ())

    def open(self, store: Store, shards: int) -> Operator:
        known = self.before
        same = [f.name for f in self.result if f.name in known.names and known.field(f.name).type == f.type]
        function, shown, hidden, times = self.function, self.shown, self.hidden, self.times
        return Map(lambda rows: mapped(rows, function, shown, hidden, times), same, store)


class Select(Operator):
    """Rows for which the condition is true; null counts as false."""

    def __init__(self, condition: RowMask, store: Store | None = None) -> None:
        super().__init__(store)
        self.condition = condition

    def on_rows(self, port: int, rows: Payload, emit: Emit) -> None:
        table = batch_of(rows)
        kept = table.filter(pa.array(self.condition(table), pa.bool_()))
        if kept.num_rows:
            self.counts.results += kept.num_rows
            emit(Batch(kept))

    def on_punctuation(self, port: int, punctuation: Punctuation, emit: Emit) -> None:
        emit(punctuation)

    def on_ended(self, port: int, ended: Ended, emit: Emit) -> None:
        emit(ended)


class Derive(Operator):
    """A column added or replaced."""

    def __init__(
        self,
        column: pa.Field,
        expression: Expression,
        moves: Sequence[tuple[str, int]] = (),
        store: Store | None = None,
    ) -> None:
        super().__init__(store)
        self.column, self.expression, self.moves = column, expression, tuple(moves)

    def on_rows(self, port: int, rows: Payload, emit: Emit) -> None:
        table = batch_of(rows)
        self.counts.results += table.num_rows
        value = self.expression.evaluate(table).cast(self.column.type)
        at = table.schema.get_field_index(self.column.name)
        emit(Batch(table.append_column(self.column, value) if at < 0 else table.set_column(at, self.column, value)))

    def on_punctuation(self, port: int, punctuation: Punctuation, emit: Emit) -> None:
        if all(attribute != self.column.name for attribute, _ in punctuation.patterns):
            emit(punctuation)
        if not punctuation.patterns:
            return
        for attribute, ahead in self.moves:
            low = punctuation.low_watermark(attribute)
            if low is not None and low < END:
                emit(Punctuation.linear(self.column.name, low + ahead))

    def on_ended(self, port: int, ended: Ended, emit: Emit) -> None:
        if self.column.name not in named_by(ended):
            emit(ended)


class Project(Operator):
    """Some columns. Without a progressing attribute among them the output no longer progresses."""

    def __init__(self, columns: Sequence[str], store: Store | None = None) -> None:
        super().__init__(store)
        self.columns = list(columns)

    def on_rows(self, port: int, rows: Payload, emit: Emit) -> None:
        table = batch_of(rows)
        self.counts.results += table.num_rows
        emit(Batch(table.select(self.columns)))

    def on_punctuation(self, port: int, punctuation: Punctuation, emit: Emit) -> None:
        pass_on(punctuation, self.columns, emit)

    def on_ended(self, port: int, ended: Ended, emit: Emit) -> None:
        if named_by(ended) <= set(self.columns):
            emit(ended)


class Map(Operator):
    """A function from rows to as many rows, in the same order. `kept` names the columns that it returns unchanged."""

    def __init__(self, function: RowFunction, kept: Sequence[str], store: Store | None = None) -> None:
        super().__init__(store)
        self.function = function
        self.kept = list(kept)

    def on_rows(self, port: int, rows: Payload, emit: Emit) -> None:
        table = batch_of(rows)
        mapped = self.function(table)
        self.counts.results += mapped.num_rows
        emit(Batch(mapped))

    def on_punctuation(self, port: int, punctuation: Punctuation, emit: Emit) -> None:
        pass_on(punctuation, self.kept, emit)

    def on_ended(self, port: int, ended: Ended, emit: Emit) -> None:
        if named_by(ended) <= set(self.kept):
            emit(ended)


def pass_on(punctuation: Punctuation, columns: Sequence[str], emit: Emit) -> None:
    """Emits the punctuation if all its attributes are among the columns."""
    if all(attribute in columns or attribute in (GREATEST, LEAST) for attribute, _ in punctuation.patterns):
        emit(punctuation)


def named_by(ended: Ended) -> set[str]:
    """The columns whose values have ended."""
    return set() if ended.values is None else set(ended.values.column_names)


def holding(condition: Expression) -> RowMask:
    """The mask of the rows for which a condition is true."""
    return lambda rows: np.asarray(pc.fill_null(condition.evaluate(rows), False), np.bool_)


def mapped(
    rows: pa.Table,
    function: RowFunction,
    schema: pa.Schema,
    carried: Sequence[str] = (),
    unchanged: Sequence[str] = (),
) -> pa.Table:
    """Applies a function to the visible columns. The columns `carried` stay with their rows.

    What it returns is refused unless it has the columns of `schema`, as many rows, and the columns `unchanged` as they
    were, on which rows progress: a row that moved below its promise would be lost.
    """
    found = function(rows.drop_columns(list(carried)))
    if not isinstance(found, pa.Table):
        raise LowwaterError(
            f"apply() returned {type(found).__name__}, not an Arrow table; return one from the function."
        )
    if found.num_rows != rows.num_rows:
        raise LowwaterError(
            f"apply() got {rows.num_rows} rows and returned {found.num_rows}; filter with where() instead."
        )
    shown = pa.table([_returned(found, f) for f in schema], schema=schema)
    for name in unchanged:
        if name in schema.names and not shown.column(name).equals(rows.column(name).cast(schema.field(name).type)):
            raise LowwaterError(
                f"apply() changed {name!r}, on which its rows progress; return it as it is, and add a column for new "
                "times."
            )
    for name in carried:
        shown = shown.append_column(rows.schema.field(name), rows.column(name))
    return shown


def _returned(found: pa.Table, field: pa.Field) -> pa.ChunkedArray:
    """A column that a function has returned, in its promised type."""
    if found.schema.get_field_index(field.name) < 0:
        raise LowwaterError(f"apply() returned no column {field.name!r}; its schema= promises it.")
    column = found.column(field.name)
    try:
        return column.cast(field.type)
    except pa.ArrowException as error:
        raise LowwaterError(
            f"apply() returned {field.name!r} as {column.type}, which is not {field.type}; name its type in schema=."
        ) from error


def mapped_where(rows: pa.Table, marks: str, function: RowFunction, schema: pa.Schema) -> pa.Table:
    """Applies a function to the rows that a filter has marked to keep.

    A user's function must not see rows that a filter before it drops. These rows stay for their progress values, and
    are null in every column that the function adds.
    """
    if marks not in rows.schema.names:
        return mapped(rows, function, schema)
    kept = np.asarray(rows.column(marks), bool)
    changed = mapped(rows.drop_columns([marks]).filter(pa.array(kept)), function, schema)
    rest = rows.filter(pa.array(~kept))
    same = [f.name for f in schema if f.name in rest.schema.names and rest.schema.field(f.name).type == f.type]
    others = [rest.column(f.name) if f.name in same else pa.nulls(rest.num_rows, f.type) for f in schema]
    both = pa.concat_tables([changed, pa.table(others, schema=pa.schema([pa.field(f.name, f.type) for f in schema]))])
    place = np.empty(len(kept), np.int64)
    place[kept], place[~kept] = np.arange(kept.sum()), kept.sum() + np.arange(rest.num_rows)
    return both.take(pa.array(place)).append_column(marks, pa.array(kept))
