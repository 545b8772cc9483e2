"""Reading: a scan and the row-wise steps over it as one frame, which the backend evaluates where rows are read."""

from __future__ import annotations

from dataclasses import dataclass, replace

from lowwater.model.columns import KEEP
from lowwater.plan.inputs import Ends
from lowwater.query.frame import Frame
from lowwater.query.logical import Derive, Ending, Map, Mark, Node, Project, Scan


@dataclass(frozen=True)
class Reading:
    """A scan and the steps over it."""

    scan: Scan
    frame: Frame
    marked: bool = False
    """Whether filters have marked rows."""
    ends: Ends | None = None
    moves: tuple[tuple[str, int], ...] = ()
    """Columns that move with the input's time, and by how many ticks they are ahead of it."""
    steps: tuple[str, ...] = ()
    """The steps as EXPLAIN prints them."""


def read(node: Node) -> Reading:
    """The steps over a scan, evaluated by the backend."""
    if isinstance(node, Scan):
        return Reading(node, node.frame)
    (below,) = node.inputs
    at = read(below)
    steps = (*at.steps, node.line())
    if isinstance(node, Mark):
        holds = f"coalesce(({node.condition}), false)"
        text = f"CASE WHEN {KEEP} THEN {holds} ELSE false END" if node.again else holds
        return replace(at, frame=at.frame.with_column(KEEP, text), marked=True, steps=steps)
    if isinstance(node, Derive):
        text = f"CASE WHEN {KEEP} THEN ({node.expression}) END" if node.guarded else node.expression
        new = tuple((node.name, ahead) for p, ahead in node.moves if p.attribute == at.scan.time)
        return replace(at, frame=at.frame.with_column(node.name, text), moves=(*at.moves, *new), steps=steps)
    if isinstance(node, Project):
        columns = [*node.schema.names, *([KEEP] if at.marked else [])]
        return replace(at, frame=at.frame.select(columns), steps=at.steps if node.strict else steps)
    if isinstance(node, Map):
        return replace(at, frame=at.frame.apply(node.function, node.schema), steps=steps)
    assert isinstance(node, Ending)
    return replace(at, ends=node.ends)
