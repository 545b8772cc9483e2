"""TH Fig. 6-12: wrong answers over latency of a count over a stream with block-sorted disorder.

A router collects records for 490 s and then sends them in any order. The query has RANGE 600 s and SLIDE 60 s, with
consistent slack from 0 to 600 s, compared with a source that punctuates after each block. There is no punctuation
within a block, so it can come after a window is complete and has a latency, too. Latency is in time of the stream; see
accuracy.py.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

import lowwater as lw
from lowwater.experiments.outcome import Outcome, write_csv
from lowwater.experiments.thesis.curves import Panel, draw
from lowwater.experiments.thesis.slack import Arrivals, Judged, begin, curves
from lowwater.generate import SECOND, Blocks
from lowwater.windows.context_free import Sliding

CLAIM = (
    "With blocks of 490 s that arrive shuffled, a sliding count by slack is wrong in most windows until the slack "
    "reaches the length of a block. From there on all windows are right, and more slack only adds latency. With "
    "punctuation after each block all windows are right, with less latency than any slack that is right. (Latency is "
    "the stream time from the arrival of the whole extent to its answer. With less slack most answers come before "
    "that, and are wrong.)"
)
BLOCK = 490 * SECOND
SLACKS = tuple(round(seconds * SECOND) for seconds in (0, 54.4, 109.1, 218.2, 327.3, 434.2, 490.9, 600))
WINDOW = Sliding(600 * SECOND, 60 * SECOND)
SPACING = SECOND // 4
TUPLES = {"tiny": 12_000, "full": 120_000}


def reproduce(size: str, out: Path) -> Outcome:
    stream = arrivals(TUPLES[size])
    slacks = [stream.by_slack("consistent", slack) for slack in SLACKS]
    blocks = stream.ts.min() + BLOCK * np.arange(1, len(stream.ts) * SPACING // BLOCK + 2)
    punctuated = stream.by_punctuation(blocks)
    points = [*slacks, punctuated]
    table = write_csv(out / "TH-6-12.csv", list(vars(punctuated)), [tuple(vars(point).values()) for point in points])
    panel = Panel("latency, s (below 0: early)", "percentage of wrong answers", curves(points, "wrong_answers"))
    judged = holds(slacks, punctuated)
    return Outcome(judged, measured(slacks, punctuated), table, draw([panel], out / "TH-6-12.png"))


def arrivals(tuples: int) -> Arrivals:
    """The first block begins with a window. The next blocks do not, because 490 is not a multiple of 60."""
    rng = np.random.default_rng(12)
    since = np.arange(tuples) * SPACING
    order = Blocks(BLOCK).order(since, rng)
    ts = begin(WINDOW.slide) + since[order]
    return Arrivals(ts, np.ones(tuples, np.int64), SPACING, lw.count(), WINDOW, SLACKS[-1])


def holds(slacks: list[Judged], punctuated: Judged) -> bool:
    short = [point for point in slacks if point.slack * SECOND < BLOCK]
    enough = [point for point in slacks if point.slack * SECOND >= BLOCK]
    wrong = all(point.wrong_answers > 50 for point in short)
    right = all(point.wrong_answers == 0 for point in enough)
    later = max(point.latency for point in short) < enough[0].latency < enough[-1].latency
    better = punctuated.wrong_answers == 0 and all(punctuated.latency < point.latency for point in enough)
    return wrong and right and later and better


def measured(slacks: list[Judged], punctuated: Judged) -> dict[str, float]:
    found: dict[str, float] = {}
    for name, p in [*((f"slack_{p.slack:g}s", p) for p in slacks), ("punctuation", punctuated)]:
        found |= {f"{name}_wrong_percent": round(p.wrong_answers, 2), f"{name}_latency_seconds": round(p.latency, 3)}
    return found
