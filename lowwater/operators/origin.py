"""The papers' origin: windows that begin with the smallest time of the stream, min(T), instead of a fixed one.

The smallest time is known for certain once progress has passed it: nothing smaller can come. Until then rows are held;
then the aggregation is opened with that origin and takes them. All shards open with the same origin, because the facts
of a micro-batch tell each of them the span of all rows.

State: the span, the origin once it is fixed, the rows that are held until then, and from then on the aggregation's.

>>> import pyarrow as pa
>>> from lowwater.aggregates import count
>>> from lowwater.operators.base import taken
>>> from lowwater.operators.paned_aggregate import PanePartials
>>> from lowwater.windows.context_free import Sliding
>>> schema = pa.schema({"ts": pa.int64()})
>>> what = WindowedAggregation(Sliding(10), "ts", schema, (), (("n", count()),), anchored=False)
>>> counts = FromFirst(what, lambda what, store: WindowAggregate(what, PanePartials, store))
>>> taken(counts, 0, Batch(pa.table({"ts": [7, 3, 14]}))), counts.held().rows
([], 3)
>>> answers, *_ = taken(counts, 0, Punctuation.linear("ts", 13))
>>> answers.rows.to_pylist(), counts.origin
([{'wid': 0, 'window_start': 3, 'window_end': 13, 'n': 2}], 3)
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from lowwater.model.columns import whole
from lowwater.model.punctuation import Punctuation
from lowwater.model.ticks import END
from lowwater.operators.aggregation import FIRST
from lowwater.operators.base import Batch, Counts, Emit, Operator, Payload, PortFacts, batch_of
from lowwater.operators.bucket import WindowedAggregation
from lowwater.operators.window_aggregate import WindowAggregate
from lowwater.state.store import OneTable, Store


@dataclass
class Span:
    """The smallest and the largest time so far, and the origin once it is fixed."""

    first: int | None = None
    last: int | None = None
    origin: int | None = None

    def widen(self, first: int, last: int) -> None:
        self.first = first if self.first is None else min(first, self.first)
        self.last = last if self.last is None else max(last, self.last)


class FromFirst(Operator):
    """See the module text. `open` opens the aggregation, with the origin in its window."""

    def __init__(
        self,
        what: WindowedAggregation,
        open: Callable[[WindowedAggregation, Store], WindowAggregate],
        store: Store | None = None,
    ) -> None:
        super().__init__(store)
        self.what = what
        self._open = open
        self._span = self.store.record("span", Span())
        self._rows = self.store.slots("rows", OneTable())
        self._facts: PortFacts | None = None
        self.inner: WindowAggregate | None = None
        if self._span.origin is not None:
            self.inner = self._opened_at(self._span.origin)

    def _opened_at(self, origin: int) -> WindowAggregate:
        what = dataclasses.replace(self.what, window=self.what.grid.at(origin), anchored=True)
        return self._open(what, self.store.at("aggregation"))

    @property
    def origin(self) -> int | None:
        return self._span.origin

    @property
    def demands(self) -> tuple[str, ...]:
        return (self.what.time,)

    @property
    def counts(self) -> Counts:
        return self._own_counts if self.inner is None else self.inner.counts

    @property
    def opened(self) -> int:
        return FIRST if self.inner is None else self.inner.opened

    @property
    def furthest(self) -> int:
        return self.opened

    @property
    def kept(self) -> int:
        return FIRST if self.inner is None else self.inner.kept

    @property
    def closed_below(self) -> int | None:
        return None if self.inner is None else self.inner.closed_below

    def bounds_from(self, wid: int) -> dict[str, int]:
        return {} if self.inner is None else self.inner.bounds_from(wid)

    @property
    def rows(self) -> int:
        return self._rows.rows + (0 if self.inner is None else self.inner.rows)

    def excess(self) -> str | None:
        """Rows are held only before the origin is fixed."""
        if self.inner is None:
            return None
        return f"{self._rows.rows} rows are held behind the origin." if len(self._rows) else self.inner.excess()

    def begin(self, facts: Sequence[PortFacts]) -> None:
        (self._facts,) = facts
        if self._facts.span is not None:
            self._span.widen(*self._facts.span)
        if self.inner is not None:
            self.inner.begin(facts)

    def on_rows(self, port: int, rows: Payload, emit: Emit) -> None:
        if self.inner is not None:
            self.inner.take(port, rows, emit)
            return
        given = batch_of(rows)
        if given.num_rows:
            time = self.what.ticks.encode(whole(given.column(self.what.time)))
            self._span.widen(int(time.min()), int(time.max()))
            self._rows.add(given, rows=given.num_rows)

    def on_punctuation(self, port: int, punctuation: Punctuation, emit: Emit) -> None:
        low = punctuation.low_watermark(self.what.time)
        if self.inner is None and low is not None and (low == END or self._passed(low)):
            self._fix(port, emit)
        if self.inner is not None:
            self.inner.take(port, punctuation, emit)

    def _passed(self, low: int) -> bool:
        return self._span.first is not None and low > self._span.first

    def _fix(self, port: int, emit: Emit) -> None:
        """Opens the aggregation and hands it the rows that were held. An empty stream may have any origin."""
        self._span.origin = self._span.first or 0
        self.inner = self._opened_at(self._span.origin)
        known = self._facts or PortFacts(None, np.zeros(0, np.int64), None)
        span = None if self._span.first is None or self._span.last is None else (self._span.first, self._span.last)
        self.inner.begin([dataclasses.replace(known, span=span)])
        for entry in self._rows:
            self.inner.take(port, Batch(entry.value), emit)
        self._rows.clear()

    def end(self, emit: Emit) -> None:
        self._facts = None
        if self.inner is not None:
            self.inner.end(emit)
