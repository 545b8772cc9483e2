"""The benchmark `plans`: the cost of more operators, more inputs and more sources in lowwater, on the same rows.

    ratio                       compares                                                     a micro-batch has
    two-stages/one-stage        the largest count of any key per window, behind the          2,000,000 rows of 60 s
                                counts per key; with the counts per key alone
    union-of-three/one-input    Q8-5: the counts per key of three inputs together; with      2,000,000 rows of 60 s,
                                one input that reads the same files                          in three directories
    sources10000/sources10      the counts per key of one input of 10,000 sources, each      1,000,000 rows of 60 s
                                with progress of its own; with 10 sources, the same rows

All queries count rows per key over RANGE 60 s SLIDE 1 s. There are 1,000 keys, skewed, and rows arrive up to 3 s late.
`rounds` describes how the queries take turns and what is timed.

The answers of every query are compared with a batch computation over all files: all windows that progress must have
reached have to be there, with exact values. Otherwise there are no ratios.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

import lowwater as lw
from benchmarks import agreement
from benchmarks.engine import Engine, on_files
from benchmarks.rounds import FILES, KEYS, WARM_BATCHES, WARM_ROWS, BenchReport, Entry, Race, Result, Say, take_turns
from lowwater import generate
from lowwater.backends.spark.launch import Session
from lowwater.backends.spark.parquet import parquet_files

NAME = "plans"
RANGE, SLIDE, DISORDER = 60, 1, 3
"""Seconds."""
SECONDS = 60
"""Data time of the history and of each micro-batch."""
BATCHES = 4
ROWS = {"stages": 2_000_000, "union": 2_000_000, "sources": 1_000_000}
"""Rows per micro-batch, by workload."""
PAIRS = {"stages": ("two-stages", "one-stage"), "union": ("union-of-three", "one-input")}
PAIRS["sources"] = ("sources10000", "sources10")
"""The two queries of each workload. The time of the first is divided by the time of the second."""
SIDES = ("a", "b", "c")
SOURCES = {"sources10000": 10_000, "sources10": 10}
"""Sources by query. The column with the sources has the name of the query."""
ROWS_OF_SOURCE = 100
"""Rows per source and micro-batch. With fewer rows there are fewer sources, because a silent source stops progress."""

Ints = npt.NDArray[np.int64]


def counts(rows: Any, source: str | None = None) -> lw.Relation:
    """Rows per key in the last minute, every second."""
    return _per_key(_stream(rows, "rows", source))


def largest(rows: Any) -> lw.Relation:
    """The largest of these counts per window."""
    return counts(rows).group_by("window_start", "window_end").agg(n=lw.max("n"))


def of_union(*inputs: Any) -> lw.Relation:
    """The same counts over several inputs together."""
    first, *others = (_stream(rows, name, None) for name, rows in zip(SIDES, inputs, strict=True))
    return _per_key(first.union(*others))


def _stream(rows: Any, name: str, source: str | None) -> lw.Relation:
    return lw.stream(rows, name=name, progress="ts", disorder=f"{DISORDER} seconds", source=source)


def _per_key(rows: lw.Relation) -> lw.Relation:
    return rows.window(range=f"{RANGE} seconds", slide=f"{SLIDE} second").group_by("key").agg(n=lw.count())


def answered(*inputs: Any, query: Callable[..., lw.Relation]) -> Any:
    """The answers to a query as a DataFrame, with the columns that are compared."""
    of = query(*inputs)
    return of.to_spark().select("window_end", *(["key"] if "key" in of.schema.names else []), "n")


def _one_input(spark: Any, files: Any) -> Any:
    """One input that reads the files of all directories."""
    everywhere = parquet_files(spark, f"{files.directory}/*", maxFilesPerTrigger=FILES * len(SIDES))
    return answered(everywhere, query=counts)


ENGINES = {
    "two-stages": on_files("two-stages", partial(answered, query=largest)),
    "one-stage": on_files("one-stage", partial(answered, query=counts)),
    "union-of-three": on_files("union-of-three", partial(answered, query=of_union), SIDES),
    "one-input": Engine("one-input", _one_input),
    **{name: on_files(name, partial(answered, query=partial(counts, source=name))) for name in SOURCES},
}


@dataclass(frozen=True)
class Workload:
    """Two queries on the same rows: a history of `SECONDS` in one micro-batch that is not timed, then `batches`."""

    name: str
    rows: int
    """Rows per micro-batch."""
    batches: int = BATCHES

    def race(self) -> Race:
        entries = tuple(Entry(self.name, ENGINES[name]) for name in PAIRS[self.name])
        return Race(entries, self.rows, self.write, self.read, difference, self.expected)

    def write(self, directory: Path) -> None:
        """Writes one file per core and input for each micro-batch."""
        sides = SIDES if self.name == "union" else ("",)
        for seed, side in enumerate(sides, start=1):
            for batch in range(self.batches + 1):
                table = self._rows(self.rows // len(sides), seed + 10 * batch, batch)
                generate.write_files(table, directory / side, FILES, first=FILES * batch)

    def _rows(self, rows: int, seed: int, batch: int) -> pa.Table:
        start = generate.START + batch * SECONDS
        table = generate.keyed(rows, SECONDS, KEYS, seed, max_delay=DISORDER, start=start)
        if self.name == "sources":
            rng = np.random.default_rng(seed)
            for name, most in SOURCES.items():
                sources = min(most, -(-rows // ROWS_OF_SOURCE))
                named = pa.array([f"source-{number:05}" for number in range(sources)])
                table = table.append_column(name, named.take(pa.array(rng.integers(0, sources, rows))))
        return table

    def read(self, directory: Path, entry: Entry) -> pa.Table:
        table = agreement.written(directory).to_table()
        by = [name for name in ("window_end", "key") if name in table.column_names]
        return table.sort_by([(name, "ascending") for name in by]).combine_chunks()

    def expected(self, directory: Path, entry: Entry) -> pa.Table:
        """The answers of a batch computation. `due` marks those that progress must have reached."""
        engine = entry.engine.name
        rows = agreement.written(directory).to_table()
        ends, keys, n = batch_counts(agreement.times(rows, "ts"), rows.column("key").to_numpy())
        if engine == "two-stages":
            ends, first = np.unique(ends, return_index=True)
            n = np.maximum.reduceat(n, first) if len(first) else n
        due = reached(rows, engine if engine in SOURCES else None, self._inputs(directory, engine))
        columns = {"window_end": ends} | ({} if engine == "two-stages" else {"key": keys})
        return pa.table({**columns, "n": n, "due": ends <= due})

    @staticmethod
    def _inputs(directory: Path, engine: str) -> list[int]:
        """The largest time of each input, if there are several inputs."""
        if engine != "union-of-three":
            return []
        tables = (agreement.written(directory / side).to_table(columns=["ts"]) for side in SIDES)
        return [int(agreement.times(table, "ts").max()) for table in tables]


WORKLOADS = tuple(Workload(name, rows) for name, rows in ROWS.items())


def batch_counts(ts: Ints, key: Ints) -> tuple[Ints, Ints, Ints]:
    """(window end, key, number of rows) for all windows and keys with rows, sorted.

    Rows are counted per second and key. The count of a window is the difference of two prefix sums.

    >>> ends, keys, n = batch_counts(np.array([0, 1_500_000]), np.array([7, 7]))
    >>> int(ends[0]), int(ends[-1]), n.tolist() == [1] + [2] * 59 + [1]
    (1000000, 61000000, True)
    """
    second, first = ts // generate.SECOND, int(ts.min()) // generate.SECOND
    span, width = int(second.max()) - first + 1, int(key.max()) + 1
    cells = np.bincount((second - first) * width + key, minlength=span * width).reshape(span, width)
    padded = np.zeros((RANGE + span + RANGE, width), np.int64)
    padded[RANGE : RANGE + span] = cells
    sums = np.cumsum(padded, axis=0)
    windows = sums[RANGE:] - sums[:-RANGE]  # the window of row i ends after second first + i
    at, keys = np.nonzero(windows)
    return (at + first + 1) * generate.SECOND, keys.astype(np.int64), windows[at, keys]


def reached(rows: pa.Table, source: str | None, inputs: list[int]) -> int:
    """The time up to which all windows must be answered: that of the slowest source or input, minus the disorder."""
    if source is not None:
        most = rows.group_by(source).aggregate([("ts", "max")]).column("ts_max")
        inputs = [int(agreement.plain(most).to_numpy().min())]
    return min(inputs or [int(agreement.times(rows, "ts").max())]) - DISORDER * generate.SECOND


def difference(ours: pa.Table, batch: pa.Table) -> str | None:
    """The first difference from the batch computation, or None. Later windows can be answered, too, but correctly."""
    exact = [name for name in ("window_end", "key", "n") if name in ours.column_names]
    ends = agreement.times(ours, "window_end")
    due = pc.max(batch.filter(batch.column("due")).column("window_end")).as_py()
    if due is None or not len(ends):
        return "no answers to compare"
    if ends[-1] < due:
        return "windows are missing"
    return agreement.unlike(ours, batch.filter(pc.field("window_end") <= int(ends[-1])), exact)


class Report(BenchReport):
    """A report with the ratio of two queries of lowwater per workload, by their names."""

    ours: ClassVar[str] = ""
    divided: ClassVar[str] = "time / simpler query"

    @property
    def ratios(self) -> dict[str, float]:
        cost = {r.engine: r.per_row for r in self.results}
        both = [(a, b) for a, b in PAIRS.values() if {a, b} <= cost.keys()]
        return {f"{a}/{b}": cost[a] / cost[b] for a, b in both} if self.equal else {}

    def ratio_of(self, result: Result) -> float | None:
        return self.ratios.get("/".join(PAIRS[result.workload])) if result.engine in dict(PAIRS.values()) else None


def run(
    spark: Session,
    rounds: int = 2,
    rows: int | None = None,
    say: Say = lambda text: None,
    workloads: Sequence[Workload] = WORKLOADS,
    warm: bool = True,
) -> Report:
    """Runs all queries. `rows` caps the rows per micro-batch, for a quick look."""
    capped = [w if rows is None else replace(w, rows=min(rows, w.rows)) for w in workloads]
    first = [Workload(w.name, WARM_ROWS, WARM_BATCHES).race() for w in workloads] if warm else []
    return Report(NAME, *take_turns(spark, [w.race() for w in capped], first, rounds, say))
