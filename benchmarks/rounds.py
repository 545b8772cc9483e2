"""The rounds of a benchmark: engines take turns on the same files, and their answers are compared before their times.

All engines of a workload read the same files in the same micro-batches and start from an empty checkpoint. Every other
round runs them in reverse order, so that no engine always follows the same one.

The first micro-batch is the history. It is long enough that the state has its final size when the timing starts. The
micro-batches after it are timed. Before the first round every engine runs through several micro-batches of a few rows,
so that the JVM has compiled the code.

Ratios are only reported if the engines agree.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import ClassVar

import pyarrow as pa

from benchmarks.agreement import read
from benchmarks.engine import Engine
from benchmarks.footprint import Footprint
from lowwater import generate
from lowwater.backends.spark.demo import Files
from lowwater.backends.spark.launch import Session

FILES = 2
"""Files per micro-batch: one per core on a machine of two cores, so that all cores are busy."""
KEYS = 1000
WARM_ROWS = 20_000
WARM_BATCHES = 8

Say = Callable[[str], None]
Difference = Callable[[pa.Table, pa.Table], str | None]
Read = Callable[[Path, "Entry"], pa.Table]


@dataclass(frozen=True)
class Entry:
    """One engine in one workload."""

    workload: str
    engine: Engine
    batches: int | None = None
    """The number of micro-batches that it reads after the history; None means all. Slow engines read fewer."""

    def __str__(self) -> str:
        return f"{self.workload}-{self.engine.name}"

    def files(self, directory: Path) -> Files:
        return Files(directory, FILES, None if self.batches is None else FILES * (1 + self.batches))


def sorted_by(*columns: str) -> Read:
    """Reads all answers, sorted by these columns."""
    return lambda directory, entry: read(directory, columns)


@dataclass(frozen=True)
class Race:
    """Entries that read the same files. The entries of one workload that write answers must agree with its first."""

    entries: tuple[Entry, ...]
    rows: int
    """Rows per micro-batch."""
    write: Callable[[Path], None]
    """Writes the files of the history and of all micro-batches after it."""
    read: Read = lambda directory, entry: pa.table({})
    """Reads the answers of an entry in a form that can be compared. Engines write them in any order."""
    difference: Difference = lambda ours, theirs: None
    """The difference between two such tables, or None."""
    expected: Callable[[Path, Entry], pa.Table] | None = None
    """Computes the answers of an entry in batch from the files in a directory. If set, each entry is compared with
    these answers instead of with the first entry."""


@dataclass(frozen=True)
class Result:
    """The result of one engine in one workload. `seconds` is for `rows` rows, the timed rows of all rounds."""

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
class BenchReport:
    """All results. If the engines disagree, there are no ratios."""

    name: str
    disagreements: tuple[str, ...]
    results: tuple[Result, ...]

    ours: ClassVar[str] = "lowwater"
    """The engine by whose time the others are divided."""
    pairs: ClassVar[dict[str, tuple[str, str]]] = {}
    """Pairs of workloads whose times per row of lowwater are divided, by the text to print."""
    divided: ClassVar[str] = "its time / ours"
    """The heading of the ratios."""
    own_is: ClassVar[str] = "time per row of lowwater, on the same rows"
    """The quantity that the ratios in `own` compare."""
    by_batch: ClassVar[bool] = False
    """Whether the benchmark is about differences between micro-batches: the plot then shows each micro-batch."""

    @property
    def equal(self) -> bool:
        return not self.disagreements

    @property
    def ratios(self) -> dict[str, float]:
        """The time per row of each other engine, divided by ours."""
        if not self.equal:
            return {}
        ours = self._ours()
        others = [r for r in self.results if r.engine != self.ours]
        return {f"{r.workload}/{r.engine}": r.per_row / ours[r.workload] for r in others}

    def ratio_of(self, result: Result) -> float | None:
        """The ratio that is printed next to a result."""
        return self.ratios.get(f"{result.workload}/{result.engine}")

    @property
    def own(self) -> dict[str, float]:
        """Ratios between workloads of lowwater alone."""
        return self._own() if self.equal else {}

    def _own(self) -> dict[str, float]:
        ours = self._ours()
        return {text: ours[a] / ours[b] for text, (a, b) in self.pairs.items() if {a, b} <= ours.keys()}

    def _ours(self) -> dict[str, float]:
        return {r.workload: r.per_row for r in self.results if r.engine == self.ours}


def take_turns(
    spark: Session, races: Sequence[Race], warm: Sequence[Race], rounds: int, say: Say
) -> tuple[tuple[str, ...], tuple[Result, ...]]:
    """Runs all rounds of all races. Returns the disagreements, and the results in the order of the entries."""
    place = Path(tempfile.mkdtemp(prefix="lowwater-bench-"))
    try:
        for race in warm:
            _warm(spark, race, place / "warm", say)
        wrong: list[str] = []
        results: list[Result] = []
        for number, race in enumerate(races):
            differs, found = _measure(spark, race, rounds, place / str(number), say)
            wrong += differs
            results += found
        return tuple(wrong), tuple(results)
    finally:
        _remove(place)


def _remove(place: Path) -> None:
    """Removes as much as possible. Spark maintains state stores in the background, also after a query has ended."""
    shutil.rmtree(place, ignore_errors=True)


def _warm(spark: Session, race: Race, place: Path, say: Say) -> None:
    race.write(place / "rows")
    for entry in race.entries:
        say(f"warming up {entry.engine.name}")
        entry.engine.run(spark, entry.files(place / "rows"), place / str(entry))
    _remove(place)


def _measure(spark: Session, race: Race, rounds: int, place: Path, say: Say) -> tuple[list[str], list[Result]]:
    race.write(place / "rows")
    entries = race.entries
    timed: dict[Entry, list[float]] = {entry: [] for entry in entries}
    peak = dict.fromkeys(entries, 0.0)
    wrong: list[str] = []
    for number in range(rounds):
        work = place / f"round-{number}"
        for entry in entries if number % 2 == 0 else reversed(entries):
            say(f"{entry.workload}, round {number + 1} of {rounds}: {entry.engine.name}")
            with Footprint() as memory:
                batches = entry.engine.run(spark, entry.files(place / "rows"), work / str(entry))
            timed[entry] += batches[1:]
            peak[entry] = max(peak[entry], memory.peak_mb)
        if race.expected is None:
            wrong += _disagreements(race, work)
        else:
            wrong += _unexpected(race, place / "rows", work)
        _remove(work)
    _remove(place)
    return wrong, [_result(entry, race.rows, timed[entry], peak[entry]) for entry in entries]


def _result(entry: Entry, rows: int, batches: list[float], peak_mb: float) -> Result:
    """The result by the median batch, so that one pause of the machine does not matter."""
    seconds = median(batches) * len(batches)
    return Result(
        entry.engine.name, entry.workload, rows * len(batches), round(seconds, 4), round(peak_mb, 1), tuple(batches)
    )


def _disagreements(race: Race, work: Path) -> list[str]:
    """Compares the answers of each engine with those of the first entry of the workload."""
    wrong = []
    for name in dict.fromkeys(entry.workload for entry in race.entries):
        first, *others = (e for e in race.entries if e.workload == name and e.engine.writes)
        if not others:
            continue
        ours = race.read(work / str(first) / "answers", first)
        for entry in others:
            theirs = race.read(work / str(entry) / "answers", entry)
            if (found := race.difference(ours, theirs)) is not None:
                wrong.append(f"{name}: {found} between {first.engine.name} and {entry.engine.name}")
    return wrong


def _unexpected(race: Race, rows: Path, work: Path) -> list[str]:
    """Compares the answers of each engine with the batch computation."""
    wrong = []
    for entry in race.entries:
        assert race.expected is not None
        found = race.difference(race.read(work / str(entry) / "answers", entry), race.expected(rows, entry))
        if found is not None:
            wrong.append(f"{entry.workload}: {found} between {entry.engine.name} and the batch computation")
    return wrong


def write_keyed(
    directory: Path, past: int, history: int, rows: int, seconds: int, batches: int, disorder: float = 3
) -> None:
    """Measurements of 1,000 skewed keys: `past` rows in `history` seconds, then `batches` of `rows` in `seconds`."""
    before = generate.keyed(past, history, KEYS, seed=1, max_delay=disorder)
    body = generate.keyed(
        rows * batches, seconds * batches, KEYS, seed=2, max_delay=disorder, start=generate.START + history
    )
    generate.write_files(before, directory, FILES)
    generate.write_files(body, directory, FILES * batches, first=FILES)
