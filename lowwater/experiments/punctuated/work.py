"""PW Fig. 9 and 10: the work of PWJoin and WJoin for the same output.

In the paper the joins run as fast as they can, and a figure shows the output tuples over time. The results are the same
for both, so a join is ahead if it has done less work for them. Here the axis shows the work, counted as in feed.py,
instead of time. When the streams have ended, everything is removed from the states, so that no join looks better
because it has not made its removals yet.

Fig. 9    A and B are punct-asc-100-40, with windows of 5 and 15 s. In the paper WJoin is slightly ahead with the small
          window and PWJoin with the large one, because "the gains in probe by shrinking the state" exceed the cost of
          purging. Probes through an index and value lists gain nothing, because they only touch the results. The gain
          for a probe that reads the whole state is counted, too (`scanned`)
Fig. 10   A is punct-asc-30-40, B punct-random-30-40, and all punctuations are for values that no tuple has. The paper
          does not state the window; here it is 5 s. With the values of B in any order there are few results, so the
          work for punctuations is a large share. With values at most 20 places from their order there are more results.
          Both are run, and also streams without any punctuation
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
    "PWJoin returns the same results as WJoin with fewer operations, for windows of 5 s and 15 s and for every pair of "
    "streams tried: it saves the insertion and removal of tuples discarded on the fly, which is more than punctuations "
    "cost. Unlike in the paper, the saving does not grow with the window, because a probe by index costs the same for "
    "any state. What grows with the window is the share saved if a probe reads the whole state. (Counted as in the "
    "paper, where the probe also reads the PunctFlag. With the searches for flags that are made here, PWJoin does more "
    "operations than WJoin; these and the seconds are reported but not judged.)"
)
IRRELEVANT_CLAIM = (
    "Punctuations for values that no tuple has, one per 30 tuples, make PWJoin do at most 2.5 % more operations than "
    "WJoin for the same output. Without punctuation it does no more operations. (Counted as in the paper, where the "
    "probe also reads the PunctFlag. The searches for flags that are made here are more than that; they and the "
    "seconds are reported but not judged.)"
)
JOINS: dict[str, type[OAJoin]] = {"PWJoin": PWJoin, "WJoin": OAJoin}
WINDOWS = (5, 15)
STEP = 2
SECONDS = {"tiny": 20, "full": 40}
SEEDS = {"tiny": ((1, 2),), "full": ((1, 2), (3, 4), (5, 6))}
"""The seeds of Fig. 9. The tuples discarded on the fly depend on how far the two streams are out of step."""
CUT = {"tiny": SECOND, "full": EVERY}
WINDOW = 5
ORDERS: dict[str, int | None] = {"any": None, "near": 20}
"""The largest distance of a value of B from its place in ascending order."""
IRRELEVANT = {"tiny": 8, "full": 50}
"""The seconds of the streams with irrelevant punctuations."""
BATCHES = {"tiny": (0.001, 1), "full": (0.0001, 5)}
"""For times of realistic micro-batches: the seconds between two tuples, and the seconds of a micro-batch."""
ALIKE = 1 / 10
SMALL = 1.025
"""The allowed ratio. 30 tuples are inserted, looked up and removed, with two additional searches: 1 + 2/90."""

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
    measured: dict[str, float] = {}
    for runs in pairs:
        measured |= ratios(runs)
        for case in cases(runs):
            ours, theirs = (runs[case, join].end for join in JOINS)
            measured[f"{case}_operations_saved"] = theirs.operations - ours.operations
            measured[f"{case}_scanned_ratio"] = round(ours.scanned / theirs.scanned, 4)
    together = {key: ran for runs in pairs for key, ran in runs.items()}
    holds = all(output_holds(runs) for runs in pairs)
    return Outcome(holds, measured, table("PW-9", together, out), drawn("PW-9", together, out))


def reproduce_irrelevant(size: str, out: Path) -> Outcome:
    seconds = IRRELEVANT[size]
    runs: Runs = {}
    for name, within in ORDERS.items():
        streams = irrelevant(within, round(seconds * 4.5), 0.010)
        runs |= both(name, streams, WINDOW, seconds, CUT[size])
    plain = [unpunctuated(150 * seconds, 100, seed) for seed in (1, 2)]
    runs |= both("none", plain, WINDOW, seconds, CUT[size])
    measured = ratios(runs)
    every, batch = BATCHES[size]
    streams = irrelevant(ORDERS["near"], round(seconds * 1.5 / every / 30), every)
    ours, theirs = (min(busy(join, streams, seconds, batch) for _ in range(3)) for join in JOINS.values())
    measured["near_micro_batches_seconds_ratio"] = round(ours / theirs, 4)
    return Outcome(irrelevant_holds(runs), measured, table("PW-10", runs, out), drawn("PW-10", runs, out))


def irrelevant(within: int | None, values: int, every: float) -> list[Punctuated]:
    return [
        punctuated("punct-asc-30-40", values, 1, every=every, irrelevant=True),
        punctuated("punct-random-30-40", values, 2, every=every, within=within, irrelevant=True),
    ]


def both(case: str, streams: Sequence[Punctuated], window: float, seconds: int, every: int) -> Runs:
    """Runs both joins over the same arrivals. They must agree at every sampling step."""
    runs = {
        (case, name): run(join(spec(window, window)), streams, seconds, STEP, every) for name, join in JOINS.items()
    }
    ours, theirs = runs.values()
    assert np.array_equal(ours.pairs, theirs.pairs), "both must give the same results"
    assert [one.results for one in ours.samples] == [one.results for one in theirs.samples], "and at the same time"
    return runs


def busy(join: type[OAJoin], streams: Sequence[Punctuated], seconds: int, batch: int) -> float:
    """The CPU seconds for batches and punctuations in micro-batches."""
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
    """PWJoin divided by WJoin: operations, operations including those for flags, and seconds."""
    found: dict[str, float] = {}
    for case in cases(runs):
        ours, theirs = (runs[case, join].end for join in JOINS)
        found[f"{case}_results"] = ours.results
        found[f"{case}_operations_ratio"] = round(ratio(runs, case), 5)
        found[f"{case}_with_flags_ratio"] = round((ours.operations + ours.flags) / theirs.operations, 4)
        found[f"{case}_seconds_ratio"] = round(ours.seconds / theirs.seconds, 4)
    return found


def output_holds(runs: Runs) -> bool:
    """For one pair of streams: less work and a similar saving with both windows, and fewer tuples scanned."""
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
    """The axes of the paper, with work instead of time, by several measures."""
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
