"""The benchmark `flush`: a window with a million groups closes, and all its answers leave at once or a few at a time.

A tumbling count by key; every key has one row in each window, so that each closing makes a million answers. A window
is five micro-batches of 200,000 rows long. The engines are lowwater with either flush, on the same files:

    slow    lw.slow_flush(): so many answers a micro-batch that a window has left before the next one closes
    eager   all answers in the micro-batch that closes their window

What is asked is not how long rows take but whether any micro-batch takes much longer than the others: the largest over
the median. The history holds the first window and its closing, so that answers are leaving when the clock starts, and
all that is timed comes after the first closing. No batch is forgiven: the largest is that of all rounds.

A ratio is only given when the engines agree. Slow answers are late by two windows at most, so all windows up to there
must be the same, and what has left of later ones must be among the eager answers.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import lowwater as lw
from benchmarks.agreement import plain, unlike
from benchmarks.engine import on_files
from benchmarks.rounds import FILES, WARM_ROWS, BenchReport, Entry, Race, Say, sorted_by, take_turns
from lowwater import generate
from lowwater.backends.spark.launch import Session
from lowwater.operators.flush import EAGER, Flush

NAME = "flush"
SLOW, EAGERLY = "slow", "eager"
ROWS = 200_000
"""Rows of a micro-batch."""
BATCHES = 5
"""Micro-batches of a window: groups are ROWS * BATCHES."""
WINDOWS = 4
"""Windows that are timed, after the first."""
RANGE = 60
"""Seconds of a window."""
PACE = 1 << 18
"""Answers that leave a micro-batch: more than a fifth of a window's, so that they are gone before the next closing, and
whole chunks of 65,536 on each of 2 or 4 shards, since a chunk is never cut."""
LATE = 2
"""Windows that slow answers may be late by."""
SCHEMA = pa.schema({"ts": generate.TIMESTAMP, "key": pa.int64()})
COLUMNS = ("window_end", "key", "n")


@dataclass(frozen=True)
class Workload:
    """`windows` windows after the first, each `batches` micro-batches of `rows` rows long."""

    rows: int = ROWS
    batches: int = BATCHES
    windows: int = WINDOWS

    def race(self) -> Race:
        slow = lw.slow_flush(rows=-(-self.rows * PACE // ROWS), windows=LATE)
        entries = (
            Entry(NAME, on_files(SLOW, partial(counts, flush=slow))),
            Entry(NAME, on_files(EAGERLY, partial(counts, flush=EAGER))),
        )
        return Race(entries, self.rows, self.write, sorted_by(*COLUMNS), difference)

    def write(self, directory: Path) -> None:
        """The history is the first window and one micro-batch more, which closes it."""
        groups = self.rows * self.batches
        rows = arrivals(groups, self.windows + 2, seed=1)
        past, body = groups + self.rows, self.rows * self.batches * self.windows
        generate.write_files(rows.slice(0, past), directory, FILES)
        generate.write_files(rows.slice(past, body), directory, FILES * self.batches * self.windows, first=FILES)


FULL = Workload()


def arrivals(groups: int, windows: int, seed: int) -> pa.Table:
    """Each group once in each window, at times that are spread evenly over it; up to 3 seconds late."""
    rng = np.random.default_rng(seed)
    length = RANGE * generate.SECOND
    ts = np.sort(rng.integers(0, length, (windows, groups)), axis=1) + length * np.arange(windows)[:, None]
    key = rng.permuted(np.tile(np.arange(groups), (windows, 1)), axis=1)
    order = generate.disorder(ts.ravel(), rng)
    start = generate.START // RANGE * RANGE * generate.SECOND
    columns = [pa.array(ts.ravel()[order] + start, generate.TIMESTAMP), pa.array(key.ravel()[order])]
    return pa.Table.from_arrays(columns, schema=SCHEMA)


def counts(rows: Any, flush: Flush) -> Any:
    stream = lw.stream(rows, name="rows", progress="ts", disorder="3 seconds")
    windows = stream.window(range=f"{RANGE} seconds").group_by("key").emit(flush=flush)
    return windows.agg(n=lw.count()).to_spark().drop("wid")


class Report(BenchReport):
    """With how far the largest micro-batch stands out, for either flush."""

    ours: ClassVar[str] = SLOW
    own_is: ClassVar[str] = "seconds of a micro-batch"
    by_batch: ClassVar[bool] = True

    def _own(self) -> dict[str, float]:
        worst = {r.engine: max(r.batch_seconds) / median(r.batch_seconds) for r in self.results}
        return {
            "slow: largest batch after the first closing over median": worst[SLOW],
            "eager: largest over median": worst[EAGERLY],
        }


def run(
    spark: Session,
    rounds: int = 2,
    rows: int | None = None,
    say: Say = lambda text: None,
    workload: Workload = FULL,
    warm: bool = True,
) -> Report:
    """Runs both. `rows` caps the rows of a micro-batch, and so the groups and the pace, for a quick look."""
    chosen = replace(workload, rows=workload.rows if rows is None else min(rows, workload.rows))
    first = [Workload(WARM_ROWS, windows=2).race()] if warm else []
    return Report(NAME, *take_turns(spark, [chosen.race()], first, rounds, say))


def difference(slow: pa.Table, eager: pa.Table) -> str | None:
    """What differs first, or None: windows that are due must be the same, later answers must be among the eager."""
    slow, eager = (_plain(table) for table in (slow, eager))
    if not eager.num_rows:
        return "no answers to compare"
    due = pc.max(eager.column("window_end")).as_py() - LATE * RANGE * generate.SECOND
    a, b = (table.filter(pc.field("window_end") <= due) for table in (slow, eager))
    if not b.num_rows:
        return "no answers to compare"
    if (what := unlike(a, b, COLUMNS)) is not None:
        return what
    early = slow.filter(pc.field("window_end") > due)
    if early.group_by(list(COLUMNS)).aggregate([]).num_rows < early.num_rows:
        return "an answer is there twice"
    return "an answer differs" if early.join(eager, list(COLUMNS), join_type="left anti").num_rows else None


def _plain(table: pa.Table) -> pa.Table:
    return pa.table({name: plain(table.column(name)) for name in COLUMNS})
