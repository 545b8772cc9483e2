"""Plans `distinct` and `drop_duplicates`, or refuses with a sentence."""

from __future__ import annotations

from lowwater.errors import BadProgress, BadWindow, LowwaterError, UnknownColumn
from lowwater.model.ticks import NEVER
from lowwater.operators.distinct import DistinctSpec
from lowwater.query.logical import Distinct
from lowwater.query.refuse import groupable, refuse_own_names, refuse_revisions


def distinct_spec(node: Distinct) -> DistinctSpec:
    """The spec of a `Distinct` node, or a refusal."""
    before = node.of.properties
    verb = "distinct()" if node.within is None else "drop_duplicates()"
    refuse_revisions(before, verb)
    refuse_own_names(before.schema)
    if not node.on:
        raise LowwaterError("drop_duplicates() needs columns that make rows the same, as in on='id'.")
    for name in node.on:
        if name not in before.schema.names:
            raise UnknownColumn(name, before.visible.names, verb)
        if node.on.count(name) > 1:
            raise LowwaterError(f"{verb} names {name!r} twice; name each column once.")
        if not groupable(type := before.schema.field(name).type):
            raise LowwaterError(f"{verb} cannot compare {name!r} of type {type}; cast it or select its parts first.")
    own = before.progressing(node.time)
    if own is None or own.nullable:
        raise BadProgress(
            f"{verb} would remember the rows that stay alone in the join for ever, since they have no {node.time!r}; "
            "drop duplicates in front of the join."
        )
    if node.within is not None and node.within >= -NEVER:
        raise BadWindow("drop_duplicates(within=) is longer than 2^62 ticks; use a shorter length.")
    return DistinctSpec(before.schema, node.on, node.time, node.within)
