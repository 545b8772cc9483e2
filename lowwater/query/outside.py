"""Outside steps: row-wise steps behind an operator that only Spark can evaluate, between two stages or at the end."""

from __future__ import annotations

from lowwater.expressions import Expression
from lowwater.query.logical.rowwise import bound_to
from lowwater.query.logical.scan import Rowwise


def only_outside(node: Rowwise) -> bool:
    """Whether only Spark can evaluate a step, because Arrow lacks something of its expression."""
    return node.text is not None and bound_to(node.text, node.of.schema) is None


def refuse_outside(node: Rowwise) -> None:
    """Refuses a step that only Spark can evaluate. The sentence names what Arrow lacks."""
    assert node.text is not None
    Expression.of(node.text, node.of.schema)
