"""A filter where rows are read marks rows in a column and drops none, because progress is learned from all of them.

Later steps are guarded: an expression is not evaluated for rows that a filter before it drops, because it could fail on
them (`where("x rlike '[0-9]+'")` and then `cast(x as int)`). A filter behind an aggregation or a join does drop rows:
the operators behind it learn of progress from punctuation.
"""

from __future__ import annotations

from dataclasses import replace

from lowwater.query.logical import Derive, Filter, Mark, Node, Rowwise, scan_like


def mark_filters(node: Node) -> Node:
    if scan_like(node):
        return _marked(node)[0]
    inputs = [mark_filters(one) for one in node.inputs]
    return node.over(*inputs) if inputs else node


def _marked(node: Node) -> tuple[Node, bool]:
    """The steps over a scan, and whether one of them has marked rows."""
    if not isinstance(node, Rowwise):
        return node, False
    below, marks = _marked(node.of)
    if isinstance(node, Filter):
        return Mark(below, node.condition, marks), True
    if isinstance(node, Derive) and marks:
        return replace(node, of=below, guarded=True), True
    return node.over(below), marks
