"""A flush policy (flush.py) as an operator around an aggregation: answers, and punctuation with them, leave later."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from functools import partial
from typing import Protocol

import numpy as np
import numpy.typing as npt

from lowwater.model.punctuation import Punctuation
from lowwater.operators.aggregation import FIRST
from lowwater.operators.base import (
    Adapting,
    Batch,
    Counts,
    Emit,
    Message,
    Operator,
    Payload,
    PortFacts,
    Promises,
    Reduced,
    batch_of,
)
from lowwater.operators.bucket import WindowedAggregation
from lowwater.operators.flush import Chunks, Flush
from lowwater.operators.group_lows import GroupLows
from lowwater.state.store import Store


class Paced(Protocol):
    """An aggregation whose windows close in order of their ids, as a flush policy knows it."""

    what: WindowedAggregation

    @property
    def counts(self) -> Counts: ...

    @property
    def rows(self) -> int: ...

    @property
    def furthest(self) -> int: ...

    @property
    def kept(self) -> int: ...

    @property
    def closed_below(self) -> int | None: ...

    def begin(self, facts: Sequence[PortFacts]) -> None: ...

    def take(self, port: int, message: Message, emit: Emit) -> None: ...

    def end(self, emit: Emit) -> None: ...

    def bounds_from(self, wid: int) -> dict[str, int]: ...

    def excess(self) -> str | None: ...

    @property
    def adapting(self) -> Adapting: ...


class Flushing(Operator):
    """An aggregation whose answers leave by a policy, at the end of a micro-batch.

    Punctuation is held back together with the answers: the output promises no more of its windows than the first one of
    which an answer waits allows. Where groups close by their own sources, delays are counted in windows of the furthest
    source, so no answer waits for longer than by the windows of its own. The state of the aggregation should lie below
    `store`, as it is counted here.
    """

    def __init__(self, inner: Paced, policy: Flush, shards: int = 1, store: Store | None = None) -> None:
        super().__init__(store)
        self.inner = inner
        self.policy = policy
        self._chunks = Chunks(policy, inner.what.group_by, shards, self.store)
        self._promises = self.store.record("promises", Promises())
        self._needed: list[npt.NDArray[np.int64]] = []
        self._paced = False  # whether answers of this micro-batch have left as the policy wants

    @property
    def demands(self) -> tuple[str, ...]:
        return (self.inner.what.time,)

    @property
    def counts(self) -> Counts:
        """Those of the aggregation; results are those that have left."""
        return dataclasses.replace(self.inner.counts, results=self._own_counts.results)

    @property
    def closed_below(self) -> int | None:
        return self.inner.closed_below

    @property
    def waiting(self) -> int:
        """Answers that wait."""
        return self._chunks.rows

    @property
    def rows(self) -> int:
        return self.inner.rows + self._chunks.rows

    def begin(self, facts: Sequence[PortFacts]) -> None:
        self.inner.begin(facts)

    def on_rows(self, port: int, rows: Payload, emit: Emit) -> None:
        self._need(rows)
        self._paced = False
        self.inner.take(port, rows, partial(self._hold, emit))

    def _need(self, rows: Payload) -> None:
        """Takes note of the entries that the groups of new rows need."""
        named = list(self.inner.what.group_by)
        if named and self.policy.entries:
            keys = rows.grouped.keys if isinstance(rows, Reduced) else batch_of(rows).select(named)
            self._needed.append(np.unique(self._chunks.entries(keys)))

    def on_punctuation(self, port: int, punctuation: Punctuation, emit: Emit) -> None:
        self._paced = False
        self.inner.take(port, punctuation, partial(self._hold, emit))

    def on_group_lows(self, port: int, lows: GroupLows, emit: Emit) -> None:
        self._paced = False
        self.inner.take(port, lows, partial(self._hold, emit))

    def _hold(self, emit: Emit, message: Message) -> None:
        """Keeps answers. Punctuation follows from what is kept, at the end of the micro-batch."""
        if isinstance(message, Batch):
            self._chunks.push(message.rows)
        elif not isinstance(message, Punctuation):
            emit(message)

    @property
    def adapting(self) -> Adapting:
        return self.inner.adapting

    def excess(self) -> str | None:
        """After a micro-batch no answer waits that is more than `windows` windows late."""
        oldest, bound = self._chunks.oldest, self.inner.furthest - self.policy.windows
        if self._paced and oldest is not None and oldest < bound:
            return f"An answer of window {oldest} waits, though those below {bound} are due."
        return self.inner.excess()

    def end(self, emit: Emit) -> None:
        self.inner.end(partial(self._hold, emit))
        needed = np.unique(np.concatenate([np.empty(0, np.int64), *self._needed]))
        self._needed = []
        for answers in self._chunks.pace(self.inner.furthest, needed):
            self._own_counts.results += answers.num_rows
            emit(Batch(answers))
        self._paced = True
        oldest = self._chunks.oldest
        if self.inner.kept > FIRST:
            low = self.inner.kept if oldest is None else min(oldest, self.inner.kept)
            self._promises.emit(self.inner.bounds_from(low), emit)
