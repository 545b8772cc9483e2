"""Aggregates over windows. How they are computed is chosen in query/choose.py."""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from lowwater.aggregates.base import Aggregate as AggregateFunction
from lowwater.model.columns import WINDOW_TIME
from lowwater.model.properties import Properties
from lowwater.model.ticks import Ticks
from lowwater.model.words import length
from lowwater.operators.aggregate import AggregateSpec
from lowwater.operators.bucket import WindowedAggregation, WindowKind
from lowwater.operators.flush import EAGER, Flush
from lowwater.query.choose import aggregate_spec
from lowwater.query.logical.node import Stateful, Unary
from lowwater.query.promises import promised
from lowwater.query.statistics import group_statistics
from lowwater.windows.context_aware import Partitioned
from lowwater.windows.context_free import TupleBased
from lowwater.windows.describe import describe
from lowwater.windows.over import Over


@dataclass(frozen=True, eq=False)
class Aggregate(Unary, Stateful):
    """Aggregates over the windows of a time, by groups."""

    window: WindowKind
    time: str
    groups: tuple[str, ...]
    aggregates: tuple[tuple[str, AggregateFunction], ...]
    anchored: bool = True
    late: str = "include"
    early: bool = False
    lateness: int = 0
    flush: Flush = EAGER
    strategy: str = "auto"
    table: int | None = None
    timed: bool = True
    """Whether answers have the column `window_time`, for a follower. The rule that prunes columns clears it."""

    @cached_property
    def what(self) -> WindowedAggregation:
        return WindowedAggregation(
            self.window,
            self.time,
            self.of.schema,
            self.groups,
            self.aggregates,
            self.anchored,
            self.late,
            self.early,
            self.lateness,
            self.timed and not isinstance(self.window, Over | TupleBased | Partitioned),
        )

    @cached_property
    def properties(self) -> Properties:
        return promised(self.what, self.of.properties, self.flush)

    def line(self) -> str:
        aggregates = ", ".join(f"{name} = {aggregate}" for name, aggregate in self.aggregates)
        return f"Aggregate  {aggregates} over {self.window} of {self.time} by {', '.join(self.groups) or 'nothing'}"

    def narrowed(self, needed: Set[str]) -> Aggregate:
        return replace(self, timed=self.timed and WINDOW_TIME in needed)

    def reads(self, needed: Set[str]) -> Sequence[Set[str]]:
        """OVER hands whole rows back."""
        return [set(self.of.schema.names if isinstance(self.window, Over) else self.what.columns)]

    def meaning(self) -> dict[str, Any]:
        what = self.what
        ticks = Ticks(what.schema.field(what.time).type)
        return {
            "operator": "aggregate",
            "window": describe(what.window, ticks),
            "window in ticks": str(what.window),
            "time": str(what.schema.field(what.time)),
            "known origin": what.anchored,
            "group_by": [str(what.schema.field(name)) for name in what.group_by],
            "aggregates": {name: repr(aggregate) for name, aggregate in what.aggregates},
            "late": what.late,
            "early": what.early,
            "allowed_lateness": length(what.lateness, ticks),
            "partials": [[str(field) for field in algebra.fields] for algebra in what.algebras()],
            # whole rows are kept and come back
            "columns": str(what.schema) if isinstance(what.window, Over) else None,
        }

    def spec(self) -> AggregateSpec:
        found = group_statistics(self.what, self.of) if self.strategy == "auto" and self.table is None else None
        return aggregate_spec(
            self.what, self.of.properties, self.strategy, self.flush, self.table, found, self.backend.exact_names
        )
