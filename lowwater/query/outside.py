"""Outside steps: row-wise steps behind an operator that only Spark can evaluate, between two stages or at the end."""

from __future__ import annotations

from lowwater.expressions import Expression
from lowwater.plan.plan import OutsideStep
from lowwater.query.logical import Derive, Filter, Map, Node, Project, bound_to


def outside_step(node: Node) -> OutsideStep | None:
    """The step, if only Spark can evaluate it."""
    text = node.condition if isinstance(node, Filter) else node.expression if isinstance(node, Derive) else None
    return None if text is None or bound_to(text, node.inputs[0].schema) is not None else as_step(node)


def bound_outside(node: Node) -> None:
    text = node.condition if isinstance(node, Filter) else node.expression  # type: ignore[attr-defined]
    Expression.of(text, node.inputs[0].schema)


def as_step(node: Node) -> OutsideStep:
    if isinstance(node, Filter):
        return OutsideStep("filter", expression=node.condition)
    if isinstance(node, Derive):
        return OutsideStep("derive", node.name, node.expression)
    if isinstance(node, Project):
        return OutsideStep("project", columns=tuple(node.schema.names))
    assert isinstance(node, Map)
    return OutsideStep("map", function=node.function, schema=node.schema)
