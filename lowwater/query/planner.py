"""The planner: from what is asked to how it is done. Every choice and every refusal before running is made here.

    window              aggregate       tactic     because
    no overlap          any             wid        a row is in at most one window: one partial, kept by window id
    overlapping         any             panes      a row is reduced once, however many windows overlap
    landmark            bounded         landmark   what is closed folds into one partial a group
    landmark            holistic        refused    every value would be kept for ever (with a period: landmark)

`strategy` overrides the choice where the override is legal; it never changes results.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from lowwater.aggregates.base import Aggregate, Algebra, Differential
from lowwater.errors import BadAggregate, BadProgress, BadWindow, LowwaterError, UnknownColumn
from lowwater.model.policy import Delay
from lowwater.model.ticks import Length, Ticks
from lowwater.operators.bucket import WindowedAggregation
from lowwater.operators.window_aggregate import LATE_COLUMNS
from lowwater.query.plan import TACTICS, Input, Plan, Reason
from lowwater.windows.context_free import ContextFree, Landmark, Sliding

RESERVED = ("wid", "window_start", "window_end")


def plan(
    inputs: Sequence[Input],
    what: WindowedAggregation,
    strategy: str = "auto",
) -> Plan:
    """Chooses the tactic, or refuses with a sentence."""
    refuse_columns(what)
    algebras = what.algebras()  # binds every aggregate to its column: types are refused here, before anything runs
    window = what.window
    if isinstance(window, Landmark):
        choice, why = "landmark", "a landmark's windows only grow, so closed panes fold into one partial a group"
        holistic = [str(a) for a in what.distinct if not a.bounded]
        if holistic and window.period is None:
            raise BadAggregate(
                f"{', '.join(holistic)} over a landmark window would keep every value for ever; "
                "give the landmark a period, or use a bounded aggregate."
            )
    elif isinstance(window, Sliding) and window.slide >= window.range:
        choice, why = "wid", "windows do not overlap, so a row is in one window at most and is kept there"
    else:
        assert isinstance(window, Sliding)
        asked = dict.fromkeys(i for _, i in what.outputs())
        rolled = [f"{what.distinct[i]}: {_rollup(what.distinct[i], algebras[i])}" for i in asked]
        choice = "panes"
        why = (
            f"RANGE/SLIDE = {window.range / window.slide:g}, so a row is reduced once, into its pane "
            f"({window.panes_per_window} panes a window), and windows are rolled up ({'; '.join(rolled)})"
        )
    if strategy != "auto" and strategy != choice:
        choice, why = _override(strategy, choice, what), f"asked for by strategy={strategy!r}"
    return Plan(tuple(inputs), what, choice, Reason(why, bound_text(what, choice, inputs)))


def refuse_columns(what: WindowedAggregation) -> None:
    for name in what.group_by:
        if name not in what.schema.names:
            raise UnknownColumn(name, what.schema.names, "group_by()")
        if name in RESERVED or what.group_by.count(name) > 1:
            raise LowwaterError(f"The result would have two columns named {name!r}; rename or drop the group column.")
        type = what.schema.field(name).type
        if not groupable(type):
            raise LowwaterError(
                f"group_by() cannot group by {name!r} of type {type}; cast it or select its parts first."
            )
    for name in LATE_COLUMNS:
        if name in what.schema.names:
            raise LowwaterError(f"The stream has a column {name!r}, which the late output adds itself; rename it.")
    names = [*RESERVED, *what.group_by]
    for name, _ in what.aggregates:
        if name in names:
            raise LowwaterError(f"The result would have two columns named {name!r}; give the aggregate another name.")
        names.append(name)
    if not what.aggregates:
        raise BadAggregate("agg() needs at least one aggregate, as in agg(n=lw.count()).")


def groupable(type: pa.DataType) -> bool:
    """Types whose values can be told apart and hashed for ever: those that Spark can group by."""
    t = pa.types
    plain = t.is_boolean(type) or t.is_signed_integer(type) or t.is_float32(type) or t.is_float64(type)
    small = type in (pa.uint8(), pa.uint16(), pa.uint32()) or t.is_date32(type) or t.is_timestamp(type)
    text = t.is_string(type) or t.is_large_string(type) or t.is_binary(type) or t.is_large_binary(type)
    return bool(plain or small or text or t.is_decimal128(type) or t.is_duration(type) or t.is_null(type))


def _rollup(aggregate: Aggregate, algebra: Algebra) -> str:
    if not aggregate.bounded:
        return "holistic, values kept per pane and merged by rank"
    if algebra.exact_inverse:
        return "differential, by differences of prefix sums"
    if aggregate.differential is Differential.FULL:
        return "differential but rounding, so panes are combined by doubling"
    return "not differential, panes are combined by doubling"


def _override(strategy: str, choice: str, what: WindowedAggregation) -> str:
    if strategy not in TACTICS:
        raise LowwaterError(f"strategy={strategy!r} is unknown; use auto, {', '.join(TACTICS)}.")
    if isinstance(what.window, Landmark) and strategy in ("wid", "panes"):
        raise BadWindow(
            f"strategy={strategy!r} would enumerate the open id range of a landmark window; use landmark or buffer."
        )
    if isinstance(what.window, Sliding) and strategy == "landmark":
        raise BadWindow("strategy='landmark' is for RANGE ALL; this window has a RANGE.")
    return strategy


def slots(window: ContextFree, tactic: str, spread: int) -> int:
    """How many partials a group can hold at most, with `spread` ticks between low-watermark and newest row."""
    if isinstance(window, Sliding):
        step = window.pane if tactic == "panes" else window.slide
        return -(-(window.range + spread) // step) + 1
    return -(-spread // window.slide) + 2


def bound_text(what: WindowedAggregation, tactic: str, inputs: Sequence[Input]) -> str:
    """The state bound as EXPLAIN prints it; tests assert it through `slots`."""
    if tactic == "buffer":
        endless = isinstance(what.window, Landmark) and what.window.period is None
        return "all rows, for ever" if endless else "the rows of the last RANGE and of the disorder beyond it"
    delays = [i.policy.ticks for i in inputs if isinstance(i.policy, Delay)]
    known = len(delays) == len(inputs)
    unit = "panes" if tactic == "panes" else "windows" if tactic == "wid" else "partials"
    text = f"{slots(what.window, tactic, max(delays) if known else 0)} {unit} x groups with rows in them"
    if not all(a.bounded for a in what.distinct):
        text += ", each with its values"
    if not known:
        text += ", plus those between the low-watermark and the newest row"
    elif len(inputs) > 1 or inputs[0].source is not None:
        text += ", plus those in which sources are apart"
    return text if what.anchored else f"{text}, and the rows that come before the origin is known"


def window_of(
    ticks: Ticks, range: Length, slide: Length | None, origin: object, period: Length | None
) -> tuple[ContextFree, bool]:
    """The window a user asked for, in ticks, and whether its origin is known now.

    Windows start at origin + k * SLIDE, as in Spark and its peers; the thesis counts from their ends, which is the same
    unless RANGE is no multiple of SLIDE. With origin="first" the thesis is taken at its word.
    """
    anchored = origin != "first"
    at = 0 if origin is None or not anchored else ticks.point(origin, "origin")
    if isinstance(range, str) and range.strip().lower() == "all":
        if slide is None:
            raise BadWindow("RANGE ALL needs a SLIDE, as in window(range='all', slide='1 minute').")
        restart = None if period is None else ticks.length(period, "PERIOD")
        return Landmark(ticks.length(slide, "SLIDE"), at, restart), anchored
    if period is not None:
        raise BadWindow("period= belongs to landmark windows, window(range='all', ...); this window has a RANGE.")
    length = ticks.length(range, "RANGE")
    window = Sliding(length, length if slide is None else ticks.length(slide, "SLIDE"))
    return window.at(at + window.range % window.slide if anchored else 0), anchored


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
