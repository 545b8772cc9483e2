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
