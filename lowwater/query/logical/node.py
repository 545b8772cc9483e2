"""The base of all nodes: what the planner, the rules and the backends ask of a node, whatever it computes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import pyarrow as pa

from lowwater.model.properties import Properties
from lowwater.operators.spec import OperatorSpec
from lowwater.query.frame import Backend


class Node(ABC):
    """A node of the logical tree. Frozen; see the text of the package."""

    inputs: tuple[Node, ...]

    @property
    @abstractmethod
    def properties(self) -> Properties:
        """What is known of its rows before any of them comes."""

    @property
    def schema(self) -> pa.Schema:
        """All columns, hidden ones included."""
        return self.properties.schema

    @abstractmethod
    def over(self, *inputs: Node) -> Node:
        """The same node over other inputs."""

    @abstractmethod
    def line(self) -> str:
        """The node in one line, for EXPLAIN and for the fixtures of the rules."""

    def reads(self, needed: Set[str]) -> Sequence[Set[str]]:
        """The columns that it reads of each input, if `needed` of its own columns are read behind it.

        Also names what joins promise of their times together (model/properties.py). By default all columns are read.
        """
        return [set(one.schema.names) for one in self.inputs]

    def narrowed(self, needed: Set[str]) -> Node:
        """The same node without what nobody reads, if only `needed` of its columns are read. By default the same.

        A step that adds only what nobody reads returns its input.
        """
        return self

    def spec(self) -> OperatorSpec:
        """The operator that computes it, or a refusal. Scans and unions have none."""
        raise AssertionError(f"{type(self).__name__} is no operator")

    def meaning(self) -> dict[str, Any]:
        """Everything of this node that state depends on, as plain values by their names; `operator` is one of them.

        Row-wise steps list nothing, so that a condition or an expression can be mended on an existing checkpoint.
        """
        return {}

    def walk(self) -> Iterator[Node]:
        """This node and all below it, each once, inputs first."""
        return _inputs_first(self, set())

    @cached_property
    def backend(self) -> Backend:
        """The backend that the inputs belong to."""
        return self.inputs[0].backend


def _inputs_first(node: Node, seen: set[int]) -> Iterator[Node]:
    seen.add(id(node))
    for one in node.inputs:
        if id(one) not in seen:
            yield from _inputs_first(one, seen)
    yield node


@dataclass(frozen=True, eq=False)
class Unary(Node):
    """A node with one input."""

    of: Node

    @property
    def inputs(self) -> tuple[Node, ...]:  # type: ignore[override]
        return (self.of,)

    def over(self, *inputs: Node) -> Node:
        return replace(self, of=inputs[0])


class Stateful(Node):
    """A node whose operator has state. The planner refuses it as it was written, before any rule rewrites the tree."""

    @abstractmethod
    def spec(self) -> OperatorSpec: ...

    @abstractmethod
    def meaning(self) -> dict[str, Any]: ...
