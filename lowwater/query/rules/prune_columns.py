"""Columns that no later operator reads are not shipped: not handed over by Spark, not shuffled, not kept in state.

The rule walks from the root, which reads its visible columns, and asks each node what it reads of its inputs
(`Node.reads`) and what is left of it if only some of its columns are read (`Node.narrowed`).
"""

from __future__ import annotations

from collections.abc import Set

from lowwater.query.logical.node import Node
from lowwater.query.logical.rowwise import Project
from lowwater.query.logical.scan import learned_from, scan_like


def prune_columns(root: Node, whole: bool = False) -> Node:
    """The tree without columns that no operator reads. With `whole`, inputs keep all columns, for the late output."""
    return _pruned(root, set(root.properties.visible.names), whole)


def _pruned(node: Node, needed: Set[str], whole: bool) -> Node:
    if scan_like(node):
        return node if whole else _read(node, needed)
    node = node.narrowed(needed)
    each = zip(node.inputs, node.reads(needed), strict=True)
    return node.over(*(_pruned(one, columns, whole) for one, columns in each))


def _read(node: Node, needed: Set[str]) -> Node:
    """Keeps the columns of an input that are needed, that progress is learned from, or that report ended values."""
    wanted = {*needed, *learned_from(node)}
    columns = tuple(name for name in node.schema.names if name in wanted)
    return node if len(columns) == len(node.schema.names) else Project(node, columns, strict=True)
