"""Tuples counted by group, in order: which of them is every n-th one (TH 6.1.4.2)."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lowwater.aggregates.bounded import Tally
from lowwater.aggregates.grouped import Grouped, GroupedCodec, factorise, matched, merge
from lowwater.state.store import Store

Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
COUNTS = "counts"


def tallies(keys: pa.Table, n: Ints) -> Grouped:
    """A count for each row of `keys`, all distinct."""
    return Grouped(keys, np.arange(keys.num_rows), np.zeros(keys.num_rows, np.int64), ((n,),))


def tally_of(keys: pa.Table, counts: Grouped | None) -> Ints:
    """The counts of groups, zero where there is none."""
    if counts is None or not len(counts):
        return np.zeros(keys.num_rows, np.int64)
    n = np.zeros(counts.keys.num_rows + 1, np.int64)  # the last one is for groups that are not there
    n[counts.group] = counts.partials[0][0]
    return n[matched(keys, counts.keys)]


def places(group: Ints) -> Ints:
    """For each row how many rows of its group come before it."""
    by_group = np.argsort(group, kind="stable")
    ascending = group[by_group]
    at = np.arange(len(group))
    new = np.ones(len(group), np.bool_)
    new[1:] = ascending[1:] != ascending[:-1]
    out = np.empty(len(group), np.int64)
    out[by_group] = at - np.maximum.accumulate(np.where(new, at, 0))
    return out


class Counted:
    """Tuples of each group modulo `every`; groups at zero are not kept."""

    def __init__(self, every: int, store: Store | None = None) -> None:
        self._every = every
        self._slots = (store or Store()).slots(COUNTS, GroupedCodec([Tally()]))

    @property
    def _counts(self) -> Grouped | None:
        return self._slots[COUNTS].value if COUNTS in self._slots else None

    def mark(self, keys: pa.Table) -> Mask:
        """Adds tuples in arrival order and says which are n-th ones."""
        group, distinct = factorise(keys)
        number = tally_of(distinct, self._counts)[group] + places(group) + 1
        self._put(tallies(distinct, np.bincount(group, minlength=distinct.num_rows)))
        return np.asarray(number % self._every == 0)

    def passes(self, bins: Grouped) -> Mask:
        """Adds the tuples of bins, sorted by (group, time), and says in which of them a count reaches a multiple."""
        n = np.asarray(bins.partials[0][0])
        upto = np.cumsum(n)
        new = np.ones(len(n), np.bool_)
        new[1:] = bins.group[1:] != bins.group[:-1]
        # What earlier groups have brought the running total to; it only grows, so the last start is the largest.
        before = np.maximum.accumulate(np.where(new, upto - n, 0))
        after = tally_of(bins.keys, self._counts)[bins.group] + upto - before
        self.add(bins)
        return np.asarray(after // self._every > (after - n) // self._every)

    def add(self, bins: Grouped) -> None:
        counts = Grouped(bins.keys, bins.group, np.zeros(len(bins), np.int64), bins.partials[:1])
        self._put(merge([counts, tallies(bins.keys, np.zeros(bins.keys.num_rows, np.int64))], [Tally()]))

    def _put(self, new: Grouped) -> None:
        counts = new if self._counts is None else merge([self._counts, new], [Tally()])
        left = np.asarray(counts.partials[0][0]) % self._every
        rest = Grouped(counts.keys, counts.group, counts.slot, ((left,),)).where(left > 0)
        self._slots.clear()
        if len(rest):
            self._slots.put(COUNTS, rest, rows=len(rest))

    @property
    def rows(self) -> int:
        return self._slots.rows

    def clear(self) -> None:
        self._slots.clear()
