"""Fragments: what a batch knows of sessions, (group, first, last, partials), by one sort and one diff (W10).

A fragment is a stretch of rows of one group with pauses shorter than the gap. No row of a session is needed to tell
how far it goes: two stretches are of one session iff they overlap or the pause between them is shorter than the gap.
So fragments may be cut anywhere, at the source before the shuffle or in any batch, and coalesced anywhere: the sessions
that come out are always those of the rows. Sessions are the fragments of all rows.

A table of fragments is a `Grouped` whose slot is the first tick; the last tick travels as one more partial behind those
of the aggregates. Plain `merge` of such tables is allowed (equal first ticks keep the larger last), it only leaves
fragments that overlap to be coalesced later.

>>> from lowwater.aggregates.bounded import sum
>>> from lowwater.operators.bucket import WindowedAggregation
>>> schema = pa.schema([("ts", pa.int64()), ("k", pa.string()), ("v", pa.int64())])
>>> fragments = Fragments(WindowedAggregation(Session(10), "ts", schema, ("k",), (("s", sum("v")),)))
>>> rows = [{"ts": 1, "k": "a", "v": 1}, {"ts": 25, "k": "a", "v": 2}, {"ts": 9, "k": "b", "v": 4}]
>>> early = fragments.reduce(pa.Table.from_pylist(rows, schema=schema))
>>> early.group.tolist(), early.slot.tolist(), last(early).tolist()
([0, 0, 1], [1, 25, 9], [1, 25, 9])
>>> bridge = [{"ts": 18, "k": "a", "v": 8}, {"ts": 10, "k": "a", "v": 16}]
>>> both = fragments.coalesce([early, fragments.reduce(pa.Table.from_pylist(bridge, schema=schema))])
>>> both.slot.tolist(), last(both).tolist(), fragments.lower(both)[1].to_pylist()
([1, 9], [25, 9], [27, 4])
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lowwater.aggregates.base import Algebra, Group, Partial, take
from lowwater.aggregates.grouped import Grouped, factorise, gather, stack, without_columns
from lowwater.aggregates.rollup import idempotent
from lowwater.operators.bucket import Bucket, WindowedAggregation
from lowwater.windows.context_aware import Session

Ints = npt.NDArray[np.int64]


class Latest(Algebra):
    """The largest tick of a fragment."""

    fields = (pa.field("last", pa.int64(), nullable=False),)
    result = pa.int64()

    def lift(self, values: pa.Array | None, time: Ints, group: Group, n: int) -> Partial:
        return self.combine((time,), group, n)

    def combine(self, partial: Partial, group: Group, n: int) -> Partial:
        out = np.full(n, np.iinfo(np.int64).min)
        np.maximum.at(out, group, partial[0])
        return (out,)

    def merge(self, a: Partial, b: Partial) -> Partial:
        return (np.maximum(a[0], b[0]),)

    def roll(self, partial: Partial, lo: Group, hi: Group) -> pa.Array:
        return self.lower(idempotent(partial, self.merge, lo, hi))

    def lower(self, partial: Partial) -> pa.Array:
        return pa.array(partial[0])


def last(fragments: Grouped) -> Ints:
    """The last ticks of fragments."""
    return np.asarray(fragments.partials[-1][0], np.int64)


class Fragments(Bucket):
    """Reduces batches to fragments; `algebras` are those of the aggregates and, behind them, that of the last tick."""

    def __init__(self, what: WindowedAggregation) -> None:
        super().__init__(what)
        assert isinstance(what.window, Session), "fragments are of session windows"
        self.gap = what.window.gap
        self.algebras = [*self.algebras, Latest()]

    def keys(self, rows: pa.Table) -> pa.Table:
        return rows.select(list(self.what.group_by)) if self.what.group_by else without_columns(rows.num_rows)

    def reduce(self, rows: pa.Table, time: Ints | None = None) -> Grouped:
        """Fragments of a batch without null progress values, sorted by (group, first) and apart from each other."""
        if time is None:
            time = self.ticks(rows)
        group, distinct = factorise(self.keys(rows))
        order = np.argsort(ascending(group, time))
        cell, new = self._cut(order, group[order], time[order], time[order])
        values = [aggregate.argument(rows) for aggregate in self.what.distinct]
        lifted = zip(self.algebras, [*values, None], strict=True)
        partials = tuple(algebra.lift(value, time, cell, len(new)) for algebra, value in lifted)
        return Grouped(distinct, group[new], time[new], partials)

    def coalesce(self, parts: Sequence[Grouped]) -> Grouped:
        """One table of fragments, in which those that overlap or are nearer than the gap have become one."""
        rows = parts[0] if len(parts) == 1 else gather(parts)
        order = np.argsort(ascending(rows.group, rows.slot), kind="stable")  # parts are sorted runs already
        group, first = rows.group[order], rows.slot[order]
        cell, new = self._cut(order, group, first, reach(group, last(rows)[order]))
        if len(new) == len(rows):  # nothing to combine: only the order changes
            partials = tuple(tuple(take(column, new) for column in partial) for partial in rows.partials)
        else:
            pairs = zip(self.algebras, rows.partials, strict=True)
            partials = tuple(algebra.combine(partial, cell, len(new)) for algebra, partial in pairs)
        return Grouped(rows.keys, rows.group[new], rows.slot[new], partials)

    def _cut(self, order: Group, group: Ints, first: Ints, reached: Ints) -> tuple[Group, Group]:
        """The fragment of every row, and for every fragment its first row; group, first and reached are in order."""
        new = np.ones(len(order), np.bool_)
        new[1:] = (group[1:] != group[:-1]) | (first[1:] - reached[:-1] >= self.gap)
        cell = np.empty(len(order), np.intp)
        cell[order] = np.cumsum(new) - 1
        return cell, order[new]

    def find(self, fragments: Grouped, rows: pa.Table, time: Ints) -> Ints:
        """For every row its fragment among coalesced ones, or -1."""
        n = len(fragments)
        code, _ = factorise(stack([fragments.keys, self.keys(rows)]))
        group = np.concatenate([code[fragments.group], code[fragments.keys.num_rows :]])
        # A fragment stands before the rows of its first tick; the sort keeps the given order of equal ones.
        order = np.argsort(ascending(group, np.concatenate([fragments.slot, time])), kind="stable")
        before = np.empty(len(group), np.int64)
        before[order] = np.maximum.accumulate(np.where(order < n, order, -1))
        at = before[n:]
        inside = (at >= 0) & (group[at] == group[n:])
        inside[inside] = time[inside] <= last(fragments)[at[inside]]
        return np.where(inside, at, -1)

    def lower(self, fragments: Grouped) -> list[pa.Array]:
        """The results of fragments that are whole sessions, one column for each of `what.distinct`."""
        pairs = zip(self.algebras[:-1], fragments.partials[:-1], strict=True)
        return [algebra.lower(partial) for algebra, partial in pairs]


def ascending(group: Ints, value: Ints) -> Ints:
    """One integer a row that ascends by group and then by value; where values are too far apart, of their ranks."""
    if not len(group):
        return value
    low = int(value.min())
    width = int(value.max()) - low + 1
    if (int(group.max()) + 1) * width >= 1 << 62:
        distinct, value = np.unique(value, return_inverse=True)
        low, width = 0, len(distinct)
    return np.asarray(group * width + (value - low), np.int64)


def reach(group: Ints, value: Ints) -> Ints:
    """The largest value so far within the group, for rows sorted by group."""
    code = ascending(group, value)
    record = np.where(code == np.maximum.accumulate(code), np.arange(len(code)), 0)
    return value[np.maximum.accumulate(record)]
