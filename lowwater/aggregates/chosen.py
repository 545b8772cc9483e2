"""max_by, min_by and top_k with a label: aggregates that choose rows by one column and show another.

    aggregate                     result
    max_by(column, by)            the value of `column` in the row with the largest `by`; min_by: with the smallest
    top_k(column, k, label=...)   the k rows with the largest `column`, largest first, each as (label, column)

The partial holds the best rows, worst first: at most k values of both columns. It is bounded, and not differential: a
row that a better one replaced cannot be restored. Rows in which the column to choose by is null are left out.

The result does not depend on arrival. Of rows that are equally good, the one with the largest shown value is better
(for min_by, with the smallest), and a null is worse than any value.

>>> import numpy as np, pyarrow as pa
>>> kernel = max_by("name", "v").bind(pa.schema([("name", pa.string()), ("v", pa.int32())]))
>>> rows = pa.StructArray.from_arrays([pa.array(["a", "b", "c"]), pa.array([1, 7, 7], pa.int32())], ["name", "v"])
>>> kernel.lower(kernel.lift(rows, np.zeros(3, np.int64), np.zeros(3, np.intp), 1)).to_pylist()
['c']
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lowwater.aggregates.base import Aggregate, Algebra, BoundedOnly, Group, Partial
from lowwater.aggregates.filtered import filtered
from lowwater.aggregates.holistic import Times, as_lists, lengths
from lowwater.aggregates.order import keys, ordered_type, present, spread
from lowwater.aggregates.ranks import largest
from lowwater.aggregates.sorting import backwards, last_of_each, offsets
from lowwater.errors import BadAggregate

Ints = npt.NDArray[np.int64]


class Best(Algebra):
    """The k best rows. The shown column comes first and the column to choose by second, as in `Aggregate.columns`."""

    def __init__(self, shown: pa.DataType, by: pa.DataType, k: int, largest: bool) -> None:
        self.k, self.largest = k, largest
        self.result = shown
        self.fields = (
            pa.field("shown", pa.large_list(shown), nullable=False),
            pa.field("by", pa.large_list(by), nullable=False),
        )

    def lift(self, values: pa.Array | None, time: Times, group: Group, n: int) -> Partial:
        assert values is not None
        shown, by = values.flatten()
        rows = present(by)
        if not isinstance(rows, slice):
            shown, by, group = shown.filter(pa.array(rows)), by.drop_null(), group[rows]
        return self._kept(_plain(shown), _plain(by), group, n)

    def combine(self, partial: Partial, group: Group, n: int) -> Partial:
        shown, by = partial
        return self._kept(shown.flatten(), by.flatten(), np.repeat(group, lengths(by)), n)

    def roll(self, partial: Partial, lo: Group, hi: Group) -> pa.Array:
        begin = offsets(lengths(partial[1]))
        first, stop = begin[lo], begin[hi]
        shown, by = (lists.flatten() for lists in partial)
        order = self._worst_first(shown, by)
        rank = np.empty(len(order), np.int64)
        rank[order] = np.arange(len(order))
        best, offset = largest(rank, first, stop, self.k)
        return self._answers(shown, by, order[best], offset)

    def lower(self, partial: Partial) -> pa.Array:
        begin = offsets(lengths(partial[1]))
        shown, by = (lists.flatten() for lists in partial)
        return self._answers(shown, by, backwards(begin), begin)

    def _worst_first(self, shown: pa.Array, by: pa.Array) -> Ints:
        """Positions of the rows, the best last."""
        known = shown.is_valid().to_numpy(zero_copy_only=False)
        key = keys(shown.drop_null()).key
        second = np.zeros(len(shown), key.dtype)
        second[known] = key
        if self.largest:
            return np.lexsort((second, known, keys(by).key))
        return np.lexsort((second, ~known, keys(by).key))[::-1]

    def _kept(self, shown: pa.Array, by: pa.Array, group: Group, n: int) -> Partial:
        order = self._worst_first(shown, by)
        order = order[np.argsort(group[order], kind="stable")]
        at, offset = last_of_each(offsets(np.bincount(group, minlength=n)), self.k)
        kept = pa.array(order[at])
        return tuple(
            pa.LargeListArray.from_arrays(pa.array(offset), column.take(kept), type=field.type)
            for column, field in zip((shown, by), self.fields, strict=True)
        )

    def _answers(self, shown: pa.Array, by: pa.Array, at: Ints, offset: Ints) -> pa.Array:
        """Answer i is of the rows at[offset[i]:offset[i+1]], the best first. Here there is at most one."""
        return spread(shown.take(pa.array(at)), np.diff(offset) > 0)


class BestRows(Best):
    """The k best rows as a list of structs."""

    def __init__(self, shown: pa.Field, by: pa.Field, k: int, label: str) -> None:
        super().__init__(shown.type, by.type, k, largest=True)
        self.label = label
        self.row = [shown.with_nullable(True), by.with_nullable(True)]
        self.result = pa.list_(pa.struct(self.row))

    def _answers(self, shown: pa.Array, by: pa.Array, at: Ints, offset: Ints) -> pa.Array:
        rows = pa.StructArray.from_arrays([column.take(pa.array(at)) for column in (shown, by)], fields=self.row)
        return as_lists(rows, offset, self.result, self.label)


def _plain(values: pa.Array) -> pa.Array:
    """The values with 0.0 for -0.0, which are equal: which of them is shown must not depend on arrival."""
    if not pa.types.is_floating(values.type):
        return values
    known = keys(values.drop_null())
    return spread(known.decode(known.key), values.is_valid().to_numpy(zero_copy_only=False))


@dataclass(frozen=True)
class ByAnother(BoundedOnly):
    """Base of these aggregates: `column` is shown, and rows are chosen by the column `by`."""

    by: str
    naming = ("column", "by")


@dataclass(frozen=True)
class ChosenBy(ByAnother):
    """max_by and min_by."""

    largest: bool

    @property
    def name(self) -> str:
        return "max_by" if self.largest else "min_by"

    def bind(self, schema: pa.Schema) -> Algebra:
        shown, by = (ordered_type(str(self), type) for type in self.types_in(schema))
        return Best(shown, by, 1, self.largest)


@dataclass(frozen=True)
class TopRows(ByAnother):
    """top_k with a label. `column` is the label."""

    k: int
    name = "top_k"

    def bind(self, schema: pa.Schema) -> Algebra:
        shown, by = (
            pa.field(c, ordered_type(str(self), t)) for c, t in zip(self.columns, self.types_in(schema), strict=True)
        )
        if shown.name == by.name:
            raise BadAggregate(f"{self} shows the column it chooses by; leave out label=, or name another column.")
        return BestRows(shown, by, self.k, str(self))

    def __str__(self) -> str:
        return f"top_k({self.by}, {self.k}, label={self.column})"


def max_by(column: str, by: str, *, where: str | None = None) -> Aggregate:
    """The value of a column in the row with the largest `by`; of several such rows, the largest value."""
    return filtered(ChosenBy(column, by, largest=True), where)


def min_by(column: str, by: str, *, where: str | None = None) -> Aggregate:
    """The value of a column in the row with the smallest `by`; of several such rows, the smallest value."""
    return filtered(ChosenBy(column, by, largest=False), where)
