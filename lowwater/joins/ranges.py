"""A sorted set of value ranges: the index of range punctuations (PW 3.1). Single values have a hash index instead.

Ranges are half-open, disjoint and sorted, so one binary search finds the range of a value. Intersection and difference
of two sets are computed by cutting both at all their bounds: each piece is then entirely inside a range or entirely
outside.

>>> ended = Ranges.of(pa.array([1, 20, 5]), pa.array([6, 30, 9]))
>>> ended.to_pylist(), ended.numbers(pa.array([0, 8, 9, None, 25])).tolist()
([(1, 9), (20, 30)], [-1, 0, -1, -1, 1])
>>> other = Ranges.of(pa.array([3]), pa.array([25]))
>>> ended.meet(other).to_pylist(), ended.minus(other).to_pylist()
([(3, 9), (20, 25)], [(1, 3), (25, 30)])
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lowwater.aggregates.sorting import explode
from lowwater.joins.keyed import Ints, Mask
from lowwater.model.columns import whole

Values = npt.NDArray[Any]
"""Values that numpy can sort: numbers if the type has them, otherwise Python objects."""


@dataclass(frozen=True, eq=False)
class Ranges:
    """See the module text."""

    type: pa.DataType
    low: Values
    high: Values

    @staticmethod
    def of(low: pa.Array, high: pa.Array) -> Ranges:
        """The union of ranges, which may be empty, may overlap, and may be in any order."""
        return united(low.type, in_order(low), in_order(high))

    def __len__(self) -> int:
        return len(self.low)

    def where(self, mask: Mask) -> Ranges:
        return Ranges(self.type, self.low[mask], self.high[mask])

    def number(self, values: Values) -> Ints:
        """The number of the range that contains each value, or -1 if no range does."""
        if not len(self) or not len(values):
            return np.full(len(values), -1)
        at = np.searchsorted(self.low, values, "right") - 1
        return np.where((at >= 0) & np.asarray(values < self.high[at], np.bool_), at, -1)

    def numbers(self, column: pa.Array | pa.ChunkedArray) -> Ints:
        """`number` for an Arrow column; null is in no range."""
        column = whole(column) if isinstance(column, pa.ChunkedArray) else column
        found = np.full(len(column), -1)
        found[np.asarray(column.is_valid())] = self.number(in_order(column.drop_null()))
        return found

    def has(self, keys: pa.Table) -> Mask:
        """The keys (of one column) that are in a range."""
        return np.asarray(self.numbers(keys.column(0)) >= 0, np.bool_)

    def pieces(self, other: Ranges) -> Ranges:
        """All intervals between two adjacent bounds of either set, whether inside a range or not."""
        bounds = np.unique(np.concatenate([self.low, self.high, other.low, other.high]))
        return Ranges(self.type, bounds[:-1], bounds[1:])

    def meet(self, other: Ranges) -> Ranges:
        pieces = self.pieces(other)
        return pieces.where((self.number(pieces.low) >= 0) & (other.number(pieces.low) >= 0)).united()

    def minus(self, other: Ranges) -> Ranges:
        pieces = self.pieces(other)
        return pieces.where((self.number(pieces.low) >= 0) & (other.number(pieces.low) < 0)).united()

    def united(self) -> Ranges:
        """The same ranges with adjacent ones merged."""
        return united(self.type, self.low, self.high)

    @cached_property
    def columns(self) -> tuple[pa.Array, pa.Array]:
        """The low and the high ends as Arrow arrays of the value type."""
        return of_values(self.low, self.type), of_values(self.high, self.type)

    def to_pylist(self) -> list[tuple[Any, Any]]:
        low, high = self.columns
        return list(zip(low.to_pylist(), high.to_pylist(), strict=True))


def none(type: pa.DataType) -> Ranges:
    return Ranges.of(pa.array([], type), pa.array([], type))


def united(type: pa.DataType, low: Values, high: Values) -> Ranges:
    some = np.asarray(low < high, np.bool_)
    if not some.any():
        return Ranges(type, low[:0], high[:0])
    order = np.argsort(low[some], kind="stable")
    low, reach = low[some][order], np.maximum.accumulate(high[some][order])
    starts = np.flatnonzero(np.append(True, np.asarray(low[1:] > reach[:-1], np.bool_)))
    return Ranges(type, low[starts], reach[np.append(starts[1:], len(low)) - 1])


def first_of(low: pa.Array, high: pa.Array, position: Ints, keys: pa.Array) -> Ints:
    """For each key, the least position of the ranges that contain it, or the largest int64 if none does."""
    never = np.iinfo(np.int64).max
    a, b = in_order(low), in_order(high)
    some = np.asarray(a < b, np.bool_)
    bounds = np.unique(np.concatenate([a[some], b[some]]))
    first = np.full(len(bounds) + 1, never)
    begin, end = np.searchsorted(bounds, a[some]), np.searchsorted(bounds, b[some])
    np.minimum.at(first, explode(begin, end), np.repeat(position[some], end - begin))
    return first[Ranges(low.type, bounds[:-1], bounds[1:]).numbers(keys)]


def in_order(column: pa.Array) -> Values:
    """A column without nulls as a numpy array that can be sorted."""
    t = pa.types
    if t.is_temporal(column.type):
        return np.asarray(column.view(pa.int32() if column.type.bit_width == 32 else pa.int64()).to_numpy())
    if t.is_integer(column.type) or t.is_floating(column.type):
        return np.asarray(column.to_numpy(zero_copy_only=False))
    values = np.empty(len(column), object)
    values[:] = column.to_pylist()
    return values


def of_values(values: Values, type: pa.DataType) -> pa.Array:
    """The inverse of `in_order`."""
    if pa.types.is_temporal(type):
        return pa.array(values).view(type)
    return pa.array(values.tolist(), type) if values.dtype == object else pa.array(values, type)
