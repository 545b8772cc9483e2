"""WO Fig. 8: the memory of a join without a window and of W-Join, the join with a window on each stream.

W-Join keeps the tuples of each stream that have arrived in the last w seconds, also those of S7 and S8. Its results
follow from the definition (`Results.lasting`); the upper join takes the results of W-Joins. Memory is the number of
tuples held, averaged over time, of both joins. W-Join gets two windows:

    equal memory     w is such that it holds as many tuples as the join without a window
    equal accuracy   w is the least that gives 99.2 % of the results, the least accuracy of WO-Join in the paper

The join without a window is monitored. Two further windows on Query 1 have equal memory. They are reported and not
judged:

    tuples   the last w tuples of each stream
    own      of each stream the mean number of tuples that the join without a window holds, which nobody knows before
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np

from lowwater.experiments.oblivious.backtracked import Arrived, Floats, Ints, Results, backtracked
from lowwater.experiments.oblivious.buffers import ENOUGH, MONITORED, seeded
from lowwater.experiments.oblivious.workload import LEAVES, SECONDS, SIZES, Workload
from lowwater.experiments.outcome import Outcome, write_csv
from lowwater.experiments.thesis.curves import Bars, draw

CLAIM = (
    "W-Join with the memory of the join without a window gives less than 40 % of the results, for Query 1 and for "
    "Query 2 (means over seeds). For 99.2 % of the results, which the join without a window exceeds on every seed, "
    "W-Join needs more memory on every seed, and in Query 2 at least 1.5 times as much. (The paper finds much more for "
    "both. In Query 1 it is about a third more here: lag stays once it is there, so that a fixed window is too wide "
    "mainly at the beginning. Windows are times. With equal memory, a window of the last w tuples gives more than 40 % "
    "of Query 1: S2 lags by 1,312 tuples, and w happens to be a little more. The figure reports it as tuples_accuracy "
    "and does not judge it.)"
)
FEW = 0.4
MORE = 1.5
"""What W-Join needs of the memory of the join without a window, at least, in Query 2."""
TICK = 0.05
"""The precision of a window, in seconds."""


@dataclass(frozen=True)
class Point:
    """One query and seed. Memory is in tuples; accuracies are shares of all results."""

    query: int
    seed: int
    memory: float
    accuracy: float
    window: float
    """The seconds of W-Join with equal memory."""
    window_accuracy: float
    needed_window: float
    needed_memory: float
    tuples_accuracy: float = float("nan")
    own_accuracy: float = float("nan")


@dataclass(frozen=True, eq=False)
class Windowed:
    """W-Join over the streams of a workload, with windows in seconds."""

    work: Workload
    truth: Results

    @cached_property
    def leaves(self) -> list[Results]:
        """All results of the lower joins, or of the only one."""
        return [backtracked([self.work.streams[name] for name in leaves]) for leaves in LEAVES[: self.work.query]]

    def results(self, window: float) -> tuple[Results, list[Results]]:
        """The results, and the inner streams."""
        inner = [part.lasting(window) for part in self.leaves]
        return (inner[0], []) if len(inner) == 1 else (backtracked(inner).lasting(window), inner)

    def accuracy(self, window: float) -> float:
        return len(self.results(window)[0]) / len(self.truth)

    def memory(self, window: float) -> float:
        """The tuples in all windows, averaged over time."""
        streams = [*self.work.streams.values(), *self.results(window)[1]]
        return float(sum((come(stream, MOMENTS) - come(stream, MOMENTS - window)).mean() for stream in streams))


MOMENTS = np.arange(1.0, SECONDS + 1)


def come(stream: Arrived, moments: Floats) -> Ints:
    """The number of tuples that have come at each moment."""
    return np.searchsorted(stream.at, moments, "right")


def tuples_of(streams: Sequence[Arrived], memory: float, moments: Floats = MOMENTS) -> int:
    """The window in tuples that holds so many tuples of all streams together, averaged over time."""
    counts = [come(stream, moments) for stream in streams]
    most = max(int(own[-1]) for own in counts)
    return first(lambda w: sum(np.minimum(own, w).mean() for own in counts) >= memory, most)


def first(reached: Callable[[int], bool], most: int) -> int:
    """The least number up to `most` from which on a condition holds, by bisection."""
    low, high = 1, most
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if reached(middle) else (middle + 1, high)
    return low


def measure(query: int, seed: int, size: str) -> Point:
    work, ran = Workload.of(query, seed, SIZES[size]), seeded(query, seed, size)
    memory, truth = ran.ran[MONITORED].memory(), work.backtracked()[f"Query {query}"]
    theirs, most = Windowed(work, truth), round(SECONDS / TICK)
    window = TICK * first(lambda w: theirs.memory(w * TICK) >= memory, most)
    needed = TICK * first(lambda w: theirs.accuracy(w * TICK) >= ENOUGH, most)
    point = Point(
        query,
        seed,
        memory,
        ran.accuracy(MONITORED),
        window,
        theirs.accuracy(window),
        needed,
        theirs.memory(needed),
    )
    if query == 2:
        return point
    tuples = tuples_of(truth.streams, memory)
    own = [float(ran.ran[MONITORED].held[name].mean()) for name in LEAVES[0]]
    shares = [len(truth.within(sizes)) / len(truth) for sizes in ([tuples] * 3, own)]
    return replace(point, tuples_accuracy=shares[0], own_accuracy=shares[1])


def reproduce(size: str, out: Path) -> Outcome:
    points = [measure(query, seed, size) for query in (1, 2) for seed in range(SIZES[size].seeds)]
    table = write_csv(out / "WO-8.csv", list(vars(points[0])), [tuple(vars(point).values()) for point in points])
    measured: dict[str, float] = {"seeds": SIZES[size].seeds}
    for query in (1, 2):
        own = [point for point in points if point.query == query]
        measured[f"query_{query}_least_accuracy"] = round(min(point.accuracy for point in own), 5)
        measured[f"query_{query}_window_accuracy"] = round(mean(own, "window_accuracy"), 4)
        measured[f"query_{query}_window_most_accuracy"] = round(max(point.window_accuracy for point in own), 4)
        measured[f"query_{query}_memory"] = round(mean(own, "memory"))
        measured[f"query_{query}_window_memory"] = round(mean(own, "needed_memory"))
        measured[f"query_{query}_window_memory_over_ours"] = round(mean(own, "needed_memory") / mean(own, "memory"), 3)
    for number in ("tuples_accuracy", "own_accuracy"):
        measured[f"query_1_{number}"] = round(mean([point for point in points if point.query == 1], number), 4)
    return Outcome(holds(points), measured, table, drawn(points, out / "WO-8.png"))


def mean(points: Sequence[Point], number: str) -> float:
    return float(np.mean([getattr(point, number) for point in points]))


def holds(points: Sequence[Point]) -> bool:
    few = all(mean([p for p in points if p.query == query], "window_accuracy") < FEW for query in (1, 2))
    exact = all(point.accuracy >= ENOUGH for point in points)
    more = all(point.needed_memory > (1 if point.query == 1 else MORE) * point.memory for point in points)
    return few and exact and more


def drawn(points: Sequence[Point], file: Path) -> Path:
    """The bars of the paper, and below them the accuracy with equal memory."""
    queries = {f"Query {query}": [point for point in points if point.query == query] for query in (1, 2)}

    def bars(numbers: dict[str, str], label: str) -> Bars:
        each = {text: [mean(own, number) for own in queries.values()] for text, number in numbers.items()}
        return Bars(label, list(queries), each)

    return draw(
        [
            bars(
                {"WO-Join, monitored": "memory", "W-Join, equal accuracy": "needed_memory"},
                "mean memory for 99.2 % of the results, tuples",
            ),
            bars(
                {"WO-Join, monitored": "accuracy", "W-Join, equal memory": "window_accuracy"},
                "share of the results with equal memory",
            ),
        ],
        file,
    )
