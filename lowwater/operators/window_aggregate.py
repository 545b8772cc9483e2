"""Window aggregation: one driver, and what is kept between windows as its tactic.

The driver knows ids, lateness and output; a `Keeping` knows state. WID keeps partials by window id, Paned-WID by
pane, slide-by-tuple windows by bin, landmark windows one partial per group, the buffering baseline the rows themselves.
All give the same results.

    rows     are reduced by Bucket (or come reduced from the source), checked against closed windows, and kept
    punctuation on time becomes punctuation on ids: every window that ends at or before it is answered and forgotten

Late is a matter of windows, not of rows (S6): a row that misses some of its windows still counts in those that are
open. It goes to the late output with the number of windows it missed, and is counted whether or not anyone reads that.
With late="drop" a row late for one window is taken out of all (the consistent slack of the thesis). With an allowed
lateness closed windows are kept that much longer, and what a late row changes is said again (revisions.py).

With `by`, one of the groups is the source of the rows, and each group closes by the progress of its own source
(group_lows.py): a window of the group is answered, and rows are late for it, as if only that source existed. Of the
output the linear bound is promised, the minimum over all sources.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lowwater.aggregates.base import Algebra
from lowwater.aggregates.grouped import Grouped
from lowwater.model.punctuation import Punctuation
from lowwater.model.ticks import END, NEVER
from lowwater.operators.aggregation import EARLY, FINAL, FIRST, REVISED, Aggregation, Closed
from lowwater.operators.base import Adapting, Batch, Emit, Late, Payload, PortFacts, Reduced, StreamProperties, batch_of
from lowwater.operators.bucket import ROW, WindowedAggregation
from lowwater.operators.group_lows import Advance, Frontier, GroupLows, Own, Reached, each
from lowwater.operators.keeping import Keeping
from lowwater.operators.late import late_rows
from lowwater.operators.revisions import Touched
from lowwater.state.store import Store
from lowwater.windows.context_aware import SlideByTuple
from lowwater.windows.context_free import ContextFree, Landmark, TupleBased
from lowwater.windows.spec import OPEN_END

__all__ = ["Closed", "Keeping", "Reduced", "WindowAggregate"]

Ints = npt.NDArray[np.int64]


@dataclass
class Windows:
    """Which windows are kept: `kept` is the first id whose state is still there, `newest` that of the newest row."""

    kept: int = FIRST
    newest: int = FIRST
    revision: int = 0


@dataclass
class Seen:
    """What was seen of the input: row numbers given out, the span of times over all shards, and rows of this shard."""

    numbered: int = 0
    first: int | None = None
    last: int | None = None
    high: int = NEVER
    rows: int = 0


class WindowAggregate(Aggregation):
    """The driver, for windows whose ids close in order.

    Windows over row numbers number their rows here: a row carries its offset within its run, the facts tell how many
    rows all runs have, and so every shard counts on by itself. Arrival is progress there: windows close at the end of
    the micro-batch. Landmark windows are answered at the end of the stream up to the last row of any shard.

    The output promises that no window before the first one that is kept is answered any more: by its id, and by where
    it starts and ends. Starts, ends and last ticks grow with the id, whatever RANGE, SLIDE and origin are, so those of
    the first window that is kept are exact bounds. A landmark without period has no start.
    """

    def __init__(
        self,
        what: WindowedAggregation,
        keeping: Callable[[WindowedAggregation, list[Algebra], Store], Keeping],
        store: Store | None = None,
        limit: int | None = None,
        by: str | None = None,
    ) -> None:
        """`limit` is the number of slots per group that the bound on state allows, if it is a number. `by` is the
        source column by which groups close on their own."""
        super().__init__(what, store)
        self.limit = limit
        assert isinstance(what.window, ContextFree | SlideByTuple)
        self.window = what.window
        self.axis = ROW if isinstance(what.window, TupleBased) else what.time
        self.keeping = keeping(what, self.bucket.algebras, self.store.at("kept"))
        self._windows = self.store.record("windows", Windows())
        self._own = Own(by, self.axis, self.store)
        self._seen = self.store.record("seen", Seen())
        self._bases: Ints = np.zeros(1, np.int64)  # the number of the first row of each run
        self._coming = 0
        self._sources: StreamProperties | None = None
        self._unsaid = Touched(self.window.pane_wids)  # since closed windows were last revised
        self._fresh = Touched(self.window.pane_wids)  # since the last batch ended

    @property
    def kept(self) -> int:
        return self._windows.kept

    @property
    def revision(self) -> int:
        return self._windows.revision

    @property
    def closed_below(self) -> int | None:
        return self.opened if FIRST < self.opened < OPEN_END else None

    @property
    def rows(self) -> int:
        return self.keeping.rows

    def excess(self) -> str | None:
        """All that is kept is read by a window that is kept, and no group has more slots than its limit."""
        if self.kept == OPEN_END:
            return f"{self.rows} rows are kept after the end of the stream." if self.rows else None
        last, span = self.keeping.least(), self.keeping.span
        if last is not None and last < self.kept:
            return f"State of window {last} is kept, though all windows below {self.kept} are forgotten."
        if self._own.lows is not None:
            last, span = self.keeping.least_own(self._frontier(self.kept)), self.keeping.span_own
            if last is not None:
                return f"State of window {last} is kept, though its source has closed the window."
        if self.limit is not None and span() > self.limit:
            return f"State spans {span()} panes or windows, but the bound is {self.limit} per group."
        return self.keeping.excess()

    @property
    def adapting(self) -> Adapting:
        return self.keeping.adapting

    @property
    def furthest(self) -> int:
        """The first window that is open in all groups."""
        return self._frontier(self.opened).most

    def _frontier(self, least: int) -> Frontier:
        """How far groups are closed, as window ids, if `least` is for all."""
        lows = self._own.lows
        return Frontier(least, None if lows is None else lows.mapped(self.what.grid.closed_below))

    # -- rows ------------------------------------------------------------------------------------------------------

    def begin(self, facts: Sequence[PortFacts]) -> None:
        (of_input,) = facts
        self._sources = of_input.sources
        if of_input.span is not None:
            first, last = of_input.span
            self._seen.first = first if self._seen.first is None else min(first, self._seen.first)
            self._seen.last = last if self._seen.last is None else max(last, self._seen.last)
        if self.axis == ROW:
            upto = np.cumsum(of_input.counts)
            self._bases = self._seen.numbered + upto - of_input.counts
            self._coming = int(of_input.counts.sum())

    def on_rows(self, port: int, rows: Payload, emit: Emit) -> None:
        if isinstance(rows, Batch) and self.axis == ROW:
            rows = Batch(self._numbered(rows), rows.run)
        if self.keeping.takes_rows and not (self.keeping.takes_partials and isinstance(rows, Reduced)):
            self._take_rows(batch_of(rows), emit)
        elif isinstance(rows, Reduced):
            self._take_partials(rows, emit)
        else:
            given = batch_of(rows)
            self._take_partials(Reduced(self.bucket.reduce(given), given), emit)

    def _numbered(self, batch: Batch) -> pa.Table:
        """Row numbers over the whole stream: every shard adds up the counts of all runs, so none sees other rows."""
        number = batch.rows.column(ROW).to_numpy() + self._bases[batch.run]
        return batch.rows.set_column(batch.rows.schema.get_field_index(ROW), ROW, pa.array(number))

    def _take_rows(self, rows: pa.Table, emit: Emit) -> None:
        rows = self.keeping.arrived(rows)
        time = self.bucket.ticks(rows)
        self._seen.rows += len(time)
        self._seen.high = max(self._seen.high, int(time.max(initial=NEVER)))
        first, last = self.window.bounds(self.bucket.places(rows, time))
        missed, gone = self._missed(first, last, self.kept)
        self._count(missed, gone, np.ones(len(first), np.int64))
        kept = ~gone & (first <= last)
        self.keeping.buffer(rows.filter(pa.array(kept)), time[kept])
        if missed.any():
            emit(self._late(rows, first, last, missed, self.kept))

    def _take_partials(self, reduced: Reduced, emit: Emit) -> None:
        """All rows of a pane share their windows, so lateness is decided for partials, and told for rows if wanted."""
        grouped, frontier = reduced.grouped, self._frontier(self.kept)
        closed = each(frontier.of(grouped.keys), grouped.group)
        missed, gone = self._missed(*self.window.pane_wids(grouped.slot), closed)
        self._count(missed, gone, np.asarray(grouped.partials[0][0]))
        kept = grouped.where(~gone)
        if len(kept):
            self.keeping.absorb(kept, each(closed, np.flatnonzero(~gone)))
            if self.what.lateness:
                self._unsaid.note(kept)
            if self.what.early:
                self._note(kept)
        if reduced.rows is not None and missed.any():
            first, last = self.window.bounds(self.bucket.places(reduced.rows, self.bucket.ticks(reduced.rows)))
            closed = frontier.of(reduced.rows)
            emit(self._late(reduced.rows, first, last, self._missed(first, last, closed)[0], closed))

    def _note(self, grouped: Grouped) -> None:
        """What early answers are about; of open id ranges (landmarks) they go as far as the newest row."""
        self._fresh.note(grouped)
        first, last = self.window.pane_wids(grouped.slot)
        newest = int(np.where(last == OPEN_END, first, last).max())
        self._windows.newest = max(self._windows.newest, newest)

    def _missed(self, first: Any, last: Any, closed: Reached) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
        """Which have missed a window of theirs, and which all of them: after the end, also those of open id ranges.
        Windows below `closed` are closed, for all or for each."""
        inside = first <= last
        missed = (first < closed) & inside
        if self.what.late == "drop":
            return missed, missed
        return missed, ((last < closed) | (closed == OPEN_END)) & inside

    def _count(self, missed: Any, gone: Any, rows: npt.NDArray[np.int64]) -> None:
        self.counts.late += int(rows[missed].sum())
        self.counts.dropped += int(rows[gone].sum())

    def _late(self, rows: pa.Table, first: Any, last: Any, missed: Any, closed: Reached) -> Late:
        first, last, closed = first[missed], last[missed], each(closed, np.flatnonzero(missed))
        n_missed = np.minimum(last, closed - 1) - first + 1
        n_kept = np.where(last == OPEN_END, -1, np.maximum(last - np.maximum(first, closed) + 1, 0))
        ended = np.asarray(closed == OPEN_END)
        n_missed = np.where(ended & (last == OPEN_END), -1, n_missed)
        n_kept = np.where(ended, 0, n_kept)
        if self.what.late == "drop":
            n_missed, n_kept = np.where(n_kept < 0, -1, n_missed + n_kept), np.zeros_like(n_kept)
        if isinstance(self.window, SlideByTuple):  # ids that may exist, not windows that do
            n_missed, n_kept = np.full(len(first), -1), np.where(n_kept > 0, -1, 0)
        reason = pa.DictionaryArray.from_arrays(
            pa.array((n_kept != 0).astype(np.int32)),
            pa.array(["all its windows are closed", "some of its windows are closed"]),
        )
        if self.what.late == "drop":
            reason = pa.array(["one of its windows is closed, so it is dropped from all"] * len(first), pa.string())
        plain = rows.select([name for name in rows.column_names if name in self.what.schema.names])
        return Late(late_rows(plain.filter(pa.array(missed)), reason.cast(pa.string()), n_missed, n_kept))

    # -- progress --------------------------------------------------------------------------------------------------

    def on_punctuation(self, port: int, punctuation: Punctuation, emit: Emit) -> None:
        low = punctuation.low_watermark(self.axis)
        if low is None:
            return
        self._hear(low)
        if low == END and self._seen.last is not None and isinstance(self.window, Landmark):
            self._advance(self.window.horizon(self._seen.last), emit)  # no shard answers less than another
        self._advance(low, emit)

    def on_group_lows(self, port: int, lows: GroupLows, emit: Emit) -> None:
        before = self._frontier(self.opened)
        grown = self._own.hear(lows, self.opened)
        if grown is None:
            return
        after = self._frontier(self.opened)
        self._step(before, after, int(OPEN_END) if grown == END else self.window.closed_below(grown), emit)

    def _step(self, before: Frontier, after: Frontier, most: int, emit: Emit) -> None:
        """Groups close by their own sources."""
        step = Advance(before, after, most)
        self._answers(self.keeping.close_own(step), FINAL, emit)
        self.keeping.expire_own(step)

    def _hear(self, low: int) -> None:
        """Tells the tactic how the sources stand; behind another operator the input is all there is of a source."""
        if self._sources is None and self._seen.rows:
            high, rows = np.array([self._seen.high]), np.array([self._seen.rows])
            self.keeping.monitor(StreamProperties(low, high, rows))
        elif self._sources is not None:
            self.keeping.monitor(self._sources)

    def _advance(self, low: int, emit: Emit) -> None:
        stop = OPEN_END if low == END else self.window.closed_below(low)
        keep = stop if low == END or not self.what.lateness else self.window.closed_below(low - self.what.lateness)
        self._revised(emit)  # before anything it needs is forgotten
        if stop > self.opened and self._own.lows is not None:  # the slowest source has moved, and perhaps no other
            self._step(self._frontier(self.opened), self._frontier(int(stop)), int(stop), emit)
            self.opened = int(stop)
            if low == END:
                self._own.forget()
        elif stop > self.opened:
            self._answers(self.keeping.close(self.opened, int(stop)), FINAL, emit)
            self.opened = int(stop)
        if keep > self.kept:
            if self._own.lows is None:  # else the step has forgotten what its groups need no more
                self.keeping.expire(int(keep))
            self._windows.kept = int(keep)
            self._promises.emit(self.bounds_from(self.kept), emit)

    def bounds_from(self, wid: int) -> dict[str, int]:
        """The least values of the output's progressing attributes, in ticks, if no window below `wid` is answered."""
        if wid == OPEN_END:
            return {"wid": END}
        start, end = self.window.interval(np.array([wid]))
        lows = {"wid": wid} | ({} if start is None else {"window_start": int(start[0])}) | {"window_end": int(end[0])}
        return lows if self.axis == ROW else lows | {"window_time": int(self.what.last_tick(end)[0])}

    def end(self, emit: Emit) -> None:
        """Closes windows over the row numbers of this batch. Emits answers of closed windows that the batch has
        changed, and of open ones, where that is asked for."""
        if self._sources is not None:
            self.keeping.monitor(self._sources)
            self._sources = None
        if self.axis == ROW:
            self._seen.numbered += self._coming
            self._coming = 0
            self._advance(self._seen.numbered, emit)
        if not self.what.revises:
            return
        self._revised(emit)
        if self.what.early and self.opened < OPEN_END:
            self._again(self._fresh, self.opened, self._windows.newest + 1, EARLY, emit)
        self._fresh.forget()
        self._windows.revision += 1

    def _revised(self, emit: Emit) -> None:
        """New answers of closed windows that late rows have fallen into."""
        if self.what.lateness:
            self._again(self._unsaid, self.kept, self.opened, REVISED, emit)
            self._unsaid.forget()

    def _again(self, touched: Touched, first: int, stop: int, emitted: str, emit: Emit) -> None:
        """Answers of windows first <= id < stop that rows have touched."""
        span = touched.span(first, stop)
        closed = None if span is None else self.keeping.close(*span)
        if span is not None and closed is not None:
            self._answers(touched.among(closed, *span), emitted, emit)

    def _answers(self, closed: Closed | None, emitted: str, emit: Emit) -> None:
        if closed is None or not len(closed):
            return
        columns = {}
        if self.what.revises:
            n = len(closed)
            columns = {"emitted": pa.array([emitted] * n, pa.string()), "revision": pa.array(np.full(n, self.revision))}
        emit(self.answer(closed, *self.window.interval(closed.wid), **columns))
