"""EXPLAIN of a join: what is joined, in which window, why so, and the most that is kept of each side."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lowwater.joins.spec import WindowJoin
from lowwater.operators.group_by import Grouping
from lowwater.query.explain import NAMES, Branch, describe, length, listed, progress, rows
from lowwater.query.join_plan import JoinPlan
from lowwater.query.plan import Plan

TITLES = {"oa": "OA-Join", "pw": "PWJoin", "count": "Tuple-count join"}


def explain_join(plan: JoinPlan, branches: Sequence[Branch]) -> str:
    what = plan.what
    lines = [
        f"{TITLES[plan.tactic]}  {what.how}, of {listed([side.name for side in what.sides])}",
        f"   on       {_on(what)}",
        f"   window   {_window(what)}",
        *([] if what.condition is None else [f"   where    {_where(what.condition.of)}"]),
        f"   because  {plan.reason.why}",
        *(f"   alone    {text}" for text in _alone(what)),
        *(f"   state    {side.name}: at most {text}" for side, text in zip(what.sides, plan.bounds, strict=True)),
        f"   ingest   rows are sorted by (key, time) and sent to {_shard(plan)}",
        *([] if plan.then is None else [f"   output   {_output(plan)}"]),
    ]
    for number, side in enumerate(what.sides):
        ports = [port for port, of in enumerate(plan.sides) if of == number]
        indent = ""
        if len(ports) > 1:
            lines.append(f"└─ Meld  of {len(ports)} inputs: rows pass at once, progress is the minimum")
            indent = "   "
        for port in ports:
            steps = [*reversed(branches[port].steps), f"Input {branches[port].name}"]
            for depth, step in enumerate(steps):
                lines.append(f"{indent}{'   ' * depth}└─ {step}")
            under = f"{indent}{'   ' * len(steps)}   "
            lines.append(f"{under}progress {progress(plan.inputs[port], side.time, side.ticks)}")
            if (ends := plan.inputs[port].ends) is not None:
                lines.append(f"{under}values   {ends}")
    if plan.then is None:
        return "\n".join(lines)
    return "\n".join([*_then(plan, plan.then), f"└─ {lines[0]}", *(f"   {line}" for line in lines[1:])])


def _on(what: WindowJoin) -> str:
    pairs = [" = ".join(f"{s.name}.{n}" for s, n in zip(what.sides, names, strict=True)) for names in _columns(what)]
    return (", ".join(pairs) or "no key: every row of the window") + (", nulls match" if what.null_safe else "")


def _columns(what: WindowJoin) -> list[tuple[str, ...]]:
    return list(zip(*(side.on for side in what.sides), strict=True))


def _window(what: WindowJoin) -> str:
    ticks = what.sides[0].ticks
    if what.grid is not None:
        start = what.grid.origin - what.grid.range % what.grid.slide
        origin = f", from {ticks.decode(np.array([start]))[0]} on" if start else ""
        all_of = "both" if len(what.sides) == 2 else "all"
        return f"{all_of} in the same window of {describe(what.grid, ticks)}{origin}"
    if len(what.sides) > 2 or what.rows is not None:
        counts = what.rows or (None,) * len(what.sides)
        told = []
        for side, wait, count in zip(what.sides, what.waits, counts, strict=True):
            each = " of its key" if what.per_key else ""
            told.append(
                f"{side.name} [{'for ever' if wait is None else _signed(wait, what)}]"
                if count is None
                else f"{side.name} [last {rows(count)}{each}]"
            )
        return ", ".join(told)
    a, b = what.sides
    low, high = what.waits[1], what.waits[0]
    parts = [
        *([] if low is None else [f"{_signed(-low, what)} <= "]),
        f"{b.name}.{b.time} - {a.name}.{a.time}",
        *([] if high is None else [f" <= {_signed(high, what)}"]),
    ]
    return "".join(parts) if len(parts) > 1 else "none: rows wait until their value has ended"


def _signed(ticks: int, what: WindowJoin) -> str:
    text = length(abs(ticks), what.sides[0].ticks)
    return f"-{text}" if ticks < 0 else text if ticks else "0"


def _where(condition: object) -> str:
    return condition if isinstance(condition, str) else getattr(condition, "__name__", type(condition).__name__)


def _alone(what: WindowJoin) -> list[str]:
    """What becomes of rows that find no partner, where it is something."""
    kept = [side.name for side, keeps in zip(what.sides, what.keeps, strict=True) if keeps]
    return [f"rows of {listed(kept)} that find no partner are results as soon as none can come"] if kept else []


def _shard(plan: JoinPlan) -> str:
    if not plan.what.sides[0].on:
        return "one shard, since there is no key"
    if not plan.single:
        return "the shard of their key"
    counted = plan.what.rows is not None and not plan.what.per_key
    return f"one shard, since {'rows' if counted else 'groups'} of all keys are counted together"


def _promised(plan: JoinPlan) -> list[str]:
    """The timestamps on which the output has individual punctuation: those of sides that do not wait for ever."""
    what = plan.what
    times = [time for time, wait in zip(what.times, what.waits, strict=True) if wait is not None or what.rows]
    return list(dict.fromkeys(times[:1] if what.one_sided else times))


def _output(plan: JoinPlan) -> str:
    told = []
    if plan.joint:
        told = [f"joint punctuation on {listed(plan.what.times)}, since both are grouped by"]
    elif times := _promised(plan):
        told = [f"individual punctuation on {' and on '.join(times)}"]
    if plan.tactic == "pw":
        told.append(f"values of {plan.what.keys[0]} that are over")
    return "; ".join(told) or "no punctuation before the end"


def _then(plan: JoinPlan, then: Plan | Grouping) -> list[str]:
    if isinstance(then, Grouping):
        return _grouped(plan, then)
    aggregates = ", ".join(f"{name} = {aggregate}" for name, aggregate in then.what.aggregates)
    return [
        f"{NAMES[then.tactic]}  {aggregates}",
        f"   window   {describe(then.what.window, then.what.ticks)} over {then.what.time}",
        f"   groups   {', '.join(then.what.group_by) or 'one for all rows'}",
        f"   because  {then.reason.why}",
        f"   state    at most {then.reason.bound}",
    ]


def _grouped(plan: JoinPlan, then: Grouping) -> list[str]:
    aggregates = ", ".join(f"{name} = {aggregate}" for name, aggregate in then.aggregates)
    told = [*(plan.what.keys if plan.tactic == "pw" else ()), *_promised(plan)]
    closing = [name for name in then.group_by if name in told]
    if plan.joint:
        closing = [*(name for name in closing if name in plan.what.keys), listed(plan.what.times)]
    because = f"a group is answered when punctuation on {' or '.join(closing)} says that it is complete"
    until = "that is not complete"
    if not closing:
        because = f"punctuation on {listed(then.group_by)} does not come before the end, when all groups are answered"
        until = "until the end"
    return [
        f"Group-by  {aggregates}",
        f"   groups   {', '.join(then.group_by)}",
        f"   because  {because}",
        f"   state    at most one partial for each group {until}",
    ]
