"""MJoin without windows: an inner join on a progressing key whose buffers are sized by the data (WO 2.1, 3, 5).

Each input has a FIFO buffer by arrival position. A batch of one input probes the buffers of all others and joins its
own, so a result comes out when the last of its tuples arrives. At the end of a micro-batch, buffers are cut. With

    N_j    tuples of stream j so far            k_j    its scrambling factor, expected or monitored
    a_j    the largest value among the first N_j - k_j tuples of j

no later tuple of j has a value of at most a_j, by Definition 2.2: it would come more than k_j places after a tuple with
a value as large. So a tuple of i is of use only if its value is above min_{j != i} a_j, and

    M_i = N_i - (the first position of i with a value above min_{j != i} a_j)

tuples of i stay. These are the terms of Equations 7 and 8, counted instead of bounded: tuples that have come in the
meantime instead of r_i k_j / r_j + L_ij, and the first position in question instead of k_i. M_i is never above the
paper's bound, and rates and lags need no estimate. If the expected k_j hold, no result is lost.

k_j is what the user expects, or what the monitor has seen over its horizon, times `MARGIN`. A stream that has shown
fewer than `WARMUP` tuples cuts no buffer in monitored mode. If a stream turns out more scrambled than that, tuples come
whose partners may be gone. Each of them is counted and reported as late with the reason; it still joins what is there.

A promise of an input (its low-watermark) cuts buffers as well: nothing below it comes any more. Results progress on the
key at the slowest of these promises, because a result to come contains a tuple to come.

State: the buffers; per input a few hundred numbers. Positions count the tuples of all shards, and every shard has the
summaries of all runs, so that all shards cut at the same positions.

>>> from lowwater.joins.spec import JoinSide, WindowJoin
>>> from lowwater.operators.base import Batch, ended, taken
>>> a, b = (JoinSide(name, pa.schema({"t": pa.int64(), name: pa.int64()}), "t", ("t",)) for name in "ab")
>>> join = MJoin(WindowJoin((a, b), (None, None)), (1, 1))
>>> taken(join, 0, Batch(pa.table({"t": [1, 3, 2, 4], "a": [10, 30, 20, 40]})))
[]
>>> [m.rows.to_pylist() for m in taken(join, 1, Batch(pa.table({"t": [2, 1], "b": [7, 8]})))]
[[{'t': 1, 'a': 10, 'b': 8}, {'t': 2, 'a': 20, 'b': 7}]]
>>> ended(join), join.rows          # a later tuple of b is above 2, and a later tuple of a above 3
([], 3)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import ceil

import numpy as np
import pyarrow as pa

from lowwater.aggregates.sorting import offsets
from lowwater.joins.keyed import Ints, Keyed, Mask
from lowwater.joins.oa_join import LATE, OAJoin
from lowwater.joins.spec import WindowJoin
from lowwater.model.columns import whole
from lowwater.model.monitors import HORIZON, Monitor
from lowwater.model.punctuation import ALL, Punctuation
from lowwater.model.scrambling import Scrambling
from lowwater.model.ticks import END, NEVER, checked
from lowwater.operators.base import Emit, Late, Payload, PortFacts, batch_of
from lowwater.operators.late import late_rows
from lowwater.state.store import NamedTables, Store

MARGIN = 1.25
"""The factor by which a monitored k is enlarged: the next tuple may be the most displaced so far."""
WARMUP = 100
"""Tuples that a stream must have shown before its monitored k cuts a buffer."""
SURPRISE = "the buffers had passed its value: its stream is more scrambled than expected"
ENDS = 256
"""The number of ends of micro-batches that are remembered per input."""
PLACE = 40
"""Bits of the place in a run; the number of the run is above them."""


@dataclass(frozen=True)
class Positioned(Payload):
    """Rows of several runs, with positions `run << PLACE | place in the run`, and the summaries of these runs."""

    keyed: Keyed
    runs: tuple[tuple[int, Scrambling], ...]


@dataclass
class Cuts:
    """A record of the state: per input, the position and the value below which its buffer was cut."""

    position: list[int] = field(default_factory=list)
    value: list[int] = field(default_factory=list)
    ends: list[list[int]] = field(default_factory=list)
    """Positions at which micro-batches of an input ended. Of older ones every second is forgotten."""
    lost: int = 0
    """Tuples that came when partners of theirs may have left."""


class MJoin(OAJoin):
    """See the module text. `expected` are the scrambling factors, None where one is monitored.

    `derived` are the inputs whose rows are results of other operators. Such rows are only counted if they come too late
    for their partners.
    """

    def __init__(
        self,
        what: WindowJoin,
        expected: Sequence[int | None],
        derived: Sequence[bool] = (),
        horizon: int = HORIZON,
        store: Store | None = None,
    ) -> None:
        super().__init__(what, store=store)
        self.expected = tuple(expected)
        self._derived = tuple(derived) or (False,) * self.ports
        self.monitors = [Monitor(horizon) for _ in what.sides]
        self._cuts = self.store.record("cuts", Cuts([0] * self.ports, [NEVER] * self.ports, [[] for _ in what.sides]))
        self._slots = self.store.slots("monitors", NamedTables())
        for port, monitor in enumerate(self.monitors):
            if str(port) in self._slots:
                monitor.restore(self._slots[str(port)].value)
        self.store.settling(self._settle)
        self._runs: list[list[tuple[int, Scrambling]]] = [[] for _ in what.sides]
        self._starts: list[Ints | None] = [None] * self.ports

    def _settle(self) -> None:
        self._learn()
        if min(self.low) == END:
            self._slots.clear()
            return
        for port, monitor in enumerate(self.monitors):
            self._slots.put(str(port), monitor.tables())

    # -- rows ------------------------------------------------------------------------------------------------------

    def begin(self, facts: Sequence[PortFacts]) -> None:
        """Learns at which position each run of the micro-batch begins."""
        self._starts = [m.rows + offsets(one.counts) for m, one in zip(self.monitors, facts, strict=True)]

    def on_rows(self, port: int, rows: Payload, emit: Emit) -> None:
        self._tidy = False
        arrived = rows if isinstance(rows, Positioned) else self._positioned(port, batch_of(rows))
        self._runs[port] += arrived.runs
        keyed = self._on_time(port, self._in_stream(port, arrived), emit)
        if len(keyed):
            self._report(port, keyed, emit)
            self._probe(port, keyed, emit)
            self.sides[port].insert(keyed)

    def _positioned(self, port: int, rows: pa.Table) -> Positioned:
        """A batch as one run: the next one of this micro-batch."""
        side, number = self.what.sides[port], len(self._runs[port])
        keyed, summary = positioned(self.what, port, rows)
        return Positioned(Keyed.of(keyed[0], side.on, keyed[1] + (number << PLACE)), ((number, summary),))

    def _in_stream(self, port: int, arrived: Positioned) -> Keyed:
        """The rows with their positions in the stream."""
        starts, keyed = self._starts[port], arrived.keyed
        if starts is None:  # nobody has counted the runs: they are numbered as they come
            starts = self.monitors[port].rows + offsets(np.array([run.rows for _, run in self._runs[port]]))
        at = starts[keyed.at >> PLACE] + (keyed.at & ((1 << PLACE) - 1))
        return Keyed(keyed.rows, keyed.on, keyed.code, at)

    def _on_time(self, port: int, keyed: Keyed, emit: Emit) -> Keyed:
        if self.low[port] == NEVER or not len(keyed):
            return keyed
        return self._without(port, keyed, self._time(port, keyed.rows) < self.low[port], LATE, emit)

    def _report(self, port: int, keyed: Keyed, emit: Emit) -> None:
        """Counts and reports the rows whose partners may have left a buffer already."""
        passed = max(value for i, value in enumerate(self._cuts.value) if i != port)
        if passed == NEVER:
            return
        missed: Mask = self._time(port, keyed.rows) <= passed
        n = int(np.count_nonzero(missed))
        if not n:
            return
        self._cuts.lost += n
        if self._derived[port]:
            return
        self.counts.late += n
        known = set(keyed.rows.column_names)
        own = [name for name in self.what.sides[port].schema.names if name in known]
        rows, unknown = keyed.rows.filter(pa.array(missed)).select(own), np.full(n, -1)
        emit(Late(late_rows(rows, pa.array([SURPRISE] * n, pa.string()), unknown, unknown)))

    @property
    def lost(self) -> int:
        """Rows so far whose partners may have left a buffer before they came: at most so many lost a result."""
        return self._cuts.lost

    # -- progress --------------------------------------------------------------------------------------------------

    def on_punctuation(self, port: int, punctuation: Punctuation, emit: Emit) -> None:
        low = punctuation.low_watermark(self.what.sides[port].time)
        if low is None or low <= self.low[port]:
            return
        self.low[port] = low
        if min(self.low) == END:
            for side in self.sides:
                side.parts = []
            self._cuts.position = [END] * self.ports
            emit(ALL)
            return
        self._promises.emit({name: min(self.low) for name in set(self.what.times) if min(self.low) > NEVER}, emit)

    def end(self, emit: Emit) -> None:
        """Learns what the micro-batch has shown, and cuts the buffers. All its rows have met before."""
        self._learn()
        for ends, monitor in zip(self._cuts.ends, self.monitors, strict=True):
            ends.append(monitor.rows)
            if len(ends) > ENDS:
                ends[: ENDS // 2] = ends[: ENDS // 2 : 2]
        self._starts = [None] * self.ports
        passed = [self.passed(port) for port in range(self.ports)]
        for i, side in enumerate(self.sides):
            value = min(passed[j] for j in range(self.ports) if j != i)
            self._cuts.value[i] = max(self._cuts.value[i], value)
            if self._cuts.value[i] > NEVER:
                first = self.monitors[i].first_above(self._cuts.value[i])
                self._cuts.position[i] = max(self._cuts.position[i], first)
            side.invalidate(self._cuts.position[i], which=False)
            side.tidy()
        self._tidy = True

    def _learn(self) -> None:
        """Hands the monitors the runs that have come, in the order of their numbers."""
        for monitor, runs in zip(self.monitors, self._runs, strict=True):
            for _, run in sorted(runs, key=lambda one: one[0]):
                monitor.learn(run)
        self._runs = [[] for _ in self.what.sides]

    def scrambling(self, port: int) -> int | None:
        """k of a stream as the buffers use it: expected, or monitored with its margin; None before it is known."""
        monitor, expected = self.monitors[port], self.expected[port]
        if expected is not None:
            return expected
        return None if monitor.rows < WARMUP else ceil(MARGIN * monitor.factor)

    def passed(self, port: int) -> int:
        """The largest value that no later tuple of a stream has, by its k and by its promises."""
        k, low = self.scrambling(port), self.low[port]
        if low == END:
            return END
        reached = None if k is None else self.monitors[port].reached(self._settled(port, k) - 1)
        return max(NEVER if reached is None else reached, low - 1 if low > NEVER else NEVER)

    def _settled(self, port: int, k: int) -> int:
        """N - k. The results of other operators come in any order within a micro-batch, and an expected k is about the
        order in which single tuples would have produced them. Both orders agree at the ends of micro-batches."""
        n = self.monitors[port].rows - k
        if not self._derived[port] or self.expected[port] is None:
            return n
        return max((end for end in self._cuts.ends[port] if end <= n), default=0)

    def buffer(self, port: int) -> int:
        """M of a stream: the tuples, over all shards, that its buffer spans."""
        return max(0, self.monitors[port].rows - self._cuts.position[port])

    def excess(self) -> str | None:
        """Checks that a buffer holds nothing before its cut, and no more rows than it spans."""
        for i, side in enumerate(self.sides):
            name = self.what.sides[i].name
            if n := side.below(self._cuts.position[i]):
                return f"{n} rows of {name} are kept before position {self._cuts.position[i]}, where the buffer begins."
            if self._tidy and side.live_rows > self.buffer(i):
                return f"{side.live_rows} rows of {name} are kept in a buffer of {self.buffer(i)}."
            if self._tidy and side.rows > 2 * side.live_rows:
                return f"{side.rows} rows of {name} are stored, but only {side.live_rows} are in the buffer."
        return None


def positioned(what: WindowJoin, port: int, rows: pa.Table) -> tuple[tuple[pa.Table, Ints], Scrambling]:
    """((rows, their places in the run), summary) of a run in order of arrival. Rows with a null in their key join
    nothing and are left out; they have a place."""
    side = what.sides[port]
    time = checked(side.ticks.encode(whole(rows.column(side.time))), side.time)
    place = np.arange(rows.num_rows)
    known = np.ones(rows.num_rows, np.bool_)
    for name in side.on:
        if rows.column(name).null_count:
            known &= whole(rows.column(name)).is_valid().to_numpy(zero_copy_only=False)
    if not known.all():
        rows, place = rows.filter(pa.array(known)), place[known]
    return (rows, place), Scrambling.of(time).thinned()
