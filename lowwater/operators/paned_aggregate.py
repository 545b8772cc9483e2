"""Paned-WID: partials by (group, pane), rolled up into windows when they close (TH 6.2).

A row is reduced once, into its pane of gcd(RANGE, SLIDE), however many windows overlap there: the cost of a row does
not depend on RANGE/SLIDE. A window is a contiguous run of its group's panes; all windows that a punctuation closes are
answered together, each aggregate rolling up in the way its algebra allows (differences of prefix sums for exact
differential ones, doubling for the others, ranks for holistic ones).

State: panes that an open window still reads x groups that have rows in them. Landmark windows are the same machine
whose windows all begin at the landmark: what is closed is folded into one partial per group, beside the panes that are
not.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lowwater.aggregates.base import Algebra
from lowwater.aggregates.grouped import Grouped, GroupedCodec, cover, gather, merge, regroup, runs
from lowwater.errors import LowwaterError
from lowwater.operators.bucket import WindowedAggregation
from lowwater.operators.group_lows import Advance, Ints, Reached, each
from lowwater.operators.in_blocks import InBlocks
from lowwater.operators.window_aggregate import Closed
from lowwater.state.store import Store
from lowwater.windows.context_free import Landmark, Sliding
from lowwater.windows.spec import OPEN_END

BASE = "base"
MOST_ANSWERS = 200_000_000
"""A landmark window answers for every group at every slide, however long nothing came; beyond this it is a mistake."""


class PanePartials(InBlocks):
    """Partials by pane, in blocks of panes."""

    def __init__(self, what: WindowedAggregation, algebras: Sequence[Algebra], store: Store | None = None) -> None:
        self._window = what.grid
        super().__init__(algebras, what.grid.panes_per_window if isinstance(what.grid, Sliding) else 1, store)

    def absorb(self, grouped: Grouped, opened: Reached) -> None:
        self._blocks.absorb(grouped)

    def close(self, opened: int, stop: int) -> Closed | None:
        panes = self._blocks.together(below=self._reach(stop))
        return None if panes is None else self._answer(panes, opened, stop)

    def close_own(self, step: Advance) -> Closed | None:
        panes = self._blocks.together(below=self._reach(step.most))
        if panes is None:
            return None
        opened, stop = (each(reached, panes.group) for reached in (step.before.of(panes.keys), step.due(panes.keys)))
        moves = np.asarray(stop > opened)
        if not moves.any():
            return None
        if isinstance(opened, int) or isinstance(stop, int):
            return self._answer(panes, opened, stop)
        return self._answer(panes.where(moves), opened[moves], stop[moves])

    def _reach(self, stop: int) -> int | None:
        """The first pane that no window below `stop` reads."""
        return None if stop == OPEN_END else int(self._window.window_panes(np.array([stop - 1]))[1][0])

    def _answer(self, panes: Grouped, opened: Reached, stop: Reached) -> Closed:
        group, wid = cover(panes.group, panes.slot, self._window.pane_wids, opened, stop)
        lo, hi = runs(panes, group, *self._window.window_panes(wid))
        results = [
            algebra.roll(partial, lo, hi) for algebra, partial in zip(self._algebras, panes.partials, strict=True)
        ]
        return Closed(panes.keys, group, wid, results)

    def expire(self, stop: int) -> None:
        self._blocks.keep(lambda panes: self.last_wid(panes.slot) >= stop)

    def last_wid(self, slot: Ints) -> Ints:
        return self._window.pane_wids(slot)[1]

    def first_slot(self, wid: int) -> int:
        return int(self._window.window_panes(np.array([wid]))[0][0])

    def least(self) -> int | None:
        pane = self._blocks.least()
        return None if pane is None else int(self._window.pane_wids(np.array([pane]))[1][0])


class LandmarkPartials(PanePartials):
    """One partial a group for all that is closed, and the panes that are not."""

    _window: Landmark

    def __init__(self, what: WindowedAggregation, algebras: Sequence[Algebra], store: Store | None = None) -> None:
        store = store or Store()
        super().__init__(what, algebras, store)
        self._closed = store.slots("closed", GroupedCodec(algebras))

    @property
    def _base(self) -> Grouped | None:
        return self._closed[BASE].value if BASE in self._closed else None

    def close(self, opened: int, stop: int) -> Closed | None:
        parts = [part for part in (self._base, self._blocks.together(below=self._reach(stop))) if part is not None]
        if not parts:
            return None
        if stop == OPEN_END and self._window.period is None:
            # The end of the stream: the window of the last row is the last one that says anything new.
            stop = max(int(part.slot.max()) for part in parts) + 1
        panes = merge(parts, self._algebras)
        answers = panes.keys.num_rows * (stop - max(opened, int(panes.slot.min())))
        if self._window.period is None and answers > MOST_ANSWERS:
            raise LowwaterError(
                f"The landmark window would answer about {answers:,} rows at once, since progress made a leap; "
                "use a longer SLIDE, or a shorter idle lag."
            )
        return self._answer(panes, opened, stop)

    def expire(self, stop: int) -> None:
        """Folds closed panes into the base, which takes the slot of the last closed window; drops ended periods."""
        if stop == OPEN_END:
            self._closed.clear()
            self._blocks.clear()
            return
        closed = self._blocks.together(below=stop)
        self._blocks.keep(lambda panes: panes.slot >= stop)
        parts = [part for part in (self._base, closed and closed.where(closed.slot < stop)) if part is not None]
        live = [part.where(self._window.pane_wids(part.slot)[1] >= stop) for part in parts]
        folded = [
            Grouped(part.keys, part.group, np.full(len(part), stop - 1), part.partials) for part in live if len(part)
        ]
        self._closed.clear()
        if folded:
            rows = gather(folded)
            base = regroup(rows.keys, rows.group, rows.slot, rows.partials, self._algebras)
            self._closed.put(BASE, base, rows=len(base))

    def least(self) -> int | None:
        base = None if self._base is None else int(self._window.pane_wids(self._base.slot)[1].min())
        return min((wid for wid in (base, super().least()) if wid is not None), default=None)

    @property
    def rows(self) -> int:
        return self._blocks.rows + self._closed.rows
