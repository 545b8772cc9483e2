"""Rewrites a tree from its inputs up, each node once: a relation that is used twice stays one node.

The planner places an operator per node, so a copy would be a second operator with a second state.
"""

from __future__ import annotations

from collections.abc import Callable

from lowwater.query.logical.node import Node


def bottom_up(root: Node, step: Callable[[Node], Node]) -> Node:
    """The tree after `step`, which gets each node over inputs that are rewritten already."""
    done: dict[int, Node] = {}
    for node in root.walk():
        inputs = [done[id(one)] for one in node.inputs]
        same = all(new is old for new, old in zip(inputs, node.inputs, strict=True))
        done[id(node)] = step(node if same else node.over(*inputs))
    return done[id(root)]


def copied(root: Node) -> Node:
    """The tree with a copy of each node per use. Checkpoints of earlier versions have state for each of them."""
    return root.over(*(copied(one) for one in root.inputs)) if root.inputs else root
