"""Progress: from what arrives to the low-watermark, per source (TH 4, 8.1).

A *policy* says what arrival tells about the future of a source. It works in two places. Where rows are read, `observe`
condenses a run of rows into one fact per source. Where state is kept, `Progress` folds the facts of all runs and gives
the low-watermark of every source; the input as a whole progresses at the minimum, and the source at the minimum is the
one that holds it back.

    ordered          low-watermark = largest value seen
    delay d          = largest value seen - d
    delay of k rows  = largest value seen before the last k rows
    learned          = largest value seen - the q-quantile of the lateness seen so far
    punctuated       = what punctuations in the data promise

No policy reads a clock. Time that passes without data comes in as a `tick`: where a source has been silent for
`idle.after`, its low-watermark moves to the tick less `idle.lag`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lowwater.model.columns import whole
from lowwater.model.ticks import END, NEVER

Int = npt.NDArray[np.int64]

_BINS_PER_OCTAVE = 8
_BINS = 63 * _BINS_PER_OCTAVE + 1
_HEAD = 64
"""How many first values of a run a learned policy carries as they are."""


@dataclass(frozen=True)
class Facts:
    """What one run of rows in arrival order says of each source in it. `memory` is the policy's own, a row a source."""

    source: list[str]
    rows: Int
    least: Int
    most: Int
    promised: Int
    memory: Int

    @staticmethod
    def none() -> Facts:
        empty = np.empty(0, np.int64)
        return Facts([], empty, empty, empty, empty, np.empty((0, 0), np.int64))


@dataclass(frozen=True)
class Policy:
    """How arrival bounds the future. The plain policy trusts punctuation in the data and nothing else."""

    def observe(self, time: Int, source: Int, before: Int) -> Int:
        """The memory of a run: rows in arrival order, the index of each row's source, what each source had reached."""
        sources = len(before)
        return np.empty((sources, 0), np.int64)

    def empty(self, sources: int) -> Int:
        """The memory of sources that have not been seen."""
        return np.empty((sources, 0), np.int64)

    def extend(self, old: Int, new: Int, rows: Int) -> Int:
        """The memory of a run that goes on with `rows` more rows a source."""
        return self.fold(old, new, rows, np.full(len(rows), NEVER))

    def fold(self, old: Int, new: Int, rows: Int, reached: Int) -> Int:
        """The memory after a further run, of `rows` rows a source, when each source had `reached` so far."""
        return old

    def bound(self, most: Int, memory: Int) -> Int:
        """The low-watermark of each source."""
        return np.full(len(most), NEVER)

    def __str__(self) -> str:
        return "punctuation in the data"


@dataclass(frozen=True)
class Delay(Policy):
    """No row comes more than `ticks` behind the largest value of its source; zero means ordered."""

    ticks: int = 0

    def bound(self, most: Int, memory: Int) -> Int:
        return np.where(most == NEVER, NEVER, most - self.ticks)

    def __str__(self) -> str:
        return f"delay of at most {self.ticks} ticks" if self.ticks else "ordered"


@dataclass(frozen=True)
class DelayRows(Policy):
    """No row comes more than `rows` rows after one of a larger value (k-slack).

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
    """The delay is the `quantile` of the lateness seen so far, times `margin`; rows beyond it are late.

    Lateness of a row = largest value of its source before it, less its own, not below zero. Memory: a histogram of
    lateness with eight bins an octave, so the delay is at most an eighth of an octave too long, and never too short. A
    fixed histogram and not a random sketch: the same rows must give the same low-watermark when a batch is run again.
    Where rows are read, what came in earlier runs is not known: the first values of a run travel as they are, behind
    the histogram, and their lateness is told when the run is folded in. Until `warmup` rows have been seen of a source
    it holds its low-watermark back.
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
        reached = np.maximum(_running_max(values, by_source), before[by_source])
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

    def __str__(self) -> str:
        return f"learned: the {self.quantile:g} quantile of lateness seen"


def _bin(lateness: Int) -> Int:
    late = np.maximum(lateness, 1).astype(np.float64)
    return np.where(lateness <= 0, 0, 1 + np.floor(np.log2(late) * _BINS_PER_OCTAVE).astype(np.int64))


def _bin_top(bin: Int) -> npt.NDArray[np.float64]:
    return np.where(bin == 0, 0.0, np.ceil(np.exp2(bin / _BINS_PER_OCTAVE)))


def _running_max(values: Int, group: Int) -> Int:
    """Largest value so far within each group; rows are sorted by group. Ranks keep groups apart in one maximum."""
    if not len(values):
        return values
    distinct, rank = np.unique(values, return_inverse=True)
    running = np.maximum.accumulate(group * len(distinct) + rank)
    return distinct[running - group * len(distinct)]


@dataclass(frozen=True)
class Idle:
    """A source silent for `after` microseconds of system time is advanced to the clock less `lag` microseconds."""

    after: int
    lag: int


def observe(
    policy: Policy, time: Int, source: Int, names: Sequence[str], promised: Int | None = None, before: Int | None = None
) -> Facts:
    """The facts of a run of rows in arrival order. Per source: the low-watermark promised in the data, and the largest
    value of the rows `before` these in the same run, where there are any."""
    n = len(names)
    if before is None:
        before = np.full(n, NEVER)
    least, most = np.full(n, -NEVER), np.full(n, NEVER)
    np.minimum.at(least, source, time)
    np.maximum.at(most, source, time)
    return Facts(
        list(names),
        np.bincount(source, minlength=n).astype(np.int64),
        least,
        most,
        np.full(n, NEVER) if promised is None else promised,
        policy.observe(time, source, before),
    )


