"""A union of unions is one union: its progress is one minimum, and what follows reads all inputs alike."""

from __future__ import annotations

from lowwater.query.logical import Node, Union
from lowwater.query.rules.bottom_up import bottom_up


def flatten_unions(root: Node) -> Node:
    return bottom_up(root, _flat)


def _flat(node: Node) -> Node:
    if not isinstance(node, Union) or not any(isinstance(one, Union) for one in node.inputs):
        return node
    return node.over(*(below for one in node.inputs for below in (one.inputs if isinstance(one, Union) else (one,))))
