"""The live choice: partials alone or AdaptWID, whichever takes clearly less memory, chosen while the query runs (X4).

TH 8.3.4: an operator may have several implementations, and which is best follows from properties of the input. Here the
property is the density of groups. It is measured where windows close, on the panes that they read, and weighed by the
cost formulas (density.py):

    partials    rows are reduced to panes as they come
    AdaptWID    rows of sparse groups wait as rows (adaptive_aggregate.py)

AdaptWID is chosen where it takes less than SPARSE of the bytes, and there are LEAST cells, since with fewer there is
nothing to gain. It is left where it takes more than DENSE of the bytes. In between all stays as it is.

A switch moves state between two micro-batches of the shard, when all windows that a punctuation closes are answered:

    to AdaptWID     partials stay until they are answered, as those of groups that have become sparse; rows wait from
                    now on
    to partials     rows that wait are reduced

Whatever the schedule of switches is, a row is in a partial or waits, never both, and every answer reads both. So the
answers are those of either tactic alone.

Rows come reduced or as they are (layout.py), and either is taken in either state. A run of rows that is dense comes as
partials. What is dense in one run is dense in its window, so partials are not judged while no rows come.

State: that of AdaptWID, and which of the two is in use.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lowwater.aggregates.base import Algebra
from lowwater.aggregates.grouped import Grouped, regroup
from lowwater.operators.adaptive_aggregate import AdaptivePartials
from lowwater.operators.base import Adapting
from lowwater.operators.bucket import Bucket, WindowedAggregation
from lowwater.operators.density import Density
from lowwater.operators.group_lows import Reached
from lowwater.operators.lazy_rows import joined
from lowwater.operators.paned_aggregate import PanePartials
from lowwater.operators.window_aggregate import Closed
from lowwater.state.store import Store
from lowwater.windows.spec import OPEN_END

LEAST = 1000
"""With fewer cells than this in the windows that close, a shard does not choose AdaptWID."""

Judge = Callable[[Grouped, float, bool], bool]
"""Whether AdaptWID is to be in use: from the panes of windows that close, the bytes of a row, and whether it is now."""


def by_cost(panes: Grouped, tup: float, adaptive: bool) -> bool:
    """The judge: see the module text."""
    density = Density.of(panes, tup)
    return not density.dense if adaptive else len(panes) >= LEAST and density.sparse


@dataclass
class Choice:
    """Which of the two is in use, how often that has changed, and the bytes of a row, if one came since a close."""

    adaptive: bool
    switches: int = 0
    tup: float = 0.0


class LiveChoice(AdaptivePartials):
    """Panes of partials, and AdaptWID where groups are sparse. For sliding windows over time."""

    takes_partials = True
    partials_at = ""

    def __init__(
        self,
        what: WindowedAggregation,
        algebras: Sequence[Algebra],
        store: Store | None = None,
        adaptive: bool = False,
        judge: Judge = by_cost,
    ) -> None:
        """`adaptive` is what a new state begins with."""
        store = store or Store()
        super().__init__(what, algebras, store)
        self._reduced = Bucket(what)  # as rows are reduced before they come: in windows with gaps by other panes
        self._judge = judge
        self._choice = store.record("choice", Choice(adaptive))
        self._wanted = self._choice.adaptive

    @property
    def adapting(self) -> Adapting:
        return Adapting(int(self._choice.adaptive), self._choice.switches)

    # -- rows ------------------------------------------------------------------------------------------------------

    def buffer(self, rows: pa.Table, time: npt.NDArray[np.int64]) -> None:
        if not rows.num_rows:
            return
        rows = rows.select(list(self._what.columns)).combine_chunks()
        self._choice.tup = rows.nbytes / rows.num_rows
        if self._choice.adaptive:
            super().buffer(rows, time)
        else:
            self._blocks.absorb(self._bucket.reduce(rows, time))

    def absorb(self, grouped: Grouped, opened: Reached) -> None:
        if self._reduced.what.grid.has_gaps:  # panes are parts of a window there, and state is by window
            wid = self._reduced.what.grid.pane_wids(grouped.slot)[0]
            grouped = regroup(grouped.keys, grouped.group, wid, grouped.partials, self._algebras)
        if self._choice.adaptive:
            self.take_partials(grouped)
        else:
            self._blocks.absorb(grouped)

    # -- punctuation -----------------------------------------------------------------------------------------------

    def close(self, opened: int, stop: int) -> Closed | None:
        panes = self._due(stop) if self._choice.adaptive else self._blocks.together(below=self._reach(stop))
        if panes is None:
            return None
        tup, adaptive = self._choice.tup, self._choice.adaptive
        if tup or adaptive:
            self._wanted = self._judge(panes, tup or self.threshold.tup or math.inf, adaptive)
        if self._wanted and not adaptive:
            self.threshold.weigh(panes)
        return self._answer(panes, opened, stop)

    def expire(self, stop: int) -> None:
        if self._choice.adaptive or stop == OPEN_END:
            super().expire(stop)
        else:
            PanePartials.expire(self, stop)
        if stop != OPEN_END and self._wanted != self._choice.adaptive:
            self._switch(stop)
        self._choice.tup = 0.0

    def _switch(self, stop: int) -> None:
        if self._wanted:
            self.threshold.tup = self._choice.tup
            self.begin(stop)
        else:
            if self._lazy.parts:
                part = joined(self._lazy.parts)
                self._blocks.absorb(self._bucket.reduce(part.rows, part.time))
            self.forget()
        self._choice.adaptive = self._wanted
        self._choice.switches += 1

    # -- state -----------------------------------------------------------------------------------------------------

    def span(self) -> int:
        """Rows that wait are within the panes that the bound allows, as partials are."""
        slots = [part.slot for part in self._blocks.parts() if len(part)]
        slots += [self._window.pane_of(part.time) for part in self._lazy.parts if len(part)]
        return int(max(slot.max() for slot in slots) - min(slot.min() for slot in slots)) + 1 if slots else 0

    def excess(self) -> str | None:
        if self._choice.adaptive or not len(self._lazy):
            return None
        return f"{len(self._lazy)} rows wait, though groups are kept as partials."
