"""The benchmark `sliding`: count, sum and max by key over windows, against Spark's own window() on the same files.

    workload    RANGE / SLIDE     Spark puts a row into    a micro-batch has
    tumbling    10 s / 10 s       1 window                 6,000,000 rows of 100 s
    range60     60 s / 1 s        60 windows               2,000,000 rows of 60 s
    range600    600 s / 1 s       600 windows              150,000 rows of 100 s

1,000 keys, skewed; rows arrive up to 3 s late. All engines of a workload read the same files in the same micro-batches,
write the same kind of sink and start from an empty checkpoint. Engines take turns, and every other round goes the other
way about, so that none always follows the same one. range600 has fewer rows because Spark copies each of them 600
times; what is compared is the time per row, on the same rows.

What overlap costs us is measured on equal rows too: lowwater alone answers RANGE 600 s / SLIDE 1 s on the files of
`tumbling`, as the workload `overlap600`.

Timed are the micro-batches after the history: one micro-batch that reaches back so far that windows are full when the
clock starts. Before the first round every engine has run through several micro-batches of a few rows, so that the JVM
has compiled what it needs.

A ratio is only given when the engines agree: the same windows and keys, counts and maxima exactly, sums to 1e-9.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds

from lowwater import generate
from lowwater.backends.spark.baselines import ENGINES, Engine, Files, Question
from lowwater.backends.spark.launch import Session
from lowwater.experiments.footprint import Footprint

KEYS = 1000
FILES = 2
"""Files of a micro-batch: one a core on the smallest machine, so that all of it is busy."""
WARM_ROWS = 20_000
OURS = ENGINES[0]
OVERLAP = ("overlap600", Question(600, 1))


@dataclass(frozen=True)
class Entry:
    """One engine with one question."""

    workload: str
    engine: Engine
    asked: Question

    def __str__(self) -> str:
        return f"{self.workload}-{self.engine.name}"


@dataclass(frozen=True)
class Workload:
    """A question and its rows: `history` seconds in one micro-batch that is not timed, then `batches` that are."""

    name: str
    asked: Question
    rows: int
    """Rows of a micro-batch."""
    seconds: int
    """Data time of a micro-batch."""
    history: int
    batches: int
    past: int
    """Rows of the history."""
    alone: tuple[tuple[str, Question], ...] = ()
    """Questions that only lowwater answers, on the same rows."""

    def entries(self) -> list[Entry]:
        ours = [Entry(name, OURS, asked) for name, asked in self.alone]
        return [*(Entry(self.name, engine, self.asked) for engine in ENGINES), *ours]

    def write(self, directory: Path) -> None:
        past = generate.keyed(self.past, self.history, KEYS, seed=1, max_delay=self.asked.disorder)
        body = generate.keyed(
            self.rows * self.batches,
            self.seconds * self.batches,
            KEYS,
            seed=2,
            max_delay=self.asked.disorder,
            start=generate.START + self.history,
        )
        generate.write_files(past, directory, FILES)
        generate.write_files(body, directory, FILES * self.batches, first=FILES)


WORKLOADS = (
    Workload("tumbling", Question(10, 10), 6_000_000, 100, 600, 2, 1_000_000, (OVERLAP,)),
    Workload("range60", Question(60, 1), 2_000_000, 60, 60, 2, 300_000),
    Workload("range600", Question(600, 1), 150_000, 100, 600, 1, 30_000),
)


@dataclass(frozen=True)
class Result:
    """What one engine did in one workload. `seconds` is for `rows` rows, the timed ones of all rounds."""

    engine: str
    workload: str
    rows: int
    seconds: float
    peak_rss_mb: float
    batch_seconds: tuple[float, ...]

    @property
    def per_row(self) -> float:
        return self.seconds / self.rows


@dataclass(frozen=True)
class Report:
    """All results. Without agreement there are no ratios."""

    name: str
    disagreements: tuple[str, ...]
    results: tuple[Result, ...]

    @property
    def equal(self) -> bool:
        return not self.disagreements

    @property
    def ratios(self) -> dict[str, float]:
        """Another engine's time per row over ours."""
        if not self.equal:
            return {}
        ours = self._ours()
        others = [r for r in self.results if r.engine != OURS.name]
        return {f"{r.workload}/{r.engine}": r.per_row / ours[r.workload] for r in others}

    @property
    def own(self) -> dict[str, float]:
        """What overlap costs us: our time per row at RANGE/SLIDE = 600 over that at 1, on the same rows."""
        ours = self._ours()
        both = self.equal and {"tumbling", OVERLAP[0]} <= ours.keys()
        return {"range600 over tumbling": ours[OVERLAP[0]] / ours["tumbling"]} if both else {}

    def _ours(self) -> dict[str, float]:
        return {r.workload: r.per_row for r in self.results if r.engine == OURS.name}


