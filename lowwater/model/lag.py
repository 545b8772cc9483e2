"""The lag between two streams (WO 2.3) as ranks.

VI(s), the virtual index of a tuple, is its position if the stream were sorted. With

    N_i      the tuples of stream i that have arrived
    F_i(a)   the tuples of the whole stream i with a value of at most a, so that VI_max(s) = F_i(s.A)
    Q_j(n)   the n-th smallest value of the whole stream j: the tuple s'_j with n in VI(s'_j)

Definition 2.6 (Equation 5) reads

    L(i, j) = N_i - F_i(Q_j(N_j))

and so does Definition 2.4 (Equation 2), because of a totally ordered stream Q_j(N_j) is the latest tuple. A positive
lag counts the tuples of i that wait for j. `Ranks` is F and Q of one stream. While the stream runs, F and Q are taken
over the tuples that have arrived. F is then too small where tuples are missing, and Q too large. The estimate N_i - F_i
is from above; where Q_j lies beyond everything that i has shown, F_i = N_i and the estimate is 0, although the lag is
negative. Both streams must be scrambled for the estimate to differ.

>>> s1, s2 = Ranks.of(np.array([63, 63, 66, 62, 64, 68, 67])), Ranks.of(np.array([63, 65, 68, 62]))
>>> lag(3, s1, 2, s2), lag(7, s1, 3, s2)       # Figure 1: at t5 and at t10
(0, 3)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lowwater.model.scrambling import NONE, Ints

POINTS = 1024
"""The largest number of values in a rank function that travels or is kept."""


@dataclass(frozen=True, eq=False)
class Ranks:
    """A rank function: upto[i] tuples have a value of at most values[i]. Both ascend."""

    values: Ints
    upto: Ints
    most: Ints
    """For each step, the largest number of tuples with one value; of values in several thinned runs, rounded down."""

    @staticmethod
    def of(values: Ints) -> Ranks:
        ordered = np.sort(values)
        last = np.flatnonzero(np.append(ordered[1:] != ordered[:-1], True)) if len(ordered) else NONE
        return Ranks(ordered[last], last + 1, np.diff(last, prepend=-1))

    @staticmethod
    def sampled(values: Ints, step: int) -> Ranks:
        """The ranks of every `step`-th tuple, each for `step` tuples; multiplicity is that of neighbours. Cheaper."""
        if step <= 1:
            return Ranks.of(values)
        some, n = Ranks.of(values[::step]), len(values)
        most = np.ones(len(some.values), np.int64)
        most[0] = Ranks.of(values[:POINTS]).multiplicity
        return Ranks(some.values, np.minimum(some.upto * step, n), most)

    @staticmethod
    def thinned_of(values: Ints) -> Ranks:
        """`of(values).thinned()`, without the steps between."""
        if len(values) <= POINTS:
            return Ranks.of(values)
        ordered = np.sort(values)
        last = np.flatnonzero(np.append(ordered[1:] != ordered[:-1], True))
        at = np.searchsorted(last, last[0] + np.arange(1, POINTS + 1) * (len(ordered) - 1 - last[0]) // POINTS)
        at = at[np.append(True, at[1:] != at[:-1])] if len(last) > POINTS else np.arange(len(last))
        counts = np.append(last[0] + 1, last[1:] - last[:-1])
        most = np.maximum.reduceat(counts, np.append(0, at[:-1] + 1))
        return Ranks(ordered[last[at]], last[at] + 1, most)

    @property
    def rows(self) -> int:
        return int(self.upto[-1]) if len(self.upto) else 0

    @property
    def multiplicity(self) -> int:
        """The largest number of tuples with one value (WO 3.2)."""
        return int(self.most.max(initial=0))

    def rank(self, value: int) -> int:
        """F(value): the number of tuples with at most this value; of thinned ranks, rounded down."""
        at = int(np.searchsorted(self.values, value, "right"))
        return int(self.upto[at - 1]) if at else 0

    def value(self, n: int) -> int | None:
        """Q(n): the n-th smallest value, counted from 1; of thinned ranks, rounded up. None if there is none."""
        at = int(np.searchsorted(self.upto, n))
        return int(self.values[at]) if 0 < n <= self.rows else None

    def within(self, n: int) -> int | None:
        """The largest known value with at most n tuples up to it; None if there is none."""
        at = int(np.searchsorted(self.upto, n, "right"))
        return int(self.values[at - 1]) if at else None

    @staticmethod
    def merged(parts: Sequence[Ranks]) -> Ranks:
        """The ranks of several runs together."""
        values = np.concatenate([part.values for part in parts])
        counts = np.concatenate([np.diff(part.upto, prepend=0) for part in parts])
        order = np.argsort(values, kind="stable")
        values, counts = values[order], counts[order]
        most = np.concatenate([part.most for part in parts])[order]
        first = np.flatnonzero(np.append(True, values[1:] != values[:-1])) if len(values) else NONE
        if not len(first):
            return Ranks(NONE, NONE, NONE)
        return Ranks(values[first], np.cumsum(np.add.reduceat(counts, first)), np.add.reduceat(most, first))

    def thinned(self, points: int = POINTS) -> Ranks:
        """At most so many values, about equally many tuples apart: thinning again and again keeps that."""
        n = len(self.values)
        if n <= points:
            return self
        first, tuples = int(self.upto[0]), self.rows - int(self.upto[0])
        at = np.searchsorted(self.upto, first + np.arange(1, points + 1) * tuples // points)  # ascends
        at = at[np.append(True, at[1:] != at[:-1])]
        most = np.maximum.reduceat(self.most, np.append(0, at[:-1] + 1))
        return Ranks(self.values[at], self.upto[at], most)

    def since(self, value: int) -> Ranks:
        """The ranks of larger values. Those of smaller values are one step."""
        first = int(np.searchsorted(self.values, value, "right")) - 1
        return self if first <= 0 else Ranks(self.values[first:], self.upto[first:], self.most[first:])

    def table(self) -> pa.Table:
        return pa.table({"value": self.values, "upto": self.upto, "most": self.most})

    @staticmethod
    def of_table(table: pa.Table) -> Ranks:
        return Ranks(*(np.asarray(table.column(name).to_numpy(), np.int64) for name in ("value", "upto", "most")))


def lag(rows_i: int, ranks_i: Ranks, rows_j: int, ranks_j: Ranks) -> int:
    """L(i, j) of Definition 2.6, if so many rows of each have arrived; 0 while the second has shown nothing."""
    value = ranks_j.value(rows_j)
    return 0 if value is None else rows_i - ranks_i.rank(value)


def synchronized(lag: float) -> bool:
    """Whether a stream with this lag to another is in step with it (Equation 3). With a larger lag it leads.

    >>> [synchronized(lag) for lag in (-1, 0, 1, 2)]
    [False, True, True, False]
    """
    return 0 <= lag <= 1


def displaced(values: Ints) -> tuple[int, int]:
    """The most places that a tuple arrives behind its first virtual index, and ahead of its last one.

    Both are at most the scrambling factor (Theorem 2.1, Equation 4).

    >>> displaced(np.array([63, 63, 66, 62, 64, 68, 67]))     # S1 of Figure 1, with a factor of 3
    (3, 2)
    """
    ordered, place = np.sort(values), np.arange(1, len(values) + 1)
    behind = place - np.searchsorted(ordered, values) - 1
    ahead = np.searchsorted(ordered, values, "right") - place
    return int(behind.max(initial=0)), int(ahead.max(initial=0))
