"""Two punctuated streams let into a join as they arrive, and what is seen of it at sampling steps (PW 6).

The paper's joins take one tuple at a time. Those here take batches, so the streams are cut small: whatever arrives
within a tenth of a second, or until the next punctuation of either stream, is a batch a port. Then come punctuations on
values, and then those on time, for both ports up to the end of the cut: the streams are in order. No tuple is let in
after a punctuation that it came before, and none leaves its window more than a cut later than tuple by tuple.

What a join does is counted as `Side.operations` does, in units that do not depend on the cuts. Two numbers are told:

    operations   of the states of tuples, as the paper has them: insertions, searches in the I-Node index, nodes found
                 in value lists, removals; and for each punctuation, besides the search for what to purge, one for the
                 I-Node of its own side that is to be marked, which `Side` does not count
    flags        of the ended values. In the paper a value's PunctFlag is in the I-Node that the probe has found anyway,
                 and reading it is no operation; here ended values are a structure of their own, and searched for

Seconds of CPU are those of the operator's calls. They are told and never judged: cut this small, they are mostly the
fixed cost of a call.
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
"""More tuples than a stream has: the ids of a pair are one integer."""


@dataclass(frozen=True)
class Sample:
    """A join after `at` seconds of the stream. Numbers but those of the state are sums so far."""

    at: float
    rows: int
    """Tuples in the state, of both sides."""
    promises: int
    """Ended values remembered."""
    results: int
    told: int
    """Values that the output was told have ended, each counted once."""
    operations: int
    flags: int
    scanned: int
    """What the probes would have looked at without an index: for every tuple, the other side's state."""
    seconds: float


@dataclass
class Ran:
    """`samples` at the sampling steps; `final` when the streams have ended and nothing is held any more."""

    samples: list[Sample] = field(default_factory=list)
    final: Sample | None = None
    pairs: Ints = field(default_factory=lambda: np.empty(0, np.int64))
    """The results in order, each as one number."""
    told: dict[int, float] = field(default_factory=dict)
    """When the output was first told of each ended value."""
    times: Counter[int] = field(default_factory=Counter)
    """How often each ended value was reported."""

    @property
    def again(self) -> int:
        """Reports of values that had been reported before."""
        return self.times.total() - len(self.times)

    @property
    def end(self) -> Sample:
        assert self.final is not None
        return self.final


def spec(*windows: float | None) -> WindowJoin:
    """The join of the paper: equal keys, and a window in seconds on each stream, or none."""
    sides = tuple(JoinSide(name, SCHEMA, "ts", ("key",)) for name in ("a", "b"))
    return WindowJoin(sides, tuple(None if window is None else round(window * SECOND) for window in windows))


def run(join: OAJoin, streams: Sequence[Punctuated], seconds: float, step: float, every: int = EVERY) -> Ran:
    """The first `seconds` of the streams, with a sample every `step`; then the end of both."""
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
    """(ticks since the start, what arrives on which port until then). Unless punctuations are to come `alone`, a cut
    may have several, and they follow its tuples all together, as those of a micro-batch do."""
    begin, end = START * SECOND, START * SECOND + round(seconds * SECOND)
    tuples = [stream.tuples.combine_chunks() for stream in streams]
    ended = [stream.punctuations.combine_chunks() for stream in streams]
    times, punctuated = ([ticks(table) for table in tables] for tables in (tuples, ended))
    cuts = np.arange(begin + every, end + 1, every)
    if alone:
        cuts = np.union1d(cuts, np.concatenate([ts[ts < end] + 1 for ts in punctuated]))
    at, told = [0] * len(streams), [0] * len(streams)
    for cut in cuts.tolist():
        arrived: list[tuple[int, Message]] = []
        promised: list[tuple[int, Message]] = []
        for port in range(len(streams)):
            stop = int(np.searchsorted(times[port], cut))
            if stop > at[port]:
                arrived.append((port, Batch(tuples[port].slice(at[port], stop - at[port]))))
            at[port] = stop
            stop = int(np.searchsorted(punctuated[port], cut))
            if stop > told[port]:
                promised.append((port, Ended(ended[port].slice(told[port], stop - told[port]).select(["key"]))))
            told[port] = stop
        passed = [(port, Punctuation.linear("ts", cut)) for port in range(len(streams))]
        yield cut - begin, [*arrived, *promised, *passed]


def ticks(table: pa.Table) -> Ints:
    return np.asarray(whole(table.column("ts")).cast(pa.int64()).to_numpy(), np.int64)


class Watch:
    """A join, and what it has done so far."""

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
            elif isinstance(one, Ended) and message is not ALL:  # at the end of the streams nobody needs to be told
                for value in one.values.column("key").to_pylist():
                    self.ran.times[value] += 1
                    self.ran.told.setdefault(value, until / SECOND)

    def sample(self, until: int) -> Sample:
        ended = self.join.ended if isinstance(self.join, PWJoin) else []
        flags = [kept.operations.total for values in ended for kept in (values.punctuated, values.propagated)]
        return Sample(
            until / SECOND,
            sum(side.live_rows for side in self.join.sides),
            sum(values.rows for values in ended),
            self.join.counts.results,
            len(self.ran.told),
            sum(side.operations.total for side in self.join.sides) + self.marked,
            sum(flags),
            self.scanned,
            self.seconds,
        )


def give(join: OAJoin, port: int, message: Message) -> list[Message]:
    """A join that exploits no punctuation on values is told of them all the same, and ignores them."""
    return taken(join, port, message)
