"""Benchmarks by name, and their reports: as one JSON object, as a table, and as a plot."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.table import Table

from benchmarks import flush, join, kafka, oblivious, plans, slide_by_tuple, sliding
from benchmarks.rounds import BenchReport
from lowwater.backends.spark.launch import Session
from lowwater.errors import LowwaterError


@dataclass(frozen=True)
class Benchmark:
    """`run` takes a session, the rounds, a cap on the rows per micro-batch, and a function that prints its progress.

    `settings` are those that its session needs beside the usual ones.
    """

    name: str
    about: str
    run: Callable[[Session, int, int | None, Callable[[str], None]], BenchReport]
    settings: Callable[[], dict[str, str]] = dict


BENCHMARKS = {
    benchmark.name: benchmark
    for benchmark in (
        Benchmark(
            "sliding",
            "count, sum and max by key over tumbling, 60:1 and 600:1 windows, compared with Spark's window()",
            sliding.run,
        ),
        Benchmark(
            slide_by_tuple.NAME,
            "per row the sum of its key over 10 minutes, compared with Spark by hand; sum, max and median over 60:1",
            slide_by_tuple.run,
        ),
        Benchmark(
            flush.NAME,
            "tumbling counts of a million groups, with answers emitted slowly or all at once",
            flush.run,
        ),
        Benchmark(
            join.NAME,
            "pairs of two streams by key within 2 and 60 seconds, compared with Spark's join; the cost of large state",
            join.run,
        ),
        Benchmark(
            plans.NAME,
            "the cost of a second stage, of a union of three inputs and of 10,000 sources, on the same rows",
            plans.run,
        ),
        Benchmark(
            oblivious.NAME,
            "four scrambled sensors joined on their epoch without a window, compared with three joins of Spark",
            oblivious.run,
        ),
        Benchmark(
            kafka.NAME,
            "count, sum and max by key over 60:1 windows of messages from Kafka, compared with Spark's window()",
            kafka.run,
            kafka.settings,
        ),
    )
}


def find(name: str) -> Benchmark:
    if name not in BENCHMARKS:
        raise LowwaterError(f"There is no benchmark {name!r}; there is: {', '.join(BENCHMARKS)}.")
    return BENCHMARKS[name]


def as_json(report: BenchReport) -> dict[str, Any]:
    """The report for JSON. `seconds` are for `rows` rows. `ratios` are the time per row of an engine over ours."""
    return {
        "name": report.name,
        "equal": report.equal,
        "disagreements": list(report.disagreements),
        "results": [asdict(result) for result in report.results],
        "ratios": {name: round(ratio, 3) for name, ratio in report.ratios.items()},
        "own": {name: round(ratio, 3) for name, ratio in report.own.items()},
    }


def as_table(report: BenchReport) -> Table:
    table = Table(title=f"{report.name}: steady state, the median micro-batch")
    table.add_column("workload")
    table.add_column("engine")
    for heading in ("rows", "rows/s", "µs per row", "peak MB", report.divided):
        table.add_column(heading, justify="right")
    before = None
    for r in report.results:
        if before not in (None, r.workload):
            table.add_section()
        before = r.workload
        ratio = report.ratio_of(r)
        shown = "" if ratio is None else f"{ratio:.2f}"
        speed = (f"{r.rows:,}", f"{1 / r.per_row:,.0f}", f"{r.per_row * 1e6:.2f}", f"{r.peak_rss_mb:,.0f}")
        table.add_row(r.workload, r.engine, *speed, shown)
    return table


def plot(report: BenchReport, file: Path) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 4.5), layout="constrained")
    axes = figure.add_subplot()
    (_batches if report.by_batch else _bars)(axes, report)
    axes.legend()
    figure.savefig(file, dpi=120)


def _bars(axes: Any, report: BenchReport) -> None:
    """The time per row of every engine, one group of bars per workload, on a logarithmic scale."""
    compared = list(dict.fromkeys(r.workload for r in report.results if r.engine != report.ours))
    engines = list(dict.fromkeys(r.engine for r in report.results))
    width = 0.8 / len(engines)
    for i, engine in enumerate(engines):
        cost = {r.workload: r.per_row * 1e6 for r in report.results if r.engine == engine}
        at = {name: x + (i - (len(engines) - 1) / 2) * width for x, name in enumerate(compared) if name in cost}
        bars = axes.bar(list(at.values()), [cost[name] for name in at], width, label=engine)
        axes.bar_label(bars, fmt="{:.3g}", fontsize=8)
    axes.set_yscale("log")
    axes.set_xticks(range(len(compared)), compared)
    axes.set_ylabel("microseconds per row")
    axes.set_title(f"{report.name}: time per row in steady state (less is better)")


def _batches(axes: Any, report: BenchReport) -> None:
    """Every timed micro-batch of every engine, in order, round after round. A stall is a peak."""
    for r in report.results:
        axes.plot(range(1, len(r.batch_seconds) + 1), r.batch_seconds, marker="o", markersize=3, label=r.engine)
    axes.set_ylim(bottom=0)
    axes.set_xlabel("micro-batch")
    axes.set_ylabel("seconds")
    axes.set_title(f"{report.name}: seconds of each micro-batch (even is better)")
