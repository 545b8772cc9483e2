"""Windows in the notation of the thesis, for EXPLAIN."""

from __future__ import annotations

from lowwater.model.ticks import Ticks
from lowwater.model.words import length, rows
from lowwater.windows.context_aware import Partitioned, Session, SlideByTuple
from lowwater.windows.context_free import ContextFree, Landmark, Sliding, TupleBased
from lowwater.windows.over import Over


def describe(window: ContextFree | SlideByTuple | Partitioned | Session | Over, ticks: Ticks) -> str:
    """RANGE and SLIDE of a window, or the corresponding notation."""
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
