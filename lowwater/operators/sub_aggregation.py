"""Sub-aggregation: the low level of two, a table of fixed size that holds partials while rows come (TH 8.3.3).

An entry of the table holds one partial, of one (group, slot). A row is added to the partial in the entry of its group;
if another one is there, that one is evicted. The high level merges whatever comes, so eviction changes what is sent,
and when, but never a result. Memory is `size` partials, whatever the number of groups.

A partial is old once a row of a later slot has come. When old partials leave is the policy:

    Eager   in window order (IOP, Fig. 8-6): with each row one entry has its turn, and nothing of the new window leaves
            before all that is old, so that a collision of two new partials forces all old ones out at once
    Slow    every i rows one old partial leaves, of the oldest slot first
    Lazy    by collision only

In all of them what is more than m slots older than the newest leaves when a new slot begins (Eager: m = 1). A slot is a
window where windows are tumbling, else a pane.

A step is a row: first leaves what a beginning slot drives out, then what has its turn, then what collides; of each the
older slot first. A batch is worked on as a whole, and gives what its rows would give one by one, however they are cut:
from one row of an entry to the next only the clock moves, so each such stay ends by itself, with the first of the
bound, its turn, a force (of partials that are not old, so no fate of an old one matters) and the next row.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from typing import ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lowwater.aggregates.base import Partial, concat, take
from lowwater.aggregates.grouped import Grouped, factorise, stack, without_columns
from lowwater.errors import LowwaterError
from lowwater.model.routing import route
from lowwater.operators.bucket import Bucket

Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
Values = list[pa.Array | None]
_BEFORE = np.iinfo(np.int64).min
"""The newest slot before the first row."""
_STRETCH = 1024
"""Partials among which a turn of Slow looks at once."""


@dataclass(frozen=True)
class Clock:
    """The rows of a batch as time. A position is a row of the batch; `rows` stands for never in this batch."""

    rows: int
    seen: int
    """Rows of earlier batches; then their newest slot, and the position, not above zero, at which it began."""
    newest: int
    began: int
    begins: Ints
    """Positions at which slots newer than all before begin, and these slots."""
    slots: Ints

    def passed(self, slot: Ints) -> Ints:
        """The first position at which a later slot has begun."""
        at = np.searchsorted(np.append(self.newest, self.slots), slot, side="right")
        return np.asarray(np.concatenate([[0], self.begins, [self.rows]])[at])

    def next_begin(self, position: Ints) -> Ints:
        """The first position from here on at which a slot begins."""
        return np.asarray(np.append(self.begins, self.rows)[np.searchsorted(self.begins, position)])

    def last_begin(self, position: Ints) -> Ints:
        """Where the slot that is the newest here began."""
        return np.asarray(np.append(self.began, self.begins)[np.searchsorted(self.begins, position, side="right")])


@dataclass(frozen=True)
class Lazy:
    """Old partials have no turn. `windows` is how many slots late they may leave; None leaves it open."""

    windows: int | None = 2
    in_order: ClassVar[bool] = False
    """Whether nothing of the newest slot may leave before all that is old."""

    def turns(self, entry: Ints, slot: Ints, old: Ints, until: Ints, clock: Clock) -> Ints:
        """The position at which each partial has its turn to leave; it is old, and there, from `old` to `until`."""
        return np.full(len(entry), clock.rows)


@dataclass(frozen=True)
class Eager(Lazy):
    """Turns begin anew with each slot, entry 0 first, one a row; after one round the table holds nothing old."""

    windows: int | None = field(default=1, init=False)
    in_order = True

    def turns(self, entry: Ints, slot: Ints, old: Ints, until: Ints, clock: Clock) -> Ints:
        turn = clock.last_begin(old) + entry
        return np.where(turn < old, clock.rows, turn)


@dataclass(frozen=True)
class Slow(Lazy):
    """A turn every `every` rows, for the partial of the oldest slot, then of the lowest entry.

    Whom a turn takes depends on whom all earlier ones took, so turns are taken one by one; rows are not.
    """

    every: int = 160

    def turns(self, entry: Ints, slot: Ints, old: Ints, until: Ints, clock: Clock) -> Ints:
        turn = np.full(len(entry), clock.rows)
        order = np.lexsort((entry, slot))
        since, until = old[order], until[order]
        times = np.arange(-(clock.seen + 1) % self.every, clock.rows, self.every)
        young_from = np.searchsorted(np.minimum.accumulate(since[::-1])[::-1], times, side="right")
        gone = 0
        for now, stop in zip(times.tolist(), young_from.tolist(), strict=True):
            for at in range(gone, stop, _STRETCH):
                there = (since[at : at + _STRETCH] <= now) & (now <= until[at : at + _STRETCH])
                first = int(there.argmax())
                if there[first]:
                    turn[order[at + first]], until[at + first] = now, -1
                    break
                if at == gone and until[at : at + _STRETCH].max() < now:
                    gone += _STRETCH
        return turn


Fate = IntEnum("Fate", ["BOUND", "TURN", "FORCED", "COLLISION", "MERGED", "HELD"], start=0)
"""How a stay in an entry ends: the first four are evictions, in the order of a step."""


@dataclass
class Evictions:
    """What the table has sent. `burst` is the most partials between two rows; draining it is no burst."""

    bound: int = 0
    turn: int = 0
    forced: int = 0
    collision: int = 0
    drained: int = 0
    burst: int = 0


@dataclass(frozen=True)
class Evicted:
    """Partials in the order in which they left, neither combined nor sorted, and the number of the row at which."""

    partials: Grouped
    row: Ints


@dataclass(frozen=True)
class Stays:
    """What lies in an entry from one of its rows to the next, sorted by entry and arrival.

    `at` counts what was held and then the rows, `row` is the position or -1, `until` that of the entry's next row."""

    entry: Ints
    group: Ints
    slot: Ints
    at: Ints
    row: Ints
    until: Ints
    same: Mask
    """Whether the next row is of the same (group, slot)."""

    @staticmethod
    def of(entry: Ints, group: Ints, slot: Ints, held: int) -> Stays:
        bits = len(entry).bit_length()
        line = np.sort(entry << bits | np.arange(len(entry)))  # a stable sort by entry, and the fastest
        entry, at = line >> bits, line & ((1 << bits) - 1)
        row, group, slot = np.maximum(at - held, -1), group[at], slot[at]
        until, same = np.full(len(at), len(at) - held), np.zeros(len(at), bool)
        next_row = entry[1:] == entry[:-1]
        until[:-1][next_row] = row[1:][next_row]
        same[:-1] = next_row & (group[1:] == group[:-1]) & (slot[1:] == slot[:-1])
        return Stays(entry, group, slot, at, row, until, same)


