"""The benchmark `slide-by-tuple`: per row the sum over the last ten minutes of its key, compared with Spark by hand.

    workload         engines                                        a micro-batch has
    slide-by-tuple   lowwater, over a DataFrame, by hand, scan      200,000 rows of 60 s, a tenth of a window
    sum60            lowwater alone: sum, RANGE 60 s SLIDE 1 s      1,000,000 rows of 60 s
    max60            lowwater alone: max, on the same rows
    median60         lowwater alone: median, on the same rows

Spark has no such window, so its users write a transformWithStateInPandas with one list per key. That is the engine
by-hand, `slide_by_tuple_by_hand.py`. It reads the same files, but fewer of them, because it is slow. `scan` hands the
rows to Python and does nothing with them.

The other three workloads show the cost of an aggregate without an inverse (max) and of a holistic one (median),
compared with a sum.

Ratios are only reported if the engines agree: the same keys and times up to the time that both have reached, and totals
to 1e-9. Rows with the same key and time are one window, as everywhere in lowwater.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar

import pyarrow as pa

import lowwater as lw
from benchmarks import agreement, slide_by_tuple_by_hand
from benchmarks.engine import Engine, on_files, on_frame
from benchmarks.rounds import (
    WARM_BATCHES,
    WARM_ROWS,
    BenchReport,
    Entry,
    Race,
    Say,
    sorted_by,
    take_turns,
    write_keyed,
)
from benchmarks.sliding_engines import SCAN
from lowwater.aggregates.base import Aggregate
from lowwater.backends.spark.launch import Session

NAME = "slide-by-tuple"
ROWS = 200_000
"""Rows per micro-batch."""
ROWS_BY_TIME = 1_000_000
"""Rows per micro-batch in the workloads that slide by time."""
BATCHES = 3
BATCHES_BY_HAND = 2
RANGE = 600
"""Seconds of a window and of the history."""
SHORT = 60
"""Seconds of a micro-batch, and of a window that slides by time."""
AGGREGATES: dict[str, Callable[[str], Aggregate]] = {"sum60": lw.sum, "max60": lw.max, "median60": lw.median}


class Report(BenchReport):
    """A report with the cost of max and median compared with a sum, on the same rows."""

    pairs: ClassVar[dict[str, tuple[str, str]]] = {
        "max60 over sum60": ("max60", "sum60"),
        "median60 over sum60": ("median60", "sum60"),
    }


def run(
    spark: Session,
    rounds: int = 2,
    rows: int | None = None,
    say: Say = lambda text: None,
    batches: int = BATCHES,
    warm: bool = True,
) -> Report:
    """Runs all engines. `rows` caps the rows per micro-batch, for a quick look. Each round times `batches` of them."""
    races = [by_row(min(rows or ROWS, ROWS), batches), by_time(min(rows or ROWS_BY_TIME, ROWS_BY_TIME), batches)]
    first = [by_row(WARM_ROWS, WARM_BATCHES, WARM_BATCHES)] if warm else []
    return Report(NAME, *take_turns(spark, races, first, rounds, say))


def by_row(rows: int, batches: int, batches_by_hand: int = BATCHES_BY_HAND) -> Race:
    """The race with a window that ends at each row."""
    entries = (
        Entry(NAME, on_files("lowwater", sums_by_row)),
        Entry(NAME, on_frame("lowwater-dataframe", sums_by_row)),
        Entry(NAME, by_hand(), min(batches_by_hand, batches)),
        Entry(NAME, SCAN),
    )
    past = rows * RANGE // SHORT
    write = partial(write_keyed, past=past, history=RANGE, rows=rows, seconds=SHORT, batches=batches)
    return Race(entries, rows, write, sorted_by("ts", "key"), difference)


def by_time(rows: int, batches: int) -> Race:
    """The race with a window that ends every second."""
    queries = {name: partial(aggregated_by_time, aggregate=aggregate) for name, aggregate in AGGREGATES.items()}
    entries = tuple(Entry(name, on_files("lowwater", query)) for name, query in queries.items())
    return Race(
        entries, rows, partial(write_keyed, past=rows, history=SHORT, rows=rows, seconds=SHORT, batches=batches)
    )


def sums_by_row(rows: Any) -> Any:
    windows = _stream(rows).window(range=f"{RANGE} seconds", slide="1 row", partition_by="key")
    return windows.agg(total=lw.sum("val")).to_spark().selectExpr("key", "window_end AS ts", "total")


def aggregated_by_time(rows: Any, aggregate: Callable[[str], Aggregate]) -> Any:
    windows = _stream(rows).window(range=f"{SHORT} seconds", slide="1 second").group_by("key")
    return windows.agg(answer=aggregate("val")).to_spark().drop("wid")


def _stream(rows: Any) -> lw.Relation:
    return lw.stream(rows, name="rows", progress="ts", disorder="3 seconds")


def by_hand() -> Engine:
    return on_frame("by-hand", slide_by_tuple_by_hand.answers)


def difference(ours: pa.Table, theirs: pa.Table) -> str | None:
    """The first difference in the rows up to the time that both have reached, or None."""
    return agreement.difference(ours, theirs, "ts", ("ts", "key"), ("total",))