@dataclass
class Progress:
    """What is known of the progress of one input. State: a few numbers a source, and the policy's memory."""

    policy: Policy
    declared: tuple[str, ...] = ()
    idle: Idle | None = None
    run: bool = False
    """Whether this is the progress of a single run, whose facts are still to be folded into a longer progress."""
    source: list[str] = field(default_factory=list)
    most: Int = field(default_factory=lambda: np.empty(0, np.int64))
    least: Int = field(default_factory=lambda: np.empty(0, np.int64))
    bound: Int = field(default_factory=lambda: np.empty(0, np.int64))
    active: Int = field(default_factory=lambda: np.empty(0, np.int64))
    memory: Int = field(default_factory=lambda: np.empty((0, 0), np.int64))
    clock: int = NEVER
    rows: Int = field(default_factory=lambda: np.empty(0, np.int64))
    promised: Int = field(default_factory=lambda: np.empty(0, np.int64))
    ended: bool = False

    def __post_init__(self) -> None:
        if not self.source:
            self.memory = self.policy.empty(0)
            self._know(self.declared)

    def _know(self, names: Sequence[str]) -> Int:
        """Positions of the named sources, new ones added."""
        at = {name: i for i, name in enumerate(self.source)}
        new = [name for name in dict.fromkeys(names) if name not in at]
        if new:
            at.update({name: len(self.source) + i for i, name in enumerate(new)})
            self.source = self.source + new
            self.most = np.concatenate([self.most, np.full(len(new), NEVER)])
            self.least = np.concatenate([self.least, np.full(len(new), -NEVER)])
            self.bound = np.concatenate([self.bound, np.full(len(new), NEVER)])
            self.active = np.concatenate([self.active, np.full(len(new), self.clock)])
            self.rows = np.concatenate([self.rows, np.zeros(len(new), np.int64)])
            self.promised = np.concatenate([self.promised, np.full(len(new), NEVER)])
            self.memory = np.concatenate([self.memory, self.policy.empty(len(new))])
        return np.array([at[name] for name in names], np.int64)

    def reached(self, names: Sequence[str]) -> Int:
        """The largest value so far of each named source."""
        at = self._know(names)
        return self.most[at]

    def learn(self, facts: Facts) -> None:
        """Folds in one run. The order of runs of the same source is their order of arrival."""
        at = self._know(facts.source)
        old = self.memory[at]
        self.memory[at] = (
            self.policy.extend(old, facts.memory, facts.rows)
            if self.run
            else self.policy.fold(old, facts.memory, facts.rows, self.most[at])
        )
        self.most[at] = np.maximum(self.most[at], facts.most)
        self.least[at] = np.minimum(self.least[at], facts.least)
        self.rows[at] += facts.rows
        self.promised[at] = np.maximum(self.promised[at], facts.promised)
        known = np.maximum(self.policy.bound(self.most[at], self.memory[at]), facts.promised)
        self.bound[at] = np.maximum(self.bound[at], known)
        self.active[at] = self.clock

    def facts(self) -> Facts:
        """All that was learned, as the facts of one long run."""
        return Facts(self.source, self.rows, self.least, self.most, self.promised, self.memory)

    def hear(self, clock: int) -> None:
        """System time in microseconds. Rows learned after this are active at this time."""
        self.active[self.active == NEVER] = clock
        self.clock = max(self.clock, clock)

    def tick(self, clock: int) -> None:
        """System time as told by a heartbeat, after the rows that came before it; frees sources that fell silent."""
        self.hear(clock)
        if self.idle is not None:
            silent = self.clock - self.active >= self.idle.after
            self.bound[silent] = np.maximum(self.bound[silent], self.clock - self.idle.lag)

    def wake(self) -> None:
        """The query was down: no source counts as silent for the time in which nobody listened."""
        self.active[:] = NEVER

    def end(self) -> None:
        """The input has ended: the all-matching punctuation."""
        self.bound[:] = END
        self.ended = True

    @property
    def low_watermark(self) -> int:
        if self.ended:
            return END
        return int(self.bound.min()) if len(self.bound) else NEVER

    def tables(self) -> dict[str, pa.Table]:
        """As Arrow, for the state."""
        columns = {name: pa.array(getattr(self, name)) for name in _NUMBERS}
        memory = pa.FixedSizeListArray.from_arrays(pa.array(self.memory.ravel()), max(1, self.memory.shape[1]))
        sources = pa.table({"source": pa.array(self.source, pa.string()), **columns})
        if self.memory.size:
            sources = sources.append_column("memory", memory)
        return {"progress": sources, "clock": pa.table({"clock": [self.clock], "ended": [self.ended]})}

    def restore(self, tables: dict[str, pa.Table]) -> None:
        sources = tables["progress"]
        for name in _NUMBERS:
            setattr(self, name, sources.column(name).to_numpy().copy())
        self.source = sources.column("source").to_pylist()
        self.memory = self.policy.empty(len(self.source))
        if self.memory.size:
            flat = whole(sources.column("memory")).flatten()
            self.memory = flat.to_numpy(zero_copy_only=False).reshape(self.memory.shape).copy()
        ((self.clock, self.ended),) = [(row["clock"], row["ended"]) for row in tables["clock"].to_pylist()]


_NUMBERS = ("most", "least", "bound", "active", "rows", "promised")
