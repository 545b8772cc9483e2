"""The spec of window aggregations: what is computed, the tactic that keeps state, and how rows travel.

tactic        keeps                                                                        operator
wid           one partial per (group, window)                                              WindowAggregate
panes         one partial per (group, pane)                                                WindowAggregate
landmark      one partial per group, and the open panes                                    WindowAggregate
adaptive      rows of sparse groups, partials of dense ones                                WindowAggregate
buffer        the rows themselves (the baseline of the figures)                            WindowAggregate
bins          start bins of slide-by-tuple windows                                         WindowAggregate
marked-bins   the same where arrivals define the windows                                   WindowAggregate
partitioned   panes of rows and a count per key                                            PartitionedAggregate
sessions      one partial per open session                                                 SessionAggregate
over          the rows whose frame is not complete                                         OverAggregate

With `live`, groups are kept as the tactic says to begin with, and then as partials or by AdaptWID, whichever takes less
while the query runs (live_choice.py).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from lowwater.model.words import length
from lowwater.operators.adaptive_aggregate import AdaptivePartials
from lowwater.operators.base import Operator
from lowwater.operators.bins import Bins, MarkedBins
from lowwater.operators.bucket import Bucket, WindowedAggregation
from lowwater.operators.buffered_aggregate import RowBuffer
from lowwater.operators.density import DENSE, SPARSE
from lowwater.operators.flush import EAGER, Flush
from lowwater.operators.flushing import Flushing
from lowwater.operators.fragments import Fragments
from lowwater.operators.layout import Layout, PartialLayout, RowLayout
from lowwater.operators.live_choice import LiveChoice
from lowwater.operators.origin import FromFirst
from lowwater.operators.over_aggregate import OverAggregate
from lowwater.operators.paned_aggregate import LandmarkPartials, PanePartials
from lowwater.operators.partitioned_aggregate import PartitionedAggregate
from lowwater.operators.session_aggregate import SessionAggregate
from lowwater.operators.spec import Need, OperatorSpec
from lowwater.operators.wid_aggregate import WindowPartials
from lowwater.operators.window_aggregate import Keeping, WindowAggregate
from lowwater.state.store import Store
from lowwater.windows.context_aware import Partitioned
from lowwater.windows.context_free import ContextFree, Landmark, Sliding, TupleBased
from lowwater.windows.describe import describe

TACTICS: dict[str, type[Keeping]] = {
    "wid": WindowPartials,
    "panes": PanePartials,
    "landmark": LandmarkPartials,
    "buffer": RowBuffer,
    "adaptive": AdaptivePartials,
    "bins": Bins,
    "marked-bins": MarkedBins,
}
"""The keepings of the driver for windows that close in order."""

OPERATORS: dict[str, Callable[[WindowedAggregation, Store, str | None], Operator]] = {
    "partitioned": PartitionedAggregate,
    "sessions": SessionAggregate,
    "over": OverAggregate,
}
"""The operators of windows that close group by group."""

NAMES = {
    "wid": "WID aggregate",
    "panes": "Paned-WID aggregate",
    "landmark": "Landmark aggregate",
    "buffer": "Buffered aggregate (baseline)",
    "adaptive": "AdaptWID aggregate",
    "bins": "Bins aggregate",
    "marked-bins": "Bins aggregate",
    "partitioned": "Partitioned aggregate",
    "sessions": "Session aggregate",
    "over": "OVER aggregate",
}

LIVE = dict.fromkeys(
    ("wid", "panes"),
    f"while running: AdaptWID from less than {SPARSE:.0%} of the bytes of partials on, until more than {DENSE:.0%}",
) | {
    "adaptive": f"while running: AdaptWID until it takes more than {DENSE:.0%} of the bytes of partials, "
    f"and from less than {SPARSE:.0%} on"
}
"""What EXPLAIN says of a live choice, by what it begins with."""


@dataclass(frozen=True)
class AggregateSpec(OperatorSpec):
    """A window aggregation under a tactic. See the module text."""

    what: WindowedAggregation
    tactic: str
    why: str
    most: str
    """The bound on state, in words."""
    flush: Flush = EAGER
    """When the answers of closed windows leave."""
    table: int | None = None
    """Entries of the table that reduces rows at the source. Without it a run is reduced as a whole."""
    spread: bool = False
    """Whether rows without groups are spread over the shards by window. Only behind another operator, where no row is
    late: the shard that has the partial of a late row reports it."""
    limit: int | None = None
    """The partials per group that the bound on state allows, if it is a number alone."""
    live: bool = False
    """Whether AdaptWID is chosen or left while running. The tactic is what a new state begins with."""
    by: str | None = None
    """The source column, if it is among the groups and each group closes by the progress of its own source."""

    @property
    def name(self) -> str:
        return NAMES[self.tactic]

    @property
    def result(self) -> pa.Schema:
        return self.what.result_schema()

    @property
    def numbered(self) -> bool:
        """Whether windows are over row numbers, which count the rows of all shards."""
        return isinstance(self.what.window, TupleBased)

    @property
    def sends_rows(self) -> bool:
        """Whether rows travel unreduced to the shards."""
        if self.live:
            return False
        if self.tactic in OPERATORS:
            return self.tactic != "sessions"
        return TACTICS[self.tactic].takes_rows or not self.what.anchored or self.numbered

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that the aggregation reads. OVER returns its rows, so it reads all."""
        return tuple(self.what.schema.names) if self.tactic == "over" else self.what.columns

    def need(self, port: int) -> Need:
        facts = None
        if isinstance(self.what.window, Landmark):
            facts = "a landmark's last window depends on the newest row of all shards"
        elif not self.what.anchored:
            facts = "its origin is the smallest time of all shards"
        elif self.numbered:
            facts = "rows are numbered over all shards"
        return Need(self.what.group_by, facts)

    def closes_by(self, port: int) -> str | None:
        return self.by

    def timed_by(self, port: int) -> str:
        return self.what.time

    def behind_shuffle(self) -> AggregateSpec:
        """Spreads tumbling windows without groups over the shards by window, instead of sending them to one."""
        window = self.what.window
        tumbles = type(window) is Sliding and window.range == window.slide
        alone = not self.what.group_by and tumbles and self.tactic == "wid" and self.flush == EAGER
        return replace(self, spread=True) if alone and not self.sends_rows else self

    def layout(self, port: int, route: tuple[str, ...] | None) -> Layout:
        if self.sends_rows:
            return RowLayout(self.columns_sent, route, self.numbered)
        bucket = Fragments(self.what) if self.tactic == "sessions" else Bucket(self.what)
        return PartialLayout(bucket, route, self.spread, self.table, self.live)

    @property
    def columns_sent(self) -> tuple[str, ...]:
        return tuple(self.what.schema.names)

    def open(self, store: Store, shards: int) -> Operator:
        """The operator, on its state. Answers of an earlier flush policy can wait there, whatever the policy is now."""
        operator = OPERATORS.get(self.tactic)
        if operator is not None:
            return operator(self.what, store, self.by)
        inner, keeping = store.at("aggregation"), self.keeping
        if self.what.anchored:
            aggregation: WindowAggregate | FromFirst = WindowAggregate(self.what, keeping, inner, self.limit, self.by)
        else:
            aggregation = FromFirst(self.what, lambda what, store: WindowAggregate(what, keeping, store), inner)
        if self.flush == EAGER and not store.has("answers"):
            return aggregation
        return Flushing(aggregation, self.flush, shards, store)

    @property
    def keeping(self) -> Callable[..., Keeping]:
        return partial(LiveChoice, adaptive=self.tactic == "adaptive") if self.live else TACTICS[self.tactic]

    @property
    def adapts(self) -> bool:
        return self.live or self.tactic == "adaptive"

    def partitioned(self, routes: Sequence[tuple[str, ...] | None]) -> tuple[str, ...] | None:
        if self.spread:
            return ("wid",)
        return routes[0]

    def choice(self) -> dict[str, Any]:
        by = {} if self.by is None else {"closes_by": self.by}
        live = {"live": True} if self.live else {}
        return {"tactic": self.tactic, "spread": self.spread, **by, **live}

    def as_pinned(self, choice: Mapping[str, Any]) -> AggregateSpec:
        tactic, by, live = choice["tactic"], choice.get("closes_by"), choice.get("live", False)
        same = (tactic, by, live) == (self.tactic, self.by, self.live)
        why = self.why if tactic == self.tactic else "the checkpoint was made with it"
        return replace(
            self, tactic=tactic, why=why, spread=choice["spread"], limit=self.limit if same else None, by=by, live=live
        )

    @property
    def order(self) -> list[tuple[str, str]]:
        return self.what.order

    @property
    def title(self) -> str:
        aggregates = ", ".join(f"{name} = {aggregate}" for name, aggregate in self.what.aggregates)
        return f"{self.name}  {aggregates or 'each ' + ', '.join(self.what.group_by) + ' once'}"

    def lines(self) -> list[tuple[str, str]]:
        what = self.what
        return [
            ("window", f"{describe(what.window, what.ticks)} over {_axis(what)}{_origin(what)}"),
            ("groups", ", ".join(what.group_by) or "one for all rows"),
            ("because", self.why),
            *([("chosen", LIVE[self.tactic])] if self.live else []),
            ("state", f"at most {self.most}"),
            ("ingest", self._ingest()),
            *self._emission(),
        ]

    def _ingest(self) -> str:
        if self.sends_rows:
            return "rows are numbered and sent as they are" if self.numbered else "rows are sent as they are"
        by = "fragment" if self.tactic == "sessions" else "time" if self.tactic == "bins" else "pane"
        table = "" if self.table is None else f", in a table of {self.table:,} entries"
        live = "; where groups are sparse, rows are sent as they are" if self.live else ""
        return f"rows are reduced by (group, {by}) at the source{table}{live}"

    def _emission(self) -> list[tuple[str, str]]:
        """The lines about late rows, early answers, revisions and flushing, where they are not the default."""
        what = self.what
        lines = []
        if what.late == "drop":
            lines.append(("late", "rows late for one window are dropped from all"))
        if what.early:
            lines.append(("early", "open windows are answered after each batch that changed them"))
        if what.lateness:
            taken = length(what.lateness, what.ticks)
            lines.append(("lateness", f"closed windows take late rows for {taken}, and revise"))
        if self.flush != EAGER:
            lines.append(("flush", str(self.flush)))
        return lines


def _axis(what: WindowedAggregation) -> str:
    window = what.window
    by_rows = isinstance(window, TupleBased) or (isinstance(window, Partitioned) and window.order == "arrival")
    return "row-num, in arrival order" if by_rows else what.time


def _origin(what: WindowedAggregation) -> str:
    if not what.anchored:
        return ", from the first row on"
    window = what.window
    if not isinstance(window, ContextFree) or isinstance(window, TupleBased):
        return ""
    start = window.origin - (window.range % window.slide if isinstance(window, Sliding) else 0)
    return f", from {what.ticks.decode(np.array([start]))[0]} on" if start else ""
