"""A union of unions is one union: its progress is one minimum, and what follows reads all inputs alike."""

from __future__ import annotations

from lowwater.query.logical import Node, Union


def flatten_unions(node: Node) -> Node:
    inputs = [flatten_unions(one) for one in node.inputs]
    if isinstance(node, Union):
        inputs = [below for one in inputs for below in (one.inputs if isinstance(one, Union) else (one,))]
    return node.over(*inputs) if inputs else node