class SubAggregation:
    """The table. With `by_slot` the slots of a group have neighbouring entries, so that disordered rows, which go back
    and forth between slots, do not drive out their own group; nor do new rows of a group then drive out its old ones.
    """

    def __init__(self, bucket: Bucket, size: int, policy: Lazy, by_slot: bool = False) -> None:
        if size < 1:
            raise LowwaterError(f"The table of a sub-aggregation needs at least 1 entry, not {size}.")
        self.policy = policy
        self.evictions = Evictions()
        self._bucket = bucket
        self._size = size
        self._by_slot = by_slot
        self._none = bucket.reduce(bucket.what.schema.empty_table())
        self._held = self._none
        self._entry: Ints = np.empty(0, np.int64)
        self._seen, self._began, self._newest = 0, 0, _BEFORE

    def __len__(self) -> int:
        return len(self._held)

    def take(self, rows: pa.Table, time: Ints | None = None) -> Evicted:
        """Adds rows in order of arrival, and gives what they drive out."""
        keys, slot, values, time = _tagged(self._bucket, rows, time)
        if not len(slot):
            return Evicted(self._none, np.empty(0, np.int64))
        held = self._held
        group, distinct = factorise(keys)
        code, known = factorise(stack([held.keys, distinct]))
        entry = (route(distinct, self._size)[group] + (slot if self._by_slot else 0)) % self._size
        stays = Stays.of(
            np.concatenate([self._entry, entry]),
            np.concatenate([code[held.group], code[held.keys.num_rows :][group]]),
            np.concatenate([held.slot, slot]),
            len(held),
        )
        clock = self._clock(slot)
        when, fate = self._fates(stays, clock)
        last = np.flatnonzero(fate != Fate.MERGED)
        partials, place = self._partials(stays, last, values, time, known)
        return self._leave(partials, place, stays.entry[last], when[last], fate[last], clock)

    def flush(self) -> Grouped:
        """Empties the table; the partials are distinct, but not sorted."""
        drained, self._held, self._entry = self._held, self._none, self._entry[:0]
        self.evictions.drained += len(drained)
        return drained

    def _clock(self, slot: Ints) -> Clock:
        """The clock of a batch of rows; it goes on with the next batch."""
        before = np.maximum(np.concatenate([[_BEFORE], np.maximum.accumulate(slot)[:-1]]), self._newest)
        begins = np.flatnonzero(slot > before)
        clock = Clock(len(slot), self._seen, self._newest, self._began - self._seen, begins, slot[begins])
        if len(begins):
            self._newest, self._began = int(slot[begins[-1]]), self._seen + int(begins[-1])
        self._seen += len(slot)
        return clock

    def _fates(self, stays: Stays, clock: Clock) -> tuple[Ints, Ints]:
        """When each stay ends, and how."""
        old = np.maximum(stays.row + 1, clock.passed(stays.slot))
        when, never = stays.until.copy(), clock.rows
        fate = np.where(stays.same, Fate.MERGED, np.where(when < never, Fate.COLLISION, Fate.HELD))
        aged = np.flatnonzero((old <= when) & (old < never))
        row, slot, entry, old_at = stays.row[aged], stays.slot[aged], stays.entry[aged], old[aged]
        ends = np.full((3, len(aged)), never)
        if self.policy.windows is not None:
            ends[Fate.BOUND] = clock.next_begin(np.maximum(row + 1, clock.passed(slot + self.policy.windows)))
        there = np.minimum(when[aged], ends[Fate.BOUND] - 1)
        ends[Fate.TURN] = self.policy.turns(entry, slot, old_at, there, clock)
        if self.policy.in_order:
            forces = np.append(np.sort(when[(fate == Fate.COLLISION) & (old > when)]), never)
            ends[Fate.FORCED] = forces[np.searchsorted(forces, old_at)]
        first = ends.min(axis=0)
        goes = (first <= when[aged]) & (first < never)
        when[aged[goes]] = first[goes]
        fate[aged[goes]] = ends.argmin(axis=0)[goes]
        return when, fate

    def _partials(self, stays: Stays, last: Ints, values: Values, time: Ints, keys: pa.Table) -> tuple[Grouped, Ints]:
        """A partial for each chain of stays that merge, told by its last stay: a table, and the chains' places in it.

        The table is what was held, then the chains of rows, then both together for chains that continue what was held.
        """
        held, first = len(self._held), np.concatenate([[0], last[:-1] + 1])
        from_held = stays.row[first] < 0
        has_rows = ~from_held | (last > first)
        both, number, chains = from_held & has_rows, np.cumsum(has_rows) - 1, int(has_rows.sum())
        place = np.where(has_rows, held + number, stays.at[first])
        place[both] = held + chains + np.arange(both.sum())
        is_row = stays.row >= 0
        of_row = np.empty(len(stays.at) - held, np.intp)
        of_row[stays.row[is_row]] = np.repeat(number, last - first + 1)[is_row]
        columns: list[Partial] = []
        for algebra, value, before in zip(self._bucket.algebras, values, self._held.partials, strict=True):
            here = algebra.lift(value, time, of_row, chains)
            parts = [before, here] if held else [here]
            if both.any():
                earlier = tuple(take(column, stays.at[first[both]]) for column in before)
                parts.append(algebra.merge(earlier, tuple(take(column, number[both]) for column in here)))
            columns.append(tuple(concat(column) for column in zip(*parts, strict=True)))
        group, slot = np.zeros((2, held + chains + int(both.sum())), np.int64)
        group[place], slot[place] = stays.group[last], stays.slot[last]
        return Grouped(keys, group, slot, tuple(columns)), place

    def _leave(self, partials: Grouped, place: Ints, entry: Ints, when: Ints, fate: Ints, clock: Clock) -> Evicted:
        """Keeps what is held, counts and gives what is not."""
        stay = fate == Fate.HELD
        self._held, self._entry = partials.take(place[stay]), entry[stay]
        gone = np.flatnonzero(~stay)  # by entry, which a stable sort keeps
        gone = gone[np.lexsort((partials.slot[place[gone]], when[gone] * len(Fate) + fate[gone]))]
        done, count = self.evictions, np.bincount(fate[gone], minlength=len(Fate)).tolist()
        done.bound += count[Fate.BOUND]
        done.turn += count[Fate.TURN]
        done.forced += count[Fate.FORCED]
        done.collision += count[Fate.COLLISION]
        done.burst = max(done.burst, int(np.bincount(when[gone]).max(initial=0)))
        return Evicted(partials.take(place[gone]), clock.seen + when[gone])


def _tagged(bucket: Bucket, rows: pa.Table, time: Ints | None) -> tuple[pa.Table, Ints, Values, Ints]:
    """Groups, slots, values and times of rows, one each: what Bucket reduces at once."""
    what, window = bucket.what, bucket.what.grid
    time = bucket.ticks(rows) if time is None else time
    slot = window.pane_of(bucket.places(rows, time))
    first, last = window.pane_wids(slot)
    inside = first <= last
    if not inside.all():
        rows, slot, time = rows.filter(pa.array(inside)), slot[inside], time[inside]
    keys = rows.select(list(what.group_by)) if what.group_by else without_columns(rows.num_rows)
    return keys, slot, [aggregate.argument(rows) for aggregate in what.distinct], time
