"""The benchmark `flush`: a window with a million groups closes, and its answers leave all at once or a few at a time.

The query is a tumbling count by key. Every key has one row in each window, so that each closing window has a million
answers. A window is five micro-batches of 200,000 rows long. The engines are lowwater with two kinds of flush, on the
same files:

    slow    lw.slow_flush(): so many answers per micro-batch that all answers have left before the next window closes
    eager   all answers in the micro-batch that closes their window

The benchmark does not measure the time per row but whether any micro-batch takes much longer than the others: the
largest divided by the median. The history contains the first window and its closing, so that answers are leaving when
the timing starts, and all timed micro-batches come after the first closing. The largest is that of all rounds.

Ratios are only reported if the engines agree. Slow answers are at most two windows late, so all windows up to then must
be the same, and the answers of later windows that have left must be among the eager answers.
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
"""Rows per micro-batch."""
BATCHES = 5
"""Micro-batches per window. There are ROWS * BATCHES groups."""
WINDOWS = 4
"""The number of timed windows, after the first."""
RANGE = 60
"""Seconds per window."""
PACE = 1 << 18
"""Answers that leave per micro-batch. More than a fifth of the answers of a window, so that all leave before the next
window closes; and whole chunks of 65,536 on each of 2 or 4 shards, because a chunk is never cut."""
LATE = 2
"""The number of windows by which slow answers can be late."""
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
        """Writes the files. The history is the first window and one more micro-batch, which closes it."""
        groups = self.rows * self.batches
        rows = arrivals(groups, self.windows + 2, seed=1)
        past, body = groups + self.rows, self.rows * self.batches * self.windows
        generate.write_files(rows.slice(0, past), directory, FILES)
        generate.write_files(rows.slice(past, body), directory, FILES * self.batches * self.windows, first=FILES)


FULL = Workload()


def arrivals(groups: int, windows: int, seed: int) -> pa.Table:
    """Rows that contain each group once per window, at evenly distributed times, up to 3 seconds late."""
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
    """A report with the largest micro-batch divided by the median one, for both kinds of flush."""

    ours: ClassVar[str] = SLOW
    own_is: ClassVar[str] = "seconds per micro-batch"
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
    """Runs both engines. `rows` caps the rows per micro-batch, and so the groups and the pace, for a quick look."""
    chosen = replace(workload, rows=workload.rows if rows is None else min(rows, workload.rows))
    first = [Workload(WARM_ROWS, windows=2).race()] if warm else []
    return Report(NAME, *take_turns(spark, [chosen.race()], first, rounds, say))


def difference(slow: pa.Table, eager: pa.Table) -> str | None:
    """The first difference, or None. Windows that are due must be equal; later answers must be among the eager ones."""
    slow, eager = (_plain(table) for table in (slow, eager))
    if not eager.num_rows:
        return "no answers to compare"
    due = pc.max(eager.column("window_end")).as_py() - LATE * RANGE * generate.SECOND
    a, b = (table.filter(pc.field("window_end") <= due) for table in (slow, eager))
    if not b.num_rows:
        return "no answers to compare"
    if (found := unlike(a, b, COLUMNS)) is not None:
        return found
    early = slow.filter(pc.field("window_end") > due)
    if early.group_by(list(COLUMNS)).aggregate([]).num_rows < early.num_rows:
        return "an answer occurs twice"
    return "an answer differs" if early.join(eager, list(COLUMNS), join_type="left anti").num_rows else None


def _plain(table: pa.Table) -> pa.Table:
    return pa.table({name: plain(table.column(name)) for name in COLUMNS})
