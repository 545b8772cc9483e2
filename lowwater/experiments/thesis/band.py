"""TH Fig. 6-11: accuracy over latency of an average over a stream with band disorder.

RANGE is 64 s and SLIDE 6.4 s; no tuple is more than 3.2 s behind. Slack from 0 to 3.2 s, consistent and generous, is
compared with a source that punctuates each window as soon as the last tuple of its extent has been sent. Tuples come
every 40 ms of stream time, in which latency is measured, too (accuracy.py). The thesis has ten traces of a network
instead of a generator, and measures with the wall clock.
"""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np

import lowwater as lw
from lowwater.experiments.outcome import Outcome, write_csv
from lowwater.experiments.thesis.curves import Panel, draw
from lowwater.experiments.thesis.slack import PUNCTUATION, Arrivals, Judged, begin, curves
from lowwater.generate import SECOND, Band
from lowwater.windows.context_free import Sliding

CLAIM = (
    "With band disorder of up to 3.2 s, more slack makes a sliding average more accurate and later. Generous slack has "
    "less than half the error of consistent slack at the same latency. Punctuation from the source is exact, and any "
    "slack is either less accurate or later. (Latency is the stream time from the arrival of the whole extent to its "
    "answer, so punctuation has none. An answer before that is early, and less accurate.)"
)
SLACKS = (0, 320_000, 640_000, 1_280_000, 2_560_000, 3_200_000)
WINDOW = Sliding(64 * SECOND, 6_400_000)
SPACING = 40_000
TUPLES = {"tiny": 15_000, "full": 75_000}


def reproduce(size: str, out: Path) -> Outcome:
    stream = arrivals(TUPLES[size])
    points = [stream.by_slack(kind, slack) for kind in ("consistent", "generous") for slack in SLACKS]
    ends = stream.window.ends(np.unique(stream.window.bounds(stream.ts)[0]))
    points.append(stream.by_punctuation(ends))
    table = write_csv(out / "TH-6-11.csv", list(vars(points[0])), [tuple(vars(point).values()) for point in points])
    panel = Panel("latency, s (below 0: early)", "mean error percentage", curves(points, "mean_error"))
    return Outcome(holds(points), measured(points), table, draw([panel], out / "TH-6-11.png"))


def arrivals(tuples: int) -> Arrivals:
    """Prices of bids, in whole cents so that averages are exact."""
    rng = np.random.default_rng(11)
    ts = begin(WINDOW.slide) + np.arange(tuples) * SPACING
    order = Band(SLACKS[-1] // SPACING).order(ts, rng)
    price = np.round(100 * rng.lognormal(3, 1, tuples)).astype(np.int64)
    return Arrivals(ts[order], price[order], SPACING, lw.avg("value"), WINDOW, SLACKS[-1])


def holds(points: list[Judged]) -> bool:
    consistent, generous = (
        [point for point in points if point.closed_by == kind] for kind in ("consistent", "generous")
    )
    (punctuated,) = [point for point in points if point.closed_by == PUNCTUATION]
    trade = all(
        less.mean_error > more.mean_error and less.latency <= more.latency and less.shift < more.shift
        for slacks in (consistent, generous)
        for less, more in pairwise(slacks)
    )
    kinder = all(
        g.mean_error < c.mean_error / 2 and g.shift == c.shift
        for c, g in zip(consistent, generous, strict=True)
        if c.slack < SLACKS[-1] / SECOND
    )
    better = punctuated.mean_error == 0 and all(
        point.mean_error > 0 or point.latency > punctuated.latency for point in (*consistent, *generous)
    )
    return trade and kinder and better


def measured(points: list[Judged]) -> dict[str, float]:
    found: dict[str, float] = {}
    for p in points:
        name = p.closed_by if p.closed_by == PUNCTUATION else f"{p.closed_by}_{p.slack:g}s"
        found |= {f"{name}_error_percent": round(p.mean_error, 4), f"{name}_latency_seconds": round(p.latency, 4)}
    return found
