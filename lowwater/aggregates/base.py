"""The algebra of aggregates: lift rows to partials, combine partials, lower partials to results, by group index.

A description (`Aggregate`, frozen, printed by EXPLAIN) is bound to the schema of a stream. The result is an `Algebra`,
the kernel that works on whole columns:

    lift(values, time, group, n)   rows       -> one partial per group 0..n-1 (every group has at least one row);
                                   `Aggregate.argument` takes the values from the rows
    combine(partial, group, n)     partials   -> one partial per group 0..n-1
    merge(a, b)                    row by row: the partial of the union of two disjoint sets
    inverse(a, b)                  row by row: a without b, where b was merged into a (differential aggregates only)
    lower(partial)                 partials   -> results
    roll(partial, lo, hi)          the result over rows lo..hi-1 of a partial, for many ranges at once

The law of every algebra: `combine`, with any division of the rows into parts and in any order, gives the same partial
as `lift` of all rows. So partials can be formed at the source, kept per pane, merged late and rolled up into windows.

The planner reads two properties of TH 6.2.2 here: bounded or holistic, and full, pseudo or not differential.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, ClassVar, Self, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lowwater.errors import UnknownColumn
from lowwater.model.columns import spelled, whole

Group = npt.NDArray[np.intp]
Column: TypeAlias = Any
"""A column of a partial: a NumPy array if the field is a number and never null, otherwise an Arrow array."""
Partial = tuple[Column, ...]


class Differential(Enum):
    """Whether expired tuples can be subtracted from a partial (TH 6.2.2.2), and whether that needs constant storage."""

    FULL = "full"
    PSEUDO = "pseudo"
    NO = "no"


class Algebra(ABC):
    """The kernel of one aggregate, bound to the type of its input."""

    fields: tuple[pa.Field, ...]
    """The columns of a partial. Numeric fields that are not nullable are NumPy arrays."""
    result: pa.DataType
    exact_inverse: bool = False
    """Whether `inverse` is exact to the last bit. If not, it rounds, and cannot remove an infinity or a NaN."""

    @abstractmethod
    def lift(self, values: pa.Array | None, time: npt.NDArray[np.int64], group: Group, n: int) -> Partial: ...

    @abstractmethod
    def combine(self, partial: Partial, group: Group, n: int) -> Partial: ...

    @abstractmethod
    def roll(self, partial: Partial, lo: Group, hi: Group) -> pa.Array: ...

    @abstractmethod
    def lower(self, partial: Partial) -> pa.Array: ...

    def merge(self, a: Partial, b: Partial) -> Partial:
        """Merges row by row. The default uses `combine`, with row i of both in group i."""
        n = len(a[0])
        both = tuple(concat([x, y]) for x, y in zip(a, b, strict=True))
        return self.combine(both, np.tile(np.arange(n, dtype=np.intp), 2), n)

    def inverse(self, a: Partial, b: Partial) -> Partial:
        raise TypeError(f"{type(self).__name__} is not differential: it has no inverse.")


@dataclass(frozen=True)
class Aggregate(ABC):
    """The description of an aggregate: a function and its columns. `column` is the first one, None for count(*)."""

    column: str | None
    naming: ClassVar[tuple[str, ...]] = ("column",)
    """The fields that name columns, or several of them, in the order in which `argument` passes them to `lift`."""

    @property
    def columns(self) -> tuple[str, ...]:
        """All columns that the aggregate reads."""
        named = [getattr(self, field) for field in self.naming]
        return tuple(name for one in named if one is not None for name in ((one,) if isinstance(one, str) else one))

    def spelled(self, schema: pa.Schema, exactly: bool = False) -> Self:
        """The same aggregate with columns as the schema spells them. Unknown ones stay, for `bind` to refuse."""
        own = {name: spelled(name, schema.names, exactly) or name for name in self.columns}
        if all(name == column for name, column in own.items()):
            return self
        named: dict[str, Any] = {}
        for field in self.naming:
            one: Any = getattr(self, field)
            named[field] = tuple(own[name] for name in one) if isinstance(one, tuple) else own.get(one)
        return replace(self, **named)

    @property
    @abstractmethod
    def bounded(self) -> bool:
        """Whether a partial has constant size. If not, the aggregate is holistic."""

    @property
    @abstractmethod
    def differential(self) -> Differential: ...

    @property
    @abstractmethod
    def name(self) -> str:
        """The name of the function, as users write it."""

    @abstractmethod
    def bind(self, schema: pa.Schema) -> Algebra:
        """The kernel for this schema. Refuses types that it cannot take."""

    def types_in(self, schema: pa.Schema) -> tuple[pa.DataType, ...]:
        """The types of its columns. Refuses columns that the stream does not have."""
        for column in self.columns:
            if column not in schema.names:
                raise UnknownColumn(column, schema.names, f"aggregate {self}")
        return tuple(schema.field(column).type for column in self.columns)

    def type_in(self, schema: pa.Schema) -> pa.DataType | None:
        """The type of its only column."""
        return next(iter(self.types_in(schema)), None)

    def resolved(self, schema: pa.Schema) -> Aggregate:
        """The aggregate over a relation of this schema: a filter on it finds its columns there."""
        return self

    def argument(self, rows: pa.Table) -> pa.Array | None:
        """The argument of `lift`: the column, a struct of several columns, or None for count(*)."""
        return together([whole(rows.column(name)) for name in self.columns], self.columns)

    def __str__(self) -> str:
        return f"{self.name}({', '.join(self.columns) or '*'})"


def together(columns: Sequence[pa.Array], names: Sequence[str]) -> pa.Array | None:
    """Columns as one argument of `lift`: the column, a struct of several, or None for none."""
    if len(columns) > 1:
        return pa.StructArray.from_arrays(columns, names=list(names))
    return columns[0] if columns else None


@dataclass(frozen=True)
class BoundedOnly(Aggregate):
    """Base of bounded aggregates without an inverse: those that choose a value, and sketches."""

    @property
    def bounded(self) -> bool:
        return True

    @property
    def differential(self) -> Differential:
        return Differential.NO


def is_numpy(field: pa.Field) -> bool:
    """Whether a field is a NumPy array in partials: a number that is never null."""
    return not field.nullable and (pa.types.is_integer(field.type) or pa.types.is_floating(field.type))


def from_arrow(column: pa.Array | pa.ChunkedArray, field: pa.Field) -> Column:
    if isinstance(column, pa.ChunkedArray):
        column = whole(column)
    return column.to_numpy(zero_copy_only=True) if is_numpy(field) else column


def to_arrow(column: Column, field: pa.Field) -> pa.Array:
    return pa.array(column, field.type) if isinstance(column, np.ndarray) else column


def take(column: Column, at: npt.NDArray[np.intp] | npt.NDArray[np.bool_]) -> Column:
    if isinstance(column, np.ndarray):
        return column[at]
    return column.filter(pa.array(at)) if at.dtype == np.bool_ else column.take(pa.array(at))


def concat(columns: Sequence[Column]) -> Column:
    if len(columns) == 1:
        return columns[0]
    if isinstance(columns[0], np.ndarray):
        return np.concatenate(columns)
    return pa.concat_arrays(columns)