def run(
    spark: Session,
    rounds: int = 2,
    rows: int | None = None,
    say: Callable[[str], None] = lambda text: None,
    workloads: Sequence[Workload] = WORKLOADS,
    warm: bool = True,
) -> Report:
    """Runs all engines on all workloads. `rows` caps the rows of a micro-batch, for a quick look."""
    place = Path(tempfile.mkdtemp(prefix="lowwater-bench-"))
    try:
        if warm:
            _warm(spark, place / "warm", say)
        results: list[Result] = []
        wrong: list[str] = []
        for workload in workloads:
            most = workload.rows if rows is None else rows
            chosen = replace(workload, rows=min(most, workload.rows), past=min(most, workload.past))
            found, differs = _measure(spark, chosen, rounds, place / workload.name, say)
            results += found
            wrong += differs
        return Report("sliding", tuple(wrong), tuple(results))
    finally:
        shutil.rmtree(place, ignore_errors=True)


def _warm(spark: Session, place: Path, say: Callable[[str], None]) -> None:
    small = Workload("warm", Question(10, 1), WARM_ROWS, 10, 30, 8, WARM_ROWS)
    small.write(place / "rows")
    for engine in ENGINES:
        say(f"warming up {engine.name}")
        engine.run(spark, Files(place / "rows", FILES), small.asked, place / engine.name)


def _measure(
    spark: Session, workload: Workload, rounds: int, place: Path, say: Callable[[str], None]
) -> tuple[list[Result], list[str]]:
    workload.write(place / "rows")
    files = Files(place / "rows", FILES)
    entries = workload.entries()
    timed: dict[Entry, list[float]] = {entry: [] for entry in entries}
    peak = dict.fromkeys(entries, 0.0)
    wrong: list[str] = []
    for number in range(rounds):
        work = place / f"round-{number}"
        for entry in entries if number % 2 == 0 else reversed(entries):
            say(f"{entry.workload}, round {number + 1} of {rounds}: {entry.engine.name}")
            with Footprint() as memory:
                batches = entry.engine.run(spark, files, entry.asked, work / str(entry))
            timed[entry] += batches[1:]
            peak[entry] = max(peak[entry], memory.peak_mb)
        wrong += _disagreements(entries[: len(ENGINES)], work)
        shutil.rmtree(work)
    shutil.rmtree(place)
    return [_result(entry, workload.rows, timed[entry], peak[entry]) for entry in entries], wrong


def _result(entry: Entry, rows: int, batches: list[float], peak_mb: float) -> Result:
    """By the median batch, so that one pause of the machine does not decide; for as many rows as were timed."""
    seconds = median(batches) * len(batches)
    return Result(
        entry.engine.name, entry.workload, rows * len(batches), round(seconds, 4), round(peak_mb, 1), tuple(batches)
    )


def _disagreements(entries: Sequence[Entry], work: Path) -> list[str]:
    """Each engine's answers against ours."""
    ours = read(work / str(entries[0]) / "answers")
    wrong = []
    for entry in entries[1:]:
        if entry.engine.writes and (what := difference(ours, read(work / str(entry) / "answers"))) is not None:
            wrong.append(f"{entry.workload}: {what} between {OURS.name} and {entry.engine.name}")
    return wrong


def read(directory: Path) -> pa.Table:
    """Answers of an engine, by window and key."""
    rows = ds.dataset(directory, format="parquet", exclude_invalid_files=True).to_table()
    columns = ["window_start", "window_end", "key", "n", "total", "most"]
    return rows.select(columns).sort_by([("window_end", "ascending"), ("key", "ascending")]).combine_chunks()


def difference(ours: pa.Table, theirs: pa.Table) -> str | None:
    """What differs first, or None.

    An engine closes windows by the progress of the batch before or of this one, so one may have answered more of the
    last windows than the other. Compared are all windows up to the end that both have reached; there must be some.
    """
    if not ours.num_rows or not theirs.num_rows:
        return "no answers to compare"
    ends = [np.asarray(table.column("window_end").cast(pa.int64())) for table in (ours, theirs)]
    reached = min(end[-1] for end in ends)
    a, b = (table.slice(0, int((end <= reached).sum())) for table, end in zip((ours, theirs), ends, strict=True))
    for name in ("window_start", "window_end", "key", "n", "most"):
        if not _plain(a.column(name)).equals(_plain(b.column(name))):
            return f"{name} differs"
    if not np.allclose(a.column("total").to_numpy(), b.column("total").to_numpy(), rtol=1e-9, atol=1e-9):
        return "total differs"
    return None


def _plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Times as numbers: engines may spell the same instant with or without a time zone."""
    return column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column
