"""PW Fig. 8: the tuples in the state of PWJoin and of WJoin, compared with the cost model of the paper.

Fig. 8       streams A and B are punct-asc-100-40, one tuple per 10 ms on average, with windows of 1, 5 and 15 s on
             both. A sample every 2 s counts the tuples of both states. WJoin ignores punctuations
Equation 1   the state of B after PW 5.2 (cost.py), with the values and punctuations that the streams have had so far.
             It is drawn for Fig. 8, and for streams that meet its assumptions: B draws its values evenly, A ends them
             one after the other, and the window of A is longer than the run, so that no promise is dropped
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np

from lowwater.experiments.outcome import Outcome, write_csv
from lowwater.experiments.punctuated.feed import EVERY, Ran, arrivals, give, run, spec, ticks
from lowwater.experiments.thesis.curves import Curve, Panel, draw
from lowwater.generate import SECOND, START
from lowwater.generate.punctuated import Punctuated, punctuated, unpunctuated
from lowwater.joins.cost import punctuated_state, window_state
from lowwater.joins.oa_join import OAJoin
from lowwater.joins.pwjoin import PWJoin

CLAIM = (
    "Over streams punctuated on the join value, PWJoin holds fewer tuples than WJoin for windows of 1, 5 and 15 s. The "
    "saving in tuples grows with the window, and the punctuations remembered for it are fewer than the tuples saved. "
    "Equation (1) predicts the state to a twentieth of a window (the mean over the run) if a stream draws its values "
    "evenly and no promise is dropped. It is also drawn for the streams of the figure, but does not hold there: their "
    "values advance with time, and the state stays the same while the equation goes to 0."
)
PATTERN = "punct-asc-100-40"
RATE = 100
"""The tuples per second of every stream."""
WINDOWS = (1, 5, 15)
STEP = 2
SECONDS = {"tiny": 16, "full": 80}
CUT = {"tiny": SECOND, "full": EVERY}
EVEN = {"tiny": (12, 4), "full": (60, 10)}
"""For the streams with even values: their seconds, and the window on B."""
ENDED_EVERY = 0.3
"""The seconds between two punctuations of A in these streams, where A is punct-random-30-40."""
NEAR = 1 / 20


@dataclass(frozen=True)
class Point:
    """The state at one sampling step with one window. `equation` is Equation (1), summed over both sides."""

    window: float
    at: float
    pwjoin: int
    wjoin: int
    promises: int
    equation: float


@dataclass(frozen=True)
class Even:
    """The state of B in the streams with even values."""

    at: float
    held: int
    equation: float


def reproduce(size: str, out: Path) -> Outcome:
    seconds = SECONDS[size]
    streams = [punctuated(PATTERN, round(seconds * 1.5), seed) for seed in (1, 2)]
    points = []
    for window in WINDOWS:
        ours, theirs = (run(join(spec(window, window)), streams, seconds, STEP, CUT[size]) for join in (PWJoin, OAJoin))
        assert np.array_equal(ours.pairs, theirs.pairs), "both must give the same results"
        points += compared(streams, window, ours, theirs)
    seconds, window = EVEN[size]
    even = evenly(seconds, window, CUT[size])
    rows = [(PATTERN, *vars(point).values()) for point in points]
    evened = [("even", window, point.at, point.held, "", "", point.equation) for point in even]
    table = write_csv(out / "PW-8.csv", ["streams", *vars(points[0])], [*rows, *evened])
    return Outcome(
        holds(points, even, window),
        measured(points, even, window),
        table,
        drawn(points, even, window, out / "PW-8.png"),
    )


def compared(streams: Sequence[Punctuated], window: float, ours: Ran, theirs: Ran) -> list[Point]:
    points = []
    for mine, other in zip(ours.samples, theirs.samples, strict=True):
        sides = [equation(streams[i], streams[1 - i], window, mine.at) for i in (0, 1)]
        points.append(Point(window, mine.at, mine.rows, other.rows, mine.promises, sum(sides)))
    return points


def equation(stream: Punctuated, other: Punctuated, window: float, at: float) -> float:
    """Equation (1) for the state of one stream, from the tuples and punctuations up to that time."""
    until = START * SECOND + round(at * SECOND)
    tuples, ended = stream.tuples, other.punctuations
    values = len(np.unique(tuples.column("key").to_numpy()[ticks(tuples) < until]))
    promised = int(np.count_nonzero(ticks(ended) < until))
    return punctuated_state(RATE, window, promised / at, at, values)


def evenly(seconds: int, window: float, every: int) -> list[Even]:
    """The states for streams with even values: A ends the values one after the other, B draws from all of them."""
    number = round(1.2 * seconds / ENDED_EVERY)
    streams = [punctuated("punct-random-30-40", number, 3), unpunctuated(round(1.5 * RATE * seconds), number, 4)]
    join = PWJoin(spec(2 * seconds, window))
    points = []
    for until, messages in arrivals(streams, seconds, every):
        for port, message in messages:
            give(join, port, message)
        at = until / SECOND
        if until % (STEP * SECOND) == 0 and at >= window:
            points.append(Even(at, join.sides[1].live_rows, equation(streams[1], streams[0], window, at)))
    return points


def off(even: Sequence[Even], window: float) -> float:
    """The mean distance of the equation from the state, as a fraction of the tuples in a window."""
    return float(np.mean([abs(point.held - point.equation) for point in even])) / window_state(RATE, window)


def saving(points: Sequence[Point], window: float) -> float:
    """The tuples that PWJoin saves over WJoin, on average over the run."""
    return float(np.mean([point.wjoin - point.pwjoin for point in points if point.window == window]))


def holds(points: Sequence[Point], even: Sequence[Even], window: float) -> bool:
    savings = [saving(points, one) for one in WINDOWS]
    grows = savings[0] > 0 and all(less < more for less, more in pairwise(savings))
    remembered = [np.mean([point.promises for point in points if point.window == one]) for one in WINDOWS]
    worth = all(few < many for few, many in zip(remembered, savings, strict=True))
    return all(point.pwjoin <= point.wjoin for point in points) and grows and worth and off(even, window) <= NEAR


def measured(points: Sequence[Point], even: Sequence[Even], window: float) -> dict[str, float]:
    """Means over the second half of the run, when all windows are full."""
    found: dict[str, float] = {}
    half = max(point.at for point in points) / 2
    for one in WINDOWS:
        late = [point for point in points if point.window == one and point.at > half]
        for name in ("pwjoin", "wjoin", "promises", "equation"):
            found[f"window_{one}s_{name}"] = round(float(np.mean([getattr(point, name) for point in late])), 1)
    found["even_values_equation_off_by"] = round(off(even, window), 4)
    return found


def drawn(points: Sequence[Point], even: Sequence[Even], window: float, file: Path) -> Path:
    """The axes of the paper, one curve per join and window; below, the streams that meet the assumptions."""
    curves, modelled = [], []
    for name, label in (("pwjoin", "PWJoin"), ("wjoin", "WJoin")):
        for one in WINDOWS:
            own = [point for point in points if point.window == one]
            curves.append(Curve(f"{label}-{one}", [p.at for p in own], [getattr(p, name) for p in own]))
    for one in WINDOWS:
        own = [point for point in points if point.window == one and point.at >= one]
        modelled.append(Curve(f"PWJoin-{one}", [p.at for p in own], [p.pwjoin for p in own]))
        modelled.append(Curve(f"Equation (1), window {one} s", [p.at for p in own], [p.equation for p in own]))
    evened = [
        Curve("PWJoin, state of B", [p.at for p in even], [p.held for p in even]),
        Curve("Equation (1)", [p.at for p in even], [p.equation for p in even]),
        Curve("window join without punctuation", [p.at for p in even], [window_state(RATE, window)] * len(even)),
    ]
    panels = [
        Panel("time, s (A, B: punct-asc-100-40)", "tuples in the join state", curves),
        Panel("time, s (A, B: punct-asc-100-40)", "tuples in the join state", modelled),
        Panel(f"time, s (values of B even, window {window:g} s)", "tuples in the state of B", evened),
    ]
    return draw(panels, file)
