"""count, sum and avg: bounded and full-differential aggregates (TH 6.2.2). Variances are in moments.py.

    aggregate        partial             merge                  a window over panes
    count            n                   +                      differences of prefix sums
    sum, avg of
      integers,
      decimals       n, words            +, exact (words.py)    differences of prefix sums
      doubles        n, total            +                      doubling: no subtraction, no cancellation

Nulls are ignored, except by count(*). Without a value, the count is 0 and the other results are null.

All these aggregates have an `inverse`. It is exact for integers and decimals, and rounds for doubles.

>>> import numpy as np, pyarrow as pa
>>> kernel = avg("price").bind(pa.schema([("price", pa.int32())]))
>>> partial = kernel.lift(pa.array([1, 2, None], pa.int32()), np.zeros(3, np.int64), np.array([0, 0, 1]), 2)
>>> kernel.lower(partial).to_pylist()
[1.5, None]
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial as given
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lowwater.aggregates import words
from lowwater.aggregates.base import Aggregate, Algebra, Differential, Group, Partial
from lowwater.aggregates.filtered import filtered
from lowwater.aggregates.order import floats, is_number, present, refuse
from lowwater.aggregates.rollup import Columns, doubling, prefix

Times = npt.NDArray[np.int64]
Finish = Callable[..., pa.Array]
"""A function from the columns of a partial to results. It is defined in a module, so that a kernel can be pickled."""


def column_of(name: str, type: pa.DataType) -> pa.Field:
    return pa.field(name, type, nullable=False)


def added(values: npt.NDArray[Any], group: Group, n: int) -> npt.NDArray[Any]:
    """Sums by group, in the type of the values. Integers are never converted to doubles."""
    out = np.zeros(n, values.dtype)
    with np.errstate(over="ignore", invalid="ignore"):
        np.add.at(out, group, values)
    return out


class Exact(Algebra):
    """Partials of int64 columns whose merge is addition: an Abelian group, so every law holds to the last bit."""

    exact_inverse = True

    def settle(self, sums: Columns) -> Columns:
        """The canonical form of columns after an addition."""
        return sums

    def combine(self, partial: Partial, group: Group, n: int) -> Partial:
        return self.settle(tuple(added(c, group, n) for c in partial))

    def merge(self, a: Partial, b: Partial) -> Partial:
        return self.settle(tuple(x + y for x, y in zip(a, b, strict=True)))

    def inverse(self, a: Partial, b: Partial) -> Partial:
        return self.settle(tuple(x - y for x, y in zip(a, b, strict=True)))

    def roll(self, partial: Partial, lo: Group, hi: Group) -> pa.Array:
        return self.lower(self.settle(tuple(prefix(c, lo, hi) for c in partial)))


class Tally(Exact):
    """The number of rows, or of rows where the column is not null."""

    fields = (column_of("n", pa.int64()),)
    result = pa.int64()

    def lift(self, values: pa.Array | None, time: Times, group: Group, n: int) -> Partial:
        counted = group if values is None else group[present(values)]
        return (np.bincount(counted, minlength=n).astype(np.int64, copy=False),)

    def lower(self, partial: Partial) -> pa.Array:
        return pa.array(partial[0])


class WholeTotal(Exact):
    """n and the exact total in words, for sums and means of integers and decimals."""

    def __init__(self, of: pa.DataType, result: pa.DataType, finish: Finish) -> None:
        names = ("highest", "higher", "high", "low") if words.is_wide(of) else ("high", "low")
        self.fields = tuple(column_of(name, pa.int64()) for name in ("n", *names))
        self.result = result
        self.finish = finish

    def lift(self, values: pa.Array | None, time: Times, group: Group, n: int) -> Partial:
        assert values is not None
        parts = words.parts(values.drop_null())
        group = group[present(values)]
        count = np.bincount(group, minlength=n).astype(np.int64, copy=False)
        return self.settle((count, *(added(word, group, n) for word in parts)))

    def settle(self, sums: Columns) -> Columns:
        return sums[0], *words.carry(*sums[1:])

    def lower(self, partial: Partial) -> pa.Array:
        return self.finish(*partial)


class Doubles(Algebra):
    """Base of kernels over float64. Their merge rounds, so ranges are rolled up by doubling."""

    result = pa.float64()

    def __init__(self, finish: Finish) -> None:
        self.finish = finish

    def lift(self, values: pa.Array | None, time: Times, group: Group, n: int) -> Partial:
        assert values is not None
        return self.gather(floats(values.drop_null()), group[present(values)], n)

    @abstractmethod
    def gather(self, values: npt.NDArray[np.float64], group: Group, n: int) -> Partial:
        """`lift` for the values that are not null."""

    def roll(self, partial: Partial, lo: Group, hi: Group) -> pa.Array:
        return self.lower(doubling(partial, self.merge, lo, hi))

    def lower(self, partial: Partial) -> pa.Array:
        return self.finish(*partial)


class FloatTotal(Doubles):
    """n and the total. Subclasses can keep more totals."""

    fields: tuple[pa.Field, ...] = (column_of("n", pa.int64()), column_of("total", pa.float64()))

    def gather(self, values: npt.NDArray[np.float64], group: Group, n: int) -> Partial:
        return np.bincount(group, minlength=n).astype(np.int64, copy=False), added(values, group, n)

    def combine(self, partial: Partial, group: Group, n: int) -> Partial:
        return tuple(added(c, group, n) for c in partial)

    def merge(self, a: Partial, b: Partial) -> Partial:
        with np.errstate(over="ignore", invalid="ignore"):
            return tuple(x + y for x, y in zip(a, b, strict=True))

    def inverse(self, a: Partial, b: Partial) -> Partial:
        """The difference, up to the rounding of the larger total. It is exactly zero if no value is left."""
        n = a[0] - b[0]
        with np.errstate(over="ignore", invalid="ignore"):
            return n, *(np.where(n == 0, 0.0, x - y) for x, y in zip(a[1:], b[1:], strict=True))


def _total(n: Times, total: npt.NDArray[np.float64]) -> pa.Array:
    return words.nullable(total, n > 0)


def _mean(n: Times, total: npt.NDArray[np.float64]) -> pa.Array:
    return words.nullable(total / np.maximum(n, 1), n > 0)


@dataclass(frozen=True)
class FullDifferential(Aggregate):
    """Base of count, sum, avg and the variances."""

    @property
    def bounded(self) -> bool:
        return True

    @property
    def differential(self) -> Differential:
        return Differential.FULL

    def number_in(self, schema: pa.Schema) -> pa.DataType:
        type = self.type_in(schema)
        if not is_number(type):
            raise refuse(str(self), type, "a column of integers, decimals or doubles")
        return type


@dataclass(frozen=True)
class Count(FullDifferential):
    name = "count"

    def bind(self, schema: pa.Schema) -> Algebra:
        self.type_in(schema)
        return Tally()


@dataclass(frozen=True)
class Sum(FullDifferential):
    name = "sum"

    def bind(self, schema: pa.Schema) -> Algebra:
        type = self.number_in(schema)
        if pa.types.is_floating(type):
            return FloatTotal(_total)
        if pa.types.is_integer(type):
            return WholeTotal(type, pa.int64(), given(words.total_int64, label=str(self)))
        wide = _longer(type, 10, 0)
        return WholeTotal(type, wide, given(words.total_decimal, type=wide, label=str(self)))


@dataclass(frozen=True)
class Avg(FullDifferential):
    name = "avg"

    def bind(self, schema: pa.Schema) -> Algebra:
        type = self.number_in(schema)
        if pa.types.is_floating(type):
            return FloatTotal(_mean)
        if pa.types.is_integer(type):
            return WholeTotal(type, pa.float64(), words.mean_double)
        wide, fine = _longer(type, 10, 0), _longer(type, 4, 4)
        return WholeTotal(type, fine, given(words.mean_decimal, total=wide, type=fine, label=str(self)))


def _longer(type: pa.DataType, digits: int, scale: int) -> pa.DataType:
    """A decimal with so many more digits, and so many more behind the point; 38 at most, as in Spark."""
    most = words.MOST_DIGITS
    return pa.decimal128(min(most, type.precision + digits), min(most, type.scale + scale))


def count(column: str | None = None, *, where: str | None = None) -> Aggregate:
    """The number of rows, or of rows where `column` is not null."""
    return filtered(Count(column), where)


def sum(column: str, *, where: str | None = None) -> Aggregate:
    """The sum: int64 for integers, double for doubles, decimal(p + 10, s) for decimal(p, s), with 38 digits at most.

    A sum that does not fit its type is an error, as it is for Spark in ANSI mode.
    """
    return filtered(Sum(column), where)


def avg(column: str, *, where: str | None = None) -> Aggregate:
    """The mean: double for integers and doubles, decimal(p + 4, s + 4) for decimal(p, s), with 38 digits at most."""
    return filtered(Avg(column), where)
