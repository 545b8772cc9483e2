"""Columns that no later operator reads are not shipped: not handed over by Spark, not shuffled, not kept in state.

The rule goes from the root, which reads its visible columns, to the inputs. It asks each node what it reads of its
inputs (`Node.reads`) and what is left of it if only some of its columns are read (`Node.narrowed`). A node that several
others read keeps what any of them reads. It is one node behind the rule too, but for two kinds:

    rows of an input            are read once per set of columns
    joins that are asked for    promises on both times together (JOINT) are apart from those that promise on each time
"""

from __future__ import annotations

from collections.abc import Hashable, Set
from dataclasses import dataclass, field

from lowwater.model.properties import JOINT
from lowwater.query.logical.node import Node
from lowwater.query.logical.rowwise import Project
from lowwater.query.logical.scan import learned_from, scan_like


def prune_columns(root: Node, whole: bool = False) -> Node:
    """The tree without columns that no operator reads. With `whole`, inputs keep all columns, for the late output."""
    return Pruning(root, whole).pruned()


@dataclass
class Wanted:
    """A node as some of its readers want it: the columns that they read, and then what is left of the node."""

    columns: set[str] = field(default_factory=set)
    left: Node | None = None


class Pruning:
    """One run of the rule."""

    def __init__(self, root: Node, whole: bool) -> None:
        self._root, self._whole = root, whole
        self._nodes = list(root.walk())
        self._wanted: dict[int, dict[Hashable, Wanted]] = {id(node): {} for node in self._nodes}

    def pruned(self) -> Node:
        visible = set(self._root.properties.visible.names)
        self._want(self._root, visible)
        for node in reversed(self._nodes):  # the readers of a node come before it
            for wanted in self._wanted[id(node)].values():
                self._narrow(node, wanted)
        for node in self._nodes:
            for wanted in self._wanted[id(node)].values():
                wanted.left = self._over_pruned(node, wanted)
        return self._found(self._root, visible)

    def _variant(self, node: Node, columns: Set[str]) -> Hashable:
        """Readers with the same variant share a node."""
        if not scan_like(node):
            return JOINT in columns
        return None if self._whole else frozenset(_read(node, columns).schema.names)

    def _want(self, node: Node, columns: Set[str]) -> None:
        self._wanted[id(node)].setdefault(self._variant(node, columns), Wanted()).columns |= columns

    def _found(self, node: Node, columns: Set[str]) -> Node:
        left = self._wanted[id(node)][self._variant(node, columns)].left
        assert left is not None
        return left

    def _narrow(self, node: Node, wanted: Wanted) -> None:
        if scan_like(node):
            return
        wanted.left = node.narrowed(wanted.columns)
        if wanted.left in node.inputs:  # a step that nobody reads
            self._want(wanted.left, wanted.columns)
            return
        for one, columns in zip(node.inputs, wanted.left.reads(wanted.columns), strict=True):
            self._want(one, columns)

    def _over_pruned(self, node: Node, wanted: Wanted) -> Node:
        if scan_like(node):
            return node if self._whole else _read(node, wanted.columns)
        left = wanted.left
        assert left is not None
        if left in node.inputs:
            return self._found(left, wanted.columns)
        reads = zip(node.inputs, left.reads(wanted.columns), strict=True)
        return left.over(*(self._found(one, columns) for one, columns in reads))


def _read(node: Node, needed: Set[str]) -> Node:
    """Keeps the columns of an input that are needed, that progress is learned from, or that report ended values."""
    wanted = {*needed, *learned_from(node)}
    columns = tuple(name for name in node.schema.names if name in wanted)
    return node if len(columns) == len(node.schema.names) else Project(node, columns, strict=True)
