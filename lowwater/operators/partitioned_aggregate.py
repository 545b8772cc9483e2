"""Windows over the rows of each partition: RANGE n rows SLIDE m rows PA p (TH 5.1.3; W4).

    order="arrival"  a row is numbered when it comes, after the rows its partition had before
    order="time"     a row is numbered when it is final, below the low-watermark, after all rows of its partition with
                     smaller times (ties by arrival): disorder does not show. A row that comes below it is late.

A numbered row falls into the pane of gcd(RANGE, SLIDE) rows that its number is in, and windows are runs of panes, as
over time; only that each partition closes its own windows, by its own count. A window is answered when its last row is
there, and what is not full at the end of the stream is answered then.

With `by`, one of the columns of the partition is the source of the rows, and rows are final by the progress of their
own source (group_lows.py).

State: for each partition that was ever seen its count, and the panes of its last RANGE rows; by time also the rows that
are not final yet. It lies in hash buckets, of which a batch touches those of its partitions.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lowwater.aggregates.bounded import Tally
from lowwater.aggregates.grouped import Grouped, cover, factorise, lift, pick, runs, without_columns
from lowwater.model.punctuation import Mask, Punctuation
from lowwater.model.ticks import END
from lowwater.operators.aggregation import FIRST, Aggregation, Closed
from lowwater.operators.base import Emit, Payload, batch_of
from lowwater.operators.bucket import WindowedAggregation
from lowwater.operators.buckets import Buckets
from lowwater.operators.counted import places, tallies, tally_of
from lowwater.operators.group_lows import Advance, Frontier, GroupLows, Own, Reached
from lowwater.operators.waiting import Waiting
from lowwater.state.store import Store
from lowwater.windows.context_aware import Partitioned

Ints = npt.NDArray[np.int64]
LATE = "rows of its partition with larger times are numbered already"
ENDED = "the stream has ended"


class PartitionedAggregate(Aggregation):
    """See the module text. `opened` is the low-watermark up to which rows are final."""

    def __init__(self, what: WindowedAggregation, store: Store | None = None, by: str | None = None) -> None:
        super().__init__(what, store)
        self._own = Own(by, what.time, self.store)
        assert isinstance(what.window, Partitioned)
        self.by_time = what.window.order == "time"
        self.window = what.window.over_ranks
        self._panes = Buckets(self.bucket.algebras, store=self.store.at("panes"))
        self._tallies = Buckets([Tally()], store=self.store.at("tallies"))
        read = [what.schema.field(name) for name in what.columns]
        self._waiting = Waiting(pa.schema(read), self.store)

    def on_rows(self, port: int, rows: Payload, emit: Emit) -> None:
        given = batch_of(rows)
        time = self.bucket.ticks(given)
        closed = np.broadcast_to(self._frontier.of(given), len(time))
        late = time < closed if self.by_time else closed == END
        ended = late & (closed == END)
        given, time = self._without(given, time, ended, ENDED, emit)
        given, time = self._without(given, time, late[~ended], LATE, emit)
        if self.by_time:
            self._waiting.add(given, time)
        else:
            self._number(given, time, emit)

    def on_punctuation(self, port: int, punctuation: Punctuation, emit: Emit) -> None:
        low = punctuation.low_watermark(self.what.time)
        if low is None or low <= self.opened:
            return
        before, self.opened = self._frontier, low
        self._advance(Advance(before, self._frontier, low), emit)
        if low == END:
            self._own.forget()
            self._promises.emit({self.what.time: END}, emit)

    def on_group_lows(self, port: int, lows: GroupLows, emit: Emit) -> None:
        before = self._frontier
        grown = self._own.hear(lows, self.opened)
        if grown is not None:
            self._advance(Advance(before, self._frontier, grown), emit)

    @property
    def _frontier(self) -> Frontier:
        return Frontier(self.opened, self._own.lows)

    def _without(self, rows: pa.Table, time: Ints, late: Mask, reason: str, emit: Emit) -> tuple[pa.Table, Ints]:
        return self.without_late(rows, late, reason, emit), time[~late]

    def _advance(self, step: Advance, emit: Emit) -> None:
        if self.by_time:
            self._number(*self._waiting.release(step.most, step.due), emit)
        if step.most == END:
            self._finish(step, emit)

    def _number(self, rows: pa.Table, time: Ints, emit: Emit) -> None:
        """Numbers rows in the order given, reduces them to panes and answers the windows that have become full."""
        if not rows.num_rows:
            return
        named = list(self.what.group_by)
        group, keys = factorise(rows.select(named) if named else without_columns(rows.num_rows))
        before = self._tallies.touched(keys)
        number = tally_of(keys, before)[group] + places(group)
        new = tallies(keys, np.bincount(group, minlength=keys.num_rows))
        for counts in (before, new):
            if counts is not None:
                self._tallies.absorb(counts)
        pane = self.window.pane_of(number)
        first, last = self.window.pane_wids(pane)
        inside = first <= last  # rows in the gaps of SLIDE > RANGE are counted but in no window
        if inside.any():
            at = np.flatnonzero(inside)
            values = [aggregate.argument(rows) for aggregate in self.what.distinct]
            values = [None if value is None else value.take(pa.array(at)) for value in values]
            lifted = lift(pick(keys, group[at]), pane[at], values, time[at], self.bucket.algebras)
            self._panes.absorb(lifted)
        panes = self._panes.touched(keys)
        if panes is None:
            return
        came = tally_of(panes.keys, new)
        count = tally_of(panes.keys, before) + came
        opened, stop = (count - came) // self.window.slide, count // self.window.slide
        self._panes.absorb(panes.where(self.window.pane_wids(panes.slot)[1] >= stop[panes.group]))
        self._answers(panes, opened, stop, emit)

    def _finish(self, step: Advance, emit: Emit) -> None:
        """The end of the stream, or of some sources: windows that are not full are answered as they are."""

        def ended(keys: pa.Table) -> Reached:
            due = step.due(keys)
            return due if isinstance(due, int) else np.where(due == END, END, FIRST)

        panes, counts = self._panes.extract(END, ended), self._tallies.extract(END, ended)
        if panes is not None:
            count = tally_of(panes.keys, counts)
            self._answers(panes, count // self.window.slide, self.window.bounds(count - 1)[1] + 1, emit)

    def _answers(self, panes: Grouped, opened: Ints, stop: Ints, emit: Emit) -> None:
        """Windows opened <= id < stop of each group."""
        of_row = panes.group
        group, wid = cover(of_row, panes.slot, self.window.pane_wids, opened[of_row], stop[of_row])
        if not len(wid):
            return
        lo, hi = runs(panes, group, *self.window.window_panes(wid))
        pairs = zip(self.bucket.algebras, panes.partials, strict=True)
        closed = Closed(panes.keys, group, wid, [algebra.roll(partial, lo, hi) for algebra, partial in pairs])
        emit(self.answer(closed, *self.window.interval(wid)))

    def excess(self) -> str | None:
        """One window of panes and one count per partition, and the rows that are not final."""
        if self.opened == END and self.rows:
            return f"{self.rows} rows are kept after the end of the stream."
        if (most := self._tallies.rows * self.window.panes_per_window) < self._panes.rows:
            return f"{self._panes.rows} panes are kept of {self._tallies.rows} partitions, more than {most}."
        least = self._waiting.passed(self._frontier)
        return None if least is None else f"A row at {least} waits, though it is final."

    @property
    def rows(self) -> int:
        return self._panes.rows + self._tallies.rows + self._waiting.rows
