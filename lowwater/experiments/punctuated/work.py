"""PW Fig. 9 and 10: what PWJoin and WJoin do for the same output.

In the paper the joins run as fast as they can, and a figure shows the tuples put out against time. Results are the
same, so a join is ahead where it has done less for them: here the work done is on the axis in place of time, counted as
in feed.py. When the streams have ended everything is removed from the states, so that no join is judged better for
removals that it still owes.

Fig. 9    A and B are punct-asc-100-40, windows of 5 and 15 s. The paper has WJoin slightly ahead with the small window
          and PWJoin with the large, "the gains in probe by shrinking the state" being more than the cost of purging.
          Probes through an index and value lists gain nothing: they find the results, whatever else is held. What would
          be gained where a probe looks at the whole state is counted, too (`scanned`)
Fig. 10   A is punct-asc-30-40, B punct-random-30-40, all punctuations are of values that no tuple has. The paper does
          not give the window; it is 5 s here. With values of B in any order there are few results, and so little work
          beside which the punctuations' is seen; with values at most 20 places from their order there are more. Both
          are run, and streams without any punctuation
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from lowwater.experiments.outcome import Outcome, write_csv
from lowwater.experiments.punctuated.feed import EVERY, Ran, Sample, arrivals, give, run, spec
from lowwater.experiments.thesis.curves import Curve, Panel, draw
from lowwater.generate import SECOND
from lowwater.generate.punctuated import Punctuated, punctuated, unpunctuated
from lowwater.joins.oa_join import OAJoin
from lowwater.joins.pwjoin import PWJoin

OUTPUT_CLAIM = (
    "PWJoin gives the same results as WJoin and needs fewer operations for them, with a window of 5 s and of 15 s, for "
    "every pair of streams tried: it saves the insertion and removal of tuples discarded on the fly, which is more "
    "than punctuations cost. Unlike in the paper the saving does not grow with the window, since a probe by index "
    "finds the same whatever the state; what grows with it is the part saved where a probe looks at the whole state. "
    "(Counted as in the paper, whose PunctFlag is read with the probe. With the searches that are made for flags here "
    "PWJoin does more than WJoin; they and the seconds are told and not judged.)"
)
IRRELEVANT_CLAIM = (
    "Punctuations of values that no tuple has, one in 30 tuples, make PWJoin do at most 2.5 % more operations than "
    "WJoin for the same output, and without punctuation it does none more. (Counted as in the paper, whose PunctFlag "
    "is read with the probe. The searches that are made for flags here are not that few; they and the seconds are told "
    "and not judged.)"
)
JOINS: dict[str, type[OAJoin]] = {"PWJoin": PWJoin, "WJoin": OAJoin}
WINDOWS = (5, 15)
STEP = 2
SECONDS = {"tiny": 20, "full": 40}
SEEDS = {"tiny": ((1, 2),), "full": ((1, 2), (3, 4), (5, 6))}
"""Of Fig. 9. How much is discarded on the fly depends on how far two streams happen to be out of step."""
CUT = {"tiny": SECOND, "full": EVERY}
WINDOW = 5
ORDERS: dict[str, int | None] = {"any": None, "near": 20}
"""How many places the values of B are at most from ascending order."""
IRRELEVANT = {"tiny": 8, "full": 50}
"""Seconds of the streams with irrelevant punctuations."""
BATCHES = {"tiny": (0.001, 1), "full": (0.0001, 5)}
"""Seconds between two tuples, and of a micro-batch, where seconds are told of batches as a stream has them."""
ALIKE = 1 / 10
SMALL = 1.025
"""For 30 tuples there are two searches more, and each of them is inserted, searched for and removed: 1 + 2/90."""

Runs = dict[tuple[str, str], Ran]
"""By case and join."""


def reproduce_output(size: str, out: Path) -> Outcome:
    pairs: list[Runs] = []
    for seeds in SEEDS[size]:
        streams = [punctuated("punct-asc-100-40", round(SECONDS[size] * 1.5), seed) for seed in seeds]
        name = "" if not pairs else f"_seeds_{seeds[0]}_{seeds[1]}"
        runs: Runs = {}
        for window in WINDOWS:
            runs |= both(f"{window}s{name}", streams, window, SECONDS[size], CUT[size])
        pairs.append(runs)
    told: dict[str, float] = {}
    for runs in pairs:
        told |= ratios(runs)
        for case in cases(runs):
            ours, theirs = (runs[case, join].end for join in JOINS)
            told[f"{case}_operations_saved"] = theirs.operations - ours.operations
            told[f"{case}_scanned_ratio"] = round(ours.scanned / theirs.scanned, 4)
    together = {key: ran for runs in pairs for key, ran in runs.items()}
    holds = all(output_holds(runs) for runs in pairs)
    return Outcome(holds, told, table("PW-9", together, out), drawn("PW-9", together, out))


def reproduce_irrelevant(size: str, out: Path) -> Outcome:
    seconds = IRRELEVANT[size]
    runs: Runs = {}
    for name, within in ORDERS.items():
        streams = irrelevant(within, round(seconds * 4.5), 0.010)
        runs |= both(name, streams, WINDOW, seconds, CUT[size])
    plain = [unpunctuated(150 * seconds, 100, seed) for seed in (1, 2)]
    runs |= both("none", plain, WINDOW, seconds, CUT[size])
    told = ratios(runs)
    every, batch = BATCHES[size]
    streams = irrelevant(ORDERS["near"], round(seconds * 1.5 / every / 30), every)
    ours, theirs = (min(busy(join, streams, seconds, batch) for _ in range(3)) for join in JOINS.values())
    told["near_micro_batches_seconds_ratio"] = round(ours / theirs, 4)
    return Outcome(irrelevant_holds(runs), told, table("PW-10", runs, out), drawn("PW-10", runs, out))


def irrelevant(within: int | None, values: int, every: float) -> list[Punctuated]:
    return [
        punctuated("punct-asc-30-40", values, 1, every=every, irrelevant=True),
        punctuated("punct-random-30-40", values, 2, every=every, within=within, irrelevant=True),
    ]


def both(case: str, streams: Sequence[Punctuated], window: float, seconds: int, every: int) -> Runs:
    """Both joins over the same arrivals; they must agree, at every sampling step."""
    runs = {
        (case, name): run(join(spec(window, window)), streams, seconds, STEP, every) for name, join in JOINS.items()
    }
    ours, theirs = runs.values()
    assert np.array_equal(ours.pairs, theirs.pairs), "both must give the same results"
    assert [one.results for one in ours.samples] == [one.results for one in theirs.samples], "and at the same time"
    return runs


def busy(join: type[OAJoin], streams: Sequence[Punctuated], seconds: int, batch: int) -> float:
    """Seconds of CPU for batches and punctuations as micro-batches bring them."""
    operator = join(spec(WINDOW, WINDOW))
    spent = 0.0
    for _, messages in arrivals(streams, seconds, batch * SECOND, alone=False):
        begun = time.process_time()
        for port, message in messages:
            give(operator, port, message)
        spent += time.process_time() - begun
    return spent


# -- verdicts -------------------------------------------------------------------------------------------------------


def cases(runs: Runs) -> list[str]:
    return list(dict.fromkeys(case for case, _ in runs))


def ratio(runs: Runs, case: str) -> float:
    ours, theirs = (runs[case, join].end.operations for join in JOINS)
    return ours / theirs


def ratios(runs: Runs) -> dict[str, float]:
    """PWJoin over WJoin: operations, operations with those for the flags, and seconds."""
    told: dict[str, float] = {}
    for case in cases(runs):
        ours, theirs = (runs[case, join].end for join in JOINS)
        told[f"{case}_results"] = ours.results
        told[f"{case}_operations_ratio"] = round(ratio(runs, case), 5)
        told[f"{case}_with_flags_ratio"] = round((ours.operations + ours.flags) / theirs.operations, 4)
        told[f"{case}_seconds_ratio"] = round(ours.seconds / theirs.seconds, 4)
    return told


def output_holds(runs: Runs) -> bool:
    """Of one pair of streams: less work with both windows, as many operations less with either, and fewer scanned."""
    ends = [[runs[case, join].end for join in JOINS] for case in cases(runs)]
    small, large = (theirs.operations - ours.operations for ours, theirs in ends)
    scanned = [ours.scanned / theirs.scanned for ours, theirs in ends]
    return min(small, large) > 0 and abs(large - small) <= ALIKE * small and scanned[1] < scanned[0] < 1


def irrelevant_holds(runs: Runs) -> bool:
    ours, theirs = (runs["none", join].end for join in JOINS)
    nothing = (ours.operations, ours.flags) == (theirs.operations, theirs.flags)
    return nothing and all(ratio(runs, case) <= SMALL for case in ORDERS)


# -- files ----------------------------------------------------------------------------------------------------------


def table(id: str, runs: Runs, out: Path) -> Path:
    rows = [
        (case, join, *vars(sample).values()) for (case, join), ran in runs.items() for sample in [*ran.samples, ran.end]
    ]
    return write_csv(out / f"{id}.csv", ["case", "join", *Sample.__dataclass_fields__], rows)


def drawn(id: str, runs: Runs, out: Path) -> Path:
    """The paper's axes but for time, in place of which is work, by several measures."""
    names = {"5s": "window 5 s", "15s": "window 15 s", "any": "B in any order", "near": "B at most 20 places off"}
    measures: dict[str, Callable[[Sample], float]] = {
        "operations": lambda s: s.operations,
        "operations and searches for flags (not judged)": lambda s: s.operations + s.flags,
        "tuples that probes would look at without an index": lambda s: s.scanned,
        "seconds of CPU (not judged)": lambda s: s.seconds,
    }
    panels = []
    for label, measure in measures.items():
        curves = [
            Curve(f"{join}, {names[case]}", [measure(s) for s in ran.samples], [s.results for s in ran.samples])
            for (case, join), ran in runs.items()
            if case in names
        ]
        panels.append(Panel(label, "tuples output", curves))
    return draw(panels, out / f"{id}.png")
