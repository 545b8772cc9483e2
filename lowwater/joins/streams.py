"""The streams that a join without windows reads: what is expected of each, and what the monitors have seen of it.

The expected k of an inner input follows from the joins below it. A restart can change it: where a join below begins to
sort, its results come in order from then on. Earlier results did not. So if k falls, the larger k holds for what is
compared with earlier results: until the running maximum is above all that had come before the restart.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from math import ceil

from lowwater.joins.oblivious_cost import Characteristics, Expected
from lowwater.model.monitors import HORIZON, StreamMonitor, Summary
from lowwater.model.ticks import END, NEVER
from lowwater.state.store import NamedTables, Store

MARGIN = 1.25
"""The factor by which a monitored k is enlarged: the next tuple may be the most displaced so far."""
WARMUP = 100
"""Tuples that a stream must have shown before its monitored k cuts a buffer."""
ENDS = 256
"""The number of ends of micro-batches that are remembered per input."""


@dataclass
class Factors:
    """A record of the state: per input, the expected k of its results, and the larger k that was expected before."""

    now: list[int] = field(default_factory=list)
    """-1 where nothing is expected, and of raw streams."""
    before: list[int] = field(default_factory=list)
    until: list[int] = field(default_factory=list)
    """The largest value to which `before` applies."""


class Streams:
    """The monitors of all inputs. `low` are the low-watermarks, `ends` where micro-batches of each input ended.

    `derived` are the inputs whose rows are results of other operators.
    """

    def __init__(
        self,
        expected: Sequence[Expected | None],
        derived: Sequence[bool],
        low: Sequence[int],
        ends: list[list[int]],
        horizon: int = HORIZON,
        store: Store | None = None,
    ) -> None:
        self.expected = tuple(expected)
        self.derived = tuple(derived) or (False,) * len(self.expected)
        self._low, self._ends = low, ends
        self.monitors = [StreamMonitor(horizon) for _ in self.expected]
        self._runs: list[list[tuple[int, Summary]]] = [[] for _ in self.expected]
        store = store or Store()
        self._slots = store.slots("monitors", NamedTables())
        for port, monitor in enumerate(self.monitors):
            if str(port) in self._slots:
                monitor.restore(self._slots[str(port)].value)
        none = [-1] * len(self.expected)
        self._factors = store.record("factors", Factors(none, list(none), [NEVER] * len(none)))
        self._restarted()
        store.settling(self._settle)

    def _restarted(self) -> None:
        """Notes which expectations of results have fallen since the state was committed."""
        factors = self._factors
        for port, (expected, derived) in enumerate(zip(self.expected, self.derived, strict=True)):
            now = expected.scrambling if expected is not None and derived else -1
            if now < factors.now[port]:
                factors.before[port] = max(factors.before[port], factors.now[port])
                factors.until[port] = self.reached(port)
            factors.now[port] = now

    def _settle(self) -> None:
        self._read(None)
        if min(self._low) == END:
            self._slots.clear()
            return
        for port, monitor in enumerate(self.monitors):
            self._slots.put(str(port), monitor.tables())

    # -- learning --------------------------------------------------------------------------------------------------

    def came(self, port: int, runs: Sequence[tuple[int, Summary]]) -> list[int]:
        """Notes the summaries of runs of this micro-batch. Returns the rows of all runs of the input so far."""
        self._runs[port] += runs
        return [run.rows for _, run in self._runs[port]]

    def runs(self, port: int) -> int:
        """The number of runs of this micro-batch so far."""
        return len(self._runs[port])

    def learn(self, gone: int) -> None:
        """Ends a micro-batch: monitors take its runs in the order of their numbers. No value up to `gone` is needed."""
        self._read(gone if gone < END else None)
        for monitor, ends in zip(self.monitors, self._ends, strict=True):
            monitor.end()
            ends.append(monitor.rows)
            if len(ends) > ENDS:
                ends[: ENDS // 2] = ends[: ENDS // 2 : 2]

    def _read(self, gone: int | None) -> None:
        for monitor, runs in zip(self.monitors, self._runs, strict=True):
            monitor.read([run for _, run in sorted(runs, key=lambda one: one[0])], gone)
        self._runs = [[] for _ in self.expected]

    # -- what is known ---------------------------------------------------------------------------------------------

    def scrambling(self, port: int) -> int | None:
        """k of a stream as the buffers use it: expected, or monitored with its margin; None before it is known."""
        monitor, expected = self.monitors[port], self.expected[port]
        if expected is not None:
            return expected.scrambling
        return None if monitor.rows < WARMUP else ceil(MARGIN * monitor.factor)

    def settled(self, port: int) -> int:
        """a: the largest value that no later tuple of a stream has, by its k and by its promises."""
        k, low = self.scrambling(port), self._low[port]
        if low == END:
            return END
        reached = None if k is None else self.monitors[port].reached(self._in_order(port, k) - 1)
        if k is not None and reached is not None and reached <= self._factors.until[port]:
            reached = self.monitors[port].reached(self._in_order(port, max(k, self._factors.before[port])) - 1)
        return max(NEVER if reached is None else reached, low - 1 if low > NEVER else NEVER)

    def _in_order(self, port: int, k: int) -> int:
        """N - k. The results of other operators come in any order within a micro-batch, and an expected k is about the
        order in which single tuples would have produced them. Both orders agree at the ends of micro-batches."""
        n = self.monitors[port].rows - k
        if not self.derived[port] or self.expected[port] is None:
            return n
        return max((end for end in self._ends[port] if end <= n), default=0)

    def reached(self, port: int) -> int:
        """The largest value that a stream has shown or passed."""
        low, most = self._low[port], self.monitors[port].most
        return END if low == END else max(low - 1 if low > NEVER else NEVER, NEVER if most is None else most)

    def characteristics(self, port: int) -> Characteristics:
        """k, r and Mul of a stream: as expected, and else as monitored. The rate is always monitored."""
        expected, monitor = self.expected[port], self.monitors[port]
        known = None if expected is None else expected.multiplicity
        return Characteristics(self.scrambling(port) or 0, max(monitor.rate, 1e-9), known or monitor.multiplicity)

    def seen(self, port: int) -> Characteristics:
        """The characteristics of a stream with no larger k than the stream has shown."""
        assumed, factor = self.characteristics(port), self.monitors[port].factor
        return replace(assumed, scrambling=min(assumed.scrambling, ceil(MARGIN * factor)))

    def lag(self, one: int, other: int) -> int:
        """The monitored lag from one stream to another, in tuples (Definition 2.6)."""
        return self.monitors[one].lag(self.monitors[other])
