"""WID: partials by (group, window id), closed by punctuation (TH 6.1.3, Fig. 6-4).

State: open windows x groups. A batch comes reduced by pane; each partial is added to every window of its pane. For
tumbling windows that is one window, and nothing beats it; where windows overlap much, Paned-WID does less work.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lowwater.aggregates.base import Algebra, take
from lowwater.aggregates.grouped import Grouped, regroup
from lowwater.operators.bucket import WindowedAggregation
from lowwater.operators.group_lows import Advance, Ints, Reached, each
from lowwater.operators.in_blocks import InBlocks
from lowwater.operators.window_aggregate import Closed
from lowwater.state.store import Store
from lowwater.windows.context_free import Sliding


class WindowPartials(InBlocks):
    """Partials by window id, in blocks of ids."""

    def __init__(self, what: WindowedAggregation, algebras: Sequence[Algebra], store: Store | None = None) -> None:
        self._window = what.grid
        self._one_pane = isinstance(what.grid, Sliding) and what.grid.panes_per_window == 1
        first, last = what.grid.pane_wids(np.zeros(1, np.int64))
        super().__init__(algebras, int(last[0] - first[0] + 1), store)

    def absorb(self, grouped: Grouped, opened: Reached) -> None:
        first, last = self._window.pane_wids(grouped.slot)
        first = np.maximum(first, opened)
        count = last - first + 1
        if self._one_pane and (count == 1).all():  # tumbling: a pane is a window
            self._blocks.absorb(Grouped(grouped.keys, grouped.group, first, grouped.partials))
            return
        at = np.repeat(np.arange(len(grouped)), count)
        start = np.cumsum(count) - count
        wid = np.arange(len(at)) + np.repeat(first - start, count)
        partials = [tuple(take(column, at) for column in partial) for partial in grouped.partials]
        self._blocks.absorb(regroup(grouped.keys, grouped.group[at], wid, partials, self._algebras))

    def close(self, opened: int, stop: int) -> Closed | None:
        rows = self._blocks.together(below=stop)
        return None if rows is None else self._answer(rows.where((rows.slot >= opened) & (rows.slot < stop)))

    def close_own(self, step: Advance) -> Closed | None:
        """All that is kept is open, so what is due now has not been answered yet."""
        rows = self._blocks.together(below=step.most)
        return None if rows is None else self._answer(rows.where(rows.slot < each(step.due(rows.keys), rows.group)))

    def _answer(self, rows: Grouped) -> Closed:
        results = [algebra.lower(partial) for algebra, partial in zip(self._algebras, rows.partials, strict=True)]
        return Closed(rows.keys, rows.group, rows.slot, results)

    def expire(self, stop: int) -> None:
        self._blocks.keep(lambda rows: rows.slot >= stop)

    def last_wid(self, slot: Ints) -> Ints:
        return slot

    def first_slot(self, wid: int) -> int:
        return wid

    def least(self) -> int | None:
        return self._blocks.least()
