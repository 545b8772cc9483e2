"""Answers before a window closes, and revised ones after: which (group, window) pairs a batch has changed.

Off by default. An answer is exact when its window closes (`final`); before, on request, what is known is said after
each batch that changed it (`early`); after, within the allowed lateness, what a late row changed is said again
(`revised`). Every answer carries a revision that grows from batch to batch: of two about one pair the larger holds.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from lowwater.aggregates.grouped import Codes, Grouped, Slots, cover, factorise, gather, stack
from lowwater.operators.aggregation import Closed

Wids = Callable[[Slots], tuple[Slots, Slots]]


class Touched:
    """The cells (group, slot) that rows have fallen into since it was last forgotten."""

    def __init__(self, wids: Wids) -> None:
        self._wids = wids
        self._cells: Grouped | None = None

    def note(self, grouped: Grouped) -> None:
        cells = Grouped(grouped.keys, grouped.group, grouped.slot, ())
        self._cells = cells if self._cells is None else gather([self._cells, cells])

    def forget(self) -> None:
        self._cells = None

    def span(self, first: int, stop: int) -> tuple[int, int] | None:
        """The touched windows among first <= id < stop, from the first to the last of them."""
        if self._cells is None:
            return None
        low, high = self._wids(self._cells.slot)
        start, stop = max(first, int(low.min())), min(stop - 1, int(high.max())) + 1
        return (start, stop) if start < stop else None

    def among(self, closed: Closed, start: int, stop: int) -> Closed:
        """The answers of windows start <= id < stop that a noted cell is part of."""
        assert self._cells is not None
        order = np.lexsort((self._cells.slot, self._cells.group))
        group, wid = cover(self._cells.group[order], self._cells.slot[order], self._wids, start, stop)
        code, _ = factorise(stack([self._cells.keys, closed.keys]))
        ours, theirs = code[group], code[self._cells.keys.num_rows + closed.group]
        return closed.where(np.isin(_pairs(theirs, closed.wid, start, stop), _pairs(ours, wid, start, stop)))


def _pairs(group: Codes, wid: Slots, start: int, stop: int) -> Slots:
    return group * (stop - start) + (wid - start)
