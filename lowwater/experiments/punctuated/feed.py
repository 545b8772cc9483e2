"""Feeds two punctuated streams into a join as they arrive, and samples the join at regular steps (PW 6).

The joins of the paper take one tuple at a time. The joins here take batches, so the streams are cut into small pieces:
the tuples that arrive within a tenth of a second, or until the next punctuation of either stream, are one batch per
port. Punctuations on values follow, and then punctuations on time, for both ports up to the end of the piece, because
the streams are in order. No tuple enters after a punctuation that it came before, and no tuple leaves its window more
than one piece later than it would tuple by tuple.

The work of a join is counted as in `Side.operations`, in units that do not depend on the pieces. There are two numbers:

    operations   on the states of tuples, as in the paper: insertions, searches in the I-Node index, nodes found in
                 value lists, removals. For each punctuation, besides the search for rows to purge, there is one search
                 for the I-Node of its own side that is to be marked, which `Side` does not count
    flags        searches for ended values. In the paper the PunctFlag of a value is in the I-Node that the probe has
                 found, and reading it is no operation. Here ended values are a separate structure, which is searched

CPU seconds are those of the calls of the operator. They are reported and never judged, because with pieces this small
they are mostly the fixed cost of a call.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lowwater.generate import SECOND, START, TIMESTAMP
from lowwater.generate.punctuated import Punctuated
from lowwater.joins.oa_join import OAJoin
from lowwater.joins.pwjoin import PWJoin
from lowwater.joins.spec import JoinSide, WindowJoin
from lowwater.model.columns import whole
from lowwater.model.punctuation import ALL, Punctuation
from lowwater.operators.base import Batch, Ended, Late, Message, taken

Ints = npt.NDArray[np.int64]
EVERY = SECOND // 10
SCHEMA = pa.schema({"ts": TIMESTAMP, "key": pa.int64(), "id": pa.int64()})
FEW = 1 << 32
"""A number larger than any id, so that the two ids of a pair can be packed into one integer."""


@dataclass(frozen=True)
class Sample:
    """A join after `at` seconds of the stream. All numbers except those of the state are totals so far."""

    at: float
    rows: int
    """Tuples in the state, of both sides."""
    promises: int
    """Ended values that the join remembers."""
    results: int
    reported: int
    """Values whose end was emitted, each counted once."""
    operations: int
    flags: int
    scanned: int
    """The tuples that probes would have read without an index: for every tuple, the state of the other side."""
    seconds: float


@dataclass
class Ran:
    """A run: `samples` at the sampling steps, and `final` when the streams have ended and the state is empty."""

    samples: list[Sample] = field(default_factory=list)
    final: Sample | None = None
    pairs: Ints = field(default_factory=lambda: np.empty(0, np.int64))
    """The results in order, each as one number."""
    reported: dict[int, float] = field(default_factory=dict)
    """The time at which the end of each value was first emitted."""
    times: Counter[int] = field(default_factory=Counter)
    """The number of times that the end of each value was emitted."""

    @property
    def again(self) -> int:
        """The number of reports of values that had been reported before."""
        return self.times.total() - len(self.times)

    @property
    def end(self) -> Sample:
        assert self.final is not None
        return self.final


def spec(*windows: float | None) -> WindowJoin:
    """The join of the paper: equal keys, and a window in seconds on each stream, or None for no window."""
    sides = tuple(JoinSide(name, SCHEMA, "ts", ("key",)) for name in ("a", "b"))
    return WindowJoin(sides, tuple(None if window is None else round(window * SECOND) for window in windows))


def run(join: OAJoin, streams: Sequence[Punctuated], seconds: float, step: float, every: int = EVERY) -> Ran:
    """Runs the first `seconds` of the streams, with a sample every `step`, and then the end of both."""
    watch = Watch(join)
    for until, messages in arrivals(streams, seconds, every):
        for port, message in messages:
            watch.take(port, message, until)
        if until % round(step * SECOND) == 0:
            watch.ran.samples.append(watch.sample(until))
    for port in range(len(streams)):
        watch.take(port, ALL, until)
    watch.ran.final = watch.sample(until)
    watch.ran.pairs = np.sort(np.concatenate([watch.ran.pairs, *watch.pairs]))
    return watch.ran


def arrivals(
    streams: Sequence[Punctuated], seconds: float, every: int, alone: bool = True
) -> Iterator[tuple[int, list[tuple[int, Message]]]]:
    """Yields (ticks since the start, the messages that arrive until then, each with its port).

    With `alone`, a piece ends at each punctuation. Otherwise a piece can have several punctuations, which follow its
    tuples together, as in a micro-batch.
    """
    begin, end = START * SECOND, START * SECOND + round(seconds * SECOND)
    tuples = [stream.tuples.combine_chunks() for stream in streams]
    ended = [stream.punctuations.combine_chunks() for stream in streams]
    times, punctuated = ([ticks(table) for table in tables] for tables in (tuples, ended))
    cuts = np.arange(begin + every, end + 1, every)
    if alone:
        cuts = np.union1d(cuts, np.concatenate([ts[ts < end] + 1 for ts in punctuated]))
    at, reported = [0] * len(streams), [0] * len(streams)
    for cut in cuts.tolist():
        arrived: list[tuple[int, Message]] = []
        promised: list[tuple[int, Message]] = []
        for port in range(len(streams)):
            stop = int(np.searchsorted(times[port], cut))
            if stop > at[port]:
                arrived.append((port, Batch(tuples[port].slice(at[port], stop - at[port]))))
            at[port] = stop
            stop = int(np.searchsorted(punctuated[port], cut))
            if stop > reported[port]:
                values = ended[port].slice(reported[port], stop - reported[port]).select(["key"])
                promised.append((port, Ended(values)))
            reported[port] = stop
        passed = [(port, Punctuation.linear("ts", cut)) for port in range(len(streams))]
        yield cut - begin, [*arrived, *promised, *passed]


def ticks(table: pa.Table) -> Ints:
    return np.asarray(whole(table.column("ts")).cast(pa.int64()).to_numpy(), np.int64)


class Watch:
    """Feeds a join and records what it does."""

    def __init__(self, join: OAJoin) -> None:
        self.join = join
        self.ran = Ran()
        self.pairs: list[Ints] = []
        self.marked = self.scanned = 0
        self.seconds = 0.0

    def take(self, port: int, message: Message, until: int) -> None:
        if isinstance(message, Batch):
            others = [side.live_rows for i, side in enumerate(self.join.sides) if i != port]
            self.scanned += len(message) * sum(others)
        begun = time.process_time()
        out = give(self.join, port, message)
        self.seconds += time.process_time() - begun
        if isinstance(message, Ended) and isinstance(self.join, PWJoin):
            self.marked += len(message)
        for one in out:
            assert not isinstance(one, Late), "no tuple is late here"
            if isinstance(one, Batch):
                ids = [whole(one.rows.column(name)).to_numpy() for name in ("a_id", "b_id")]
                self.pairs.append(ids[0] * FEW + ids[1])
            elif isinstance(one, Ended) and message is not ALL:  # reports at the end of the streams do not count
                for value in one.values.column("key").to_pylist():
                    self.ran.times[value] += 1
                    self.ran.reported.setdefault(value, until / SECOND)

    def sample(self, until: int) -> Sample:
        ended = self.join.ended if isinstance(self.join, PWJoin) else []
        flags = [kept.operations.total for values in ended for kept in (values.punctuated, values.propagated)]
        return Sample(
            until / SECOND,
            sum(side.live_rows for side in self.join.sides),
            sum(values.rows for values in ended),
            self.join.counts.results,
            len(self.ran.reported),
            sum(side.operations.total for side in self.join.sides) + self.marked,
            sum(flags),
            self.scanned,
            self.seconds,
        )


def give(join: OAJoin, port: int, message: Message) -> list[Message]:
    """The messages that a join emits. A join that does not use punctuation on values gets it, too, and ignores it."""
    return taken(join, port, message)
