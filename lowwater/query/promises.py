"""What aggregations and joins promise to their followers: the attributes on which their results progress.

    time windows        window_time, window_end, window_start, wid
    landmark windows    window_time, window_end, wid: the start never moves
    sessions            window_time and window_end of closed sessions, nothing on the start
    windows over rows   wid and the bounds, in row numbers
    rows of each key    nothing until the end
    OVER                the rows' own time
    join                the time of each input, and the greatest and the least of all times together;
                        of rows in the same window also window_start and window_end

`window_time` is the last tick inside a window, so that [11:50, 12:00) counts to the hour before noon. It is the default
attribute of a window that follows. A property states exactly what the operator promises at run time, and no more.
Where groups close by the progress of their own sources, what is promised is that of the slowest source.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from lowwater.joins.spec import WINDOW, WindowJoin
from lowwater.model.columns import WINDOW_TIME
from lowwater.model.properties import GREATEST, LEAST, Progressing, Properties
from lowwater.operators.bucket import WindowedAggregation
from lowwater.operators.flush import EAGER, Flush
from lowwater.windows.context_aware import Partitioned, Session
from lowwater.windows.context_free import Landmark, TupleBased
from lowwater.windows.over import Over

OF_WINDOWS = (WINDOW_TIME, "window_end", "window_start", "wid")


def promised(what: WindowedAggregation, before: Properties, flush: Flush) -> Properties:
    """The properties of an aggregation's results."""
    schema = what.result_schema()
    window = what.window
    attributes: tuple[str, ...] = OF_WINDOWS
    silent = None
    if isinstance(window, Over):
        attributes = (what.time,)
    elif isinstance(window, Partitioned):
        attributes = ()
        silent = "windows over the rows of each key are in no order of time; let them be the last step"
    elif isinstance(window, TupleBased):
        attributes = ("window_end", "window_start", "wid")
    elif isinstance(window, Landmark):
        attributes = (WINDOW_TIME, "window_end", "wid")
    elif isinstance(window, Session):
        attributes = (WINDOW_TIME, "window_end")
    own = before.progressing(what.time)
    behind = None if own is None else own.behind
    known: int | None = 0 if flush == EAGER else None
    if isinstance(
        window, Over
    ):  # a row comes out when its frame is complete: how late a following row is, nobody knows
        ahead = window.following or 0
        known = None if behind is None or (ahead and window.frame == "rows") else behind + ahead
    hidden = before.hidden if isinstance(window, Over) else (WINDOW_TIME,)
    return Properties(
        schema,
        tuple(Progressing(name, known) for name in attributes if name in schema.names),
        apart=before.closes_by(what.time, what.group_by) is not None,  # results of a fast source come before the others
        hidden=tuple(name for name in hidden if name in schema.names),
        silent=silent,
        again="emit(early=, allowed_lateness=) revises answers" if what.revises else before.again,
        derived=True,
        identified=before.identified if isinstance(window, Over) else what.group_by,
    )


def behind_join(what: WindowJoin, each: Sequence[Properties]) -> Properties:
    """The properties of a join's results.

    No result with t_i below min(b_i, b_j - wait_i) comes any more (oa_join.py). Where both are as far as T that is T
    less the disorder of i, or less that of j and the wait; over a grid, less a window.
    """
    schema = what.result_schema()
    progress: dict[str, Progressing] = {}
    for i, name in enumerate(what.times[:1] if what.one_sided else what.times):
        if what.rows is None and what.waits[i] is None and what.grid is None:
            continue  # rows of this input wait for ever, so that any of its times may still come out
        one = Progressing(name, _lag(what, each, i), name in missing(what))
        known = progress.get(name)
        if known is not None:
            both = None if None in (known.behind, one.behind) else max(known.behind or 0, one.behind or 0)
            one = replace(one, behind=both)
        progress[name] = one
    sides = [side.ticks.type for side in what.sides]
    together: tuple[Progressing, ...] = ()
    if not what.one_sided and len(progress) == len(set(what.times)) > 1 and len(set(map(str, sides))) == 1:
        together = (Progressing(GREATEST, _most(each, what)), Progressing(LEAST, _worst(progress)))
    hidden = [c.name for c in what.columns if c.side is not None and c.of in each[c.side].hidden]
    ended = [properties for properties in each if properties.ends]
    windowed = None not in what.waits or what.grid is not None
    passes = bool(ended) and what.rows is None and (len(ended) == len(each) or windowed)
    return Properties(
        schema,
        (*progress.values(), *_windows(what, each), *together),
        ends=what.keys[:1] if passes and what.keys and what.keys[0] in schema.names else (),
        hidden=tuple(hidden),
        apart=True,
        silent=None if progress else _endless(what),
        derived=True,
        together=tuple(dict.fromkeys(what.times)) if together else (),
    )


def _windows(what: WindowJoin, each: Sequence[Properties]) -> list[Progressing]:
    """The start and the end of the window of a result. Rows that stay alone have them too."""
    if what.grid is None:
        return []
    most = _most(each, what)
    return [Progressing(name, None if most is None else most + what.grid.range) for name in WINDOW]


def _endless(what: WindowJoin) -> str:
    waiting = next((side.name for side, wait in zip(what.sides, what.waits, strict=True) if wait is None), None)
    return f"rows of {waiting!r} wait without end; give join(within=)"


def missing(what: WindowJoin) -> list[str]:
    """The times that are null in rows which stay alone."""
    shared = {column.name for column in what.columns if column.side is None}
    alone = {"left": (1,), "right": (0,), "full": (0, 1)}.get(what.how, ())
    return [what.times[i] for i in alone if what.times[i] not in shared]


def _behind(properties: Properties, time: str) -> int | None:
    own = properties.progressing(time)
    return None if own is None else own.behind


def _lag(what: WindowJoin, each: Sequence[Properties], i: int) -> int | None:
    delays = [_behind(one, side.time) for one, side in zip(each, what.sides, strict=True)]
    if None in delays or (what.rows is not None and what.rows[i]):
        return None  # nothing is known in ticks
    wait = (what.waits[i] or 0) if what.grid is None else what.grid.range
    others = max((delay or 0 for j, delay in enumerate(delays) if j != i), default=0)
    return max(delays[i] or 0, others + wait)


def _most(each: Sequence[Properties], what: WindowJoin) -> int | None:
    delays = [_behind(one, side.time) for one, side in zip(each, what.sides, strict=True)]
    return None if None in delays else max(delay or 0 for delay in delays)


def _worst(progress: dict[str, Progressing]) -> int | None:
    lags = [p.behind for p in progress.values()]
    return None if None in lags else max(lag or 0 for lag in lags)
