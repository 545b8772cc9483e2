"""Columns that no later operator reads are not shipped: not handed over by Spark, not shuffled, not kept in state.

The rule walks from the root, which reads its visible columns, and asks each node what it reads of its inputs. A join
emits only what is read behind it and keeps of each input only what it emits, compares or progresses on.
"""

from __future__ import annotations

from dataclasses import replace

from lowwater.model.columns import WINDOW_TIME
from lowwater.model.properties import GREATEST, LEAST
from lowwater.query.logical import (
    Aggregate,
    Derive,
    Distinct,
    Ending,
    Filter,
    GroupBy,
    Join,
    Map,
    Node,
    Project,
    Scan,
    Union,
    bound_to,
    rowwise,
    scan_like,
)
from lowwater.windows.over import Over


def prune_columns(root: Node, whole: bool = False) -> Node:
    """The tree without columns that no operator reads. With `whole`, inputs keep all columns, for the late output."""
    return _pruned(root, set(root.properties.visible.names), whole)


def _pruned(node: Node, needed: set[str], whole: bool) -> Node:
    if scan_like(node):
        return node if whole else _read(node, needed)
    if isinstance(node, Aggregate):
        names = node.of.schema.names if isinstance(node.window, Over) else node.what.columns
        timed = node.timed and WINDOW_TIME in needed
        return replace(node, of=_pruned(node.of, set(names), whole), timed=timed)
    if isinstance(node, GroupBy):
        read = {column for _, aggregate in node.aggregates for column in aggregate.columns}
        return replace(node, of=_pruned(node.of, {*node.groups, *read, *node.what.times[:1]}, whole))
    if isinstance(node, Distinct):
        # all columns decide which of the rows with one key and time survives, whatever is read of it later
        names = node.on if node.within is None else node.of.schema.names
        return replace(node, of=_pruned(node.of, set(names), whole))
    if isinstance(node, Join):
        return _join(node, needed, whole)
    if isinstance(node, Union):
        return Union(tuple(_pruned(one, needed, whole) for one in node.inputs))
    assert rowwise(node), f"{type(node).__name__} needs its own rule"
    return _rowwise(node, needed, whole)


def _rowwise(node: Node, needed: set[str], whole: bool) -> Node:
    (below,) = node.inputs
    if isinstance(node, Filter):
        return node.over(_pruned(below, needed | _columns(node.condition, below), whole))
    if isinstance(node, Derive):
        if node.name not in needed:
            return _pruned(below, needed, whole)
        others = needed - {node.name} | _columns(node.expression, below)
        return node.over(_pruned(below, others | _together(node), whole))
    if isinstance(node, Project):
        kept = tuple(name for name in node.columns if name in needed)
        return replace(node, of=_pruned(below, needed, whole), columns=kept)
    if isinstance(node, Map):
        return node.over(_pruned(below, {*below.properties.visible.names, *needed}, whole))
    return node.over(_pruned(below, needed, whole))


def _columns(expression: str, below: Node) -> set[str]:
    """The columns that an expression reads; all of them where only Spark can evaluate it."""
    bound = bound_to(expression, below.schema)
    return set(below.schema.names) if bound is None else set(bound.columns)


def _together(node: Derive) -> set[str]:
    """The greatest or the least of all times, where the new column is just that."""
    bound = bound_to(node.expression, node.of.schema)
    extreme = None if bound is None else bound.extreme
    return set() if extreme is None else {GREATEST if extreme[0] == "greatest" else LEAST}


def _read(node: Node, needed: set[str]) -> Node:
    """Keeps the columns of an input that are needed, that progress is learned from, or that report ended values."""
    below = node
    wanted = set(needed)
    while rowwise(below):
        if isinstance(below, Ending):
            wanted |= {below.ends.attribute, *below.ends.columns}
        (below,) = below.inputs
    assert isinstance(below, Scan)
    wanted |= set(below.input.marks)
    columns = tuple(name for name in node.schema.names if name in wanted)
    return node if len(columns) == len(node.schema.names) else Project(node, columns, strict=True)


def _join(node: Join, needed: set[str], whole: bool) -> Join:
    what = node.what
    emits = tuple(name for name in (column.name for column in what.columns) if name in needed)
    read = replace(what, emits=emits).reads()
    inputs = [_pruned(one, of | set(one.properties.ends), whole) for one, of in zip(node.inputs, read, strict=True)]
    extremes = bool(needed & {GREATEST, LEAST})
    return replace(node, inputs=tuple(inputs), emits=emits, extremes=extremes)
