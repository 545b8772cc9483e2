"""An operator: a state machine over messages that knows neither clock nor backend.

Three calls per micro-batch: `begin` with the facts that every shard knows of the batch, `take` for each message on a
port, `end` when all rows and punctuations of the batch have come. Output goes piece by piece to a callback, `emit`:
rows before the punctuation that excludes them. The end of a stream is the punctuation that matches all.

State lies in a `Store` (state/store.py): the operator opens its records and slots when it is constructed, and whoever
runs it commits the store after `end`. An operator that is opened on a committed store goes on where the other was.

Every operator obeys four laws, and tests find every operator to check them: (i) nothing is emitted that an earlier
emitted punctuation excludes; (ii) the result does not depend on how the input between two punctuations is cut into
batches; (iii) to commit and to open another operator on that state changes nothing; (iv) after the all-matching
punctuation nothing is held.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lowwater.aggregates.grouped import Grouped
from lowwater.model.punctuation import ALL, Mask, Punctuation
from lowwater.model.ticks import END
from lowwater.operators.group_lows import GroupLows
from lowwater.operators.late import dropped_rows
from lowwater.state.store import Store


class Payload:
    """A message that is no punctuation: rows in some form, late rows, or values that have ended."""


@dataclass(frozen=True)
class Batch(Payload):
    """Rows, in arrival order. `run` is which run of the micro-batch they are from: an index into `PortFacts.counts`."""

    rows: pa.Table
    run: int = 0

    def __len__(self) -> int:
        return int(self.rows.num_rows)


@dataclass(frozen=True)
class Reduced(Payload):
    """Partials of a batch that was reduced where it was read, with its rows where the late output wants them."""

    grouped: Grouped
    rows: pa.Table | None = None


@dataclass(frozen=True)
class Late(Payload):
    """Rows that violate an earlier punctuation: the columns of the port's input, and behind them those of late.py.

    `port` is set where rows of several ports are reported, at the end of a micro-batch.
    """

    rows: pa.Table
    port: int | None = None


@dataclass(frozen=True)
class Ended(Payload):
    """Punctuations of single values and of ranges: no tuple with these values comes any more.

    `values` has one value per row, in columns that are named as those of the input; it may be empty. `ranges` has the
    columns `low` and `high`, of a key of one column; the high ends are excluded. `marked` is the largest time of the
    rows that brought these punctuations.
    """

    values: pa.Table
    ranges: pa.Table | None = None
    marked: int | None = None

    def __len__(self) -> int:
        return int(self.values.num_rows + (0 if self.ranges is None else self.ranges.num_rows))


Message = Punctuation | GroupLows | Payload
Emit = Callable[[Message], None]


@dataclass(frozen=True)
class Held:
    """What an operator keeps: rows, and bytes as encoded in segments."""

    rows: int
    bytes: int


@dataclass
class Counts:
    """Rows that violated progress, so that none is lost in silence, and results."""

    late: int = 0
    """Rows for the late output: for a window aggregation those that missed at least one of their windows."""
    dropped: int = 0
    """Rows among them that count nowhere."""
    results: int = 0
    discarded: int = 0
    """Rows of a join that needed no keeping."""


@dataclass(frozen=True)
class Lost:
    """What a join without a window may have lost so far, and how it keeps to its memory."""

    disorder: int = 0
    """Rows that came when their partners may have left, because their stream is more scrambled than assumed."""
    memory: int = 0
    """Rows that came when their partners may have been evicted."""
    multiplicity: int = 0
    """Rows that came when their partners had left, because as many rows of their key as expected had come."""
    evicted: int = 0
    results: int = 0
    """The estimated number of lost results."""
    aside: int = 0
    """Rows that are on disk now."""
    bytes: int = 0
    """The bytes of rows in memory now, at most."""


@dataclass(frozen=True)
class Adapting:
    """Of an aggregation that keeps sparse groups as rows while that takes less: what it does now."""

    adaptive_shards: int = 0
    """1 if AdaptWID is in use, else 0; summed over shards."""
    switches: int = 0
    """How often AdaptWID was chosen or left while running."""


@dataclass
class Promises:
    """The linear punctuations that an operator has emitted, one bound per attribute: a record of its state."""

    lows: dict[str, int] = field(default_factory=dict)
    ended: bool = False

    def emit(self, lows: Mapping[str, int], emit: Emit) -> None:
        """Emits the bounds that have grown. A bound of END ends all: only the all-matching punctuation is emitted."""
        if self.ended:
            return
        if END in lows.values():
            self.lows, self.ended = {}, True
            emit(ALL)
            return
        for name, low in lows.items():
            if name not in self.lows or low > self.lows[name]:
                self.lows[name] = int(low)
                emit(Punctuation.linear(name, int(low)))


@dataclass(frozen=True)
class StreamProperties:
    """How the sources of a stream stand: told after a batch's rows and before its punctuation (TH 6.3.1)."""

    low_watermark: int
    high_watermarks: npt.NDArray[np.int64]
    """The largest value seen of each source."""
    rows: npt.NDArray[np.int64]
    """The rows seen of each source; where there are none, its high-watermark says nothing."""


