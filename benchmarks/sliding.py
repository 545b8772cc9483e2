"""The benchmark `sliding`: count, sum and max by key over windows, compared with Spark's window() on the same files.

    workload    RANGE / SLIDE     Spark puts a row into    a micro-batch has
    tumbling    10 s / 10 s       1 window                 6,000,000 rows of 100 s
    range60     60 s / 1 s        60 windows               2,000,000 rows of 60 s
    range600    600 s / 1 s       600 windows              150,000 rows of 100 s

There are 1,000 keys, skewed, and rows arrive up to 3 s late. `rounds` describes how engines take turns and what is
timed. range600 has fewer rows because Spark copies each row 600 times. The times per row are compared, on the same
rows.

The cost of overlap is measured on the same rows, too: lowwater alone computes RANGE 600 s / SLIDE 1 s on the files of
`tumbling`, as the workload `overlap600`.

Ratios are only reported if the engines agree: the same windows and keys, exact counts and maxima, and sums to 1e-9.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

import pyarrow as pa

from benchmarks import agreement
from benchmarks.rounds import (
    WARM_BATCHES,
    WARM_ROWS,
    BenchReport,
    Entry,
    Race,
    Result,
    Say,
    sorted_by,
    take_turns,
    write_keyed,
)
from benchmarks.sliding_engines import Question, engines, ours
from lowwater.backends.spark.launch import Session

__all__ = ["Question", "Report", "Result", "Workload", "difference", "run"]

OVERLAP = ("overlap600", Question(600, 1))


@dataclass(frozen=True)
class Workload:
    """A query and its rows: `history` seconds in one micro-batch that is not timed, then `batches` timed ones."""

    name: str
    question: Question
    rows: int
    """Rows per micro-batch."""
    seconds: int
    """Data time per micro-batch."""
    history: int
    batches: int
    past: int
    """Rows of the history."""
    alone: tuple[tuple[str, Question], ...] = ()
    """Queries that only lowwater runs, on the same rows."""

    def capped(self, rows: int | None) -> Workload:
        most = self.rows if rows is None else rows
        return replace(self, rows=min(most, self.rows), past=min(most, self.past))

    def race(self) -> Race:
        entries = [Entry(self.name, engine) for engine in engines(self.question)]
        entries += [Entry(name, ours(question)) for name, question in self.alone]
        return Race(tuple(entries), self.rows, self.write, sorted_by("window_end", "key"), difference)

    def write(self, directory: Path) -> None:
        write_keyed(
            directory, self.past, self.history, self.rows, self.seconds, self.batches, disorder=self.question.disorder
        )


WORKLOADS = (
    Workload("tumbling", Question(10, 10), 6_000_000, 100, 600, 2, 1_000_000, (OVERLAP,)),
    Workload("range60", Question(60, 1), 2_000_000, 60, 60, 2, 300_000),
    Workload("range600", Question(600, 1), 150_000, 100, 600, 1, 30_000),
)
WARM = Workload("warm", Question(10, 1), WARM_ROWS, 10, 30, WARM_BATCHES, WARM_ROWS)


class Report(BenchReport):
    """A report with the cost of overlap: lowwater's time per row at RANGE/SLIDE = 600 divided by that at 1."""

    pairs: ClassVar[dict[str, tuple[str, str]]] = {"range600 over tumbling": (OVERLAP[0], "tumbling")}


def run(
    spark: Session,
    rounds: int = 2,
    rows: int | None = None,
    say: Say = lambda text: None,
    workloads: Sequence[Workload] = WORKLOADS,
    warm: bool = True,
) -> Report:
    """Runs all engines on all workloads. `rows` caps the rows per micro-batch, for a quick look."""
    races = [workload.capped(rows).race() for workload in workloads]
    return Report("sliding", *take_turns(spark, races, [WARM.race()] if warm else [], rounds, say))


def difference(ours: pa.Table, theirs: pa.Table) -> str | None:
    """The first difference in the windows up to the end that both have reached, or None."""
    return agreement.difference(
        ours, theirs, "window_end", ("window_start", "window_end", "key", "n", "most"), ("total",)
    )
