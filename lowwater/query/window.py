"""Turns the arguments of `window()` into a time and a window kind: lengths become ticks or rows.

RANGE      SLIDE     kind
a length   a length  sliding or tumbling (Sliding)                                              W1, W2
n rows     m rows    tuple-based over arrival (TupleBased), with a partition per key (Partitioned)  W3, W4
all        a length  landmark, with a period cumulate (Landmark)                                W5
a length   n rows    slide-by-tuple over row-num or rank (SlideByTuple)                         W6, W7, W8
"""

from __future__ import annotations

import re
from typing import Literal

from lowwater.errors import BadWindow
from lowwater.model.columns import spelled
from lowwater.model.properties import Properties
from lowwater.model.ticks import Length, Ticks
from lowwater.operators.bucket import WindowKind
from lowwater.windows.context_aware import Partitioned, SlideByTuple
from lowwater.windows.context_free import Landmark, Sliding, TupleBased, refuse_period
from lowwater.windows.over import Over

ORDERS = {"arrival": "arrival", "row-num": "arrival", "time": "time", "rank": "time"}
"""The orders that rows can be counted in, by the names of the API and of the thesis."""


def time_of(
    before: Properties, over: str | None = None, consequence: str = "Windows would not close", exactly: bool = False
) -> str:
    """The attribute that windows are over, or a refusal with the consequence of having none."""
    times = [p.attribute for p in before.progress if p.attribute in before.schema.names]
    over = over and (spelled(over, times, exactly) or over)
    if over is not None and over not in times and times:
        known = [name for name in times if name not in before.hidden]
        if not known:
            raise BadWindow(f"The results progress on no column that they show, so not on {over!r}; leave over= out.")
        raise BadWindow(f"The results progress on {' and '.join(known)}, not on {over!r}; name one in over=.")
    time = over or before.attribute
    if not times or time is None:
        since = before.silent or "the rows do not progress on any column; keep one that does"
        raise BadWindow(f"{consequence} before the stream ends, since {since}.")
    return time


def window_of(
    ticks: Ticks,
    range: Length,
    slide: Length | None = None,
    origin: object = None,
    period: Length | None = None,
    partitioned: bool = False,
    order: str | None = None,
) -> tuple[WindowKind, bool]:
    """The window kind of these arguments, and whether its origin is known already."""
    range_rows, slide_rows = rows_of(range), None if slide is None else rows_of(slide)
    if order is not None and order not in ORDERS:
        raise BadWindow(f"order={order!r} is unknown; rows are counted by 'time' or by 'arrival'.")
    if range_rows is None and slide_rows is None:
        if order is not None:
            raise BadWindow("order= says how rows are counted, but this window counts none; write e.g. slide='1 row'.")
        return timed(ticks, range, slide, origin, period)
    if origin is not None or period is not None:
        raise BadWindow("origin= and period= belong to windows over time; this one counts rows.")
    counted = ORDERS[order or ("time" if partitioned else "arrival")]
    if range_rows is None:
        assert slide_rows is not None
        if isinstance(range, str) and range.strip().lower() == "all":
            raise BadWindow("RANGE ALL that slides by rows is an OVER window; use over(rows=(None, 0)).")
        return SlideByTuple(
            ticks.positive(range, "RANGE"), slide_rows, "rank" if counted == "time" else "row-num"
        ), True
    if slide is not None and slide_rows is None:
        raise BadWindow(f"RANGE {range!r} counts rows and SLIDE {slide!r} does not; give SLIDE in rows as well.")
    step = range_rows if slide_rows is None else slide_rows
    if partitioned or counted == "time":
        return Partitioned(range_rows, step, "time" if counted == "time" else "arrival"), True
    return TupleBased(range_rows, step), True


def timed(
    ticks: Ticks, range: Length, slide: Length | None, origin: object, period: Length | None
) -> tuple[WindowKind, bool]:
    """Windows over the progressing attribute.

    They start at origin + k * SLIDE, as in Spark and its peers; the thesis counts from their ends, which is the same
    unless RANGE is no multiple of SLIDE. With origin="first" the thesis is taken at its word.
    """
    anchored = origin != "first"
    at = 0 if origin is None or not anchored else ticks.point(origin, "origin")
    if isinstance(range, str) and range.strip().lower() == "all":
        if slide is None:
            raise BadWindow("RANGE ALL needs a SLIDE, as in window(range='all', slide='1 minute').")
        step = ticks.positive(slide, "SLIDE")
        restart = None if period is None else ticks.positive(period, "PERIOD")
        if restart is not None:
            refuse_period(restart, step, (period, slide))
        return Landmark(step, at, restart), anchored
    if period is not None:
        raise BadWindow("period= belongs to landmark windows, window(range='all', ...); this window has a RANGE.")
    length = ticks.positive(range, "RANGE")
    window = Sliding(length, length if slide is None else ticks.positive(slide, "SLIDE"))
    return window.at(at + window.range % window.slide if anchored else 0), anchored


def over_of(ticks: Ticks, rows: tuple[int | None, int] | None, range: tuple[Length | None, Length] | None) -> Over:
    """The frame of an OVER window: (preceding, following) in rows or in time; None is unbounded."""
    if (rows is None) == (range is None):
        raise BadWindow("over() needs one frame, rows=(preceding, following) or range=(preceding, following).")
    if rows is not None:
        return Over("rows", *_pair(rows, "rows"))
    preceding, following = _pair(range, "range")
    back = None if preceding is None else ticks.not_negative(preceding, "PRECEDING")
    return Over("range", back, None if following is None else ticks.not_negative(following, "FOLLOWING"))


def _pair(frame: object, name: Literal["rows", "range"]) -> tuple[int | None, int | None]:
    if not isinstance(frame, tuple) or len(frame) != 2:
        raise BadWindow(f"{name}= of over() takes (preceding, following), as in {name}=(3, 0), not {frame!r}.")
    return frame


def rows_of(length: Length) -> int | None:
    """The number in "10 rows" or "1 tuple"; None for any other length."""
    found = (
        re.fullmatch(r"\s*([+-]?\d+)\s*(?:rows?|tuples?)\s*", length, re.IGNORECASE)
        if isinstance(length, str)
        else None
    )
    return int(found[1]) if found else None
