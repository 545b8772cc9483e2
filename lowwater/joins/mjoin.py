"""MJoin without windows: a join on a progressing key whose buffers are sized by the data (WO 2.1, 3, 4, 5).

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
whose partners may be gone. Each of them is counted and reported as late with the reason (losses.py).

A strategy (strategy.py) changes how rows get to their buffers and which of them stay in memory:

    sorts    rows wait until they are at most a_i, and join in order (sort_first.py). Positions are then values
    spills   rows that join only later are put aside (aside.py). Let f be the least of the largest values that the
             other streams have delivered. No result has a value above f, so a row above it can leave the buffer and
             come again later, as if it arrived then. It is read back when fewer than C rows are between f and it

A stream with rows aside has passed nothing that is aside: a_j is cut at the smallest of these values. Results of a join
that sorts come in order of their values.

If the multiplicity of each stream is expected, the rows of a key leave when all of them have come. The key is
remembered until rows of it would be late or behind a cut (complete_keys.py), so that a row beyond the expected number
is counted and reported. Rows without a partner are results of outer joins. They are emitted when their value is at most
that of their cut: no partner comes. A row of a key that is remembered has had partners, and is never such a result.

A promise of an input (its low-watermark) cuts buffers as well: nothing below it comes any more. Results progress on the
key at the slowest of these promises, because a result to come contains a tuple to come.

State: the buffers, waiting rows and complete keys; per input a few thousand numbers. Positions count the tuples of all
shards, and every shard has the summaries of all runs. With a memory limit, the rows and complete keys in memory take at
most that many bytes at the end of every micro-batch (memory_limit.py).

>>> from lowwater.joins.spec import JoinSide, WindowJoin
>>> from lowwater.operators.base import Batch, ended, taken
>>> a, b = (JoinSide(name, pa.schema({"t": pa.int64(), name: pa.int64()}), "t", ("t",)) for name in "ab")
>>> join = MJoin(WindowJoin((a, b), (None, None)), (Expected(1), Expected(1)))
>>> taken(join, 0, Batch(pa.table({"t": [1, 3, 2, 4], "a": [10, 30, 20, 40]})))
[]
>>> [m.rows.to_pylist() for m in taken(join, 1, Batch(pa.table({"t": [2, 1], "b": [7, 8]})))]
[[{'t': 1, 'a': 10, 'b': 8}, {'t': 2, 'a': 20, 'b': 7}]]
>>> ended(join), join.rows          # a later tuple of b is above 2, and a later tuple of a above 3
([], 3)
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
import pyarrow as pa

from lowwater.aggregates.sorting import offsets
from lowwater.joins.aside import Aside
from lowwater.joins.complete_keys import RECENT, CompleteKeys, leave
from lowwater.joins.cuts import Cuts
from lowwater.joins.keyed import Ints, Keyed, Mask
from lowwater.joins.losses import BEYOND, DISORDER, MEMORY, Losses
from lowwater.joins.memory_limit import MemoryLimit
from lowwater.joins.oa_join import LATE, OAJoin
from lowwater.joins.oblivious_cost import Expected
from lowwater.joins.positioned import Positioned, laid
from lowwater.joins.sort_first import SortFirst, in_order
from lowwater.joins.spec import WindowJoin
from lowwater.joins.strategy import PLAIN, STRATEGIES, Strategy
from lowwater.joins.streams import Streams
from lowwater.model.monitors import HORIZON
from lowwater.model.punctuation import Punctuation
from lowwater.model.ticks import END, NEVER
from lowwater.operators.base import Emit, Late, Lost, Payload, PortFacts, batch_of
from lowwater.operators.late import late_rows
from lowwater.state.store import Store

AHEAD = 4096
"""C: the rows that are read back ahead of their partners, where nothing else is asked for."""


class MJoin(OAJoin):
    """See the module text. `expected` are the characteristics of the inputs, None where they are monitored.

    `derived` are the inputs whose rows are results of other operators. Such rows are only counted if they come too late
    for their partners.
    """

    def __init__(
        self,
        what: WindowJoin,
        expected: Sequence[Expected | None],
        derived: Sequence[bool] = (),
        horizon: int = HORIZON,
        strategy: Strategy | None = None,
        memory: int | None = None,
        ahead: int | None = None,
        shards: int = 1,
        store: Store | None = None,
    ) -> None:
        super().__init__(what, store=store)
        self.ahead, self.shards = ahead or AHEAD, shards
        self.limit = None if memory is None else MemoryLimit(memory, strategy is None, ahead is None)
        none = [NEVER] * self.ports
        first = Cuts([0] * self.ports, none, list(none), list(none), [[] for _ in what.sides], (strategy or PLAIN).name)
        self.cuts = self.store.record("cuts", first)
        self.losses = self.store.record("losses", Losses.of(self.ports))
        self.streams = Streams(expected, derived, self.low, self.cuts.ends, horizon, self.store)
        stores = [self.store.at(f"side{i}") for i in range(self.ports)]
        self.waiting = [SortFirst(partial(self._time, i), own) for i, own in enumerate(stores)]
        self.aside = [Aside(own) for own in stores]
        self.complete = CompleteKeys(self.store.at("complete"))
        self._starts: list[Ints | None] = [None] * self.ports
        known = [one.multiplicity for one in expected if one is not None and one.multiplicity is not None]
        self._multiplicities = known if len(known) == self.ports else None
        if self.limit is not None:
            self.limit.size(self)
        wanted = PLAIN if strategy is None and memory is None else strategy
        if wanted is not None and wanted != self.strategy and min(self.low) < END:  # the state is from before a restart
            self.change(wanted)

    @property
    def strategy(self) -> Strategy:
        return STRATEGIES[self.cuts.strategy]

    @property
    def leaves(self) -> bool:
        """Whether the rows of a key leave when all of them have come."""
        return self._multiplicities is not None

    # -- rows ------------------------------------------------------------------------------------------------------

    def begin(self, facts: Sequence[PortFacts]) -> None:
        """Learns at which position each run of the micro-batch begins."""
        self._starts = [m.rows + offsets(one.counts) for m, one in zip(self.streams.monitors, facts, strict=True)]

    def on_rows(self, port: int, rows: Payload, emit: Emit) -> None:
        self._tidy = False
        if not isinstance(rows, Positioned):
            run = laid(self.what, port, batch_of(rows))
            rows = run.positioned(self.what.sides[port].on, self.streams.runs(port))
        counts = self.streams.came(port, rows.runs)
        if rows.nulls is not None:
            self._nulls(port, rows.nulls, emit)
        starts = self._starts[port]
        if starts is None:  # nobody has counted the runs: they are numbered as they come
            starts = self.streams.monitors[port].rows + offsets(np.array(counts))
        keyed = self._on_time(port, rows.in_stream(starts), emit)
        if not len(keyed):
            return
        missed = self._passed_by(port, keyed, self.cuts.value)
        if missed.any():
            self._join_missed(port, self._placed(port, keyed.where(missed)), DISORDER, emit)
            keyed = keyed.where(~missed)
        if self._sorted(port):
            self.waiting[port].add(keyed)
        else:
            self._join(port, keyed, emit)

    def _on_time(self, port: int, keyed: Keyed, emit: Emit) -> Keyed:
        if self.low[port] == NEVER or not len(keyed):
            return keyed
        return self._without(port, keyed, self._time(port, keyed.rows) < self.low[port], LATE, emit)

    def _passed_by(self, port: int, keyed: Keyed, values: Sequence[int]) -> Mask:
        """The rows whose value is at most that of another input."""
        passed = max(value for i, value in enumerate(values) if i != port)
        return np.asarray(self._time(port, keyed.rows) <= passed, np.bool_)

    def _join_missed(self, port: int, keyed: Keyed, reason: str, emit: Emit) -> None:
        """Joins rows whose partners may have left a buffer already. Counts and reports them."""
        before = self.losses.paired
        self._meet(port, keyed, emit, reason)
        self.losses.note(port, len(keyed), self.losses.paired - before, reason)
        self.report(port, keyed.rows, reason, emit)

    def report(self, port: int, rows: pa.Table, reason: str, emit: Emit) -> None:
        """Emits rows of an input to the late output, with the reason. Results of other operators are not reported."""
        if self.streams.derived[port]:
            return
        self.counts.late += rows.num_rows
        known, unknown = set(rows.column_names), np.full(rows.num_rows, -1)
        own = rows.select([name for name in self.what.sides[port].schema.names if name in known])
        emit(Late(late_rows(own, pa.array([reason] * rows.num_rows, pa.string()), unknown, unknown), port))

    def _join(self, port: int, keyed: Keyed, emit: Emit) -> None:
        """Joins rows. Those whose partners may have been evicted, or have left, are counted and reported."""
        missed = self._passed_by(port, keyed, self.cuts.evicted)
        if missed.any():
            self._join_missed(port, keyed.where(missed), MEMORY, emit)
            keyed = keyed.where(~missed)
        beyond = self._is_complete(port, keyed)
        if beyond.any():
            self._join_missed(port, keyed.where(beyond), BEYOND, emit)
            keyed = keyed.where(~beyond)
        self._meet(port, keyed, emit)

    def _is_complete(self, port: int, keyed: Keyed) -> Mask:
        """The rows of keys whose rows have left, because as many as expected had come."""
        if not self.complete.rows:
            return np.zeros(len(keyed), np.bool_)
        return self.complete.has(keyed, self._time(port, keyed.rows))

    def _meet(self, port: int, keyed: Keyed, emit: Emit, missed: str | None = None) -> None:
        """Joins rows with all that is in the buffers, and puts them into their own."""
        if not len(keyed):
            return
        before = self.counts.results
        matched = self._probe(port, keyed, emit)
        self.losses.paired += self.counts.results - before
        if self.sides[port].flagged:
            self.sides[port].insert(keyed, matched | (missed == BEYOND))
        else:
            self.sides[port].insert(keyed)
        self.losses.joined[port] += len(keyed)
        if self._multiplicities is not None:
            self._complete(port, leave(self.sides, keyed, self._multiplicities), missed)

    def _complete(self, port: int, keys: Keyed, missed: str | None) -> None:
        """Remembers keys whose rows have left. `missed` rows can be of a key that is remembered already."""
        if not len(keys) or missed == BEYOND:
            return
        if missed is not None:
            keys = keys.where(~self._is_complete(port, keys))
        time = self._time(port, keys.rows)
        open = time > self.cuts.over(self.low)
        self.complete.add(keys.where(open), time[open])

    # -- positions -------------------------------------------------------------------------------------------------

    def _sorted(self, port: int) -> bool:
        """Whether the rows of an input are sorted before they join, so that positions are values."""
        return self.strategy.sorts and not self.streams.derived[port]

    def _placed(self, port: int, keyed: Keyed) -> Keyed:
        """Rows that do not come in order of arrival, at the positions that the current strategy gives them.

        In order of arrival, a row is put where its stream first reached its value, on its side of the cut. Rows may
        share that position. It is never behind the one at which the row came, so rows that the cut spares came after
        it, and are still no more than the tuples that the buffer spans.
        """
        time = self._time(port, keyed.rows)
        if self._sorted(port):
            return Keyed.of(keyed.rows, keyed.on, time, keyed.code)
        reached, first = self.streams.monitors[port].first_reaching(time), self.cuts.position[port]
        kept = time > self.cuts.value[port]
        at = np.where(kept, np.maximum(reached, first), np.minimum(reached, first - 1))
        return Keyed.of(keyed.rows, keyed.on, at, keyed.code)

    def change(self, strategy: Strategy) -> None:
        """Changes the strategy. Rows in the buffers get new positions if the order of delivery changes."""
        moved = strategy.sorts != self.strategy.sorts
        self.cuts.joined = [self._delivered(port) for port in range(self.ports)]
        self.cuts.strategy = strategy.name
        for port, side in enumerate(self.sides):
            if moved and not self.streams.derived[port]:  # the cut first: a position of the other order is no position
                self.cuts.position[port] = NEVER if strategy.sorts else 0
                side.moved(lambda keyed, port=port: self._placed(port, keyed))  # type: ignore[misc]

    # -- progress --------------------------------------------------------------------------------------------------

    def on_punctuation(self, port: int, punctuation: Punctuation, emit: Emit) -> None:
        low = punctuation.low_watermark(self.what.sides[port].time)
        if low is None or low <= self.low[port]:
            return
        self.low[port] = low
        if min(self.low) == END:
            self.advance(emit)
            for side in self.sides:
                side.parts = []
            self.complete.forget(END)
            self.cuts.position = [END] * self.ports
            self._promises.emit({self.what.times[0]: END}, emit)

    def end(self, emit: Emit) -> None:
        """Learns what the micro-batch has shown, delivers rows, and cuts the buffers. All its rows have met before."""
        self.streams.learn(min(self.cuts.value))
        self._starts = [None] * self.ports
        if min(self.low) < END:
            self.advance(emit)
            if self.limit is not None:
                self.limit.keep(self, emit)
            self.complete.forget(self.cuts.over(self.low))
            self.complete.spill(RECENT)
            self._promise(emit)
        for side in self.sides:
            side.tidy()
        self._tidy = True

    def advance(self, emit: Emit) -> None:
        """Joins the rows that wait no longer and those that are read back, and cuts the buffers after each."""
        with in_order(emit, self.what.times[0] if self.strategy.sorts else None) as out:
            for port, waiting in enumerate(self.waiting):
                due = waiting.release(self.streams.settled(port) if self._sorted(port) else END)
                if due is not None:
                    self._join(port, self._placed(port, due), out)
            self._cut(out)
            while (next := self._due()) is not None:
                self._join(next, self._placed(next, self.aside[next].read_back()), out)
                self._cut(out)
        if self.strategy.spills:
            for port in range(self.ports):
                self.put_aside(port, self.ahead, 2 * self.ahead)

    def _due(self) -> int | None:
        """The input whose rows aside must be read back next: those with the smallest value that is near enough."""
        aside = [(own.least, port) for port, own in enumerate(self.aside) if own.pieces]
        due = [one for one in aside if not self.strategy.spills or one[0] <= self._near(one[1], self.ahead)]
        return min(due)[1] if due else None

    def _near(self, port: int, ahead: int) -> int:
        """The value up to which rows of an input can join soon: `ahead` rows beyond all that the others delivered."""
        reached = min(self._delivered(j) for j in range(self.ports) if j != port)
        ranks = self.streams.monitors[port].ranks
        n = ranks.rank(reached) + ahead
        if reached == END or n >= ranks.rows:
            return END
        found = ranks.within(n)
        return reached if found is None else max(found, reached)

    def _delivered(self, port: int) -> int:
        """The largest value of an input that may have joined."""
        if not self._sorted(port):
            return self.streams.reached(port)
        return max(self.streams.settled(port), self.cuts.joined[port])

    def put_aside(self, port: int, ahead: int, least: int, size: int | None = None) -> None:
        """Puts the rows of an input aside that join only later, if there are at least so many (WO: 3 I/O times)."""
        cut = max(value for j, value in enumerate(self.cuts.value) if j != port)
        near = max(self._near(port, ahead), cut)
        if near == END:
            return

        def beyond(keyed: Keyed) -> Mask:
            return np.asarray(self._time(port, keyed.rows) > near, np.bool_)

        side = self.sides[port]
        if self.shards * sum(int(np.count_nonzero(beyond(p.keyed) & p.live)) for p in side.parts) < max(1, least):
            return
        taken = Keyed.merged(side.take_where(beyond))[0]
        self.losses.joined[port] -= len(taken)
        self.aside[port].put(taken, self._time(port, taken.rows), max(1, self.ahead // self.shards), size)

    def _cut(self, emit: Emit) -> None:
        """Cuts the buffers where no row to come joins any more. Rows that stayed alone are results of outer joins."""
        passed = [self.passed(port) for port in range(self.ports)]
        cuts = self.cuts
        for i, side in enumerate(self.sides):
            value = cuts.value[i] = max(cuts.value[i], min(passed[j] for j in range(self.ports) if j != i))
            if value > NEVER:
                first = min(value + 1, END) if self._sorted(i) else self.streams.monitors[i].first_above(value)
                cuts.position[i] = max(cuts.position[i], first)
            if side.flagged:
                self._settle_alone(i, value, emit)
            side.invalidate(cuts.position[i], which=False)

    def _settle_alone(self, port: int, value: int, emit: Emit) -> None:
        """Emits the rows up to a value that have found no partner, and removes them."""
        for part in self.sides[port].parts:
            assert part.matched is not None
            rows = np.flatnonzero(part.live & ~part.matched & (self._time(port, part.keyed.rows) <= value))
            if len(rows):
                part.end(rows)
                self._alone(port, part.keyed.rows, rows, part.keyed.at[rows], emit)

    def _promise(self, emit: Emit) -> None:
        """No result below the slowest promise comes: it has a tuple to come, or is a row that is not proven alone."""
        low = min(self.low)
        if low > NEVER:
            self._promises.emit(dict.fromkeys(self.what.times, low), emit)

    def passed(self, port: int) -> int:
        """The largest value that no row of a stream has that is still to join.

        Rows that are far ahead may be put aside and join again. So nothing is claimed of values that the other streams
        have not nearly reached; there are no rows of theirs to cut.
        """
        aside = self.aside[port].least - 1 if self.aside[port].pieces else END
        return min(self.streams.settled(port), self._near(port, self.ahead), aside)

    # -- the limit -------------------------------------------------------------------------------------------------

    def hurry(self, port: int, emit: Emit) -> None:
        """Lets the smaller half of the waiting rows of an input join before they are known to be in order."""
        due = self.waiting[port].release(self.waiting[port].middle())
        assert due is not None, "half of the rows do not exceed the middle"
        self.cuts.joined[port] = max(self.cuts.joined[port], self.largest(port, due))
        self._join(port, self._placed(port, due), emit)
        self._cut(emit)

    def largest(self, port: int, keyed: Keyed) -> int:
        """The largest value of rows."""
        return int(self._time(port, keyed.rows).max())

    # -- bounds ----------------------------------------------------------------------------------------------------

    def buffer(self, port: int) -> int:
        """M of a stream: the tuples that its buffer spans, over all shards; of a sorted stream, those of this shard."""
        if self._sorted(port):
            return self.sides[port].live_rows
        return max(0, self.streams.monitors[port].rows - self.cuts.position[port])

    def in_memory(self, port: int) -> int:
        """The rows of a stream that this shard has in memory: in its buffer, and waiting to be sorted."""
        return self.sides[port].live_rows + self.waiting[port].rows

    @property
    def memory(self) -> int:
        """The bytes of complete keys and of rows with their index in memory, at most. What is on disk takes none."""
        rows = sum(side.memory for side in self.sides) + sum(waiting.memory for waiting in self.waiting)
        return rows + self.complete.memory

    @property
    def beyond(self) -> list[int]:
        return self.losses.beyond

    def _live(self, port: int) -> int:
        """The rows in a buffer, without those beyond the expected number: their keys are remembered."""
        side = self.sides[port]
        if not self.losses.beyond[port]:
            return side.live_rows
        return sum(int(np.count_nonzero(p.live & ~self._is_complete(port, p.keyed))) for p in side.parts)

    @property
    def remembered(self) -> int:
        """The complete keys."""
        return self.complete.rows

    @property
    def rows(self) -> int:
        return super().rows + sum(one.rows for one in self.waiting) + sum(one.rows for one in self.aside)

    @property
    def lost(self) -> Lost:
        of, live = self.losses, [self._live(port) for port in range(self.ports)]
        aside = sum(own.rows for own in self.aside)
        return Lost(of.disorder, of.memory, sum(of.beyond), of.evicted, of.estimate(live), aside, self.memory)

    def excess(self) -> str | None:
        """Checks that a buffer holds nothing before its cut and no more rows than it spans, the bytes, and the keys."""
        if self._tidy and self.limit is not None and self.memory > self.limit.bytes:
            return f"{self.memory} bytes of rows are in memory, but {self.limit.bytes} are allowed."
        for i, side in enumerate(self.sides):
            name = self.what.sides[i].name
            if n := side.below(self.cuts.position[i]):
                return f"{n} rows of {name} are kept before position {self.cuts.position[i]}, where the buffer begins."
            if self._tidy and side.live_rows > self.buffer(i):
                return f"{side.live_rows} rows of {name} are kept in a buffer of {self.buffer(i)}."
            if self._tidy and side.rows > 2 * side.live_rows:
                return f"{side.rows} rows of {name} are stored, but only {side.live_rows} are in the buffer."
        return self.complete.excess(self.cuts.over(self.low), self.streams.monitors) if self._tidy else None
