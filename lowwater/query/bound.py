"""The upper bound on the state of an aggregation, as EXPLAIN prints it and tests assert it."""

from __future__ import annotations

from lowwater.model.properties import Properties
from lowwater.operators.bucket import WindowedAggregation
from lowwater.windows.context_aware import Partitioned
from lowwater.windows.context_free import ContextFree, Landmark, Sliding, TupleBased
from lowwater.windows.over import Over

COUNTED = ("wid", "panes")
"""Tactics whose bound is a number of partials per group."""
DISORDER = "of the disorder beyond it"


def slots(window: ContextFree, tactic: str, spread: int) -> int:
    """How many partials a group can hold at most, with `spread` ticks between low-watermark and newest row."""
    if isinstance(window, Sliding):
        step = window.pane if tactic == "panes" else window.slide
        return -(-(window.range + spread) // step) + 1
    return -(-spread // window.slide) + 2


def bound_text(what: WindowedAggregation, tactic: str, before: Properties, by: str | None = None) -> str:
    """The bound on state as EXPLAIN prints it; tests assert it through `slots`. `by` is the source column, if each
    group closes by the progress of its own source."""
    window = what.window
    if not isinstance(window, ContextFree):
        return _context_aware(what, tactic)
    if tactic == "buffer":
        endless = isinstance(window, Landmark) and window.period is None
        return "all rows, for ever" if endless else f"the rows of the last RANGE and {DISORDER}"
    if tactic == "adaptive":
        return f"for each group the less of its rows of the last RANGE and its partials, and {DISORDER}"
    spread, later = _spread(what, before, by)
    unit = "panes" if tactic == "panes" else "windows" if tactic == "wid" else "partials"
    text = f"{slots(window, tactic, spread)} {unit} x groups with rows in them"
    if not all(a.bounded for a in what.distinct):
        text += ", each with its values"
    text += later
    return text if what.anchored else f"{text}, and the rows that come before the origin is known"


def limit(what: WindowedAggregation, tactic: str, before: Properties, by: str | None = None) -> int | None:
    """The partials per group of the bound, where nothing is added to it in words. Runs are checked against it."""
    window = what.window
    if not isinstance(window, ContextFree) or tactic not in COUNTED or not what.anchored:
        return None
    spread, later = _spread(what, before, by)
    return None if later else slots(window, tactic, spread)


def _spread(what: WindowedAggregation, before: Properties, by: str | None) -> tuple[int, str]:
    """How far rows can be ahead of the low-watermark, and the words to add where that is not known."""
    if isinstance(what.window, TupleBased):
        return 0, ""
    own = before.progressing(what.time)
    if own is None or own.behind is None:
        newest = "the newest row" if by is None else f"the newest row of its {by}"
        return what.lateness, f", plus those between the low-watermark and {newest}"
    apart = ""
    if before.apart and by is None:
        apart = ", plus those between the slowest and the fastest source"
    elif before.united and by is not None:
        apart = f", plus those between the slowest and the fastest input of its {by}"
    return own.behind + what.lateness, apart


def _context_aware(what: WindowedAggregation, tactic: str) -> str:
    window = what.window
    if tactic in ("bins", "marked-bins"):
        count = ", and a count per group" if window.every > 1 else ""  # type: ignore[union-attr]
        return f"two bins (one row) for each group and time of the last RANGE and {DISORDER}{count}"
    if isinstance(window, Partitioned):
        panes = -(-window.range // window.over_ranks.pane) + 1
        waiting = ", and the rows that are not final yet" if window.order == "time" else ""
        return f"{panes} panes and a count for each key ever seen{waiting}"
    if tactic == "sessions":
        return "one partial for each session that is not closed"
    assert isinstance(window, Over)
    if window.preceding is None:
        kept = "one partial for each partition ever seen, and the rows whose frame is not complete"
    elif window.frame == "rows":
        kept = f"{sum(window.reach)} rows for each partition ever seen"
    else:
        kept = f"the rows of PRECEDING + FOLLOWING and {DISORDER}"
    return f"{kept}, and the rows that are not final yet"
