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

With `by`, one of the groups is the source of the rows, and each group closes by the progress of its own source
(group_lows.py). Then "the low-watermark" is that of the source, and only what is promised of the output is that of all.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from lowwater.aggregates.grouped import Grouped
from lowwater.model.columns import ORIGIN
from lowwater.model.punctuation import Punctuation
from lowwater.model.ticks import END, NEVER
from lowwater.operators.aggregation import Aggregation, Closed
from lowwater.operators.base import Batch, Emit, Late, Payload, Reduced, batch_of
from lowwater.operators.bucket import WindowedAggregation
from lowwater.operators.buckets import Buckets
from lowwater.operators.fragments import Fragments, last
from lowwater.operators.group_lows import Advance, Frontier, GroupLows, Own, each, less
from lowwater.operators.late import dropped_rows
from lowwater.state.store import OneTable, Store

LATE = "its session is closed"


class SessionAggregate(Aggregation):
    """See the module text. `opened` is the low-watermark: every session that ends at or before it is closed."""

    bucket: Fragments
    defers = True

    def __init__(self, what: WindowedAggregation, store: Store | None = None, by: str | None = None) -> None:
        super().__init__(what, store)
        self._own = Own(by, what.time, self.store)
        self.bucket = Fragments(what)
        self.gap = self.bucket.gap
        self._sessions = Buckets(self.bucket.algebras, self.bucket.coalesce, last, store=self.store.at("sessions"))
        self._suspects = self.store.slots("suspects", OneTable())
        self._step: Advance | None = None  # the last step of progress, if no rows have come since

    @property
    def _frontier(self) -> Frontier:
        return Frontier(self.opened, self._own.lows)

    def on_rows(self, port: int, rows: Payload, emit: Emit) -> None:
        if not isinstance(rows, Reduced):
            given = batch_of(rows)
            rows = Reduced(self.bucket.reduce(given), given)
        if not len(rows.grouped):
            return
        self._step = None
        closed = each(self._frontier.of(rows.grouped.keys), rows.grouped.group)
        ended = np.broadcast_to(closed == END, len(rows.grouped))
        if ended.any():  # nothing can come that would open a session
            self._late(self.bucket.coalesce([rows.grouped.where(ended)]), rows.rows, emit)
        open = rows.grouped.where(~ended)
        if not len(open):
            return
        if rows.rows is not None and (open.slot <= each(closed, np.flatnonzero(~ended)) - self.gap).any():
            self._suspect(open, rows.rows)
        self._sessions.absorb(open)

    def _suspect(self, grouped: Grouped, rows: pa.Table) -> None:
        """Keeps the rows whose own fragment is closed."""
        fragments = self.bucket.coalesce([grouped])
        closed = each(self._frontier.of(fragments.keys), fragments.group)
        rows = self._within(fragments.where(last(fragments) <= closed - self.gap), rows)
        if rows.num_rows:
            self._suspects.add(rows, rows=rows.num_rows)

    def _within(self, sessions: Grouped, rows: pa.Table) -> pa.Table:
        """The rows that are part of these sessions, in the columns that the user knows, and with their origin."""
        rows = rows.select([name for name in rows.column_names if name in (*self.what.schema.names, ORIGIN)])
        time = self.bucket.ticks(rows)
        near = time <= self._frontier.of(rows) - self.gap
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
        step = Advance(self._frontier, Frontier(low, self._own.lows), low)
        self._decide(self._due(step), step, emit)
        self.opened = low
        if low == END:
            self._own.forget()
        end = low if low == END else low + 1
        self._promises.emit({"window_end": end, "window_time": end if end == END else low}, emit)

    def on_group_lows(self, port: int, lows: GroupLows, emit: Emit) -> None:
        before = self._frontier
        grown = self._own.hear(lows, self.opened)
        if grown is not None:
            step = Advance(before, self._frontier, grown)
            self._decide(self._due(step), step, emit)

    def _due(self, step: Advance) -> Grouped | None:
        """Takes out the sessions that a step closes."""
        return self._sessions.extract(less(step.most, self.gap), lambda keys: step.before_due(keys, self.gap))

    def _decide(self, due: Grouped | None, step: Advance, emit: Emit) -> None:
        """Answers the sessions that a step closes; those are late that were closed before."""
        if due is not None:
            is_late = last(due) <= each(step.before.of(due.keys), due.group) - self.gap
            if is_late.any():
                suspects = [entry.value for entry in self._suspects]
                self._late(due.where(is_late), pa.concat_tables(suspects) if suspects else None, emit)
            if not is_late.all():
                emit(self._answers(due.where(~is_late)))
        self._forget(step)
        self._step = step

    def _forget(self, step: Advance) -> None:
        """Forgets the rows that may have been late, of groups that have moved."""
        for entry in self._suspects:
            stays = np.broadcast_to(step.due(entry.value) == NEVER, entry.value.num_rows)
            if stays.any() and not stays.all():
                self._suspects.put(entry.name, entry.value.filter(pa.array(stays)), rows=int(stays.sum()))
            elif not stays.any():
                self._suspects.drop(entry.name)

    def _answers(self, sessions: Grouped) -> Batch:
        closed = Closed(sessions.keys, sessions.group, sessions.slot, self.bucket.lower(sessions))
        return self.answer(closed, sessions.slot, last(sessions) + self.gap)

    def excess(self) -> str | None:
        """Right after a punctuation no session is kept that it has closed, and no row that may be late."""
        if self.opened == END and self.rows:
            return f"{self.rows} rows are kept after the end of the stream."
        step = self._step
        if step is None:
            return None
        late = any((np.asarray(step.due(entry.value)) > NEVER).any() for entry in self._suspects)
        if late or self._sessions.overdue(less(step.most, self.gap), lambda keys: step.before_due(keys, self.gap)):
            return f"A session is kept that ends at or before the low-watermark {step.most}."
        return None

    @property
    def rows(self) -> int:
        return self._sessions.rows + self._suspects.rows
