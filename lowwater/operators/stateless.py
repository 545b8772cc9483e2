"""Select, Project, Apply: no state, no order needed; each says what becomes of punctuation (TH 8.2).

Select   passes every punctuation: what cannot come cannot come filtered either
Project  keeps a punctuation that speaks of kept attributes only; over a dropped one it says nothing of the rest
Apply    a function of the row: punctuation passes if the attributes it names come out as they went in
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lowwater.errors import LowwaterError, UnknownColumn
from lowwater.model.punctuation import Punctuation
from lowwater.operators.base import Batch, Message, Operator

RowMask = Callable[[pa.Table], npt.NDArray[np.bool_]]
RowFunction = Callable[[pa.Table], pa.Table]


class Select(Operator):
    """Rows for which the condition is true; null counts as false."""

    def __init__(self, condition: RowMask) -> None:
        self.condition = condition

    def on_batch(self, port: int, batch: Batch) -> list[Message]:
        return [Batch(batch.rows.filter(pa.array(self.condition(batch.rows), pa.bool_())))]

    def on_punctuation(self, port: int, punctuation: Punctuation) -> list[Message]:
        return [punctuation]


class Project(Operator):
    """Some columns. The progressing attribute should be among them, or the output progresses no more."""

    def __init__(self, columns: Sequence[str]) -> None:
        self.columns = list(columns)

    def on_batch(self, port: int, batch: Batch) -> list[Message]:
        for column in self.columns:
            if column not in batch.rows.schema.names:
                raise UnknownColumn(column, batch.rows.schema.names, "select()")
        return [Batch(batch.rows.select(self.columns))]

    def on_punctuation(self, port: int, punctuation: Punctuation) -> list[Message]:
        return passed(punctuation, self.columns)


class Apply(Operator):
    """A function from rows to as many rows, in the same order; `kept` names the columns it hands through unchanged."""

    def __init__(self, function: RowFunction, kept: Sequence[str]) -> None:
        self.function = function
        self.kept = list(kept)

    def on_batch(self, port: int, batch: Batch) -> list[Message]:
        rows = self.function(batch.rows)
        if rows.num_rows != batch.rows.num_rows:
            raise LowwaterError(
                f"apply() got {batch.rows.num_rows} rows and returned {rows.num_rows}; filter with where() instead."
            )
        return [Batch(rows)]

    def on_punctuation(self, port: int, punctuation: Punctuation) -> list[Message]:
        return passed(punctuation, self.kept)


def passed(punctuation: Punctuation, columns: Sequence[str]) -> list[Message]:
    """The punctuation if every attribute it speaks of is among the columns, nothing otherwise."""
    return [punctuation] if all(attribute in columns for attribute, _ in punctuation.patterns) else []


def applied(rows: pa.Table, marks: str, function: RowFunction, schema: pa.Schema) -> pa.Table:
    """Applies a function to the rows that a select has marked; the others only keep what progress is learned from.

    A user's function must not see rows that a select before it took out. They stay for their progress values, which the
    function hands through, and hold null in every other column.
    """
    if marks not in rows.schema.names:
        return function(rows).select(schema.names).cast(schema)
    kept = np.asarray(rows.column(marks), bool)
    changed = applied(rows.drop_columns([marks]).filter(pa.array(kept)), marks, function, schema)
    if changed.num_rows != int(kept.sum()):
        raise LowwaterError(f"apply() got {int(kept.sum())} rows and returned {changed.num_rows}; use where() instead.")
    rest = rows.filter(pa.array(~kept))
    same = [f.name for f in schema if f.name in rest.schema.names and rest.schema.field(f.name).type == f.type]
    others = [rest.column(f.name) if f.name in same else pa.nulls(rest.num_rows, f.type) for f in schema]
    both = pa.concat_tables([changed, pa.table(others, schema=pa.schema([pa.field(f.name, f.type) for f in schema]))])
    place = np.empty(len(kept), np.int64)
    place[kept], place[~kept] = np.arange(kept.sum()), kept.sum() + np.arange(rest.num_rows)
    return both.take(pa.array(place)).append_column(marks, pa.array(kept))
