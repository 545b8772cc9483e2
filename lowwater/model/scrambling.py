"""The scrambling factor of a stream (WO 2.2) as a summary that can be merged, and its monitor with a horizon.

PI(s) is the position at which a tuple s arrives. Definition 2.2, in the form of its erratum:

    k = max(PI(s) - PI(s')) over all pairs of tuples with s.A <= s'.A, and 0 if no such s comes after its s'

Equal values count. Two staircases of a run of tuples decide which k a merge with other runs has:

    rises   the records of the running maximum: where the stream first reached a value
    falls   the records of the minimum from the end: where the stream last had a value as small

A tuple of a later run is compared with the first position at which the earlier run reached its value. So k of two runs
is the largest of both and of the distances from a rise of the first to a fall of the second. The summary is a monoid:
ingest makes one per run, and every shard merges all of them to the same k.

In a stream that is nearly sorted each tuple is a record. Steps of a staircase are therefore grouped. A group spans at
most a `GRAIN`th of its distance from the border where the next run begins, so that there are a few hundred groups,
however long the run is. Groups are rounded so that k can only come out larger, by a few percent.

>>> run = Scrambling.of(np.array([1, 4, 2, 3, 5]))
>>> run.factor, run.rows, run.late_by
(2, 5, 2)
>>> run.then(Scrambling.of(np.array([4, 6]))).factor
4
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Ints = npt.NDArray[np.int64]
GRAIN = 64
"""Steps nearer than this to the border stay as they are; others are grouped by a `GRAIN`th of their distance."""
NONE: Ints = np.empty(0, np.int64)


@dataclass(frozen=True, eq=False)
class Rises:
    """The running maximum as groups of steps. `least` is reached at position `since`, `top` in the group."""

    since: Ints
    least: Ints
    top: Ints

    @staticmethod
    def of(running: Ints) -> Rises:
        """The steps of a running maximum."""
        if not len(running):
            return Rises(NONE, NONE, NONE)
        at = np.flatnonzero(np.append(True, running[1:] > running[:-1]))
        return Rises(at, running[at], running[at])

    def first_at_least(self, values: Ints) -> tuple[Ints, npt.NDArray[np.bool_]]:
        """The first position at which each value was reached, rounded down; and whether it was reached."""
        group = np.searchsorted(self.top, values)
        reached = group < len(self.top)
        return self.since[group[reached]], reached

    def first_above(self, value: int) -> int | None:
        """The first position with a value above this one, rounded down; None if there is none."""
        group = int(np.searchsorted(self.top, value, "right"))
        return None if group == len(self.top) else int(self.since[group])

    def reached(self, position: int) -> int | None:
        """The maximum up to and including a position, rounded down; None if nothing is known of it."""
        group = int(np.searchsorted(self.since, position, "right")) - 1
        return None if group < 0 else int(self.least[group])

    def then(self, later: Rises, rows: int) -> Rises:
        """This staircase, continued `rows` positions later."""
        if not len(self.top):
            return Rises(later.since + rows, later.least, later.top)
        above = later.top > self.top[-1]
        since, least, top = later.since[above] + rows, later.least[above], later.top[above]
        least = np.maximum(least, self.top[-1])  # a group may begin below the earlier maximum
        return Rises(
            np.concatenate([self.since, since]),
            np.concatenate([self.least, least]),
            np.concatenate([self.top, top]),
        )

    def thinned(self, rows: int) -> Rises:
        """The steps in groups by their distance from position `rows`."""
        first, last = _groups(rows - self.since)
        return Rises(self.since[first], self.least[first], self.top[last])


@dataclass(frozen=True, eq=False)
class Scrambling:
    """The summary of a run of tuples. See the module text; positions count from 0."""

    rows: int
    factor: int
    late_by: int
    """The largest lateness in the run, in ticks."""
    rises: Rises
    fall_at: Ints
    fall_to: Ints
    """Positions and values of the falls, both ascending."""

    @staticmethod
    def of(values: Ints) -> Scrambling:
        """The exact summary of tuples in order of arrival."""
        n = len(values)
        if not n:
            return EMPTY
        running = np.maximum.accumulate(values)
        rises = Rises.of(running)
        lowest = np.minimum.accumulate(values[::-1])[::-1]
        at = np.flatnonzero(np.append(lowest[:-1] < lowest[1:], True))
        run = Scrambling(n, 0, int((running - values).max()), rises, at, lowest[at])
        return replace(run, factor=run._reaching(rises, 0))

    @staticmethod
    def coarse(values: Ints, step: int) -> Scrambling:
        """A summary from the extremes of every `step` tuples: much cheaper, and k is at most 2 * step too large."""
        n = len(values)
        if step <= 1 or not n:
            return Scrambling.of(values)
        start = np.arange(0, n, step)
        high, low = np.maximum.reduceat(values, start), np.minimum.reduceat(values, start)
        running = np.maximum.accumulate(high)
        before = np.append(values[0], running[:-1])
        up = np.flatnonzero(np.append(True, running[1:] > running[:-1]))
        rises = Rises(start[up], np.maximum(before, values[start])[up], running[up])
        lowest = np.minimum.accumulate(low[::-1])[::-1]
        down = np.flatnonzero(np.append(lowest[:-1] < lowest[1:], True))
        late = int(np.maximum(running - low, 0).max())
        run = Scrambling(n, 0, late, rises, np.minimum(start[down] + step, n) - 1, lowest[down])
        return replace(run, factor=run._reaching(rises, 0))

    def _reaching(self, rises: Rises, rows: int) -> int:
        """The largest distance from a rise to a fall of this run, which begins `rows` positions behind the rises."""
        since, reached = rises.first_at_least(self.fall_to)
        return max(0, int((self.fall_at[reached] + rows - since).max())) if len(since) else 0

    @property
    def most(self) -> int | None:
        return int(self.rises.top[-1]) if self.rows else None

    def then(self, later: Scrambling) -> Scrambling:
        """The summary of this run and of the one that follows it."""
        if not self.rows or not later.rows:
            return later if not self.rows else self
        most, least = int(self.rises.top[-1]), int(later.fall_to[0])
        stays = self.fall_to < least
        return Scrambling(
            self.rows + later.rows,
            max(self.factor, later.factor, later._reaching(self.rises, self.rows)),
            max(self.late_by, later.late_by, most - least),
            self.rises.then(later.rises, self.rows),
            np.concatenate([self.fall_at[stays], later.fall_at + self.rows]),
            np.concatenate([self.fall_to[stays], later.fall_to]),
        )

    def thinned(self) -> Scrambling:
        """The summary with its steps in groups. Merges with it give at least the exact k."""
        first, last = _groups(self.fall_at + 1)
        return replace(
            self, rises=self.rises.thinned(self.rows), fall_at=self.fall_at[last], fall_to=self.fall_to[first]
        )

    def tables(self) -> dict[str, pa.Table]:
        """The summary as tables, to travel with a run."""
        rises = pa.table({"since": self.rises.since, "least": self.rises.least, "top": self.rises.top})
        falls = pa.table({"at": self.fall_at, "to": self.fall_to})
        about = pa.table({"rows": [self.rows], "factor": [self.factor], "late_by": [self.late_by]})
        return {"rises": rises, "falls": falls, "scrambling": about}

    @staticmethod
    def of_tables(tables: dict[str, pa.Table]) -> Scrambling:
        (about,) = tables["scrambling"].to_pylist()
        rises, falls = (
            [_ints(tables[name].column(c)) for c in columns]
            for name, columns in (("rises", ("since", "least", "top")), ("falls", ("at", "to")))
        )
        return Scrambling(about["rows"], about["factor"], about["late_by"], Rises(*rises), falls[0], falls[1])


EMPTY = Scrambling(0, 0, 0, Rises(NONE, NONE, NONE), NONE, NONE)


def _groups(distance: Ints) -> tuple[Ints, Ints]:
    """(first, last): the indices of the first and the last step of each group of steps at similar distances."""
    far = np.maximum(distance, GRAIN) / GRAIN
    grade = np.where(distance < GRAIN, distance, GRAIN + np.floor(np.log(far) / np.log1p(1 / GRAIN)).astype(np.int64))
    first = np.flatnonzero(np.append(True, grade[1:] != grade[:-1])) if len(distance) else NONE
    return first, np.append(first[1:], len(distance)) - 1 if len(distance) else NONE


def _ints(column: pa.ChunkedArray) -> Ints:
    return np.asarray(column.to_numpy(), np.int64)


def multiplicity(values: Ints) -> int:
    """The largest number of tuples with one value (WO 3.2); 0 of an empty stream.

    >>> multiplicity(np.array([3, 1, 3, 2]))
    2
    """
    return int(np.unique(values, return_counts=True)[1].max(initial=0))
