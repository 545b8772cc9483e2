"""median, quantile, count_distinct, all exact: holistic aggregates (TH 6.2.2.1).

    quantile        partial: the values, sorted            a range: k-th smallest by the wavelet matrix
    count_distinct  partial: the distinct values, sorted   a range: values without an earlier one like them in it

A partial is one large list per row (int64 offsets, as all values of a state may exceed 2**31) and grows with its
input. None is differential: the thesis asks that what is kept be smaller than its input, which the values are not; and
a set of distinct values forgets how often each was there.

Lists are built by one sort of integers: key = group * cardinality + rank, from which both come back by division.

>>> import numpy as np, pyarrow as pa
>>> kernel = median("price").bind(pa.schema([("price", pa.int32())]))
>>> prices = kernel.lift(pa.array([3, 1, 9, 2], pa.int32()), np.zeros(4, np.int64), np.array([0, 0, 1, 1]), 2)
>>> kernel.lower(prices).to_pylist(), kernel.roll(prices, np.array([0]), np.array([2])).to_pylist()
([2.0, 5.5], [2.5])
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lowwater.aggregates.base import Aggregate, Algebra, Differential, Group, Partial
from lowwater.aggregates.order import dense, floats, is_number, is_ordered, present, refuse
from lowwater.aggregates.ranks import count_below, kth
from lowwater.aggregates.words import nullable
from lowwater.errors import BadAggregate

Times = npt.NDArray[np.int64]
Ints = npt.NDArray[np.int64]


def _lengths(lists: pa.Array) -> Ints:
    out: Ints = pc.list_value_length(lists).to_numpy()
    return out


def _offsets(lengths: Ints) -> Ints:
    """Where each list begins among the flattened values, and where the last ends."""
    out = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=out[1:])
    return out


class Lists(Algebra):
    """A partial is a sorted list of values; subclasses say whether equal values are kept once."""

    unique: bool

    def __init__(self, type: pa.DataType) -> None:
        self.fields = (pa.field("values", pa.large_list(type), nullable=False),)

    def lift(self, values: pa.Array | None, time: Times, group: Group, n: int) -> Partial:
        assert values is not None
        return self._listed(self.admit(values.drop_null()), group[present(values)], n)

    def combine(self, partial: Partial, group: Group, n: int) -> Partial:
        (lists,) = partial
        return self._listed(lists.flatten(), np.repeat(group, _lengths(lists)), n)

    def admit(self, values: pa.Array) -> pa.Array:
        """Values as the lists hold them."""
        return values

    def roll(self, partial: Partial, lo: Group, hi: Group) -> pa.Array:
        (lists,) = partial
        begin = _offsets(_lengths(lists))
        return self.over(lists.flatten(), begin[lo], begin[hi])

    @abstractmethod
    def over(self, values: pa.Array, lo: Ints, hi: Ints) -> pa.Array:
        """The result over values[lo:hi], for many ranges, which may be empty."""

    def _listed(self, values: pa.Array, group: Group, n: int) -> Partial:
        rank, distinct = dense(values)
        cardinality = max(len(distinct), 1)
        key = np.sort(group * cardinality + rank)
        if self.unique and len(key):
            key = key[np.concatenate([[True], key[1:] != key[:-1]])]
        offsets = np.searchsorted(key, np.arange(n + 1, dtype=np.int64) * cardinality)
        ordered = distinct.take(pa.array(key % cardinality))
        return (pa.LargeListArray.from_arrays(pa.array(offsets, pa.int64()), ordered, type=self.fields[0].type),)


class Sorted(Lists):
    """Quantiles by linear interpolation between the neighbours of (n - 1) * q, as Spark's percentile."""

    unique = False
    result = pa.float64()

    def __init__(self, q: float) -> None:
        super().__init__(pa.float64())
        self.q = q

    def admit(self, values: pa.Array) -> pa.Array:
        return pa.array(floats(values))

    def lower(self, partial: Partial) -> pa.Array:
        """Each list is sorted, so its k-th smallest is at its k-th place."""
        (lists,) = partial
        begin = _offsets(_lengths(lists))
        flat = lists.flatten().to_numpy()
        below, above, weight = self._neighbours(np.diff(begin))
        seen = begin[1:] > begin[:-1]
        start = begin[:-1][seen]
        return self._between(flat[start + below[seen]], flat[start + above[seen]], weight, seen)

    def over(self, values: pa.Array, lo: Ints, hi: Ints) -> pa.Array:
        below, above, weight = self._neighbours(hi - lo)
        seen = hi > lo
        rank, distinct = dense(values)
        at = kth(rank, np.tile(lo[seen], 2), np.tile(hi[seen], 2), np.concatenate([below[seen], above[seen]]))
        value = distinct.to_numpy()[at]
        half = len(value) // 2
        return self._between(value[:half], value[half:], weight, seen)

    def _neighbours(self, n: Ints) -> tuple[Ints, Ints, npt.NDArray[np.float64]]:
        place = np.maximum(n - 1, 0) * self.q
        below = np.floor(place).astype(np.int64)
        return below, np.ceil(place).astype(np.int64), place - below

    def _between(
        self,
        below: npt.NDArray[np.float64],
        above: npt.NDArray[np.float64],
        weight: npt.NDArray[np.float64],
        seen: npt.NDArray[np.bool_],
    ) -> pa.Array:
        """Weighted, not below + (above - below) * weight, which overflows; equal neighbours (infinities) stay."""
        out = np.zeros(len(seen))
        with np.errstate(invalid="ignore"):
            mixed = below * (1 - weight[seen]) + above * weight[seen]
        out[seen] = np.where(below == above, below, mixed)
        return nullable(out, seen)


