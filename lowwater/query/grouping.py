"""Plans a group-by without a window: finds what closes its groups, or refuses with a sentence."""

from __future__ import annotations

from lowwater.errors import LowwaterError, UnknownColumn
from lowwater.model.words import listed
from lowwater.operators.group_by import GroupBySpec
from lowwater.query.logical import GroupBy, Join
from lowwater.query.refuse import groupable, refuse_revisions


def group_by_spec(node: GroupBy) -> GroupBySpec:
    """The spec of the group-by, or a refusal."""
    before = node.of.properties
    refuse_revisions(before, "A group-by")
    schema = before.schema
    for name in node.groups:
        if name not in schema.names:
            raise UnknownColumn(name, before.visible.names, "group_by()")
        if not groupable(type := schema.field(name).type):
            raise LowwaterError(
                f"group_by() cannot group by {name!r} of type {type}; cast it or select its parts first."
            )
    times = [p.attribute for p in before.progress if p.attribute in schema.names]
    closing = list(dict.fromkeys([*before.ends, *times]))
    if isinstance(node.of, Join):
        known = [name for name in (*node.of.what.keys, *node.of.what.times) if name in schema.names]
        closing = list(dict.fromkeys([*known, *closing]))
    if not set(node.groups) & set(closing):
        raise LowwaterError(
            f"group_by() without a window needs one of {', '.join(closing) or 'the columns that progress'} at least: "
            "progress proves when a timestamp is past, unique() or ends() when a value is; or use window()."
        )
    node.what.algebras()  # binds every aggregate to its column, which refuses unknown ones and types that do not fit
    closed = [name for name in node.groups if name in (*before.ends, *times)]
    if joint(node):
        assert isinstance(node.of, Join)
        closed = [*(name for name in closed if name in node.of.what.keys), listed(node.of.what.times)]
    why = f"a group is answered when punctuation on {' or '.join(closed)} proves that it is complete"
    until = "that is not complete"
    if not closed:
        why = f"punctuation on {listed(node.groups)} does not come before the end, when all groups are answered"
        until = "until the end"
    return GroupBySpec(node.what, why, until)


def joint(node: GroupBy) -> bool:
    """Whether a join in front should promise both times together: they are both grouped by, and no result lacks one."""
    join = node.of
    if not isinstance(join, Join) or join.how != "inner" or len(join.inputs) > 2 or join.rows is not None:
        return False
    return len(set(join.what.times) & set(node.groups)) == 2
