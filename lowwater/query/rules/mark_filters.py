"""A filter where rows are read marks rows in a column and drops none, because progress is learned from all of them.

Later steps are guarded: an expression is not evaluated for rows that a filter before it drops, because it could fail on
them (`where("x rlike '[0-9]+'")` and then `cast(x as int)`). A filter behind an aggregation or a join does drop rows:
the operators behind it learn of progress from punctuation.
"""

from __future__ import annotations

from dataclasses import replace

from lowwater.query.logical import Derive, Filter, Mark, Node, scan_like
from lowwater.query.rules.bottom_up import bottom_up


def mark_filters(root: Node) -> Node:
    return bottom_up(root, _marked)


def _marked(node: Node) -> Node:
    if not isinstance(node, Filter | Derive) or not scan_like(node):
        return node
    marks = any(isinstance(below, Mark) for below in node.of.walk())
    if isinstance(node, Filter):
        return Mark(node.of, node.condition, marks)
    return replace(node, guarded=True) if marks else node