class Distinct(Lists):
    """The number of distinct values."""

    unique = True
    result = pa.int64()

    def lower(self, partial: Partial) -> pa.Array:
        return pa.array(_lengths(partial[0]))

    def over(self, values: pa.Array, lo: Ints, hi: Ints) -> pa.Array:
        """A value counts where it first occurs in the range: where its previous occurrence lies before lo.

        With previous[i] = 1 + the position before i that holds the same value, 0 without one, these are the
        i in [lo, hi) with previous[i] < lo + 1.
        """
        rank, _ = dense(values)
        order = np.argsort(rank, kind="stable")
        again = np.flatnonzero(rank[order[1:]] == rank[order[:-1]])
        previous = np.zeros(len(rank), np.int64)
        previous[order[again + 1]] = order[again] + 1
        return pa.array(count_below(previous, lo, hi, lo + 1))


@dataclass(frozen=True)
class Holistic(Aggregate):
    """What all aggregates of this module declare."""

    @property
    def bounded(self) -> bool:
        return False

    @property
    def differential(self) -> Differential:
        return Differential.NO


@dataclass(frozen=True)
class Quantile(Holistic):
    q: float
    function: str

    @property
    def name(self) -> str:
        return self.function

    def __post_init__(self) -> None:
        if not 0 <= self.q <= 1:
            raise BadAggregate(f"{self} asks for the quantile {self.q}; give a share between 0 and 1.")

    def bind(self, schema: pa.Schema) -> Algebra:
        type = self.type_in(schema)
        if not is_number(type):
            raise refuse(str(self), type, "a column of integers, decimals or doubles")
        return Sorted(self.q)

    def __str__(self) -> str:
        return super().__str__() if self.name == "median" else f"{self.name}({self.column}, {self.q})"


@dataclass(frozen=True)
class CountDistinct(Holistic):
    name = "count_distinct"

    def bind(self, schema: pa.Schema) -> Algebra:
        type = self.type_in(schema)
        if not is_ordered(type):
            raise refuse(str(self), type, "a column of numbers, booleans, times, strings or binaries")
        return Distinct(type)


def median(column: str) -> Aggregate:
    """The middle value, or the mean of the two in the middle; double."""
    return Quantile(column, 0.5, "median")


def quantile(column: str, q: float) -> Aggregate:
    """The value that a share q of the values does not exceed, interpolated linearly; double."""
    return Quantile(column, q, "quantile")


def count_distinct(column: str) -> Aggregate:
    """How many different values there are, nulls aside."""
    return CountDistinct(column)
