"""Row-wise steps over a union run in each of its inputs: there Spark evaluates them where rows are read."""

from __future__ import annotations

from lowwater.query.logical import Map, Node, Project, Rowwise, Union
from lowwater.query.rules.bottom_up import bottom_up


def push_below_union(root: Node) -> Node:
    return bottom_up(root, _pushed)


def _pushed(node: Node) -> Node:
    if not isinstance(node, Rowwise) or not isinstance(node.of, Union):
        return node
    below = node.of
    alike = {id(one): _in_order(one, below) if isinstance(node, Map) else one for one in below.inputs}
    pushed = {one: _pushed(node.over(member)) for one, member in alike.items()}
    return Union(tuple(pushed[id(one)] for one in below.inputs))


def _in_order(member: Node, union: Union) -> Node:
    """A function sees the columns of every input in the order of the union."""
    names = tuple(union.properties.visible.names)
    return member if tuple(member.properties.visible.names) == names else Project(member, names)
