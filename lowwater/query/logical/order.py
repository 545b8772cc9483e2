"""`in_order`: the node, and what of it is refused."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from lowwater.model.properties import Properties
from lowwater.operators.order import OrderSpec
from lowwater.query.logical.node import Stateful, Unary
from lowwater.query.refuse import refuse_nullable_time, refuse_own_names, refuse_revisions


@dataclass(frozen=True, eq=False)
class Order(Unary, Stateful):
    """The rows in order of a time."""

    time: str

    @cached_property
    def properties(self) -> Properties:
        before = self.of.properties
        own = before.progressing(self.time)
        assert own is not None
        own = replace(own, behind=0, by=())  # rows leave when they are final for the slowest source
        return replace(before, progress=(own,), ends=(), apart=False, united=False, derived=True)

    def line(self) -> str:
        return f"Order  by {self.time}"

    def meaning(self) -> dict[str, Any]:
        return {"operator": "order", "time": self.time, "columns": str(self.schema)}

    def spec(self) -> OrderSpec:
        before = self.of.properties
        refuse_revisions(before, "in_order()")
        refuse_own_names(before.schema)
        refuse_nullable_time(self.time, before, "in_order()")
        return OrderSpec(before.schema, self.time)
