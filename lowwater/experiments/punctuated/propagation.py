"""PW Fig. 11 and 12: the punctuations that a join emits, with and without a window.

    PJoin    has no window. It reports the end of a value when both streams have ended it               (Theorem 3.1)
    PWJoin   reports it then, or when the last tuple with the value has left the window of a stream that has ended it
                                                                                                         (Theorem 4.1)

Fig. 11   A is punct-asc-30-40, B punct-random-30-40, with a window of 1 s on both for PWJoin. The paper does not state
          how far the values of B are from ascending order. One case is any order, the other is at most 20 places. The
          further they are, the longer a value that one stream has ended waits for the other
Fig. 12   A has no punctuation, and its values are uniform in [0, 15000). B is punct-asc-30-40, with a window of 5 s on
          B. A has no window: its tuples are removed when B ends their value

A sample is taken every second. A value is counted when it is first reported. PWJoin reports a value a second time if
the other stream ends it after PWJoin has dropped the first promise, two windows later. These repeats are measured
separately ("reported again") and are not part of the curves. A value that is reported more often than streams have
ended it refutes the claim.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa

from lowwater.experiments.outcome import Outcome, write_csv
from lowwater.experiments.punctuated.feed import EVERY, Ran, run, spec, ticks
from lowwater.experiments.thesis.curves import Curve, Panel, draw
from lowwater.generate import SECOND, START
from lowwater.generate.punctuated import Punctuated, punctuated, unpunctuated
from lowwater.joins.pwjoin import PWJoin, pjoin

BOTH_CLAIM = (
    "If both streams are punctuated, PWJoin with a window of 1 s reports every ended value no later than PJoin does. "
    "At no sampling step has it reported fewer values, and at the end it has reported more. It reports no value more "
    "often than streams have ended it."
)
ONE_CLAIM = (
    "If only B is punctuated, PJoin cannot report any ended value, while PWJoin with a window of 5 s on B reports them "
    "at the rate at which B ends them, each once and at most the window and one batch after B has ended it."
)
STEP = 1
SECONDS = {"tiny": 12, "full": 60}
CUT = {"tiny": SECOND // 2, "full": EVERY}
ORDERS: dict[str, int | None] = {"any order": None, "20 places": 20}
"""The largest distance of a value of B from its place in ascending order."""
BOTH_WINDOW = 1
ONE_WINDOW = 5
DOMAIN = 15_000
ENDED_EVERY = 0.3
"""The average seconds between two punctuations of a stream."""


@dataclass(frozen=True)
class Point:
    """The number of values that each join has reported, and the number that B has ended."""

    case: str
    at: float
    pwjoin: int
    pjoin: int
    ended: int


def reproduce_both(size: str, out: Path) -> Outcome:
    seconds = SECONDS[size]
    number = round(1.25 * seconds / ENDED_EVERY)
    points, sooner, sparing = [], True, True
    measured: dict[str, float] = {}
    for case, within in ORDERS.items():
        streams = [punctuated("punct-asc-30-40", number, 1), punctuated("punct-random-30-40", number, 2, within=within)]
        ours = run(PWJoin(spec(BOTH_WINDOW, BOTH_WINDOW)), streams, seconds, STEP, CUT[size])
        theirs = run(pjoin(spec(None, None)), streams, seconds, STEP, CUT[size])
        sooner &= no_later(ours, theirs)
        sparing &= not_repeated(ours, streams)
        points += compared(case, streams, ours, theirs)
        name = case.replace(" ", "_")
        measured |= {f"{name}_pwjoin": points[-1].pwjoin, f"{name}_pjoin": points[-1].pjoin}
        measured[f"{name}_reported_again"] = ours.again
        measured[f"{name}_least_ahead"] = min(point.pwjoin - point.pjoin for point in points if point.case == case)
    return outcome("PW-11", points, sooner and sparing and both_hold(points), measured, out)


def reproduce_one(size: str, out: Path) -> Outcome:
    seconds = SECONDS[size]
    number = round(1.25 * seconds / ENDED_EVERY)
    streams = [unpunctuated(150 * seconds, DOMAIN, 1), punctuated("punct-asc-30-40", number, 2)]
    ours = run(PWJoin(spec(None, ONE_WINDOW)), streams, seconds, STEP, CUT[size])
    theirs = run(pjoin(spec(None, None)), streams, seconds, STEP, CUT[size])
    points = compared("one", streams, ours, theirs)
    waited = lags(ours, streams[1])
    last = points[-1]
    measured = {"pwjoin": float(last.pwjoin), "pjoin": float(last.pjoin), "ended_by_b": float(last.ended)}
    measured |= {"longest_wait_s": round(max(waited), 3), "most_per_step": float(max(steps(points)))}
    measured["reported_again"] = float(ours.again)
    measured["per_second"] = round(last.pwjoin / (last.at - ONE_WINDOW), 3)
    late = ONE_WINDOW + CUT[size] / SECOND
    holds = one_holds(points, waited, late) and not_repeated(ours, streams)
    return outcome("PW-12", points, holds, measured, out)


def compared(case: str, streams: Sequence[Punctuated], ours: Ran, theirs: Ran) -> list[Point]:
    ended = ticks(streams[1].punctuations)
    points = []
    for mine, other in zip(ours.samples, theirs.samples, strict=True):
        by_b = int(np.searchsorted(ended, START * SECOND + mine.at * SECOND))
        points.append(Point(case, mine.at, mine.reported, other.reported, by_b))
    return points


def no_later(ours: Ran, theirs: Ran) -> bool:
    """Whether our join reports every value that the other join reports, and no later."""
    return all(value in ours.reported and ours.reported[value] <= at for value, at in theirs.reported.items())


def not_repeated(ran: Ran, streams: Sequence[Punctuated]) -> bool:
    """Whether no value is reported more often than streams have ended it by the end of the run."""
    until = START * SECOND + ran.samples[-1].at * SECOND
    ended: Counter[int] = Counter()
    for table in (stream.punctuations for stream in streams):
        ended.update(table.column("key").filter(pa.array(ticks(table) < until)).to_pylist())
    return ran.times <= ended


def lags(ran: Ran, stream: Punctuated) -> list[float]:
    """The seconds between the punctuation of each value and its report; infinite if it is never reported."""
    table = stream.punctuations
    since = (ticks(table) - START * SECOND) / SECOND
    last = ran.samples[-1].at - ONE_WINDOW - STEP
    due = zip(table.column("key").to_pylist(), since.tolist(), strict=True)
    return [ran.reported.get(value, np.inf) - at for value, at in due if at < last]


def steps(points: Sequence[Point]) -> list[int]:
    """The values reported in each sampling step, after the first window has passed."""
    return [b.pwjoin - a.pwjoin for a, b in pairwise(points) if a.at >= ONE_WINDOW]


def both_hold(points: Sequence[Point]) -> bool:
    ends = [[point for point in points if point.case == case][-1] for case in ORDERS]
    return all(p.pwjoin >= p.pjoin for p in points) and all(p.pwjoin > p.pjoin for p in ends)


def one_holds(points: Sequence[Point], waited: Sequence[float], late: float) -> bool:
    """Whether PJoin reports nothing, and PWJoin every value in time, so that its rate is that of B one window ago."""
    return not any(p.pjoin for p in points) and points[-1].pwjoin > 0 and max(waited) <= late


def outcome(id: str, points: Sequence[Point], holds: bool, measured: dict[str, float], out: Path) -> Outcome:
    """The outcome, with a figure on the axes of the paper: punctuations emitted so far, by time."""
    table = write_csv(out / f"{id}.csv", list(vars(points[0])), [tuple(vars(point).values()) for point in points])
    curves = []
    for case in dict.fromkeys(point.case for point in points):
        own = [point for point in points if point.case == case]
        suffix = "" if case == "one" else f", B in {case}" if case == "any order" else f", B at most {case} off"
        for name, label in (("pwjoin", "PWJoin"), ("pjoin", "PJoin")):
            curves.append(Curve(label + suffix, [p.at for p in own], [getattr(p, name) for p in own]))
    return Outcome(holds, measured, table, draw([Panel("time, s", "punctuations output", curves)], out / f"{id}.png"))
