"""The benchmark `join`: pairs of two streams by key within a band, compared with Spark's own stream-stream join.

    workload       within      keys       key is     a micro-batch has                  pairs per row
    band2          2 s         10,000     bigint     200,000 + 200,000 rows of 100 s    0.4
    band60         60 s        10,000     bigint     the same rows                      11
    band2-string   2 s         10,000     string     the same rows, keys written out    0.4
    state1         6 s         50,000     bigint     200,000 + 200,000 rows of 20 s     1.2
    state10        87 s        725,000    bigint     the same but for the keys          1.2
    state100       897 s       7,475,000  bigint     the same but for the keys          1.2

Both sides are uniform in time and key; rows arrive up to 3 s late. `rounds` describes how engines take turns and what
is timed. The first three workloads cut 1,000,000 + 1,000,000 rows of 500 s into five micro-batches. The first is the
history. With 100 s it is longer than the state of either band, so the state is at its bound when the timing starts. The
other four are timed. Spark's own join is slow and reads two of them, or one with RocksDB; the times per row are
compared.

The cost of a larger state is measured for lowwater alone, also in turns. A side keeps band + 3 s of rows: 9 s in
state1, ten times as much in state10 and a hundred times in state100. The number of keys grows with the band, so that a
row always has the same number of partners. Rows come so fast that the state is half a micro-batch, four and a half, and
45; only the last is long enough that parts of it are merged. The history is longer than the state. Twelve micro-batches
are timed, to show also whether the last ones take longer than the first, although the state has stopped growing.

Ratios are only reported if the engines agree: the same pairs in each micro-batch, by a digest of all columns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import mean, median
from typing import ClassVar

import pyarrow as pa

from benchmarks import agreement
from benchmarks.join_engines import COLUMNS, engines, ours
from benchmarks.rounds import (
    FILES,
    WARM_BATCHES,
    WARM_ROWS,
    BenchReport,
    Entry,
    Race,
    Say,
    take_turns,
)
from lowwater import generate
from lowwater.backends.spark.launch import Session
from lowwater.generate import two

NAME = "join"
FEWER = {"spark-memory": 2, "spark-rocksdb": 1}
"""The number of timed micro-batches of slow engines per round, so that the benchmark takes a quarter of an hour."""


@dataclass(frozen=True)
class Workload:
    """A band and the rows of both sides: a history as long as `history` micro-batches, then `batches` timed ones."""

    name: str
    band: int
    """The largest distance of the rows of a pair, in seconds."""
    keys: int
    rows: int
    """Rows per micro-batch, of both sides together."""
    seconds: int
    """Data time per micro-batch."""
    batches: int
    history: int = 1
    text: bool = False
    """Whether keys are strings."""

    def capped(self, rows: int | None) -> Workload:
        """The workload with fewer rows, and with fewer keys, so that a row has as many partners."""
        if rows is None or rows >= self.rows:
            return self
        even = rows // 2 * 2
        return replace(self, rows=even, keys=max(1, self.keys * even // self.rows))

    def race(self, fewer: Mapping[str, int] = FEWER) -> Race:
        entries = tuple(Entry(self.name, engine, fewer.get(engine.name)) for engine in engines(self.band))
        return Race(entries, self.rows, self.write, self.read, agreement.unlike_digests)

    def read(self, directory: Path, entry: Entry) -> pa.Table:
        blocks = self.history + min(entry.batches or self.batches, self.batches)
        return agreement.digest(directory, COLUMNS, ("l_id", "r_id"), self.rows // 2, blocks)

    def write(self, directory: Path) -> None:
        a_batch, parts = self.rows // 2, self.history + self.batches
        for name, rows in two.sides(a_batch * parts, self.seconds * parts, self.keys, text=self.text).items():
            past = a_batch * self.history
            generate.write_files(rows.slice(0, past), directory / name, FILES)
            generate.write_files(rows.slice(past), directory / name, FILES * self.batches, first=FILES)


BANDS = (
    Workload("band2", 2, 10_000, 400_000, 100, 4),
    Workload("band60", 60, 10_000, 400_000, 100, 4),
    Workload("band2-string", 2, 10_000, 400_000, 100, 4, text=True),
)
STATES = (
    Workload("state1", 6, 50_000, 400_000, 20, 12, history=5),
    Workload("state10", 87, 725_000, 400_000, 20, 12, history=5),
    Workload("state100", 897, 7_475_000, 400_000, 20, 12, history=50),
)
WARM = Workload("warm", 2, 1000, WARM_ROWS, 10, WARM_BATCHES)


def alone(workloads: Sequence[Workload]) -> Race:
    """Workloads of lowwater alone, each with its own rows. They take turns and are compared with each other."""

    def write(directory: Path) -> None:
        for workload in workloads:
            workload.write(directory / workload.name)

    entries = tuple(Entry(w.name, ours(w.band, f"{w.name}/")) for w in workloads)
    return Race(entries, workloads[0].rows, write)


@dataclass(frozen=True)
class Report(BenchReport):
    """A report with the cost of ten times the state, and with the growth of times from the first to the last batches.

    The ratios are by the median micro-batch, as in other reports, and by the mean. State is merged once in eight
    micro-batches, which a median does not show.
    """

    batches: int = STATES[0].batches
    """Micro-batches per round in the workloads that lowwater runs alone."""

    pairs: ClassVar[dict[str, tuple[str, str]]] = {
        "state10 over state1": ("state10", "state1"),
        "state100 over state10": ("state100", "state10"),
    }
    own_is: ClassVar[str] = "time per row of lowwater"

    def _own(self) -> dict[str, float]:
        named = {name for pair in self.pairs.values() for name in pair}
        alone = {r.workload: r.batch_seconds for r in self.results if r.workload in named}
        ratios = super()._own()
        for text, (large, small) in self.pairs.items():
            if large in alone and small in alone:
                ratios[f"{text} by the mean"] = mean(alone[large]) / mean(alone[small])
        for name, seconds in alone.items():
            ratios[f"{name}: last third of the micro-batches over the first"] = growth(seconds, self.batches)
        return ratios


def growth(seconds: Sequence[float], batches: int) -> float:
    """The median of the last third of micro-batches divided by that of the first third. A round has `batches`.

    >>> growth([1, 1, 2, 1, 3, 5] * 2, batches=6)
    4.0
    """
    third = max(1, batches // 3)
    first = [s for i, s in enumerate(seconds) if i % batches < third]
    last = [s for i, s in enumerate(seconds) if i % batches >= batches - third]
    return median(last) / median(first)


def run(
    spark: Session,
    rounds: int = 2,
    rows: int | None = None,
    say: Say = lambda text: None,
    bands: Sequence[Workload] = BANDS,
    states: Sequence[Workload] = STATES,
    warm: bool = True,
) -> Report:
    """Runs all engines on all workloads. `rows` caps the rows per micro-batch, for a quick look."""
    small = [workload.capped(rows) for workload in states]
    races = [*(workload.capped(rows).race() for workload in bands), alone(small)]
    wrong, results = take_turns(spark, races, [WARM.race(fewer={})] if warm else [], rounds, say)
    return Report(NAME, wrong, results, small[0].batches)
