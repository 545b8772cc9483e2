"""A plan described: one tree of operators, steps and inputs, from which EXPLAIN writes text, JSON, DOT and pictures.

The root is what yields the results. Below a node are its inputs. A node has its words as EXPLAIN prints them, and the
same facts as plain values for programs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from lowwater.joins.window_join import JoinSpec
from lowwater.model.policy import Delay
from lowwater.model.properties import GREATEST, LEAST
from lowwater.model.ticks import Ticks
from lowwater.model.words import length, listed
from lowwater.operators.aggregate import AggregateSpec
from lowwater.plan.inputs import Input
from lowwater.plan.plan import Edge, Entry, Placed, Plan


@dataclass(frozen=True)
class Described:
    """A node of a described plan."""

    kind: str
    """operator, step, input, or `again`: an operator whose results are read twice, where it is described already. Of
    several queries: query, and `queries` above them"""
    title: str
    lines: tuple[tuple[str, str], ...] = ()
    """Pairs of a word and a text, such as ("state", "at most 2 rows")."""
    inputs: tuple[Described, ...] = ()
    number: int | None = None
    """Of an operator, its number in the plan and in the metrics."""
    facts: dict[str, Any] = field(default_factory=dict)
    """The facts behind the lines, as plain values."""

    def walk(self) -> Iterator[Described]:
        yield self
        for one in self.inputs:
            yield from one.walk()

    def values(self) -> dict[str, Any]:
        """The tree as plain values, for JSON."""
        words: dict[str, list[str]] = {}
        for word, text in self.lines:
            words.setdefault(word, []).append(text)
        return {
            "kind": self.kind,
            "title": self.title,
            **self.facts,
            "lines": words,
            "inputs": [one.values() for one in self.inputs],
        }


def describe(plan: Plan) -> Described:
    """The tree of a plan, with the reason, the partitioning and the bound of each operator."""
    known: set[int] = set()
    trees = [_by_spark(root.outside, _operator(plan, root.operator, None, known)) for root in plan.roots]
    if len(trees) == 1:
        return trees[0]
    names = [root.name for root in plan.roots]
    queries = (
        Described("query", f"Query {name}", inputs=(tree,), facts={"query": name})
        for name, tree in zip(names, trees, strict=True)
    )
    scans = scanned(plan)
    lines = tuple(("scan", f"{name} is read once, for {listed(readers)}") for name, readers in scans.items())
    facts = {"queries": names, "scans": scans}
    return Described("queries", f"Together  {len(names)} queries in one plan", lines, tuple(queries), facts=facts)


def scanned(plan: Plan) -> dict[str, list[str]]:
    """The inputs of a plan, each with the names of the queries that read it."""
    return {
        declared.name: [
            root.name
            for root, of in zip(plan.roots, plan.queries, strict=True)
            if any(entry.input == number for entry in of.read)
        ]
        for number, declared in enumerate(plan.inputs)
    }


def _by_spark(steps: Sequence[object], below: Described) -> Described:
    for step in steps:
        below = Described("step", f"{step}, by Spark", inputs=(below,))
    return below


def _operator(plan: Plan, number: int, follower: Edge | None, known: set[int]) -> Described:
    """An operator and all below it. `known` are the operators that are described already."""
    placed = plan.operators[number]
    if number in known:
        facts = {"operator": placed.label, "number": number}
        return Described("again", f"{placed.label}, as above", facts=facts)
    known.add(number)
    words = [*placed.spec.lines(), *_output(placed, follower), *_stage(plan, number)]
    all_fed: list[Entry | Edge] = [*plan.entries, *plan.edges]
    fed = [e for e in all_fed if e.operator == number or _read_through_union(plan, e, number)]
    if all(isinstance(e, Edge) and not e.crosses for e in fed):  # rows come from an operator of the same shard
        words = [(word, text) for word, text in words if word != "ingest"]
    if not any(isinstance(e, Entry) for e in fed):  # what crosses is reduced where the earlier stage emits it
        words = [(word, text.replace("at the source", "before the shuffle")) for word, text in words]
    below: list[Described] = []
    for port in range(placed.spec.ports):
        for edge in plan.edges:
            if (edge.operator, edge.port) == (number, port):
                below.append(_by_spark(edge.outside, _operator(plan, edge.source, edge, known)))
        below += [_entry(plan, entry) for entry in plan.entries if (entry.operator, entry.port) == (number, port)]
    return Described("operator", placed.spec.title, tuple(words), tuple(below), number, _facts(plan, number, words))


def _facts(plan: Plan, number: int, words: Sequence[tuple[str, str]]) -> dict[str, Any]:
    placed = plan.operators[number]
    spec = placed.spec
    bound: dict[str, Any] = {"text": [text for word, text in words if word == "state"]}
    if isinstance(spec, AggregateSpec) and spec.limit is not None:
        bound |= {"partials_per_group": spec.limit}
    return {
        "operator": placed.label,
        "number": number,
        "choice": spec.choice(),
        "reason": next((text for word, text in words if word == "because"), None),
        "partitioning": [None if route is None else list(route) for route in placed.routes],
        "stage": placed.stage + 1,
        "stages": plan.stages,
        "crosses": [
            {
                "from": plan.operators[edge.source].label,
                "by": None if edge.route is None else list(edge.route),
                "progress": [name for name in edge.attributes if name not in (GREATEST, LEAST)],
                "because": edge.why,
            }
            for edge in _crossing(plan, number)
        ],
        "bound": bound,
    }


def _read_through_union(plan: Plan, e: Entry | Edge, number: int) -> bool:
    return e.reader[0] == number and (isinstance(e, Entry) or e.crosses)


def _entry(plan: Plan, entry: Entry) -> Described:
    i = plan.inputs[entry.input]
    lines = [("progress", progress(i, Ticks(entry.schema.field(i.time).type), plan.closes_by(entry)))]
    if entry.how:
        lines.append(("columns", entry.how))
    if entry.ends is not None:
        lines.append(("values", str(entry.ends)))
    facts = {"input": i.name, "progress": i.time, "source": i.source, "closes_by": plan.closes_by(entry)}
    node = Described("input", f"Input {i.name}", tuple(lines), facts=facts)
    for step in entry.steps:
        node = Described("step", step, inputs=(node,))
    return node


def _crossing(plan: Plan, number: int) -> list[Edge]:
    return [e for e in plan.edges if e.crosses and e.reader[0] == number]


def _stage(plan: Plan, number: int) -> list[tuple[str, str]]:
    """Where the operator runs, if there are several stages, and why rows cross to it."""
    if plan.stages == 1:
        return []
    crossing = _crossing(plan, number)
    text = f"{plan.operators[number].stage + 1} of {plan.stages}"
    if not crossing:
        return [("stage", text)]
    routes = sorted({", ".join(e.route) if e.route else "" for e in crossing})
    by = f"routed by {routes[0]}" if routes[0] else "all to one shard"
    if getattr(plan.operators[number].spec, "spread", False):
        by = "routed by window"
    names = [name for name in dict.fromkeys(a for e in crossing for a in e.attributes) if name not in (GREATEST, LEAST)]
    crosses = f"rows, and progress on {listed(names)}" if names else "rows"
    return [("stage", f"{text}, because {crossing[0].why}"), ("shuffle", f"{crosses}, {by}")]


def _output(placed: Placed, follower: Edge | None) -> list[tuple[str, str]]:
    """What a join promises to its follower."""
    spec = placed.spec
    if not isinstance(spec, JoinSpec) or follower is None:
        return []
    promised = []
    if spec.joint:
        promised = [f"joint progress on {listed(spec.what.times)}, because both are grouped by"]
    else:
        what = spec.what
        times = [t for t, wait in zip(what.times, what.waits, strict=True) if wait is not None or what.rows]
        names = list(dict.fromkeys(times[:1] if what.one_sided else times))
        if names:
            promised = [f"progress on {' and on '.join(names)}"]
        if spec.extremes:
            promised.append("progress on the greatest and the least of the times")
    if spec.tactic == "pw":
        promised.append(f"values of {spec.what.keys[0]} that are over")
    return [("output", "; ".join(promised) or "no punctuation before the end")]


def progress(i: Input, ticks: Ticks, by: str | None = None) -> str:
    """How the progress of an input is known. `by` is the source column, if groups close by the progress of their own
    source."""
    policy = (
        f"delay of at most {length(i.policy.ticks, ticks)}"
        if isinstance(i.policy, Delay) and i.policy.ticks
        else str(i.policy)
    )
    text = f"{i.time}, {policy}"
    if i.punctuation is not None:
        what = "punctuations and data" if i.punctuation.data else "punctuations"
        text += f"; rows with {i.punctuation.when} are {what} up to {i.punctuation.upto}"
    if i.source is not None:
        counts = "the slowest counts" if by is None else f"each {by} closes by its own progress"
        text += f"; per {i.source}, {counts}"
    if i.idle is not None:
        text += f"; a source silent for {i.idle.after / 1e6:g} s is advanced to {i.idle.lag / 1e6:g} s behind the clock"
    return text


def noted(node: Described, lines: dict[int, list[tuple[str, str]]], facts: dict[int, dict[str, Any]]) -> Described:
    """The tree with more lines and facts of its operators, by their numbers."""
    return replace(
        node,
        lines=(*node.lines, *lines.get(-1 if node.number is None else node.number, [])),
        facts=node.facts | facts.get(-1 if node.number is None else node.number, {}),
        inputs=tuple(noted(one, lines, facts) for one in node.inputs),
    )
