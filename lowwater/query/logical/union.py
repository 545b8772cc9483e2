"""The union of several inputs. It becomes a meld in front of the operator that reads it (operators/meld.py)."""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pyarrow as pa

from lowwater.model.properties import Progressing, Properties
from lowwater.query.logical.node import Node


@dataclass(frozen=True, eq=False)
class Union(Node):
    """Meld: rows of all inputs; progress is that of the slowest."""

    inputs: tuple[Node, ...]

    @cached_property
    def properties(self) -> Properties:
        each = [node.properties for node in self.inputs]
        first, derived = each[0], any(one.derived for one in each)
        progress = []
        for p in first.progress:
            same = [found for one in each if (found := one.progressing(p.attribute)) is not None]
            if len(same) == len(each):
                known = [one.behind for one in same]
                behind = None if None in known else max(b for b in known if b is not None)
                by = p.by if all(one.by == p.by for one in same) else ()
                progress.append(Progressing(p.attribute, behind, any(one.nullable for one in same), by))
        hidden = [name for name in first.hidden if all(name in one.hidden for one in each)]
        names = [name for name in first.visible.names if all(name in one.visible.names for one in each)] + hidden
        return Properties(
            pa.schema([first.schema.field(name) for name in names]),
            tuple(p for p in progress if p.attribute in names),
            ends=() if derived else first.ends,  # of inputs they are declared of all rows of the union
            apart=True,
            united=True,
            hidden=tuple(hidden),
            silent=next((one.silent for one in each if one.silent), None),
            again=next((one.again for one in each if one.again), None),
            skewed=all(one.skewed for one in each),
            dense=any(one.dense for one in each),
            derived=derived,
            measured=first.measured if len({one.measured for one in each}) == 1 else None,
        )

    def over(self, *inputs: Node) -> Union:
        return Union(tuple(inputs))

    def line(self) -> str:
        return f"Meld  of {len(self.inputs)} inputs: rows pass at once, progress is the minimum"

    def reads(self, needed: Set[str]) -> Sequence[Set[str]]:
        return [needed for _ in self.inputs]

    def meaning(self) -> dict[str, Any]:
        return {"operator": "union"}
