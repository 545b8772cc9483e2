"""Plans a join: chooses the operator that fits its window and its punctuation, or refuses with a sentence.

window                          values that end   operator  because
a band or a grid                none              oa        rows leave when the others have progressed past them
a band or a grid                on any side       pw        time and values make rows useless (PWJoin)
none                            by all others     pw        values alone make rows useless (PW's PJoin)
none                            not reported      refused   rows would stay for ever
tuples of a side                                  count     rows are counted in order of time, when they are final
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from lowwater.errors import BadWindow, LowwaterError, UnknownColumn
from lowwater.joins.spec import HOW, WINDOW, WindowJoin
from lowwater.joins.window_join import JoinSpec
from lowwater.model.properties import Properties
from lowwater.model.words import length, listed, rows
from lowwater.operators.late import LATE_COLUMNS
from lowwater.query.refuse import groupable, refuse_revisions


def refuse_join(what: WindowJoin, each: Sequence[Properties]) -> None:
    """Refuses what cannot be joined. `each` are the properties of the inputs."""
    for properties in each:
        refuse_revisions(properties, "A join")
    refuse_sides(what, each)
    refuse_names(what)
    refuse_kind(what)
    for side, properties in enumerate(each):
        refuse_ends(what, side, properties)
        refuse_ties(what, side, properties)


def join_spec(what: WindowJoin, each: Sequence[Properties], kept: tuple[tuple[str, ...], ...]) -> JoinSpec:
    """Chooses the operator, or refuses with a sentence. `kept` are the columns of each input that the join keeps."""
    used = [properties for properties in each if properties.ends]
    if what.rows is not None:
        tactic, why = "count", "tuples are counted in order of time, so a row meets the other side when it is final"
        if used:
            raise BadWindow("Tuple-count windows take no punctuation on values; leave out unique() and ends().")
    elif used:
        leave = "time and ended values make rows useless, whichever comes first"
        if None in what.waits:
            leave = "there is no window" if set(what.waits) == {None} else "there is no window on one side"
            leave += ", so ended values make rows useless"
        tactic, why = "pw", f"{leave}; whatever follows hears of values that are over"
    else:
        tactic = "oa"
        why = "rows need no order: each is joined when it comes, and leaves when the progress of the others says so"
    refuse_endless(what, each)
    bounds = tuple(bound(what, each, i) for i in range(len(what.sides)))
    return JoinSpec(what, tactic, why, bounds, kept)


def refuse_sides(what: WindowJoin, each: Sequence[Properties]) -> None:
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
    for side, properties in zip(what.sides, each, strict=True):
        own = properties.progressing(side.time)
        if own is None:
            reason = properties.silent or f"its rows do not progress on {side.time!r}; name a column that does in over="
            raise BadWindow(f"Rows of {side.name!r} would be kept for ever: {reason}.")
        if own.nullable:
            raise BadWindow(
                f"Rows of {side.name!r} that stayed alone in a join have no {side.time!r} to be joined by; add a time "
                "that all rows have, as in with_column('t', 'greatest(a_ts, b_ts)')."
            )
    names = [side.name for side in what.sides]
    if len(set(names)) < len(names):
        raise LowwaterError(
            f"join() needs relations of different names, but has {names}; name them by stream(name=) or named()."
        )


def refuse_names(what: WindowJoin) -> None:
    window = WINDOW if what.grid is not None else ()
    for columns in (what.columns, what.paired):  # late rows have the columns of a pair, whatever the result has
        names = [*window, *(column.name for column in columns)]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise LowwaterError(f"The result would have two columns named {twice[0]!r}; rename one before the join.")
    for name in (column.name for column in what.paired):
        if name in LATE_COLUMNS:
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
    if len(what.sides) > 2 and any(wait is not None and wait < 0 for wait in what.waits):
        raise BadWindow("join() of several streams needs windows of zero or more.")


def refuse_ends(what: WindowJoin, side: int, properties: Properties) -> None:
    if not properties.ends:
        return
    on = what.sides[side].on
    if on != properties.ends:
        raise LowwaterError(
            f"Stream {what.sides[side].name!r} says when values of {listed(properties.ends)!r} end, but the join is on "
            f"{', '.join(on) or 'no column'}; punctuation helps a join on that column alone."
        )


def refuse_ties(what: WindowJoin, side: int, properties: Properties) -> None:
    """Rows are counted in order of time, so those that tie need another order: that of arrival, if they have one."""
    if what.rows is None or what.rows[side] is None or not properties.derived:
        return
    of, known = what.sides[side], properties.identified
    if known is None or not set(known) <= {of.time, *(of.on if what.per_key else ())}:
        raise BadWindow(
            f"Several rows of {of.name!r} can have the same {of.time!r}, and nothing orders them for join(rows=); "
            "join on the columns that tell them apart, or use within=."
        )


def refuse_endless(what: WindowJoin, each: Sequence[Properties]) -> None:
    """Every row must leave at some time: because of its window, or because all other sides end its value."""
    for i, side in enumerate(what.sides):
        counted = what.rows is not None and what.rows[i] is not None
        if what.waits[i] is not None or counted:
            continue
        silent = [what.sides[j].name for j, other in enumerate(each) if j != i and not other.ends]
        if what.rows is not None:
            raise BadWindow(
                f"Rows of {side.name!r} would be kept for ever: count them in join(rows=), or give within=."
            )
        if silent:
            raise BadWindow(
                f"Rows of {side.name!r} would be kept for ever: give join(within=), or say when values of "
                f"{silent[0]!r} end, by unique() or ends()."
            )


def bound(what: WindowJoin, each: Sequence[Properties], side: int) -> str:
    """The largest state of a side in words, as EXPLAIN prints it."""
    ticks, wait = what.sides[side].ticks, what.waits[side]
    if what.rows is not None:
        count = what.rows[side]
        per_key = " of each key ever seen" if what.per_key else ""
        kept = f"rows of the last {length(wait or 0, ticks)}" if count is None else f"the last {rows(count)}{per_key}"
        return f"{kept}, and those that are not final yet"
    others = [properties for i, properties in enumerate(each) if i != side]
    names = [other.name for i, other in enumerate(what.sides) if i != side]
    progress = f"the {'slowest ' if len(names) > 1 else ''}progress of {listed(names)}"
    if delay := _disorder(what, each, side):
        progress += f" ({length(delay, ticks)} of disorder)"
    if what.grid is not None:
        once = ", once for each of them" if what.grid.range > what.grid.slide else ""
        text = f"rows of windows that {progress} has not closed{once}"
    elif wait is None:
        text = f"rows whose value {listed(names)} {'has' if len(names) == 1 else 'have'} not ended"
    elif wait > 0:
        text = f"rows of the {length(wait, ticks)} before {progress}, and those after it"
    else:
        text = f"rows {length(-wait, ticks) + ' or more ' if wait else ''}after {progress}"
    if wait is not None and all(other.ends for other in others):
        text += f", less those whose value {listed(names)} {'has' if len(names) == 1 else 'have'} ended"
    if each[side].ends:
        memory = "for ever" if None in what.waits else "until no window reaches it"
        text += f"; one entry for each value it has ended, {memory}"
    return text


def _disorder(what: WindowJoin, each: Sequence[Properties], side: int) -> int:
    """The longest delay that the other sides declare."""
    known = [one.progressing(of.time) for i, (one, of) in enumerate(zip(each, what.sides, strict=True)) if i != side]
    return max((p.behind for p in known if p is not None and p.behind is not None), default=0)
