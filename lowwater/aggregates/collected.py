"""collect_list, collect_set and top_k: aggregates whose result is a list of values.

    aggregate     partial                          result
    collect_list  times and values, by time and    the values by time, then by value, so that the result does not
                  then by value                    depend on the order of arrival
    collect_set   distinct values, sorted          distinct values, sorted
    top_k         the k largest values, sorted     the k largest, largest first

The first two are holistic; top_k is bounded by k. None is differential: a value that was left out, because of larger or
equal values, cannot be restored. Nulls are left out. Without a value the list is empty, as in Spark.

>>> import numpy as np, pyarrow as pa
>>> kernel = top_k("v", 2).bind(pa.schema([("v", pa.int32())]))
>>> partial = kernel.lift(pa.array([5, 1, 9, 7], pa.int32()), np.zeros(4, np.int64), np.array([0, 0, 0, 1]), 2)
>>> kernel.lower(partial).to_pylist(), kernel.roll(partial, np.array([0]), np.array([2])).to_pylist()
([[9, 5], [7]], [[9, 7]])
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lowwater.aggregates.base import Aggregate, Algebra, BoundedOnly, Group, Partial
from lowwater.aggregates.chosen import TopRows
from lowwater.aggregates.filtered import filtered
from lowwater.aggregates.holistic import Holistic, Lists, Times, as_lists, lengths
from lowwater.aggregates.order import above, keys, ordered_type, present
from lowwater.aggregates.ranks import largest
from lowwater.aggregates.sorting import apart, backwards, explode, last_of_each, offsets
from lowwater.aggregates.spans import ascending, codes, presence
from lowwater.errors import BadAggregate

Ints = npt.NDArray[np.int64]


class ByTime(Algebra):
    """Partials of two lists of the same length: times and values."""

    def __init__(self, type: pa.DataType, label: str) -> None:
        self.label = label
        self.result = pa.list_(type)
        self.fields = (
            pa.field("times", pa.large_list(pa.int64()), nullable=False),
            pa.field("values", pa.large_list(type), nullable=False),
        )

    def lift(self, values: pa.Array | None, time: Times, group: Group, n: int) -> Partial:
        assert values is not None
        rows = present(values)
        return self._listed(time[rows], values.drop_null(), group[rows], n)

    def combine(self, partial: Partial, group: Group, n: int) -> Partial:
        times, values = partial
        return self._listed(times.flatten().to_numpy(), values.flatten(), np.repeat(group, lengths(values)), n)

    def _listed(self, time: Times, values: pa.Array, group: Group, n: int) -> Partial:
        known = keys(values)
        order = np.lexsort((known.key, time, group))
        columns = pa.array(time[order]), known.decode(known.key[order])
        offset = pa.array(offsets(np.bincount(group, minlength=n)))
        return tuple(
            pa.LargeListArray.from_arrays(offset, column, type=field.type)
            for column, field in zip(columns, self.fields, strict=True)
        )

    def roll(self, partial: Partial, lo: Group, hi: Group) -> pa.Array:
        """Concatenates the lists of panes, which follow each other in time. Sorts only if they do not."""
        times, values = partial
        begin = offsets(lengths(values))
        first, stop = begin[lo], begin[hi]
        time, known = times.flatten().to_numpy(), keys(values.flatten())
        at = explode(first, stop)
        seam = np.setdiff1d(begin, apart(len(time), first, stop))
        before, after = (time[seam - 1], known.key[seam - 1]), (time[seam], known.key[seam])
        if np.any((before[0] > after[0]) | ((before[0] == after[0]) & above(before[1], after[1]))):
            answer = np.repeat(np.arange(len(lo)), stop - first)
            at = at[np.lexsort((known.key[at], time[at], answer))]
        return as_lists(known.decode(known.key[at]), offsets(stop - first), self.result, self.label)

    def lower(self, partial: Partial) -> pa.Array:
        _, values = partial
        return as_lists(values.flatten(), offsets(lengths(values)), self.result, self.label)


class DistinctValues(Lists):
    """The distinct values themselves."""

    unique = True

    def __init__(self, type: pa.DataType, label: str) -> None:
        super().__init__(type)
        self.label = label
        self.result = pa.list_(type)

    def lower(self, partial: Partial) -> pa.Array:
        (lists,) = partial
        return as_lists(lists.flatten(), offsets(lengths(lists)), self.result, self.label)

    def over(self, values: pa.Array, lo: Ints, hi: Ints) -> pa.Array:
        known = keys(values)
        code, distinct = codes(known.key, lo, hi)
        size = max(len(distinct), 1)
        pairs = []
        for chain in ascending(lo, hi):
            spans = presence(code, np.arange(len(code)), lo[chain], hi[chain])
            answer = chain[explode(spans.first, spans.stop)]
            pairs.append(answer * size + np.repeat(spans.code, spans.stop - spans.first))
        answer, chosen = np.divmod(np.sort(np.concatenate(pairs)), size)
        found = known.decode(distinct[chosen])
        return as_lists(found, offsets(np.bincount(answer, minlength=len(lo))), self.result, self.label)


class Largest(Lists):
    """At most k values, in ascending order like all lists."""

    def __init__(self, type: pa.DataType, label: str, k: int) -> None:
        super().__init__(type)
        self.label, self.k = label, k
        self.result = pa.list_(type)

    def _listed(self, values: pa.Array, group: Group, n: int) -> Partial:
        (lists,) = super()._listed(values, group, n)
        at, offset = last_of_each(offsets(lengths(lists)), self.k)
        kept = lists.flatten().take(pa.array(at))
        return (pa.LargeListArray.from_arrays(pa.array(offset), kept, type=self.fields[0].type),)

    def lower(self, partial: Partial) -> pa.Array:
        """The values of each list in reverse order."""
        (lists,) = partial
        begin = offsets(lengths(lists))
        return as_lists(lists.flatten().take(pa.array(backwards(begin))), begin, self.result, self.label)

    def over(self, values: pa.Array, lo: Ints, hi: Ints) -> pa.Array:
        known = keys(values)
        key, offset = largest(known.key, lo, hi, self.k)
        return as_lists(known.decode(key), offset, self.result, self.label)


@dataclass(frozen=True)
class Collect(Holistic):
    function: str
    distinct: bool

    @property
    def name(self) -> str:
        return self.function

    def bind(self, schema: pa.Schema) -> Algebra:
        return (DistinctValues if self.distinct else ByTime)(ordered_type(str(self), self.type_in(schema)), str(self))


@dataclass(frozen=True)
class TopK(BoundedOnly):
    k: int
    name = "top_k"

    def __post_init__(self) -> None:
        if not isinstance(self.k, int) or self.k < 1:
            raise BadAggregate(f"{self} asks for {self.k} values; ask for a whole number, at least one.")

    def bind(self, schema: pa.Schema) -> Algebra:
        return Largest(ordered_type(str(self), self.type_in(schema)), str(self), self.k)

    def __str__(self) -> str:
        return f"{self.name}({self.column}, {self.k})"


def collect_list(column: str, *, where: str | None = None) -> Aggregate:
    """All values, by time and then by value."""
    return filtered(Collect(column, "collect_list", distinct=False), where)


def collect_set(column: str, *, where: str | None = None) -> Aggregate:
    """The distinct values, sorted."""
    return filtered(Collect(column, "collect_set", distinct=True), where)


def top_k(column: str, k: int, label: str | None = None, *, where: str | None = None) -> Aggregate:
    """The k largest values, the largest first; NaN is larger than any number.

    With `label`, the k rows with the largest values: a list of (label, value), as in the three products of a category
    with the largest revenue, top_k("revenue", 3, label="product"). Of equal values, the largest label comes first.
    """
    values = TopK(column, k)
    if not isinstance(label, str | None):
        raise BadAggregate(
            f"top_k(label=) names one column, not {label!r}; for several, make one of them by with_column()."
        )
    return filtered(values if label is None else TopRows(label, column, k), where)
