"""The planner: from a logical tree to operators in stages. It places one operator per node, inputs first.

A node that several others read has one operator too: its results go to all of them.

where a node runs     row-wise steps over a scan run where rows are read; all others are operators
which stage           that of its inputs, if their rows lie as it needs them; else a stage later (stages.py)
how it is done        the node makes the spec of its operator, with the reason and the bound, or refuses
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from lowwater.errors import CheckpointMismatch, LowwaterError
from lowwater.operators.meld import MeldSpec
from lowwater.operators.spec import OperatorSpec
from lowwater.plan.inputs import Input
from lowwater.plan.plan import VERSION, Edge, Entry, OutsideStep, Placed, Plan, Root, labels_of
from lowwater.query.frame import Frame
from lowwater.query.logical.node import Node, Stateful
from lowwater.query.logical.roots import Roots
from lowwater.query.logical.scan import Rowwise, Scan, meaning, reading, scan_like
from lowwater.query.logical.union import Union
from lowwater.query.outside import only_outside, refuse_outside
from lowwater.query.rules import copied, rewritten
from lowwater.query.stages import Arrival, Placement, pinned_placement, placement


@dataclass(frozen=True)
class Planned:
    """A plan and the frames that its entries read."""

    plan: Plan
    frames: tuple[Frame, ...]


def plan(root: Node, late: bool = True, pinned: Mapping[str, Any] | None = None) -> Planned:
    """Plans a tree, or refuses it with a sentence. `late` reads inputs whole, for the late output.

    `pinned` are the choices that the checkpoint was made with. The planner follows them, so that a better planner does
    not orphan a running query.
    """
    if pinned is not None and pinned.get("version") != VERSION:
        raise CheckpointMismatch(
            f"The checkpoint pins a plan of version {pinned.get('version')}, this lowwater reads version {VERSION}; "
            "use a matching version or a new checkpoint."
        )
    refuse_backends(root)
    for node in root.walk():  # refuse the query as it was written, before any rule rewrites it
        if isinstance(node, Stateful):
            node.spec()
    text = json.dumps(meaning(root), default=str)
    whole = late if pinned is None else bool(pinned["whole"])  # state may hold columns that only the late output reads
    several = isinstance(root, Roots)  # their results have been shared from the first version on
    # Else each use of a result has an operator with its own state.
    once = several or pinned is None or bool(pinned.get("shared"))
    return Planning(pinned).planned(rewritten(root if once else copied(root), whole), root, text, whole)


class Planning:
    """One run of the planner over one tree: collects inputs, frames, entries, operators and edges."""

    def __init__(self, pinned: Mapping[str, Any] | None) -> None:
        self._pinned = pinned
        self._inputs: list[Input] = []
        self._frames: list[Frame] = []
        self._entries: list[Entry] = []
        self._operators: list[Placed] = []
        self._edges: list[Edge] = []
        self._placed: dict[int, Arrival] = {}
        """The nodes that are placed already, by their identity: what is used twice is computed once."""

    def planned(self, tree: Node, root: Node, text: str, late: bool) -> Planned:
        if isinstance(root, Roots):
            roots = [self._root(*one) for one in zip(tree.inputs, root.inputs, root.names, strict=True)]
        else:
            roots = [self._root(tree, root, "")]
        plan = Plan(
            tuple(self._inputs),
            tuple(self._entries),
            tuple(self._operators),
            tuple(self._edges),
            tuple(roots),
            text,
            late,
        )
        return Planned(plan, tuple(self._frames))

    def _root(self, tree: Node, root: Node, name: str) -> Root:
        """Places a query. `root` is its tree as it was written, before the rules."""
        arrival = self._place(tree)
        if arrival.operator is None:  # an input or a union by itself: rows pass as they are
            arrival = self._operator(MeldSpec(tree.schema, _attributes(tree), 1), [arrival], [tree])
        assert arrival.operator is not None
        shown = tuple(root.properties.visible.names)
        emitted = self._operators[arrival.operator].spec.result.names
        result = pa.schema([pa.field(f.name, f.type) for f in root.properties.visible])
        if arrival.outside:
            outside = (*arrival.outside, OutsideStep("project", columns=shown))
            return Root(arrival.operator, tuple(emitted), outside, result, name)
        return Root(arrival.operator, tuple(column for column in shown if column in emitted), (), result, name)

    # -- nodes -----------------------------------------------------------------------------------------------------

    def _place(self, node: Node) -> Arrival:
        if id(node) not in self._placed:
            self._placed[id(node)] = self._arrival(node)
        return self._placed[id(node)]

    def _arrival(self, node: Node) -> Arrival:
        if scan_like(node):
            return self._scan(node)
        if isinstance(node, Union):
            members = tuple(self._place(one) for one in node.inputs)
            return Arrival(members=members)
        inputs = [self._place(one) for one in node.inputs]
        if isinstance(node, Rowwise) and (inputs[0].outside or only_outside(node)):
            if not node.backend.outside:
                refuse_outside(node)
            return replace(inputs[0], outside=(*inputs[0].outside, node.step()))
        return self._operator(node.spec(), inputs, node.inputs)

    def _choice(self, arrivals: list[Arrival]) -> Mapping[str, Any] | None:
        """The pinned choices of the next operator. Unions in front of it are operators too."""
        if self._pinned is None:
            return None
        place = len(self._operators) + sum(len(arrival.flat) > 1 for arrival in arrivals)
        found: Mapping[str, Any] = self._pinned["operators"][place]
        return found

    def _scan(self, node: Node) -> Arrival:
        found = reading(node)
        declared = found.scan.input
        if all(known is not declared for known in self._inputs):
            refuse_name(declared, self._inputs)
            self._inputs.append(declared)
        self._frames.append(found.frame)
        entry = Entry(
            input=next(i for i, known in enumerate(self._inputs) if known is declared),
            frame=len(self._frames) - 1,
            schema=found.frame.schema,
            marked=found.marked,
            ends=found.ends,
            moves=found.moves,
            steps=found.steps,
            how=found.frame.how,
        )
        return Arrival(entry=entry)

    # -- operators -------------------------------------------------------------------------------------------------

    def _operator(self, spec: OperatorSpec, arrivals: list[Arrival], nodes: Any) -> Arrival:
        """Places an operator behind its inputs: its stage, its entries and its edges."""
        pinned = self._choice(arrivals)
        at = placement(spec, arrivals) if pinned is None else pinned_placement(pinned)
        if any(arrival.crosses(at.stage) for arrival in arrivals):
            spec = spec.behind_shuffle()
        if pinned is not None:
            spec = spec.as_pinned(pinned)
        heads = []  # melds of unions come before the operator that reads them
        for port, arrival in enumerate(arrivals):
            flat = arrival.flat
            if len(flat) > 1:
                properties = nodes[port].properties
                whole = bool(properties.ends)
                heads.append((port, MeldSpec(properties.schema, _attributes(nodes[port]), len(flat), whole)))
        number = len(self._operators) + len(heads)
        melds = {}
        for port, meld in heads:
            melds[port] = len(self._operators)
            self._put(meld, at, (at.routes[port],) * meld.ports, (nodes[port].properties.attribute,) * meld.ports)
            self._edges.append(Edge(melds[port], number, port))
        times = tuple(spec.timed_by(port) or nodes[port].properties.attribute for port in range(len(arrivals)))
        self._put(spec, at, at.routes, times)
        for port, arrival in enumerate(arrivals):
            for place, one in enumerate(arrival.flat):
                target = (melds[port], place) if port in melds else (number, port)
                self._connect(one, target, (number, port), at, nodes[port])
        return Arrival(operator=number, stage=at.stage, key=spec.partitioned(at.routes))

    def _put(self, spec: OperatorSpec, at: Placement, routes: Any, times: Any) -> None:
        *_, label = labels_of([*(placed.spec.name for placed in self._operators), spec.name])
        self._operators.append(Placed(spec, at.stage, label, tuple(routes), tuple(times)))

    def _connect(
        self, arrival: Arrival, target: tuple[int, int], reader: tuple[int, int], at: Placement, node: Node
    ) -> None:
        route = at.routes[reader[1]]
        if arrival.entry is not None:
            known = [e for e in self._entries if e.stage == at.stage and e.input == arrival.entry.input]
            self._entries.append(
                replace(
                    arrival.entry,
                    stage=at.stage,
                    operator=target[0],
                    port=target[1],
                    reader=reader,
                    route=route,
                    learns=not known,
                )
            )
            return
        assert arrival.operator is not None
        crosses = arrival.stage < at.stage or bool(arrival.outside)
        schema = node.schema if arrival.outside else None
        self._edges.append(
            Edge(
                arrival.operator,
                *target,
                crosses,
                reader,
                route,
                tuple(p.attribute for p in node.properties.progress),
                at.why if crosses else "",
                schema,
                arrival.outside,
            )
        )


def _attributes(node: Node) -> tuple[str, ...]:
    return tuple(p.attribute for p in node.properties.progress if p.attribute in node.schema.names)


def refuse_name(new: Input, known: list[Input]) -> None:
    """Two inputs must not share a name: it identifies them in metrics, in the late output and in the checkpoint."""
    if any(other.name == new.name for other in known):
        raise LowwaterError(f"Two streams of the query are named {new.name!r}; name them apart by stream(..., name=).")


def refuse_backends(root: Node) -> None:
    """All inputs of a query must be on one backend."""
    names = {node.frame.backend.name for node in root.walk() if isinstance(node, Scan)}
    if len(names) > 1:
        raise LowwaterError(
            f"A query runs in one place, but its inputs are {' and '.join(sorted(names))}; give all of them as Spark "
            "DataFrames, or all as Arrow tables."
        )
