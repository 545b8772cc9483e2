"""Plans a window aggregation: chooses the tactic that fits its window, with the reason, or refuses.

    window                       aggregate   tactic       because
    no overlap                   any         wid          a row is in at most one window: one partial, kept by window id
    overlapping                  any         panes        a row is reduced once, however many windows overlap
    either, groups are skewed    any         adaptive     sparse groups keep their few rows, dense ones partials
    either, statistics say so    any         adaptive     the same, noticed in the rows that are there
    either, declared as neither  any         these three  chosen and left while running (operators/live_choice.py)
    landmark                     bounded     landmark     closed panes fold into one partial per group
    landmark                     holistic    refused      every value would be kept for ever (with a period: landmark)
    slide-by-tuple               any         bins         a window is a run of start bins; no tuple is kept
    rows per key                 any         partitioned  each key counts its own rows, in panes of rows
    session                      any         sessions     fragments of a key merge as rows between them come
    OVER                         any         over         each row is answered when its frame is complete

`strategy` overrides the choice where the override is legal; it never changes results.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from lowwater.aggregates.base import Aggregate as AggregateFunction
from lowwater.aggregates.base import Algebra, Differential
from lowwater.errors import BadAggregate, BadWindow, LowwaterError
from lowwater.model.properties import Properties
from lowwater.operators.aggregate import OPERATORS, TACTICS, AggregateSpec
from lowwater.operators.bucket import WindowedAggregation
from lowwater.operators.flush import Flush
from lowwater.query.bound import bound_text, limit
from lowwater.query.refuse import refuse_columns, refuse_time
from lowwater.windows.context_aware import Partitioned, Session, SlideByTuple
from lowwater.windows.context_free import ContextFree, Landmark, Sliding, TupleBased
from lowwater.windows.over import Over

ANSWERED_AGAIN = ("wid", "panes", "landmark")
"""Tactics that can answer a window more than once."""
CLOSED_ALONE = ("wid", "panes", "sessions", "partitioned", "over")
"""Tactics whose groups can close by the progress of their own sources."""


class Statistics(Protocol):
    """What is known of groups from rows (statistics.py)."""

    @property
    def sparse(self) -> bool: ...


class Choice(NamedTuple):
    tactic: str
    why: str


def aggregate_spec(
    what: WindowedAggregation,
    before: Properties,
    strategy: str,
    flush: Flush,
    table: int | None,
    statistics: Statistics | None = None,
    exact_names: bool = False,
) -> AggregateSpec:
    """Chooses the tactic, or refuses with a sentence. `before` are the properties of the input."""
    refuse_columns(what, exact_names)
    refuse_time(what.window, what.time, what.group_by, before)
    algebras = what.algebras()  # binds every aggregate to its column, which refuses types that do not fit
    # Skewed groups are a hint: options that need partials take precedence.
    choice = choose(what, algebras, before.skewed and not what.revises and table is None)
    by = before.closes_by(what.time, what.group_by)
    if by is not None and not closes_alone(what, choice.tactic):
        by = None
    live = by is None and switches(what, choice.tactic, flush, table) and not before.dense
    partials = choice.tactic
    if live and statistics is not None and statistics.sparse:
        choice = Choice("adaptive", f"groups are sparse ({statistics}), so they are kept as rows until they are dense")
    if strategy not in ("auto", choice.tactic):
        choice = Choice(_override(strategy, what), f"asked for by strategy={strategy!r}")
        by = by if closes_alone(what, choice.tactic) else None
    live = live and strategy == "auto"
    kept = partials if live else choice.tactic
    bound, most = bound_text(what, kept, before, by), limit(what, kept, before, by)
    if live:
        bound += ", or the rows of sparse groups, where those take less"
    spec = AggregateSpec(what, choice.tactic, choice.why, bound, flush, table, limit=most, live=live, by=by)
    _refuse_extras(spec)
    return spec


def switches(what: WindowedAggregation, tactic: str, flush: Flush, table: int | None) -> bool:
    """Whether AdaptWID can be chosen and left while running. Without groups nothing is sparse. Answers that are revised
    or delayed, the table at the source and an origin that is found while running need partials."""
    grouped = tactic in ("wid", "panes") and type(what.window) is Sliding and bool(what.group_by)
    return grouped and not what.revises and what.anchored and flush.name == "eager" and table is None


def closes_alone(what: WindowedAggregation, tactic: str) -> bool:
    """Whether groups can close by the progress of their own sources. Answers that are revised wait for the slowest, and
    so do windows whose origin or numbers depend on the rows of all sources."""
    window = what.window
    by_arrival = isinstance(window, TupleBased) or (isinstance(window, Partitioned) and window.order == "arrival")
    return tactic in CLOSED_ALONE and what.anchored and not what.revises and not by_arrival


def choose(what: WindowedAggregation, algebras: Sequence[Algebra], skewed: bool) -> Choice:
    window = what.window
    if isinstance(window, Landmark):
        if window.period is None:
            _refuse_holistic(what, "a landmark window", "give the landmark a period, or use a bounded aggregate")
        return Choice("landmark", "a landmark's windows only grow, so closed panes fold into one partial per group")
    if isinstance(window, SlideByTuple):
        rolled = f"windows are runs of start bins ({_rollups(what, algebras)})"
        if window.every == 1 or window.order == "rank":
            ends = "every row" if window.every == 1 else f"one row in {window.every} by time"
            return Choice("bins", f"{ends} ends a window, known when it is final, so no row is kept: {rolled}")
        return Choice("marked-bins", f"one arrival in {window.every} ends a window and is marked as it comes: {rolled}")
    if isinstance(window, Partitioned):
        when = "when it is final, in order of time" if window.order == "time" else "as it comes"
        return Choice("partitioned", f"each key counts its own rows; a row is numbered {when}, and reduced to panes")
    if isinstance(window, Session):
        return Choice("sessions", "rows of a key with pauses below the gap are one fragment, and fragments merge")
    if isinstance(window, Over):
        if window.preceding is None:
            _refuse_holistic(what, "all preceding rows", "bound PRECEDING, or use a bounded aggregate")
        return Choice("over", f"each row is answered when its frame is complete ({_rollups(what, algebras)})")
    assert isinstance(window, Sliding)
    if skewed and not isinstance(window, TupleBased):
        return Choice(
            "adaptive", "most groups have few rows per window: those are kept as rows, the others as partials"
        )
    if window.slide >= window.range:
        return Choice("wid", "windows do not overlap, so a row is in one window at most and is kept there")
    return Choice(
        "panes",
        f"RANGE/SLIDE = {window.range / window.slide:g}, so a row is reduced once, into its pane "
        f"({window.panes_per_window} panes per window), and windows are rolled up ({_rollups(what, algebras)})",
    )


def _refuse_holistic(what: WindowedAggregation, over: str, instead: str) -> None:
    holistic = [str(a) for a in what.distinct if not a.bounded]
    if holistic:
        raise BadAggregate(f"{', '.join(holistic)} over {over} would keep every value for ever; {instead}.")


def _rollups(what: WindowedAggregation, algebras: Sequence[Algebra]) -> str:
    asked = dict.fromkeys(i for _, i in what.outputs())
    return "; ".join(f"{what.distinct[i]}: {_rollup(what.distinct[i], algebras[i])}" for i in asked) or "presence only"


def _rollup(aggregate: AggregateFunction, algebra: Algebra) -> str:
    if not aggregate.bounded:
        return "holistic, values kept per pane and merged by rank"
    if algebra.exact_inverse:
        return "differential, by differences of prefix sums"
    if aggregate.differential is Differential.FULL:
        return "differential but rounding, so panes are combined by doubling"
    return "not differential, panes are combined by doubling"


def _override(strategy: str, what: WindowedAggregation) -> str:
    known = ["wid", "panes", "landmark", "buffer", "adaptive"]
    if strategy not in [*TACTICS, *OPERATORS]:
        raise LowwaterError(f"strategy={strategy!r} is unknown; use auto, {', '.join(known)}.")
    if not isinstance(what.window, ContextFree):
        raise BadWindow(f"strategy={strategy!r} is not for this window, which has one strategy only; leave it out.")
    if strategy not in known:
        raise BadWindow(f"strategy={strategy!r} is for other kinds of windows; use auto, {', '.join(known)}.")
    if isinstance(what.window, TupleBased) and strategy in ("buffer", "adaptive"):
        raise BadWindow(f"strategy={strategy!r} keeps rows by time, but this window counts them; use wid or panes.")
    if isinstance(what.window, Landmark) and strategy in ("wid", "panes", "adaptive"):
        raise BadWindow(
            f"strategy={strategy!r} would enumerate the open id range of a landmark window; use landmark or buffer."
        )
    if isinstance(what.window, Sliding) and strategy == "landmark":
        raise BadWindow("strategy='landmark' is for RANGE ALL; this window has a RANGE.")
    return strategy


def _refuse_extras(planned: AggregateSpec) -> None:
    """Refuses early answers, revisions, flushing and the table at the source where they cannot work."""
    what, tactic, flush, table = planned.what, planned.tactic, planned.flush, planned.table
    if what.late not in ("include", "drop"):
        raise LowwaterError(f"late={what.late!r} is unknown; use 'include' (in open windows) or 'drop' (from all).")
    if what.late == "drop" and tactic in OPERATORS:
        raise BadWindow("late='drop' is for rows in several windows; here a late row is in none and dropped anyway.")
    if what.revises and (tactic not in ANSWERED_AGAIN or not what.anchored):
        raise BadWindow(
            "emit(early=, allowed_lateness=) works for sliding, tumbling and landmark windows kept as partials from a "
            "known origin; leave it out here."
        )
    if what.lateness and isinstance(what.window, TupleBased):
        raise BadWindow("allowed_lateness= is for late rows, but rows that are counted as they come are never late.")
    if flush.name != "eager" and (not isinstance(what.window, ContextFree) or what.revises):
        raise BadWindow(
            f"emit(flush=) delays answers by windows, so it needs windows over time or rows that close in order, "
            f"each answered once; leave out the {flush.name} flush here."
        )
    if table is not None:
        if isinstance(table, bool) or table < 1:
            raise LowwaterError(f"table= is the number of entries of the low-level table and at least 1, not {table}.")
        if planned.sends_rows or tactic not in ANSWERED_AGAIN:
            raise BadWindow("table= reduces rows at the source by pane, which this window does not do; leave it out.")
