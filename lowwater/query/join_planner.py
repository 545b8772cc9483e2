"""The planner of joins: from what is asked to how it is done. Every refusal before running is made here.

window                          ended values      tactic   because
a band or a grid                not told          oa       time alone lets rows go (OA-Join, PW's WJoin)
a band or a grid                told              pw       time and values let rows go (PWJoin)
none                            by all others     pw       values alone let rows go (PW's PJoin)
none                            not told          refused  rows would stay for ever
tuples of a side                                  count    rows are counted in order of time, when they are final
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa

from lowwater.aggregates.base import Aggregate
from lowwater.errors import BadWindow, LowwaterError, UnknownColumn
from lowwater.joins.spec import HOW, WINDOW, WindowJoin
from lowwater.model.policy import Delay, Policy
from lowwater.operators.aggregation import LATE_COLUMNS
from lowwater.operators.group_by import Grouping
from lowwater.query.explain import length, listed, rows
from lowwater.query.join_plan import JoinPlan
from lowwater.query.plan import Input, Plan, Reason
from lowwater.query.refuse import groupable


def plan_join(inputs: Sequence[Input], sides: Sequence[int], what: WindowJoin) -> JoinPlan:
    """Chooses the tactic, or refuses with a sentence."""
    refuse_sides(inputs, what)
    refuse_names(what)
    refuse_kind(what)
    if what.condition is not None:
        refuse_condition(what.condition.of)
        pair = pa.schema([what.field(column) for column in what.paired])
        what = replace(what, condition=what.condition.bind(pair))
    used = [i for i in inputs if i.ends is not None]
    for port, i in enumerate(inputs):
        refuse_ends(i, what, sides[port])
    if what.rows is not None:
        tactic, why = "count", "tuples are counted in order of time, so a row meets the other side when it is final"
        if used:
            raise BadWindow("Tuple-count windows take no punctuation on values; leave out unique() and ends().")
    elif used:
        let_go = "time and ended values let rows go, whichever comes first"
        if None in what.waits:
            let_go = "there is no window" if set(what.waits) == {None} else "there is no window on one side"
            let_go += ", so ended values let rows go"
        tactic, why = "pw", f"{let_go}; the output is told of values that are over"
    else:
        tactic = "oa"
        why = "rows need no order: each is joined when it comes, and goes when the progress of the others says so"
    refuse_endless(inputs, sides, what)
    bounds = tuple(bound(inputs, sides, what, i) for i in range(len(what.sides)))
    names = "; ".join(f"{side.name}: {text}" for side, text in zip(what.sides, bounds, strict=True))
    single = what.rows is not None and not what.per_key
    return JoinPlan(tuple(inputs), tuple(sides), what, tactic, Reason(why, names), bounds, single=single)


def follow(join: JoinPlan, then: Plan | Grouping) -> JoinPlan:
    """An aggregation behind a join, in the same shard."""
    grouped = then.group_by if isinstance(then, Grouping) else then.what.group_by
    what = join.what
    named_twice = any(len(set(names)) > 1 for names in zip(*(side.on for side in what.sides), strict=True))
    # Where keys have two names, rows of the right that stay alone lack the left's, and are in the shards of their own.
    scattered = what.how in ("right", "full") and named_twice
    together = what.keys and set(what.keys) <= set(grouped) and not scattered
    return replace(join, then=then, single=join.single or not together)


def grouping(join: JoinPlan, groups: tuple[str, ...], aggregates: tuple[tuple[str, Aggregate], ...]) -> Grouping:
    """A group-by behind a join, or a refusal."""
    schema = join.joined_schema
    closed = [name for name in dict.fromkeys([*join.what.keys, *join.what.times]) if name in schema.names]
    if not set(groups) & set(closed):
        raise LowwaterError(
            f"group_by() behind a join needs one of {', '.join(closed)} at least: progress says when a timestamp is "
            "past, unique() or ends() when a value of the key is; or use window()."
        )
    for name in groups:
        if groups.count(name) > 1:
            raise LowwaterError(f"The result would have two columns named {name!r}; name it once in group_by().")
        if not groupable(type := schema.field(name).type):
            raise LowwaterError(
                f"group_by() cannot group by {name!r} of type {type}; cast it or select its parts first."
            )
    for name, _ in aggregates:
        if name in groups:
            raise LowwaterError(f"The result would have two columns named {name!r}; give the aggregate another name.")
    asked = Grouping(schema, groups, aggregates, tuple(name for name in join.what.times if name in schema.names))
    asked.algebras()  # binds every aggregate to its column, which refuses unknown ones and types that do not fit
    return asked


def progress_behind(join: JoinPlan, over: str | None) -> str:
    """The timestamp that windows behind a join are over: every result must have it, and it must go on."""
    what = join.what
    times = what.times[:1] if what.one_sided else what.times
    if over is not None and over not in times:
        told = " and ".join(dict.fromkeys(times))
        raise BadWindow(f"The results progress on {told}, not on {over!r}; name one in over=.")
    shared = {column.name for column in what.columns if column.side is None}
    alone = {"left": (1,), "right": (0,), "full": (0, 1)}.get(what.how, ())
    missing = [times[i] for i in alone if times[i] not in shared]
    there = [name for name in times if name not in missing]
    over = over or (there or times)[0]
    if over in missing:
        instead = f"use over={there[0]!r}" if there else "use group_by()"
        raise BadWindow(
            f"Rows that stay alone in a {what.how} join have no {over!r} for windows to be over; {instead}."
        )
    side = times.index(over)
    if what.rows is None and what.waits[side] is None:
        raise BadWindow(
            f"Windows over {over!r} would not close before the stream ends, since rows of {what.sides[side].name!r} "
            "wait without end; give join(within=)."
        )
    return over


def refuse_sides(inputs: Sequence[Input], what: WindowJoin) -> None:
    first = what.sides[0]
    for side in what.sides:
        if len(side.on) != len(first.on):
            raise LowwaterError(f"join(on=) needs as many columns of {side.name!r} as of {first.name!r}.")
        for name in side.on:
            if name not in side.schema.names:
                raise UnknownColumn(name, side.schema.names, f"join(on=) of {side.name!r}")
            type = side.schema.field(name).type
            if not groupable(type) or pa.types.is_null(type):
                raise LowwaterError(f"join() cannot compare {name!r} of type {type}; cast it or select its parts.")
        for ours, theirs in zip(first.on, side.on, strict=True):
            a, b = first.schema.field(ours).type, side.schema.field(theirs).type
            if a != b:
                raise LowwaterError(
                    f"join(on=) compares {first.name}.{ours}, which is {a}, with {side.name}.{theirs}, which is {b}; "
                    "cast one of them."
                )
        a, b = first.schema.field(first.time).type, side.schema.field(side.time).type
        if a != b:
            raise LowwaterError(
                f"join() compares times: {first.name}.{first.time} is {a}, but {side.name}.{side.time} is {b}; "
                "cast one of them."
            )
    for names in ([i.name for i in inputs], [side.name for side in what.sides]):
        if len(set(names)) == len(names):
            continue
        raise LowwaterError(f"join() needs streams of different names, but has {names}; name them by stream(name=).")


def refuse_names(what: WindowJoin) -> None:
    window = WINDOW if what.grid is not None else ()
    for columns in (what.columns, what.paired):  # late rows have the columns of a pair, whatever the result has
        names = [*window, *(column.name for column in columns)]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise LowwaterError(f"The result would have two columns named {twice[0]!r}; rename one before the join.")
    for name in (column.name for column in what.paired):
        if name in (*LATE_COLUMNS, "input"):
            raise LowwaterError(f"The join has a column {name!r}, which the late output adds itself; rename it.")
        if name.startswith("__lw_"):
            raise LowwaterError(f"The join has a column {name!r}; names that begin with __lw_ are lowwater's own.")


def refuse_kind(what: WindowJoin) -> None:
    if what.how not in HOW:
        raise LowwaterError(f"how={what.how!r} is unknown; use {', '.join(HOW)}.")
    if what.how != "inner" and len(what.sides) > 2:
        raise LowwaterError(f"A {what.how} join has two inputs; of {len(what.sides)} only an inner join is defined.")
    if what.how != "inner" and what.rows is not None:
        raise LowwaterError(f"A {what.how} join needs a window of time; with rows= only an inner join is defined.")
    if what.rows is not None and (len(what.sides) > 2 or what.grid is not None):
        raise BadWindow("join(rows=) counts the rows of two streams, without window= and without a third.")
    if what.rows is not None and None not in what.rows and what.waits != (None, None):
        raise BadWindow("join(rows=) counts the rows of both sides here, so that within= bounds none; leave one out.")
    for count in what.rows or ():
        if count is not None and count < 1:
            raise BadWindow(f"join(rows=) needs at least 1 row, not {count}.")
    low, high = what.waits[-1], what.waits[0]
    if len(what.sides) == 2 and what.rows is None and low is not None and high is not None and -low > high:
        raise BadWindow("join(within=) is empty: no difference of times lies between its lower and its upper end.")
    if len(what.sides) > 2 and any(wait is not None and wait < 0 for wait in what.waits):
        raise BadWindow("join() of several streams needs windows of zero or more.")


def refuse_condition(of: object) -> None:
    if not isinstance(of, str) and not callable(of):
        raise LowwaterError(f"join(condition=) is SQL text or a function of an Arrow table of pairs, not {of!r}.")


def refuse_ends(i: Input, what: WindowJoin, side: int) -> None:
    if i.ends is None:
        return
    on = what.sides[side].on
    if on != (i.ends.attribute,):
        raise LowwaterError(
            f"Stream {i.name!r} says when values of {i.ends.attribute!r} end, but the join is on "
            f"{', '.join(on) or 'no column'}; punctuation helps a join on that column alone."
        )


def refuse_endless(inputs: Sequence[Input], sides: Sequence[int], what: WindowJoin) -> None:
    """A row must leave at some time: by its window, or since all others end its value."""
    for i, side in enumerate(what.sides):
        counted = what.rows is not None and what.rows[i] is not None
        if what.waits[i] is not None or counted:
            continue
        silent = [x.name for x, of in zip(inputs, sides, strict=True) if of != i and x.ends is None]
        if what.rows is not None:
            raise BadWindow(
                f"Rows of {side.name!r} would be kept for ever: count them in join(rows=), or give within=."
            )
        if silent:
            raise BadWindow(
                f"Rows of {side.name!r} would be kept for ever: give join(within=), or say when values of "
                f"{silent[0]!r} end, by unique() or ends()."
            )


def bound(inputs: Sequence[Input], sides: Sequence[int], what: WindowJoin, side: int) -> str:
    """The most that is kept of a side, as EXPLAIN prints it and tests assert it."""
    ticks, wait = what.sides[side].ticks, what.waits[side]
    if what.rows is not None:
        count = what.rows[side]
        each = " of each key ever seen" if what.per_key else ""
        kept = f"rows of the last {length(wait or 0, ticks)}" if count is None else f"the last {rows(count)}{each}"
        return f"{kept}, and those that are not final yet"
    others = [x for x, of in zip(inputs, sides, strict=True) if of != side]
    names = [other.name for i, other in enumerate(what.sides) if i != side]
    progress = f"the {'slowest ' if len(names) > 1 else ''}progress of {listed(names)}"
    if delay := _disorder(others):
        progress += f" ({length(delay, ticks)} of disorder)"
    if what.grid is not None:
        each = ", once for each of them" if what.grid.range > what.grid.slide else ""
        text = f"rows of windows that {progress} has not closed{each}"
    elif wait is None:
        text = f"rows whose value {listed(names)} {'has' if len(names) == 1 else 'have'} not ended"
    elif wait > 0:
        text = f"rows of the {length(wait, ticks)} before {progress}, and those after it"
    else:
        text = f"rows {length(-wait, ticks) + ' or more ' if wait else ''}after {progress}"
    if wait is not None and all(x.ends is not None for x in others):
        text += f", less those whose value {listed(names)} {'has' if len(names) == 1 else 'have'} ended"
    if any(x.ends is not None for x, of in zip(inputs, sides, strict=True) if of == side):
        memory = "for ever" if None in what.waits else "until no window reaches it"
        text += f"; one entry for each value it has ended, {memory}"
    return text


def _disorder(inputs: Sequence[Input]) -> int:
    return max((i.policy.ticks for i in inputs if isinstance(i.policy, Delay)), default=0)


def behind(join: JoinPlan, over: str) -> list[Input]:
    """The inputs as they look behind the join: its results progress on a timestamp only when they are complete.

    No result with t_i below min(b_i, b_j - wait_i) comes any more (oa_join.py). Where both are as far as T that is T
    less the disorder of i, or less that of j and the wait; over a grid, less a window.
    """
    what = join.what
    side = what.times.index(over)
    own = [i for i, of in zip(join.inputs, join.sides, strict=True) if of == side]
    others = [i for i, of in zip(join.inputs, join.sides, strict=True) if of != side]
    if any(not isinstance(i.policy, Delay) for i in join.inputs) or (what.rows is not None and what.rows[side]):
        return [replace(i, policy=Policy()) for i in join.inputs]  # nothing is known in ticks
    wait = (what.waits[side] or 0) if what.grid is None else what.grid.range
    lag = max(_disorder(own), _disorder(others) + wait)
    return [replace(i, policy=Delay(lag)) for i in join.inputs]
