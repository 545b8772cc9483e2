"""Refusals of verbs over streams: columns that a stream depends on stay as they are, and unions have like inputs.

A stream depends on the columns that progress is learned from, that tell its sources apart, and that report ended
values. The results of an operator depend on no column, because their progress comes as punctuation.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from lowwater.errors import BadProgress, LowwaterError
from lowwater.model.properties import Properties
from lowwater.plan.inputs import Ends
from lowwater.query.logical.node import Node
from lowwater.query.logical.scan import Ending, Scan, learned_from, scan_like


def refuse_column(node: Node, name: str) -> None:
    """Refuses a column that with_column() must not add or replace."""
    if name.startswith("__lw_"):
        raise LowwaterError(f"with_column() cannot add {name!r}: names that begin with __lw_ are lowwater's own.")
    if (why := _spoken_for(node).get(name)) is not None:
        raise LowwaterError(f"with_column() may not replace {name!r}, {why}.")


def refuse_selection(node: Node, columns: Sequence[str]) -> None:
    """Refuses columns that select() names twice, and a stream without those that it is learned from."""
    twice = sorted({name for name in columns if columns.count(name) > 1})
    if twice:
        raise LowwaterError(f"select() names {twice[0]!r} twice; name each column once.")
    for column in _learned_from(node):
        if column not in columns:
            raise LowwaterError(f"select() must keep {column!r}, on which the stream progresses.")


def refuse_function(node: Node, schema: pa.Schema) -> None:
    """Refuses a function that does not return the columns that a stream is learned from."""
    ended = [n.ends.attribute for n in node.walk() if isinstance(n, Ending) and scan_like(node)]
    for column in dict.fromkeys([*ended, *_learned_from(node)]):
        if column not in schema.names or schema.field(column).type != node.schema.field(column).type:
            since = "unique() or ends() speak of it" if column in ended else "the stream progresses on it"
            raise LowwaterError(f"apply() must keep {column!r} as it is, since {since}.")


def refuse_ending(before: Properties, ends: Ends) -> None:
    """Refuses unique() and ends() where they cannot be declared."""
    schema = before.schema
    if before.derived:
        raise LowwaterError("unique() and ends() are for streams: what a result ends follows from its inputs.")
    if ends.when is not None and not pa.types.is_boolean(schema.field(ends.when).type):
        raise LowwaterError(f"ends(when=) names a boolean column, but {ends.when!r} is not; derive one first.")
    wanted = schema.field(ends.attribute).type
    for name in (name for name in (ends.value, ends.low, ends.high) if name is not None):
        given = schema.field(name).type
        if name == ends.value and (pa.types.is_list(given) or pa.types.is_large_list(given)):
            given = given.value_type
        if given != wanted:
            raise LowwaterError(
                f"ends() needs {name!r} of the type of {ends.attribute!r}, {wanted}, not {given}; cast it."
            )
    if before.ends:
        raise LowwaterError("A stream says once when values end: by unique() or by ends(), of one column.")
    if ends.low is not None and ends.attribute == before.attribute:
        raise LowwaterError("ends(range=) cannot be of the progressing attribute; time has its own punctuation.")


def refuse_union(nodes: Sequence[Node]) -> None:
    """Refuses a union of relations with other columns, without a common time, of one name, or of revisions."""
    again = next((node.properties.again for node in nodes if node.properties.again), None)
    if again is not None:
        raise LowwaterError(
            f"union() cannot follow, because {again}, and a revision counts the answers of one query only; leave that "
            "out, or use union() in front of the window."
        )
    for other in nodes[1:]:
        _refuse_unlike(nodes[0].properties, other.properties)
    inputs = [n.input for node in nodes for n in node.walk() if isinstance(n, Scan) and scan_like(node)]
    names = [one.name for one in {id(one): one for one in inputs}.values()]  # one stream may be there twice
    if len(set(names)) < len(names):
        raise LowwaterError(
            f"union() needs inputs of different names, but has {names}; name them by stream(..., name=)."
        )


def _refuse_unlike(ours: Properties, theirs: Properties) -> None:
    if any(one.ends and not one.derived for one in (ours, theirs)):
        raise LowwaterError("union() comes before unique() and ends(): they hold for all rows of the union.")
    common = [
        p.attribute
        for p in ours.progress
        if theirs.progressing(p.attribute) is not None
        and p.attribute in ours.schema.names
        and ours.schema.field(p.attribute).type == theirs.schema.field(p.attribute).type
    ]
    if not common:
        mine, other = (_shown(one) for one in (ours, theirs))
        raise BadProgress(f"union() needs the same progressing attribute on both sides; here {mine} meets {other}.")
    differing = sorted(set(theirs.visible.names) ^ set(ours.visible.names))
    if differing:
        raise LowwaterError(f"union() needs the same columns on both sides; they differ in {differing}.")
    for name in ours.visible.names:
        mine, other = ours.schema.field(name).type, theirs.schema.field(name).type
        if mine != other:
            raise LowwaterError(f"union() needs the same types on both sides; {name!r} is {mine} and {other}.")


def _shown(of: Properties) -> str:
    return "nothing" if of.attribute is None else f"{of.attribute!r} ({of.schema.field(of.attribute).type})"


def _learned_from(node: Node) -> list[str]:
    """The columns that progress is learned from where rows are read; none behind an operator."""
    return [] if node.properties.derived else learned_from(node)


def _spoken_for(node: Node) -> dict[str, str]:
    """Columns that must not be replaced, with the reason and what to do instead."""
    if node.properties.derived:
        return {}
    found: dict[str, str] = {}
    for below in node.walk():
        if isinstance(below, Scan):
            marks = below.input
            found[marks.time] = "on which the stream progresses; derive a new column"
            if marks.source:
                found[marks.source] = "which tells the sources apart; derive a new column"
            if marks.punctuation:
                for name in (marks.punctuation.when, marks.punctuation.upto):
                    found[name] = "which carries the punctuation; derive a new column"
        if isinstance(below, Ending):
            for name in (below.ends.attribute, *below.ends.columns):
                found[name] = "which unique() or ends() read; derive a new column, or replace it before them"
    return found
