"""The roots of several queries as one tree: they are planned and run as one, and keep results of their own."""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import pyarrow as pa

from lowwater.model.properties import Properties
from lowwater.query.logical.node import Node


@dataclass(frozen=True, eq=False)
class Roots(Node):
    """Several queries, each with a name. It is no relation: no row of one query meets a row of another one here."""

    inputs: tuple[Node, ...]
    names: tuple[str, ...]

    @cached_property
    def properties(self) -> Properties:
        return Properties(pa.schema([]))

    def over(self, *inputs: Node) -> Roots:
        return replace(self, inputs=tuple(inputs))

    def line(self) -> str:
        return f"Queries  {', '.join(self.names)}"

    def reads(self, needed: Set[str]) -> Sequence[Set[str]]:
        """What each query shows, whatever is needed."""
        return [set(one.properties.visible.names) for one in self.inputs]

    def meaning(self) -> dict[str, Any]:
        return {"operator": "set of queries", "names": list(self.names)}
