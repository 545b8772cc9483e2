"""Row-wise steps over a union run in each of its inputs: there Spark evaluates them where rows are read."""

from __future__ import annotations

from lowwater.query.logical import Map, Node, Project, Rowwise, Union


def push_below_union(node: Node) -> Node:
    inputs = [push_below_union(one) for one in node.inputs]
    if isinstance(node, Rowwise) and isinstance(inputs[0], Union):
        below = inputs[0]
        members = [_in_order(one, below) if isinstance(node, Map) else one for one in below.inputs]
        return Union(tuple(push_below_union(node.over(one)) for one in members))
    return node.over(*inputs) if inputs else node


def _in_order(member: Node, union: Union) -> Node:
    """A function sees the columns of every input in the order of the union."""
    names = tuple(union.properties.visible.names)
    return member if tuple(member.properties.visible.names) == names else Project(member, names)
