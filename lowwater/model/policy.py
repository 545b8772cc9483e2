"""Progress policies: compute the low-watermark of a source from the rows that have arrived (TH 8.1).

    punctuated       low-watermark = the promises of punctuations in the data
    ordered          = largest value seen
    delay d          = largest value seen - d
    delay of k rows  = largest value seen before the last k rows
    learned          = largest value seen - the q-quantile of the lateness seen so far

A policy keeps a few numbers per source, its memory. `observe` computes the memory of a run of rows where they are read,
`extend` continues a run, and `fold` adds a finished run to the memory of the source.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lowwater.model.ticks import NEVER

Int = npt.NDArray[np.int64]

_BINS_PER_OCTAVE = 8
_BINS = 63 * _BINS_PER_OCTAVE + 1
_HEAD = 64
"""The number of first values of a run that a learned policy carries unchanged."""


@dataclass(frozen=True)
class Policy:
    """The base of all policies. By itself it relies only on punctuation in the data."""

    def observe(self, time: Int, source: Int, before: Int) -> Int:
        """The memory of a run of rows in arrival order.

        `source` is the index of the source of each row, `before` the largest value of each source before the run.
        """
        sources = len(before)
        return np.empty((sources, 0), np.int64)

    def empty(self, sources: int) -> Int:
        """The memory of sources that have sent no rows."""
        return np.empty((sources, 0), np.int64)

    def extend(self, old: Int, new: Int, rows: Int) -> Int:
        """The memory of a run that continues with `rows` more rows per source."""
        return self.fold(old, new, rows, np.full(len(rows), NEVER))

    def fold(self, old: Int, new: Int, rows: Int, reached: Int) -> Int:
        """The memory after a further run of `rows` rows per source. `reached` is the largest earlier value of each."""
        return old

    def bound(self, most: Int, memory: Int) -> Int:
        """The low-watermark of each source."""
        return np.full(len(most), NEVER)

    @property
    def kind(self) -> str:
        """What its memory means: a policy can go on from the memory of another one of the same kind."""
        return str(self)

    def __str__(self) -> str:
        return "punctuation in the data"


@dataclass(frozen=True)
class Measured(Policy):
    """Nothing is promised: the attribute grows in the long run, and operators measure by how much it is scrambled."""

    def __str__(self) -> str:
        return "measured, nothing is promised"


@dataclass(frozen=True)
class Delay(Policy):
    """No row comes more than `ticks` behind the largest value of its source; zero means ordered."""

    ticks: int = 0

    def bound(self, most: Int, memory: Int) -> Int:
        return np.where(most == NEVER, NEVER, most - self.ticks)

    @property
    def kind(self) -> str:
        return "a delay in time"

    def __str__(self) -> str:
        return f"delay of at most {self.ticks} ticks" if self.ticks else "ordered"


@dataclass(frozen=True)
class DelayRows(Policy):
    """No row comes more than `rows` rows after a row with a larger value (k-slack).

    Memory of a source: the largest value before the last k rows, then the last k values, the newest at the end.
    """

    rows: int

    def empty(self, sources: int) -> Int:
        return np.full((sources, self.rows + 1), NEVER)

    def observe(self, time: Int, source: Int, before: Int) -> Int:
        sources = len(before)
        memory = self.empty(sources)
        order = np.argsort(source, kind="stable")
        by_source, values = source[order], time[order]
        stop = np.searchsorted(by_source, np.arange(sources), side="right")
        from_end = stop[by_source] - 1 - np.arange(len(values))
        last = from_end < self.rows
        memory[by_source[last], self.rows - from_end[last]] = values[last]
        np.maximum.at(memory[:, 0], by_source[~last], values[~last])
        return memory

    def fold(self, old: Int, new: Int, rows: Int, reached: Int) -> Int:
        k = self.rows
        shift = np.minimum(rows, k)[:, None]
        at = np.arange(k)[None, :]
        tail = old[:, 1:]
        kept = np.take_along_axis(tail, np.minimum(at + shift, k - 1), axis=1)
        left = np.where(at < shift, tail, NEVER).max(axis=1)
        before = np.maximum(np.maximum(old[:, 0], new[:, 0]), left)
        return np.column_stack([before, np.where(at < k - shift, kept, new[:, 1:])])

    def bound(self, most: Int, memory: Int) -> Int:
        return memory[:, 0].copy()

    def __str__(self) -> str:
        return f"delay of at most {self.rows} rows"


@dataclass(frozen=True)
class Learned(Policy):
    """The delay is the `quantile` of the lateness seen so far, times `margin`. Rows with a larger delay are late.

    The lateness of a row is the largest earlier value of its source minus its own value, and at least zero. The memory
    is a histogram of lateness with eight bins per octave, so the delay is at most an eighth of an octave too long and
    never too short. The histogram is fixed and not a random sketch, because a repeated batch must give the same
    low-watermark. Where rows are read, earlier runs are not known. So the first values of a run travel unchanged, after
    the histogram, and their lateness is computed when the run is folded in. A source has no low-watermark before it has
    sent `warmup` rows.
    """

    quantile: float
    margin: float = 1.0
    warmup: int = 1000

    def empty(self, sources: int) -> Int:
        return np.hstack([np.zeros((sources, _BINS), np.int64), np.full((sources, _HEAD), NEVER)])

    def observe(self, time: Int, source: Int, before: Int) -> Int:
        memory = self.empty(len(before))
        order = np.argsort(source, kind="stable")
        by_source, values = source[order], time[order]
        place = np.arange(len(values)) - np.searchsorted(by_source, by_source)
        head = (place < _HEAD) & (before[by_source] == NEVER)
        memory[by_source[head], _BINS + place[head]] = values[head]
        reached = np.maximum(running_max(values, by_source), before[by_source])
        np.add.at(memory, (by_source[~head], _bin(reached - values)[~head]), 1)
        return memory

    def extend(self, old: Int, new: Int, rows: Int) -> Int:
        fresh = old[:, _BINS : _BINS + 1] == NEVER
        return np.hstack([old[:, :_BINS] + new[:, :_BINS], np.where(fresh, new[:, _BINS:], old[:, _BINS:])])

    def fold(self, old: Int, new: Int, rows: Int, reached: Int) -> Int:
        head = new[:, _BINS:]
        lateness = np.maximum(np.maximum.accumulate(head, axis=1), reached[:, None]) - head
        at, place = np.nonzero(head != NEVER)
        folded = self.empty(len(rows))
        folded[:, :_BINS] = old[:, :_BINS] + new[:, :_BINS]
        np.add.at(folded, (at, _bin(lateness[at, place])), 1)
        return folded

    def bound(self, most: Int, memory: Int) -> Int:
        upto = np.cumsum(memory[:, :_BINS], axis=1)
        total = upto[:, -1]
        reached = upto >= np.ceil(self.quantile * total)[:, None]
        delay = (_bin_top(np.argmax(reached, axis=1)) * self.margin).astype(np.int64)
        return np.where((total < self.warmup) | (most == NEVER), NEVER, most - delay)

    @property
    def kind(self) -> str:
        return "a learned delay"

    def __str__(self) -> str:
        return f"learned: the {self.quantile:g} quantile of lateness seen"


def _bin(lateness: Int) -> Int:
    late = np.maximum(lateness, 1).astype(np.float64)
    return np.where(lateness <= 0, 0, 1 + np.floor(np.log2(late) * _BINS_PER_OCTAVE).astype(np.int64))


def _bin_top(bin: Int) -> npt.NDArray[np.float64]:
    return np.where(bin == 0, 0.0, np.ceil(np.exp2(bin / _BINS_PER_OCTAVE)))


def running_max(values: Int, group: Int) -> Int:
    """The running maximum within each group. Rows are sorted by group; ranks keep groups apart in one accumulation."""
    if not len(values):
        return values
    distinct, rank = np.unique(values, return_inverse=True)
    running = np.maximum.accumulate(group * len(distinct) + rank)
    return distinct[running - group * len(distinct)]
