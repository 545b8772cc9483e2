"""Refusals of columns and types, each with one sentence, before anything runs."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral

import pyarrow as pa

from lowwater.errors import BadProgress, BadWindow, LowwaterError, UnknownColumn
from lowwater.model.columns import WINDOW_TIME
from lowwater.model.properties import GREATEST, Properties
from lowwater.model.words import listed
from lowwater.operators.bucket import EMITTED, WindowedAggregation, WindowKind
from lowwater.operators.late import LATE_COLUMNS
from lowwater.windows.context_aware import Partitioned
from lowwater.windows.context_free import TupleBased
from lowwater.windows.over import Over

RESERVED = ("wid", "window_start", "window_end")


def refuse_columns(what: WindowedAggregation, exactly: bool = False) -> None:
    """Refuses columns that a result cannot have. `exactly`: names that differ in case only are different names."""
    over = isinstance(what.window, Over)
    hidden = (WINDOW_TIME,) if what.window_time else ()
    reserved = () if over else (*RESERVED, *hidden, *(EMITTED if what.revises else ()))
    for name in what.group_by:
        if name not in what.schema.names:
            raise UnknownColumn(name, what.schema.names, "group_by()")
        if name in reserved or what.group_by.count(name) > 1:
            raise LowwaterError(f"The result would have two columns named {name!r}; rename or drop the group column.")
        refuse_uncomparable(name, what.schema, "group_by()")
    refuse_own_names(what.schema)
    before = what.schema.names if over else [*reserved, *what.group_by]
    refuse_names(before, [name for name, _ in what.aggregates], exactly)


def refuse_names(columns: Sequence[str], aggregates: Sequence[str], exactly: bool = False) -> None:
    """Refuses aggregates whose names meet those of other columns. Case counts only where names are exact."""
    known = {name if exactly else name.lower(): name for name in columns}
    for name in aggregates:
        key = name if exactly else name.lower()
        other = known.get(key)
        if other == name:
            raise LowwaterError(f"The result would have two columns named {name!r}; give the aggregate another name.")
        if other is not None:
            raise LowwaterError(
                f"The result would have the columns {other!r} and {name!r}, which differ in case only; give the "
                "aggregate another name."
            )
        known[key] = name


def refuse_key(on: Sequence[str], before: Properties, verb: str) -> None:
    """Refuses columns of a key that are not there, that are named twice, or whose values cannot be compared."""
    for name in on:
        if name not in before.schema.names:
            raise UnknownColumn(name, before.visible.names, verb)
        if on.count(name) > 1:
            raise LowwaterError(f"{verb} names {name!r} twice; name each column once.")
        refuse_uncomparable(name, before.schema, verb)


def refuse_uncomparable(name: str, schema: pa.Schema, verb: str) -> None:
    if not groupable(type := schema.field(name).type):
        raise LowwaterError(f"{verb} cannot compare {name!r} of type {type}; cast it or select its parts first.")


def refuse_nullable_time(time: str, before: Properties, verb: str) -> None:
    """Refuses to keep rows until progress has passed their time, if some have none."""
    own = before.progressing(time)
    if own is None or own.nullable:
        raise BadProgress(
            f"{verb} would keep the rows that stay alone in the join for ever, since they have no {time!r}; use it in "
            "front of the join."
        )


def refuse_own_names(schema: pa.Schema) -> None:
    """Refuses columns whose names are those that lowwater adds to rows."""
    for name in schema.names:
        if name in LATE_COLUMNS:
            raise LowwaterError(
                f"The stream has a column {name!r}, which the late output adds itself; rename it, or select the other "
                "columns to read a late output again."
            )
        if name.startswith("__lw_"):
            raise LowwaterError(f"The stream has a column {name!r}; names that begin with __lw_ are lowwater's own.")


def refuse_time(window: WindowKind, time: str, groups: Sequence[str], before: Properties) -> None:
    """Refuses windows over a time that does not progress, that can be null, or whose ties have no order."""
    refuse_revisions(before, "A window")
    if before.ends and not before.derived:
        raise LowwaterError("unique() and ends() are for joins; a window aggregation has no use of ended values.")
    own = before.progressing(time)
    if own is None:
        since = before.silent or _progresses(before)
        raise BadWindow(f"Windows over {time!r} would not close before the stream ends, since {since}.")
    if own.nullable:
        there = [p.attribute for p in before.progress if not p.nullable and p.attribute in before.schema.names]
        instead = f"use over={there[0]!r}" if there else _of_all(before)
        raise BadWindow(f"Rows that stay alone in the join have no {time!r} for windows to be over; {instead}.")
    by_arrival = getattr(window, "order", None) in ("arrival", "row-num") and getattr(window, "every", 2) > 1
    by_time = isinstance(window, Partitioned) or (isinstance(window, Over) and window.frame == "rows")
    if before.derived and (isinstance(window, TupleBased) or by_time):
        _refuse_ties(time, groups, before)
    if before.derived and (isinstance(window, TupleBased) or by_arrival):
        raise BadWindow(
            "Results of another operator have no order of arrival to count rows by; count them by time, order='time'."
        )


def _of_all(before: Properties) -> str:
    """What to do where no time is there in every row: the greatest of all times is, if they can be compared."""
    times = [p.attribute for p in before.progress if p.attribute in before.schema.names]
    if before.progressing(GREATEST) is None:
        return "use group_by()"
    return f"add a time that all rows have, as in with_column('t', 'greatest({', '.join(times)})')"


def _refuse_ties(time: str, groups: Sequence[str], before: Properties) -> None:
    """Refuses counting rows by time if two rows of a partition can have the same time."""
    if before.identified is None:
        raise BadWindow(
            f"Several results can have the same {time!r} here, and nothing orders them for rows to be counted; use a "
            "window over time."
        )
    if not set(before.identified) <= {*groups, time}:
        raise BadWindow(
            f"Several results can have the same {time!r} here, and nothing orders them for rows to be counted; use "
            f"partition_by={list(before.identified)}, or a window over time."
        )


def refuse_revisions(before: Properties, follower: str) -> None:
    if before.again:
        raise LowwaterError(
            f"{follower} cannot follow, because {before.again}, which would be counted twice; leave that out, or let "
            "it be the last step of the query."
        )


def _progresses(before: Properties) -> str:
    names = [p.attribute for p in before.progress if p.attribute in before.schema.names]
    return (
        f"the rows progress on {listed(names)}; name one of these columns"
        if names
        else "the rows do not progress on any column; keep one that does"
    )


def refuse_number(number: object, option: str) -> None:
    """Refuses numbers of shards or partitions that are none."""
    if not isinstance(number, Integral) or isinstance(number, bool) or number < 1:
        raise LowwaterError(f"{option}= is a number of {option}, 1 or more, not {number!r}.")


def groupable(type: pa.DataType) -> bool:
    """Whether a type can be grouped by: its values can be compared and hashed, as in Spark."""
    t = pa.types
    plain = t.is_boolean(type) or t.is_signed_integer(type) or t.is_float32(type) or t.is_float64(type)
    small = type in (pa.uint8(), pa.uint16(), pa.uint32()) or t.is_date32(type) or t.is_timestamp(type)
    text = t.is_string(type) or t.is_large_string(type) or t.is_binary(type) or t.is_large_binary(type)
    return bool(plain or small or text or t.is_decimal128(type) or t.is_duration(type) or t.is_null(type))


def progress_field(schema: pa.Schema, progress: str | None, name: str) -> pa.Field:
    """The progressing attribute of a stream, or a refusal."""
    if not progress:
        raise BadProgress(
            f"Stream {name!r} has no progressing attribute; name the column that windows are over, "
            "as in stream(df, progress='ts')."
        )
    if progress not in schema.names:
        raise UnknownColumn(progress, schema.names, f"progress= of stream {name!r}")
    return schema.field(progress)
