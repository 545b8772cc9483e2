"""TH Fig. 6-19: memory, latency and execution time of AdaptWID, WID and buffering for groups of different sizes.

    Q6-7   sum(len) by srcIP, tumbling 1 s, over one ordered source; the data sets DS1 to DS5 of Table 6-2
    Q6-8   count(*) by srcIP, RANGE 10 s SLIDE 1 s, over Main1, Main2 and Control, DS3 each. Control is almost empty,
           lags behind the others by a growing skew, and holds back the punctuation of the union

Memory is the largest encoded state in bytes after any batch or punctuation. Latency is the mean time from a punctuation
that closes windows to their answers. Execution time is that of the whole run, without measuring the state. For both the
best of several runs counts.

The thesis explains the gain in time: the hash table has fewer entries, so an access is faster. The entries are counted
here. Seconds are reported but not judged: lowwater does not access a table tuple by tuple but sorts a whole batch into
its state, and then the overhead of AdaptWID costs more than small tables save.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

import lowwater as lw
from lowwater.experiments.outcome import Outcome, write_csv
from lowwater.experiments.thesis.skewed import SCHEMA, SMALL_SHARE, data_set
from lowwater.generate import SECOND
from lowwater.model.punctuation import ALL, Punctuation
from lowwater.operators.adaptive_aggregate import AdaptivePartials
from lowwater.operators.base import Batch, Message, PortFacts, StreamProperties, ended, taken
from lowwater.operators.bucket import WindowedAggregation
from lowwater.operators.buffered_aggregate import RowBuffer
from lowwater.operators.wid_aggregate import WindowPartials
from lowwater.operators.window_aggregate import Keeping, WindowAggregate
from lowwater.windows.context_free import Sliding

CLAIM = (
    "On streams with many small groups AdaptWID needs less memory than WID; the more small groups, the larger the "
    "saving. It needs no more than the better of WID and buffering (to 5 %). Its table has fewer entries, by which the "
    "thesis explains that it is also faster. Memory and entries are judged; seconds are in the csv, but are not judged."
)
TACTICS: dict[str, type[Keeping]] = {"WID": WindowPartials, "AdaptWID": AdaptivePartials, "buffering": RowBuffer}
SKEWS = (0, 5, 10, 20)
"""The seconds by which Control is behind."""
TUPLES = {"tiny": 10_000, "full": 40_000}
"""Tuples of a main source per extent; in full size 4000 per second for extents of 10 s, as in the thesis."""
EXTENTS = {"tiny": 3, "full": 5}
REPEATS = {"tiny": 1, "full": 3}
CUTS = 10
"""Batches per extent."""
CONTROL = 200
"""Tuples of Control per extent."""
GROUPS = 1_000_000
"""The distance between the first groups of two sources. It exceeds their groups, so that sources share none."""
SLACK = 1.05

Q67 = WindowedAggregation(Sliding(SECOND), "ts", SCHEMA, ("srcIP",), (("total", lw.sum("len")),))
Q68 = WindowedAggregation(Sliding(10 * SECOND, SECOND), "ts", SCHEMA, ("srcIP",), (("n", lw.count()),))


@dataclass(frozen=True)
class Step:
    """A batch, and the progress of the sources after it."""

    rows: pa.Table
    properties: StreamProperties


@dataclass(frozen=True)
class Point:
    """One bar of each part of the figure. `at` is the data set or the skew."""

    query: str
    at: str
    tactic: str
    peak_bytes: int
    peak_partials: int
    seconds: float
    latency_ms: float


def reproduce(size: str, out: Path) -> Outcome:
    points = []
    for name in SMALL_SHARE:
        points += measure("Q6-7", name, Q67, one_source(name, size), REPEATS[size])
    for skew in SKEWS:
        points += measure("Q6-8", str(skew), Q68, three_sources(skew, size), REPEATS[size])
    table = write_csv(out / "TH-6-19.csv", list(vars(points[0])), [tuple(vars(point).values()) for point in points])
    return Outcome(holds(points), measured(points), table, draw(points, out / "TH-6-19.png"))


def ratios(points: Sequence[Point], query: str, number: str, over: Sequence[str] = ("WID",)) -> dict[str, float]:
    """AdaptWID divided by the best of the others, by data set or skew."""
    found: dict[str, dict[str, float]] = {}
    for point in points:
        if point.query == query:
            found.setdefault(point.at, {})[point.tactic] = getattr(point, number)
    return {at: of["AdaptWID"] / min(of[tactic] for tactic in over) for at, of in found.items()}


def measured(points: Sequence[Point]) -> dict[str, float]:
    """Memory ratios by data set and by skew; for the other measures the worst ratio of each query."""
    found: dict[str, float] = {}
    for query, axis in (("Q6-7", ""), ("Q6-8", "skew_")):
        for at, ratio in ratios(points, query, "peak_bytes").items():
            found[f"{axis}{at}_memory_ratio"] = round(ratio, 4)
        for number, name in (("peak_partials", "entries"), ("seconds", "time"), ("latency_ms", "latency")):
            found[f"{query}_largest_{name}_ratio"] = round(max(ratios(points, query, number).values()), 4)
    return found


def holds(points: Sequence[Point]) -> bool:
    """Whether memory and entries are below WID, memory is within SLACK of the better one, and falls from DS1 to DS5."""
    for query in ("Q6-7", "Q6-8"):
        below = [*ratios(points, query, "peak_bytes").values(), *ratios(points, query, "peak_partials").values()]
        best = ratios(points, query, "peak_bytes", ("WID", "buffering")).values()
        if max(below) >= 1 or max(best) > SLACK:
            return False
    by_set = list(ratios(points, "Q6-7", "peak_bytes").values())
    return all(after < before for before, after in pairwise(by_set))


# -- streams --------------------------------------------------------------------------------------------------------


def one_source(name: str, size: str) -> list[Step]:
    """A data set in order, cut into batches; progress is known up to the last tuple."""
    rows = data_set(name, TUPLES[size], EXTENTS[size], SECOND, seed=1)
    return steps(rows, np.zeros(rows.num_rows, np.int64), TUPLES[size] // CUTS, 1)


def three_sources(skew: int, size: str) -> list[Step]:
    """Main1, Main2 and Control in order of arrival, each of them in order of time."""
    counts = (TUPLES[size], TUPLES[size], CONTROL)
    parts = [
        data_set("DS3", n, EXTENTS[size], 10 * SECOND, seed=i, first_group=i * GROUPS) for i, n in enumerate(counts)
    ]
    source = np.repeat(np.arange(3), [part.num_rows for part in parts])
    rows = pa.concat_tables(parts)
    arrival = rows.column("ts").to_numpy() + np.where(source == 2, skew * SECOND, 0)
    order = np.argsort(arrival, kind="stable")
    return steps(rows.take(pa.array(order)), source[order], 2 * TUPLES[size] // CUTS, 3)


def steps(rows: pa.Table, source: npt.NDArray[np.int64], batch: int, sources: int) -> list[Step]:
    """Batches with progress. The low-watermark is the smallest high-watermark, once all sources have sent rows."""
    found = []
    high, count = np.full(sources, -1), np.zeros(sources, np.int64)
    ts = rows.column("ts").to_numpy()
    for begin in range(0, rows.num_rows, batch):
        here = slice(begin, begin + batch)
        np.maximum.at(high, source[here], ts[here])
        count += np.bincount(source[here], minlength=sources)
        known = StreamProperties(int(high.min()), high.copy(), count.copy())
        found.append(Step(rows.slice(begin, batch).combine_chunks(), known))
    return found


# -- measures -------------------------------------------------------------------------------------------------------


def measure(query: str, at: str, what: WindowedAggregation, stream: Sequence[Step], repeats: int) -> list[Point]:
    points, answers = [], []
    for tactic, keeping in TACTICS.items():
        peak, partials = held(WindowAggregate(what, keeping), stream)
        runs = [timed(WindowAggregate(what, keeping), stream) for _ in range(repeats)]
        answers.append(runs[0][2].sort_by([("wid", "ascending"), ("srcIP", "ascending")]))
        seconds, latency = (min(run[i] for run in runs) for i in (0, 1))
        points.append(Point(query, at, tactic, peak, partials, seconds, 1000 * latency))
    assert all(answer.equals(answers[0]) for answer in answers), "all must return the same windows"
    return points


def held(operator: WindowAggregate, stream: Sequence[Step]) -> tuple[int, int]:
    """The largest state in bytes and in partials."""
    peak = partials = 0
    for step in stream:
        begin(operator, step)
        taken(operator, 0, Batch(step.rows))
        peak = max(peak, operator.held().bytes)
        kept = operator.keeping
        partials = max(partials, kept.partials if isinstance(kept, AdaptivePartials) else kept.rows)
        punctuate(operator, step)
        peak = max(peak, operator.held().bytes)
    return peak, partials


def timed(operator: WindowAggregate, stream: Sequence[Step]) -> tuple[float, float, pa.Table]:
    """Seconds of the run, mean seconds from a punctuation to its answers, and the answers."""
    answers: list[pa.Table] = []
    waited = []
    begun = time.perf_counter()
    for step in stream:
        begin(operator, step)
        taken(operator, 0, Batch(step.rows))
        since = time.perf_counter()
        closed = [message.rows for message in punctuate(operator, step) if isinstance(message, Batch)]
        waited += [time.perf_counter() - since] if closed else []
        answers += closed
    answers += [message.rows for message in taken(operator, 0, ALL) if isinstance(message, Batch)]
    return time.perf_counter() - begun, float(np.mean(waited)), pa.concat_tables(answers)


def begin(operator: WindowAggregate, step: Step) -> None:
    operator.begin([PortFacts(None, np.array([step.rows.num_rows]), step.properties)])


def punctuate(operator: WindowAggregate, step: Step) -> list[Message]:
    low = step.properties.low_watermark
    return [*(taken(operator, 0, Punctuation.linear("ts", low)) if low >= 0 else []), *ended(operator)]


def draw(points: Sequence[Point], file: Path) -> Path:
    """The axes of the paper: memory, latency and execution time, by data set for Q6-7 and by time skew for Q6-8."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 9), layout="constrained")
    parts = (
        ("peak_bytes", "memory (MB)", 1e-6),
        ("latency_ms", "latency (ms)", 1),
        ("seconds", "execution time (s)", 1),
    )
    columns = (("Q6-7", "data set", ("WID", "AdaptWID")), ("Q6-8", "time skew of Control (s)", tuple(TACTICS)))
    for down, (number, label, unit) in enumerate(parts):
        for across, (query, axis, shown) in enumerate(columns):
            axes = figure.add_subplot(3, 2, 2 * down + across + 1)
            for i, tactic in enumerate(shown):
                of = [point for point in points if (point.query, point.tactic) == (query, tactic)]
                place = np.arange(len(of)) + (i - (len(shown) - 1) / 2) * 0.8 / len(shown)
                axes.bar(place, [getattr(point, number) * unit for point in of], 0.8 / len(shown), label=tactic)
            axes.set_xticks(range(len(of)), [point.at for point in of])
            axes.set_xlabel(axis)
            axes.set_ylabel(label)
            axes.set_title(query)
            axes.legend(fontsize=8)
    figure.savefig(file, dpi=120)
    return file
