"""EXPLAIN: the plan as text, from the sink to the sources, with the reason for each choice and the state it expects."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lowwater.model.policy import Delay
from lowwater.model.ticks import Ticks
from lowwater.operators.bucket import WindowedAggregation, WindowKind
from lowwater.operators.flush import EAGER
from lowwater.query.plan import Input, Plan
from lowwater.windows.context_aware import Partitioned, Session, SlideByTuple
from lowwater.windows.context_free import ContextFree, Landmark, Sliding, TupleBased
from lowwater.windows.over import Over

NAMES = {
    "wid": "WID aggregate",
    "panes": "Paned-WID aggregate",
    "landmark": "Landmark aggregate",
    "buffer": "Buffered aggregate (baseline)",
    "adaptive": "AdaptWID aggregate",
    "bins": "Bins aggregate",
    "marked-bins": "Bins aggregate",
    "partitioned": "Partitioned aggregate",
    "sessions": "Session aggregate",
    "over": "OVER aggregate",
}


@dataclass(frozen=True)
class Branch:
    """What EXPLAIN shows of one input: the steps between the source and the aggregation, in the order they are done."""

    name: str
    steps: tuple[str, ...]


def explain(plan: Plan, branches: Sequence[Branch]) -> str:
    what = plan.what
    aggregates = ", ".join(f"{name} = {aggregate}" for name, aggregate in what.aggregates)
    lines = [
        f"{NAMES[plan.tactic]}  {aggregates}",
        f"   window   {describe(what.window, what.ticks)} over {_axis(what)}" + _origin(what),
        f"   groups   {', '.join(what.group_by) or 'one for all rows'}",
        f"   because  {plan.reason.why}",
        f"   state    at most {plan.reason.bound}",
        f"   ingest   {_ingest(plan)}",
        *(f"   {name:8} {text}" for name, text in _emission(plan)),
    ]
    indent = ""
    if len(plan.inputs) > 1:
        lines.append(f"└─ Meld  of {len(plan.inputs)} inputs: rows pass at once, progress is the minimum")
        indent = "   "
    for i, branch in zip(plan.inputs, branches, strict=True):
        steps = [*reversed(branch.steps), f"Input {branch.name}"]
        for depth, step in enumerate(steps):
            lines.append(f"{indent}{'   ' * depth}└─ {step}")
        lines.append(f"{indent}{'   ' * len(steps)}   progress {progress(i, what.time, what.ticks)}")
    return "\n".join(lines)


def progress(i: Input, time: str, ticks: Ticks) -> str:
    policy = (
        f"delay of at most {length(i.policy.ticks, ticks)}"
        if isinstance(i.policy, Delay) and i.policy.ticks
        else str(i.policy)
    )
    text = f"{time}, {policy}"
    if i.punctuation is not None:
        what = "punctuations and data" if i.punctuation.data else "punctuations"
        text += f"; rows with {i.punctuation.when} are {what} up to {i.punctuation.upto}"
    if i.source is not None:
        text += f"; per {i.source}, the slowest counts"
    if i.idle is not None:
        text += f"; a source silent for {i.idle.after / 1e6:g} s is advanced to {i.idle.lag / 1e6:g} s behind the clock"
    return text


def _ingest(plan: Plan) -> str:
    if plan.sends_rows:
        return "rows are numbered and sent as they are" if plan.numbered else "rows are sent as they are"
    by = "fragment" if plan.tactic == "sessions" else "time" if plan.tactic == "bins" else "pane"
    table = "" if plan.table is None else f", in a table of {plan.table:,} entries"
    return f"rows are reduced by (group, {by}) at the source{table}"


def _emission(plan: Plan) -> list[tuple[str, str]]:
    """What is out of the ordinary in when and how often answers come."""
    what = plan.what
    lines = []
    if what.late == "drop":
        lines.append(("late", "rows late for one window are dropped from all"))
    if what.early:
        lines.append(("early", "open windows are answered after each batch that changed them"))
    if what.lateness:
        lines.append(("lateness", f"closed windows take late rows for {length(what.lateness, what.ticks)}, and revise"))
    if plan.flush != EAGER:
        lines.append(("flush", str(plan.flush)))
    return lines


def _axis(what: WindowedAggregation) -> str:
    window = what.window
    by_rows = isinstance(window, TupleBased) or (isinstance(window, Partitioned) and window.order == "arrival")
    return "row-num, in arrival order" if by_rows else what.time


def _origin(what: WindowedAggregation) -> str:
    if not what.anchored:
        return ", from the first row on"
    window = what.window
    if not isinstance(window, ContextFree) or isinstance(window, TupleBased):
        return ""
    start = window.origin - (window.range % window.slide if isinstance(window, Sliding) else 0)
    return f", from {what.ticks.decode(np.array([start]))[0]} on" if start else ""


def describe(window: WindowKind, ticks: Ticks) -> str:
    """The window in the notation of the thesis."""
    if isinstance(window, Landmark):
        restart = "" if window.period is None else f" anew every {length(window.period, ticks)}"
        return f"RANGE ALL{restart} SLIDE {length(window.slide, ticks)}"
    if isinstance(window, TupleBased | Partitioned):
        each = " of each key" if isinstance(window, Partitioned) else ""
        return f"RANGE {rows(window.range)} SLIDE {rows(window.slide)}{each}"
    if isinstance(window, SlideByTuple):
        by = "" if window.every == 1 else " by row-num" if window.order == "row-num" else " by rank"
        return f"RANGE {length(window.range, ticks)} SLIDE {rows(window.every)}{by}"
    if isinstance(window, Session):
        return f"SESSION GAP {length(window.gap, ticks)}"
    if isinstance(window, Over):
        unit = str if window.frame == "rows" else lambda n: length(n, ticks)
        preceding = "UNBOUNDED" if window.preceding is None else unit(window.preceding)
        return f"{window.frame.upper()} BETWEEN {preceding} PRECEDING AND {unit(window.following or 0)} FOLLOWING"
    assert isinstance(window, Sliding)
    return f"RANGE {length(window.range, ticks)} SLIDE {length(window.slide, ticks)}"


def listed(names: Sequence[str]) -> str:
    """a, b and c."""
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def rows(n: int) -> str:
    return f"{n:,} row" + "s" * (n != 1)


def length(n: int, ticks: Ticks) -> str:
    """A length in ticks for people."""
    per_second = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
    if not ticks.is_time:
        return str(n)
    if not hasattr(ticks.type, "unit"):
        return f"{n} day" + "s" * (n != 1)
    for unit, seconds in (("day", 86_400), ("hour", 3_600), ("minute", 60), ("second", 1)):
        size = seconds * per_second[ticks.type.unit]
        if n and n % size == 0:
            return f"{n // size} {unit}" + "s" * (n != size)
    return f"{n} {ticks.type.unit}"
