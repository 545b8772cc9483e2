"""EXPLAIN: the plan as text, from the results to the inputs, with the reason and the bound of each operator."""

from __future__ import annotations

from lowwater.joins.window_join import JoinSpec
from lowwater.model.policy import Delay
from lowwater.model.properties import GREATEST, LEAST
from lowwater.model.ticks import Ticks
from lowwater.model.words import length, listed
from lowwater.plan.inputs import Input
from lowwater.plan.plan import Edge, Entry, Placed, Plan


def explain(plan: Plan) -> str:
    """The plan as a tree; below an operator come its inputs."""
    lines = _operator(plan, plan.root, follower=None)
    for step in reversed(plan.outside):
        lines = [f"{step}, by Spark", *_below(lines)]
    return "\n".join(lines)


def _operator(plan: Plan, number: int, follower: Edge | None) -> list[str]:
    placed = plan.operators[number]
    words = [*placed.spec.lines(), *_output(placed, follower), *_stage(plan, number)]
    all_fed: list[Entry | Edge] = [*plan.entries, *plan.edges]
    fed = [e for e in all_fed if e.operator == number or _read_through_union(plan, e, number)]
    if all(isinstance(e, Edge) and not e.crosses for e in fed):  # rows come from an operator of the same shard
        words = [(word, text) for word, text in words if word != "ingest"]
    if not any(isinstance(e, Entry) for e in fed):  # what crosses is reduced where the earlier stage emits it
        words = [(word, text.replace("at the source", "before the shuffle")) for word, text in words]
    lines = [placed.spec.title, *(f"   {word:8} {text}" for word, text in words)]
    for port in range(placed.spec.ports):
        for edge in plan.edges:
            if (edge.operator, edge.port) == (number, port):
                below = _operator(plan, edge.source, edge)
                for step in reversed(edge.outside):
                    below = [f"{step}, by Spark", *_below(below)]
                lines += _below(below)
        for entry in plan.entries:
            if (entry.operator, entry.port) == (number, port):
                lines += _below(_entry(plan, entry))
    return lines


def _read_through_union(plan: Plan, e: Entry | Edge, number: int) -> bool:
    return e.reader[0] == number and (isinstance(e, Entry) or e.crosses)


def _below(lines: list[str]) -> list[str]:
    return [f"└─ {lines[0]}", *(f"   {line}" for line in lines[1:])]


def _entry(plan: Plan, entry: Entry) -> list[str]:
    i = plan.inputs[entry.input]
    lines = [f"Input {i.name}", f"   progress {progress(i, Ticks(entry.schema.field(i.time).type))}"]
    if entry.ends is not None:
        lines.append(f"   values   {entry.ends}")
    for step in entry.steps:
        lines = [step, *_below(lines)]
    return lines


def _stage(plan: Plan, number: int) -> list[tuple[str, str]]:
    """Where the operator runs, if there are several stages, and why rows cross to it."""
    if plan.stages == 1:
        return []
    crossing = [e for e in plan.edges if e.crosses and e.reader[0] == number]
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


def progress(i: Input, ticks: Ticks) -> str:
    """How the progress of an input is known."""
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
        text += f"; per {i.source}, the slowest counts"
    if i.idle is not None:
        text += f"; a source silent for {i.idle.after / 1e6:g} s is advanced to {i.idle.lag / 1e6:g} s behind the clock"
    return text
