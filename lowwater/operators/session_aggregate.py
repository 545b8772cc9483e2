"""Session windows: a session of a group lasts while its rows are less than a gap apart (W10).

    rows         are reduced to fragments (or come reduced from the source), which wait in the buckets of their groups
    punctuation  coalesces what came with what is open; sessions that end at or before it are answered and forgotten

A session [first, last + gap) is closed by a low-watermark at or beyond its end. A row is late if its session, made of
all that is open and of all that came since the last punctuation, was closed by that punctuation: a row below the
low-watermark that joins an open session is welcome, and so is the row that builds the bridge to it later. Hence late is
told at the next punctuation, when the bridge has come or not, and then depends neither on the order of arrival nor on
the cut into batches. A closed session is forgotten, so late ones are made of new fragments only. Rows that may turn
out to be late (their own fragment is closed) are kept until then, if the late output wants them.

Since late rows may lengthen an open session to the front, no start can be promised while the stream goes on. The end
can: after the low-watermark b no session with window_end <= b is answered any more. For a session that is answered
later was open at b or begins later. One that was open ends after b, or b would have closed it, and more rows only move
its end further. One that begins later and ends at b or before is late and has no answer. The bound is exact: a row at
b + 1 - gap, below b, is a session of its own that ends at b + 1. So punctuation goes out on `window_end` (b + 1) and on
`window_time`, the last tick inside (b).

State: one row for each open session, in buckets of groups, and the rows that may be late.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from lowwater.aggregates.grouped import Grouped
from lowwater.model.punctuation import Punctuation
from lowwater.model.ticks import END
from lowwater.operators.aggregation import Aggregation, Closed
from lowwater.operators.base import Batch, Emit, Late, Payload, Reduced, batch_of
from lowwater.operators.bucket import WindowedAggregation
from lowwater.operators.buckets import Buckets
from lowwater.operators.fragments import Fragments, last
from lowwater.operators.late import dropped_rows
from lowwater.state.store import OneTable, Store

LATE = "its session is closed"


class SessionAggregate(Aggregation):
    """See the module text. `opened` is the low-watermark: every session that ends at or before it is closed."""

    bucket: Fragments

    def __init__(self, what: WindowedAggregation, store: Store | None = None) -> None:
        super().__init__(what, store)
        self.bucket = Fragments(what)
        self.gap = self.bucket.gap
        self._sessions = Buckets(self.bucket.algebras, self.bucket.coalesce, last, store=self.store.at("sessions"))
        self._suspects = self.store.slots("suspects", OneTable())
        self._came = True  # rows may have come since the last punctuation

    def on_rows(self, port: int, rows: Payload, emit: Emit) -> None:
        if not isinstance(rows, Reduced):
            given = batch_of(rows)
            rows = Reduced(self.bucket.reduce(given), given)
        if not len(rows.grouped):
            return
        self._came = True
        if self.opened == END:  # nothing can come that would open a session
            self._late(self.bucket.coalesce([rows.grouped]), rows.rows, emit)
            return
        self._suspect(rows)
        self._sessions.absorb(rows.grouped)

    def _suspect(self, reduced: Reduced) -> None:
        """Keeps the rows whose own fragment is closed."""
        if reduced.rows is None or int(reduced.grouped.slot.min()) > self.opened - self.gap:
            return
        fragments = self.bucket.coalesce([reduced.grouped])
        rows = self._within(fragments.where(last(fragments) <= self.opened - self.gap), reduced.rows)
        if rows.num_rows:
            self._suspects.add(rows, rows=rows.num_rows)

    def _within(self, sessions: Grouped, rows: pa.Table) -> pa.Table:
        """The rows that are part of these sessions, in the columns that the user knows."""
        rows = rows.select([name for name in rows.column_names if name in self.what.schema.names])
        time = self.bucket.ticks(rows)
        near = time <= self.opened - self.gap
        rows, time = rows.filter(pa.array(near)), time[near]
        return rows.filter(pa.array(self.bucket.find(sessions, rows, time) >= 0)).combine_chunks()

    def _late(self, sessions: Grouped, rows: pa.Table | None, emit: Emit) -> None:
        """Counts the rows of closed sessions, and emits them where they were given."""
        self.count_dropped(int(np.asarray(sessions.partials[0][0]).sum()))
        late = None if rows is None else self._within(sessions, rows)
        if late is not None and late.num_rows:
            emit(Late(dropped_rows(late, LATE)))

    def on_punctuation(self, port: int, punctuation: Punctuation, emit: Emit) -> None:
        low = punctuation.low_watermark(self.what.time)
        if low is None or low <= self.opened:
            return
        due = self._sessions.extract(low if low == END else low - self.gap)
        if due is not None:
            is_late = last(due) <= self.opened - self.gap
            if is_late.any():
                suspects = [entry.value for entry in self._suspects]
                self._late(due.where(is_late), pa.concat_tables(suspects) if suspects else None, emit)
            if not is_late.all():
                emit(self._answers(due.where(~is_late)))
        self._suspects.clear()
        self._came = False
        self.opened = low
        end = low if low == END else low + 1
        self._promises.emit({"window_end": end, "window_time": end if end == END else low}, emit)

    def _answers(self, sessions: Grouped) -> Batch:
        closed = Closed(sessions.keys, sessions.group, sessions.slot, self.bucket.lower(sessions))
        return self.answer(closed, sessions.slot, last(sessions) + self.gap)

    def excess(self) -> str | None:
        """Right after a punctuation no session is kept that it has closed, and no row that may be late."""
        least = self._sessions.least
        if self.opened == END and self.rows:
            return f"{self.rows} rows are kept after the end of the stream."
        if not self._came and (len(self._suspects) or (least is not None and least <= self.opened - self.gap)):
            return f"A session is kept that ends at or before the low-watermark {self.opened}."
        return None

    @property
    def rows(self) -> int:
        return self._sessions.rows + self._suspects.rows
