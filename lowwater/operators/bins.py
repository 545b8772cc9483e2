"""Bins: slide-by-tuple windows in one pass, no tuple kept (TH 6.1.4, Fig. 6-5 to 6-7; W6, W7, W8).

Every tuple defines two bins: its start bin, at its time t, where its own window ends, and its end bin, at t + RANGE,
where it has left all windows. The thesis keeps a running aggregate in each bin and updates, for each tuple, all bins
between its two: O(bins) a tuple. Here a bin is a breakpoint: the partial of the tuples at t is stored once, counts from
the start bin on and no more from the end bin on, and a window (t - RANGE, t] is the run of start bins between the two.
All windows that a punctuation closes are rolled up together: a tuple costs O(log), not O(bins), whatever the disorder.

    W6  SLIDE 1 row           every start bin is a window
    W7  SLIDE n over row-num  start bins of every n-th arrival of the group: marked on arrival, the mark travels along
    W8  SLIDE n over rank     start bins that hold an n-th tuple in time order: ranks are counted when they are final,
                              below the low-watermark, and so have moved with every tuple that came late but in time

State: one row, for two bins, a group and time within RANGE of the low-watermark or above it; for W7 and W8 a count a
group (kept modulo n: a group at 0 is forgotten).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lowwater.aggregates.base import Algebra
from lowwater.aggregates.bounded import Tally
from lowwater.aggregates.grouped import Grouped, lift, runs, without_columns
from lowwater.operators.blocks import BLOCKS, Blocks
from lowwater.operators.bucket import WindowedAggregation
from lowwater.operators.counted import Counted
from lowwater.operators.group_lows import Reached
from lowwater.operators.window_aggregate import Closed, Keeping
from lowwater.state.store import Store
from lowwater.windows.context_aware import SlideByTuple
from lowwater.windows.spec import OPEN_END

Ints = npt.NDArray[np.int64]
MARK = "__lw_mark"
"""The column that says which arrivals define a window (W7)."""


class Bins(Keeping):
    """Start bins by (group, time); W6 and W8, and the store of W7."""

    def __init__(self, what: WindowedAggregation, algebras: Sequence[Algebra], store: Store | None = None) -> None:
        assert isinstance(what.window, SlideByTuple)
        self._window = what.window
        self._algebras = list(algebras)
        store = store or Store()
        self._blocks = Blocks(self._algebras, what.window.range // BLOCKS, store)
        self._counted = Counted(what.window.every, store)

    def absorb(self, grouped: Grouped, opened: Reached) -> None:
        late = grouped.slot < opened
        if self._window.every > 1 and late.any():  # beneath ranks that are final: it moves only those above
            self._counted.add(grouped.where(late))
        self._blocks.absorb(grouped)

    def close(self, opened: int, stop: int) -> Closed | None:
        bins = self._blocks.in_order(below=stop)
        if bins is None:
            return None
        ends = (bins.slot >= opened) & (bins.slot < stop)
        ends &= self._ends(bins, ends)
        group, wid = bins.group[ends], bins.slot[ends]
        if not len(wid):
            return None
        lo, hi = runs(bins, group, *self._window.window_panes(wid))
        pairs = zip(self._algebras, bins.partials, strict=True)
        return Closed(bins.keys, group, wid, [algebra.roll(partial, lo, hi) for algebra, partial in pairs])

    def _ends(self, bins: Grouped, final: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
        """Which of the bins that became final are ends of windows."""
        if self._window.every == 1:
            return np.ones(len(bins), np.bool_)
        chosen = np.zeros(len(bins), np.bool_)
        chosen[final] = self._counted.passes(bins.where(final))
        return chosen

    def expire(self, stop: int) -> None:
        """A bin goes when its end bin is below the low-watermark: no window from `stop` on contains it."""
        self._blocks.keep(lambda bins: self._window.pane_wids(bins.slot)[1] >= stop)
        if stop == OPEN_END:
            self._counted.clear()

    def least(self) -> int | None:
        time = self._blocks.least()
        return None if time is None else int(self._window.pane_wids(np.array([time]))[1][0])

    @property
    def rows(self) -> int:
        return self._blocks.rows + self._counted.rows


class MarkedBins(Bins):
    """W7: arrivals are counted as they come, late ones too; a hidden tally tells how many marked ones a bin holds."""

    takes_rows = True

    def __init__(self, what: WindowedAggregation, algebras: Sequence[Algebra], store: Store | None = None) -> None:
        super().__init__(what, algebras, store)
        self._what = what
        self._visible = len(self._algebras)
        self._algebras.append(Tally())

    def arrived(self, rows: pa.Table) -> pa.Table:
        marks = self._counted.mark(self._keys(rows))
        return rows.append_column(MARK, pa.array(marks))

    def buffer(self, rows: pa.Table, time: Ints) -> None:
        if not rows.num_rows:
            return
        marks = pa.array(np.ones(rows.num_rows), mask=~np.asarray(rows.column(MARK)))
        values = [*(aggregate.argument(rows) for aggregate in self._what.distinct), marks]
        self._blocks.absorb(lift(self._keys(rows), time, values, time, self._algebras))

    def close(self, opened: int, stop: int) -> Closed | None:
        closed = super().close(opened, stop)
        return closed and Closed(closed.keys, closed.group, closed.wid, closed.results[: self._visible])

    def _keys(self, rows: pa.Table) -> pa.Table:
        return rows.select(list(self._what.group_by)) if self._what.group_by else without_columns(rows.num_rows)

    def _ends(self, bins: Grouped, final: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
        return np.asarray(bins.partials[-1][0] > 0)
