"""min, max, first and last: bounded aggregates that choose a value; none is differential (TH 6.2.2).

    min, max     partial: value          the smallest, the largest; NaN is larger than any number
    first, last  partial: time, value    the value at the smallest, the largest time of the progressing attribute

A merge chooses by order alone, so it is idempotent and commutative, and the result never depends on arrival order. Of
several values at the first time, `first` takes the smallest; of several at the last time, `last` takes the largest.
Nulls are ignored, and a partial without another value holds null. The result has the type of the column.

Values are compared by their keys (order.py), so every type is reduced as a column of numbers.

>>> import numpy as np, pyarrow as pa
>>> kernel = last("name").bind(pa.schema([("name", pa.string())]))
>>> names, group = pa.array(["x", "b", "a", None]), np.zeros(4, np.intp)
>>> kernel.lower(kernel.lift(names, np.array([1, 7, 7, 9]), group, 1)).to_pylist()
['b']
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lowwater.aggregates.base import Aggregate, Algebra, BoundedOnly, Group, Partial
from lowwater.aggregates.filtered import filtered
from lowwater.aggregates.order import Keys, keys, ordered_type, present, spread
from lowwater.aggregates.rollup import Columns, idempotent, prefix

Times = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Side:
    """The end of the order that wins: the largest or the smallest value.

    NaN is the largest value, as in NumPy's `maximum` (NaN wins) and `fmin` (NaN loses). The identities are -inf and
    NaN; for integers they are the limits of the type.
    """

    largest: bool

    def choose(self, dtype: np.dtype[Any]) -> np.ufunc:
        if self.largest:
            return np.maximum
        return np.fmin if dtype.kind == "f" else np.minimum

    def identity(self, dtype: np.dtype[Any]) -> Any:
        if dtype.kind == "f":
            return -np.inf if self.largest else np.nan
        return np.iinfo(dtype).min if self.largest else np.iinfo(dtype).max

    def by_group(self, key: npt.NDArray[Any], group: Group, n: int) -> npt.NDArray[Any]:
        """The winning key of each group, or the identity for a group without keys."""
        out = np.full(n, self.identity(key.dtype), key.dtype)
        with np.errstate(invalid="ignore"):
            self.choose(key.dtype).at(out, group, key)
        return out

    def by_row(self, key: npt.NDArray[Any], rows: Any, n: int) -> npt.NDArray[Any]:
        """Keys at the given rows, and the identity elsewhere."""
        out = np.full(n, self.identity(key.dtype), key.dtype)
        out[rows] = key
        return out


def _decoded(chosen: npt.NDArray[Any], values: Keys, seen: npt.NDArray[np.bool_]) -> pa.Array:
    """Decodes the chosen keys where a value was seen. Other rows hold identities, which may not be valid keys."""
    return spread(values.decode(chosen[seen]), seen)


def _seen(rows: Any, group: Group, n: int) -> npt.NDArray[np.bool_]:
    """A mask of the groups with a value. Every group has a row, so without nulls all groups have one."""
    return np.ones(n, np.bool_) if isinstance(rows, slice) else np.bincount(group[rows], minlength=n) > 0


def _seen_in(rows: Any, lo: Group, hi: Group) -> npt.NDArray[np.bool_]:
    """A mask of the ranges with a value."""
    return np.ones(len(lo), np.bool_) if isinstance(rows, slice) else prefix(rows, lo, hi) > 0


class Extreme(Algebra):
    """min and max. The partial is the value itself, so a row is a partial of one row."""

    def __init__(self, type: pa.DataType, side: Side) -> None:
        self.result = type
        self.side = side
        self.fields = (pa.field("value", type),)

    def lift(self, values: pa.Array | None, time: Times, group: Group, n: int) -> Partial:
        return self.combine((values,), group, n)

    def combine(self, partial: Partial, group: Group, n: int) -> Partial:
        (values,) = partial
        rows, known = present(values), keys(values.drop_null())
        return (_decoded(self.side.by_group(known.key, group[rows], n), known, _seen(rows, group, n)),)

    def roll(self, partial: Partial, lo: Group, hi: Group) -> pa.Array:
        (values,) = partial
        rows, known = present(values), keys(values.drop_null())
        table = self.side.by_row(known.key, rows, len(values))
        (chosen,) = idempotent((table,), self._wins, lo, hi)
        return _decoded(chosen, known, _seen_in(rows, lo, hi))

    def lower(self, partial: Partial) -> pa.Array:
        return partial[0]

    def _wins(self, a: Columns, b: Columns) -> Columns:
        return (self.side.choose(a[0].dtype)(a[0], b[0]),)


class Edge(Algebra):
    """first and last. The partial is (time, value), compared lexicographically; time is 0 if the value is null."""

    def __init__(self, type: pa.DataType, side: Side) -> None:
        self.result = type
        self.side = side
        self.fields = (pa.field("time", pa.int64(), nullable=False), pa.field("value", type))

    def lift(self, values: pa.Array | None, time: Times, group: Group, n: int) -> Partial:
        return self.combine((time, values), group, n)

    def combine(self, partial: Partial, group: Group, n: int) -> Partial:
        """Chooses the time first, and then the value among the rows at that time."""
        time, values = partial
        rows, known = present(values), keys(values.drop_null())
        seen = _seen(rows, group, n)
        time, group = time[rows], group[rows]
        best = self.side.by_group(time, group, n)
        tied = time == best[group]
        chosen = self.side.by_group(known.key[tied], group[tied], n)
        return np.where(seen, best, 0), _decoded(chosen, known, seen)

    def roll(self, partial: Partial, lo: Group, hi: Group) -> pa.Array:
        time, values = partial
        rows, known = present(values), keys(values.drop_null())
        table = self.side.by_row(time[rows], rows, len(time)), self.side.by_row(known.key, rows, len(time))
        _, chosen = idempotent(table, self._wins, lo, hi)
        return _decoded(chosen, known, _seen_in(rows, lo, hi))

    def lower(self, partial: Partial) -> pa.Array:
        return partial[1]

    def _wins(self, a: Columns, b: Columns) -> Columns:
        """Merges by time, then by value. An identity loses on both columns, even against a value at the last tick."""
        time = self.side.choose(a[0].dtype)(a[0], b[0])
        tied = self.side.choose(a[1].dtype)(a[1], b[1])
        return time, np.where(a[0] == b[0], tied, np.where(a[0] == time, a[1], b[1]))


@dataclass(frozen=True)
class Choice(BoundedOnly):
    """min, max (by value) and first, last (by time)."""

    function: str
    largest: bool
    by_time: bool

    @property
    def name(self) -> str:
        return self.function

    def bind(self, schema: pa.Schema) -> Algebra:
        type = ordered_type(str(self), self.type_in(schema))
        return (Edge if self.by_time else Extreme)(type, Side(self.largest))


def min(column: str, *, where: str | None = None) -> Aggregate:
    """The smallest value; NaN only if all values are NaN."""
    return filtered(Choice(column, "min", largest=False, by_time=False), where)


def max(column: str, *, where: str | None = None) -> Aggregate:
    """The largest value; NaN if there is one."""
    return filtered(Choice(column, "max", largest=True, by_time=False), where)


def first(column: str, *, where: str | None = None) -> Aggregate:
    """The value at the smallest time, or the smallest of several such values."""
    return filtered(Choice(column, "first", largest=False, by_time=True), where)


def last(column: str, *, where: str | None = None) -> Aggregate:
    """The value at the largest time, or the largest of several such values."""
    return filtered(Choice(column, "last", largest=True, by_time=True), where)
