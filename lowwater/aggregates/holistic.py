"""median, quantile and count_distinct: exact, holistic aggregates (TH 6.2.2.1).

    quantile        partial: the values, sorted            a range: k-th smallest by the wavelet matrix
    count_distinct  partial: the distinct values, sorted   a range: the values whose spans cover it

A partial is one large list per row (with int64 offsets, because the values of a state can exceed 2**31) and grows with
its input. Neither aggregate is differential. The thesis requires a partial to be smaller than its input, which a list
of all values is not. A set of distinct values does not know how often each value occurred.

All lists are sorted together, by the keys of their values (sorting.py).

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
from lowwater.aggregates.filtered import filtered
from lowwater.aggregates.order import begins, floats, is_number, keys, ordered_type, present, refuse
from lowwater.aggregates.ranks import smallest
from lowwater.aggregates.sorting import by_group, offsets, sort_each
from lowwater.aggregates.spans import ascending, codes, presence
from lowwater.aggregates.words import nullable
from lowwater.errors import BadAggregate

Times = npt.NDArray[np.int64]
Ints = npt.NDArray[np.int64]
Doubles = npt.NDArray[np.float64]
LONGEST = 2**31 - 1


def lengths(lists: pa.Array) -> Ints:
    out: Ints = pc.list_value_length(lists).to_numpy()
    return out


def as_lists(values: pa.Array, offset: Ints, type: pa.DataType, label: str) -> pa.Array:
    """Results that are lists: result i is values[offset[i]:offset[i+1]]. Spark's lists have 32-bit offsets."""
    if len(values) > LONGEST:
        raise BadAggregate(f"{label} would answer with {len(values):,} values at once; use shorter windows or batches.")
    return pa.ListArray.from_arrays(pa.array(offset, pa.int32()), values, type=type)


class Lists(Algebra):
    """Base of kernels whose partial is a sorted list of values. With `unique`, equal values are kept once."""

    unique = False

    def __init__(self, type: pa.DataType) -> None:
        self.fields = (pa.field("values", pa.large_list(type), nullable=False),)

    def lift(self, values: pa.Array | None, time: Times, group: Group, n: int) -> Partial:
        assert values is not None
        return self._listed(self.admit(values.drop_null()), group[present(values)], n)

    def combine(self, partial: Partial, group: Group, n: int) -> Partial:
        (lists,) = partial
        return self._listed(lists.flatten(), np.repeat(group, lengths(lists)), n)

    def admit(self, values: pa.Array) -> pa.Array:
        """Converts values to the type of the lists."""
        return values

    def roll(self, partial: Partial, lo: Group, hi: Group) -> pa.Array:
        (lists,) = partial
        begin = offsets(lengths(lists))
        return self.over(lists.flatten(), begin[lo], begin[hi])

    @abstractmethod
    def over(self, values: pa.Array, lo: Ints, hi: Ints) -> pa.Array:
        """The results over values[lo:hi] for many ranges, which can be empty."""

    def _listed(self, values: pa.Array, group: Group, n: int) -> Partial:
        known = keys(values)
        order, offset = by_group(group, n)
        key = sort_each(known.key[order], offset)
        if self.unique:
            new = begins(key, offset)
            key, offset = np.compress(new, key), offsets(new)[offset]
        return (pa.LargeListArray.from_arrays(pa.array(offset), known.decode(key), type=self.fields[0].type),)


def neighbours(n: Ints, q: float) -> tuple[Ints, Ints, Doubles]:
    """The positions below and above (n - 1) * q among n sorted values, and the weight of the upper one."""
    place = np.maximum(n - 1, 0) * q
    below = np.floor(place).astype(np.int64)
    return below, np.ceil(place).astype(np.int64), place - below


def between(below: Doubles, above: Doubles, weight: Doubles, seen: npt.NDArray[np.bool_]) -> pa.Array:
    """The weighted mean, in a form that does not overflow. Equal values, also infinities, stay as they are."""
    with np.errstate(invalid="ignore"):
        mixed = below * (1 - weight) + above * weight
    return nullable(np.where(below == above, below, mixed), seen)


class Sorted(Lists):
    """Quantiles by linear interpolation around (n - 1) * q, as in Spark's percentile."""

    result = pa.float64()

    def __init__(self, q: float) -> None:
        super().__init__(pa.float64())
        self.q = q

    def admit(self, values: pa.Array) -> pa.Array:
        return pa.array(floats(values))

    def lower(self, partial: Partial) -> pa.Array:
        (lists,) = partial
        return self._sorted(lists.flatten().to_numpy(), offsets(lengths(lists)))

    def over(self, values: pa.Array, lo: Ints, hi: Ints) -> pa.Array:
        below, above, weight = neighbours(hi - lo, self.q)
        one, two = np.flatnonzero(hi > lo), np.flatnonzero(above > below)
        places = np.concatenate([below[one], above[two]])
        value = smallest(values.to_numpy(), lo, hi, np.concatenate([one, two]), places)
        first, second = np.zeros(len(lo)), np.zeros(len(lo))
        first[one] = second[one] = value[: len(one)]
        second[two] = value[len(one) :]
        return between(first, second, weight, hi > lo)

    def _sorted(self, flat: npt.NDArray[np.float64], begin: Ints) -> pa.Array:
        """The quantiles of sorted lists: the k-th smallest value is at position k."""
        below, above, weight = neighbours(np.diff(begin), self.q)
        flat = np.append(flat, 0.0)  # so that there is a value to take if all lists are empty
        first, second = (flat.take(begin[:-1] + k, mode="clip") for k in (below, above))
        return between(first, second, weight, begin[1:] > begin[:-1])


class Distinct(Lists):
    """The number of distinct values."""

    unique = True
    result = pa.int64()

    def lower(self, partial: Partial) -> pa.Array:
        return pa.array(lengths(partial[0]))

    def over(self, values: pa.Array, lo: Ints, hi: Ints) -> pa.Array:
        """Adds one where the span of a value begins, subtracts one where it ends, and sums up."""
        out = np.zeros(len(lo), np.int64)
        code, _ = codes(keys(values).key, lo, hi)
        for chain in ascending(lo, hi):
            spans = presence(code, np.arange(len(code)), lo[chain], hi[chain])
            came, went = (np.bincount(at, minlength=len(chain) + 1) for at in (spans.first, spans.stop))
            out[chain] = np.cumsum(came - went)[:-1]
        return pa.array(out)


@dataclass(frozen=True)
class Holistic(Aggregate):
    """Base of holistic aggregates without an inverse."""

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
        return Distinct(ordered_type(str(self), self.type_in(schema)))


def median(column: str, *, where: str | None = None) -> Aggregate:
    """The middle value, or the mean of the two middle values; double."""
    return filtered(Quantile(column, 0.5, "median"), where)


def quantile(column: str, q: float, *, where: str | None = None) -> Aggregate:
    """The value that a share q of the values does not exceed, interpolated linearly; double."""
    return filtered(Quantile(column, q, "quantile"), where)


def count_distinct(column: str, *, where: str | None = None) -> Aggregate:
    """The number of distinct values, without nulls."""
    return filtered(CountDistinct(column), where)
