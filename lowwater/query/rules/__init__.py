"""Rules: functions from tree to tree, applied in this order. Each has a fixture of trees before and after it.

flatten_unions      a union of unions is one union
push_below_union    row-wise steps over a union run in each of its inputs
mark_filters        a filter where rows are read marks them, because progress is learned from all rows
prune_columns       columns that no later operator reads are not shipped

A rule keeps a node that is used twice one node (bottom_up.py).
"""

from __future__ import annotations

from lowwater.query.logical import Node
from lowwater.query.rules.bottom_up import copied
from lowwater.query.rules.flatten_unions import flatten_unions
from lowwater.query.rules.mark_filters import mark_filters
from lowwater.query.rules.prune_columns import prune_columns
from lowwater.query.rules.push_below_union import push_below_union

RULES = (flatten_unions, push_below_union, flatten_unions, mark_filters)


def rewritten(root: Node, whole: bool = False) -> Node:
    """The tree after all rules. With `whole`, inputs keep all columns, for the late output."""
    for rule in RULES:
        root = rule(root)
    return prune_columns(root, whole)


__all__ = ["RULES", "copied", "flatten_unions", "mark_filters", "prune_columns", "push_below_union", "rewritten"]