@dataclass(frozen=True)
class PortFacts:
    """What every shard knows of a micro-batch before its rows, per port."""

    span: tuple[int, int] | None
    """The smallest and the largest time of the rows of this batch, over all shards."""
    counts: npt.NDArray[np.int64]
    """The rows of each run, over all shards, in the order of runs."""
    sources: StreamProperties | None
    """How the sources stand after this batch; None behind another operator."""


class Operator(ABC):
    """See the module text. `ports` is the number of inputs."""

    ports: int = 1
    defers: bool = False
    """Whether it reports late rows after the rows of a batch. Its rows then carry ORIGIN if they come from several
    inputs, and it emits that column with those that were late."""

    def __init__(self, store: Store | None = None) -> None:
        self.store = Store() if store is None else store
        self._own_counts = self.store.record("counts", Counts())

    @property
    def counts(self) -> Counts:
        """What the operator has counted. One that runs another inside itself adds that one's."""
        return self._own_counts

    def begin(self, facts: Sequence[PortFacts]) -> None:
        """A micro-batch begins. `facts` has one element per port."""
        return None

    def take(self, port: int, message: Message, emit: Emit) -> None:
        """Takes a message on a port. Late rows of an operator in front pass through."""
        if isinstance(message, Punctuation):
            self.on_punctuation(port, message, emit)
        elif isinstance(message, GroupLows):
            self.on_group_lows(port, message, emit)
        elif isinstance(message, Ended):
            self.on_ended(port, message, emit)
        elif isinstance(message, Late):
            emit(message)
        else:
            self.on_rows(port, message, emit)

    @abstractmethod
    def on_rows(self, port: int, rows: Payload, emit: Emit) -> None: ...

    @abstractmethod
    def on_punctuation(self, port: int, punctuation: Punctuation, emit: Emit) -> None: ...

    def on_group_lows(self, port: int, lows: GroupLows, emit: Emit) -> None:
        """The progress of each source. Linear punctuation follows from it and comes anyway: an operator whose groups
        are not of one source each ignores it."""
        return None

    def on_ended(self, port: int, ended: Ended, emit: Emit) -> None:
        """Many punctuations of values at once. They promise and never ask: an operator without use for them ignores
        them."""
        return None

    def end(self, emit: Emit) -> None:
        """The micro-batch is over: all its rows and punctuations have come."""
        return None

    def without_late(self, rows: pa.Table, late: Mask, reason: str, emit: Emit) -> pa.Table:
        """The rows that are not late. The late ones, which count nowhere, are counted and emitted with the reason."""
        if not late.any():
            return rows
        self.drop_late(rows.filter(pa.array(late)), reason, emit)
        return rows.filter(pa.array(~late))

    def drop_late(self, rows: pa.Table, reason: str, emit: Emit) -> None:
        """Counts rows that come too late to count anywhere, and emits them for the late output."""
        self.count_dropped(rows.num_rows)
        emit(Late(dropped_rows(rows, reason)))

    def count_dropped(self, n: int) -> None:
        """Counts late rows that count nowhere."""
        self.counts.late += n
        self.counts.dropped += n

    @property
    def rows(self) -> int:
        """Rows that are kept."""
        return 0

    def held(self) -> Held:
        return Held(self.rows, self.store.bytes)

    @property
    def lost(self) -> Lost:
        """What may be lost, of an operator that can lose results."""
        return Lost()

    @property
    def beyond(self) -> Sequence[int]:
        """Per input, the rows of `Lost.multiplicity`."""
        return ()

    @property
    def adapting(self) -> Adapting:
        """Of an aggregation, whether it keeps sparse groups as rows."""
        return Adapting()

    def excess(self) -> str | None:
        """A sentence if more is kept than the operator's bound on state allows, and None otherwise.

        The bound is stated in quantities that the operator knows: what progress has passed must be gone.
        """
        return None

    @property
    def remembered(self) -> int:
        """How many promises about values are kept, beside rows."""
        return 0

    @property
    def closed_below(self) -> int | None:
        """The first window id that is not closed, where ids close in order; None before any is."""
        return None

    @property
    def demands(self) -> tuple[str, ...]:
        """Attributes on which the input must be punctuated for this operator to unblock and purge."""
        return ()


def taken(operator: Operator, port: int, message: Message) -> list[Message]:
    """What an operator emits for a message, for tests and experiments."""
    out: list[Message] = []
    operator.take(port, message, out.append)
    return out


def ended(operator: Operator) -> list[Message]:
    """What an operator emits at the end of a micro-batch, for tests and experiments."""
    out: list[Message] = []
    operator.end(out.append)
    return out


def batch_of(rows: Payload) -> pa.Table:
    """The rows of a batch, for operators that take no other form of them."""
    assert isinstance(rows, Batch), f"this operator takes rows as they are, not {type(rows).__name__}"
    return rows.rows
