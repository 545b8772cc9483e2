"""Where rows are read: the scan of a declared stream, and the base of the steps that run there with it."""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from lowwater.model.policy import Delay, Measured
from lowwater.model.properties import Progressing, Properties
from lowwater.plan.inputs import Ends, Input
from lowwater.plan.plan import OutsideStep
from lowwater.query.frame import Backend, Frame
from lowwater.query.logical.node import Node, Unary

UNDECLARED = "its disorder is measured and not declared, so nothing promises that rows are over; give disorder="


@dataclass(frozen=True, eq=False)
class Scan(Node):
    """Rows of a declared stream."""

    input: Input
    time: str
    frame: Frame = field(repr=False)

    @property
    def inputs(self) -> tuple[Node, ...]:  # type: ignore[override]
        return ()

    @cached_property
    def backend(self) -> Backend:
        return self.frame.backend

    @cached_property
    def properties(self) -> Properties:
        policy = self.input.policy
        if isinstance(policy, Measured):
            return Properties(
                self.frame.schema, silent=UNDECLARED, skewed=self.input.skewed, dense=self.dense, measured=self.time
            )
        behind = policy.ticks if isinstance(policy, Delay) else None
        return Properties(
            self.frame.schema,
            (Progressing(self.time, behind, by=() if self.input.source is None else (self.input.source,)),),
            apart=self.input.source is not None,
            skewed=self.input.skewed,
            dense=self.dense,
        )

    @property
    def dense(self) -> bool:
        return not self.input.skewed and not self.input.open

    def over(self, *inputs: Node) -> Scan:
        return self

    def line(self) -> str:
        return f"Input {self.input.name}"

    def meaning(self) -> dict[str, Any]:
        i = self.input
        return {
            "operator": "input",
            "name": i.name,
            "source": i.source,
            "disorder": i.policy.kind,
            "punctuated": None if i.punctuation is None else repr(i.punctuation),
            "progress": str(self.frame.schema.field(self.time)),
        }


@dataclass(frozen=True)
class Reading:
    """A scan and the row-wise steps over it as one frame, which the backend evaluates where rows are read."""

    scan: Scan
    frame: Frame
    marked: bool = False
    """Whether filters have marked rows."""
    ends: Ends | None = None
    moves: tuple[tuple[str, int], ...] = ()
    """Columns that move with the input's time, and by how many ticks they are ahead of it."""
    steps: tuple[str, ...] = ()
    """The steps as EXPLAIN prints them."""


class Rowwise(Unary):
    """A node that is evaluated row by row. It runs in one of three places:

    over a scan          where rows are read, as part of the frame (`read`)
    behind an operator   in the shard of its input, as an operator on Arrow (`spec`)
    in between           by Spark, if Arrow lacks something of its expression (`step`)
    """

    @property
    def text(self) -> str | None:
        """Its condition or expression in Spark SQL, if it has one."""
        return None

    def reads(self, needed: Set[str]) -> Sequence[Set[str]]:
        return [needed]

    def read(self, at: Reading) -> Reading:
        """The frame with this step over what is read before it."""
        raise AssertionError(f"{type(self).__name__} does not run where rows are read")

    def step(self) -> OutsideStep:
        """The step as Spark evaluates it between two stages."""
        raise AssertionError(f"{type(self).__name__} runs only where rows are read")


@dataclass(frozen=True, eq=False)
class Ending(Rowwise):
    """How the rows of an input report that values of a column have ended."""

    ends: Ends

    @cached_property
    def properties(self) -> Properties:
        before = self.of.properties
        marks = tuple(name for name in self.ends.columns if name != self.ends.attribute)
        return replace(before, ends=(self.ends.attribute,), hidden=tuple(dict.fromkeys([*before.hidden, *marks])))

    def line(self) -> str:
        return f"Ends  {self.ends}"

    def meaning(self) -> dict[str, Any]:
        return {"operator": "stream with ended values", "ends": str(self.ends)}

    def read(self, at: Reading) -> Reading:
        return replace(at, ends=self.ends)


def scan_like(node: Node) -> bool:
    """Whether a node is a scan or row-wise steps over one."""
    while isinstance(node, Rowwise):
        node = node.of
    return isinstance(node, Scan)


def meaning(root: Node) -> dict[str, Any]:
    """The meaning of the whole tree, for the fingerprint of a checkpoint."""
    own = root.meaning()
    if not own and scan_like(root):  # a step where rows are read leaves no trace
        return meaning(root.inputs[0])
    own = own or {"operator": "row-wise step"}  # elsewhere it has a place among the operators
    return own | {"inputs": [meaning(node) for node in root.inputs]}


def reading(node: Node) -> Reading:
    """A scan and the steps over it, as the backend evaluates them."""
    if isinstance(node, Scan):
        return Reading(node, node.frame)
    assert isinstance(node, Rowwise), f"{type(node).__name__} is not read with its input"
    return node.read(reading(node.of))


def learned_from(node: Node) -> list[str]:
    """The columns that progress and ended values are learned from where rows are read."""
    scans = [n for n in node.walk() if isinstance(n, Scan)]
    ends = [n.ends for n in node.walk() if isinstance(n, Ending)]
    marks = [name for scan in scans for name in scan.input.marks]
    return list(dict.fromkeys([*marks, *(name for one in ends for name in (one.attribute, *one.columns))]))
