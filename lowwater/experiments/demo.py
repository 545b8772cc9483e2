"""The demo: an hour of packets on three links, two queries of the thesis over them, and a check at the end.

    Q1-1    packets of each source on link Main1 in the past 10 minutes, every minute
    Q1-2    packets of the links Control, Main1 and Main2 together, every minute

The links are out of step (Main2 lags by 5 s) and out of order (up to 3 s). They also fall silent: Control, which
carries almost no packets, from minute 30 to 48, and all links from minute 42. The links are files that Spark reads as
streams; file i of every link holds the packets that arrived in the same period. Both queries run at the same time. When
all files are read, the queries are finished, and their results are compared with a batch query of Spark over the same
files.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from rich.console import Console
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

import lowwater as lw
from lowwater import generate
from lowwater.backends.spark.demo import Files, batch_counts
from lowwater.backends.spark.launch import Session
from lowwater.errors import LowwaterError
from lowwater.experiments import demo_view
from lowwater.metrics import Metrics

ROWS = 2_000_000
SECONDS = 3600
SLICES = 10
LINKS = ("Control", "Main1", "Main2")
LATEST = "3 seconds"
"""The largest lateness of a packet on its link."""


@dataclass(frozen=True)
class Question:
    """A query of the thesis: its text, the links that it reads, and its window."""

    name: str
    text: str
    links: tuple[str, ...]
    range: str
    slide: str
    by: tuple[str, ...]


QUESTIONS = (
    Question("Q1-1", "packets by source on Main1, past 10 minutes", ("Main1",), "10 minutes", "1 minute", ("srcIP",)),
    Question("Q1-2", "packets on Control, Main1 and Main2, by minute", LINKS, "1 minute", "1 minute", ()),
)


@dataclass
class Running:
    """A running query, and the metrics observed so far."""

    question: Question
    query: Any
    rows: int
    """The number of rows that it will have read at the end."""
    answers: Path
    metrics: Metrics = field(default_factory=Metrics)
    state_rows: int = 0
    state_bytes: int = 0
    rows_per_second: float = 0.0
    """Without the first micro-batch, in which the workers start."""
    held_back: Counter[str] = field(default_factory=Counter)
    agrees: bool = False
    answered: int = 0
    _last_batch: int = -1

    def look(self) -> None:
        """Reads the current metrics. Keeps the largest state seen so far."""
        if not self.query.active:
            self.query.await_termination()  # raises the error of the query, if it failed
            raise LowwaterError(f"{self.question.name} stopped before it had read all its rows.")
        self.metrics = self.query.metrics()
        self.state_rows = max(self.state_rows, self.metrics.state_rows)
        self.state_bytes = max(self.state_bytes, self.metrics.state_bytes)
        batches = [p for p in self.query.spark.recentProgress if p.numInputRows][1:]
        seconds = sum(p.durationMs["triggerExecution"] for p in batches) / 1000
        self.rows_per_second = sum(p.numInputRows for p in batches) / seconds if seconds else 0.0
        last = self.query.spark.lastProgress
        if last is not None and last.batchId > self._last_batch and self.metrics.held_back_by:
            self._last_batch = last.batchId
            self.held_back[self.metrics.held_back_by] += 1

    @property
    def done(self) -> bool:
        return self.metrics.rows >= self.rows

    def latest(self) -> pa.Table:
        """The answers of closed windows, newest first, from micro-batches that are completely written."""
        written = [mark.parent for mark in self.answers.glob("lw_batch=*/_SUCCESS")]
        answers = read_answers(sorted(written), self.question)
        return answers.sort_by([("window_start", "descending"), ("n", "descending")])


def run(spark: Session, place: Path, console: Console, rows: int = ROWS, slices: int = SLICES) -> bool:
    """Runs the demo. Returns whether both queries agree with the batch query."""
    stream = generate.packets(rows, SECONDS, seed=1, links=LINKS)
    counts = write_links(stream.table, place, slices)
    total = f"{rows:,} packets on {len(LINKS)} links, {SECONDS // 60} minutes"
    console.print(f"{total}, up to {stream.disorder / generate.SECOND:.1f} s late")
    started = [start(spark, question, place, counts) for question in QUESTIONS]
    try:
        _watch(started, console)
        for running in started:
            _finish(running, spark, place)
    finally:
        for running in started:
            if running.query.active:
                running.query.stop()
    console.print()
    console.print(demo_view.summary(started))
    return all(running.agrees for running in started)


def write_links(table: pa.Table, place: Path, slices: int) -> dict[str, int]:
    """Cuts the arrivals into slices, and each slice into one file per link. Returns the rows of each link."""
    counts = dict.fromkeys(LINKS, 0)
    for link in LINKS:
        (place / link).mkdir(parents=True)
    for i in range(slices):
        first, stop = (table.num_rows * n // slices for n in (i, i + 1))
        arrived = table.slice(first, stop - first)
        for link in LINKS:
            rows = arrived.filter(pc.equal(arrived.column("link"), link))
            counts[link] += rows.num_rows
            file = place / link / f"part-{i:05d}.parquet"
            pq.write_table(rows, file)
            os.utime(file, (generate.START + i,) * 2)  # Spark reads files in order of their modification times
    return counts


def start(spark: Session, question: Question, place: Path, counts: dict[str, int]) -> Running:
    """Starts the query, written as a user would write it."""
    links = [
        lw.stream(Files(place / link, 1).frame(spark), name=link, progress="ts", disorder=LATEST)
        for link in question.links
    ]
    windows = links[0].union(*links[1:]).window(range=question.range, slide=question.slide).group_by(*question.by)
    answers = place / "answers" / question.name
    query = windows.agg(n=lw.count()).start(
        checkpoint=str(place / "checkpoints" / question.name), results=str(answers), name=question.name
    )
    return Running(question, query, sum(counts[link] for link in question.links), answers)


def _watch(started: Sequence[Running], console: Console) -> None:
    """Shows the progress and the closed windows until all rows are read."""
    bar = Progress(
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), console=console
    )
    tasks: list[TaskID] = [bar.add_task(running.question.name, total=running.rows) for running in started]
    with Live(demo_view.screen(bar, started), console=console, refresh_per_second=4) as live:
        while True:
            for task, running in zip(tasks, started, strict=True):
                running.look()
                bar.update(task, completed=running.metrics.rows)
            live.update(demo_view.screen(bar, started))
            if all(running.done for running in started):
                return
            time.sleep(0.5)


def _finish(running: Running, spark: Session, place: Path) -> None:
    """Ends the input, so that open windows are answered, and compares the results with those of a batch query."""
    running.query.finish()
    running.metrics = running.query.metrics()
    question = running.question
    directories = [str(place / link) for link in question.links]
    expected = batch_counts(spark.read.parquet(*directories), question.range, question.slide, list(question.by))
    answers = read_answers(sorted(running.answers.glob("lw_batch=*")), question)
    running.answered = answers.num_rows
    order = [(name, "ascending") for name in ("window_start", *question.by)]
    expected = expected.select(answers.column_names).cast(answers.schema)
    running.agrees = answers.sort_by(order).equals(expected.sort_by(order))


def read_answers(directories: Sequence[Path], question: Question) -> pa.Table:
    """The answers in these directories: the start of the window (in microseconds), the group and the count."""
    groups = ((name, pa.string()) for name in question.by)
    schema = pa.schema([("window_start", pa.int64()), *groups, ("n", pa.int64())])
    files = [str(file) for directory in directories for file in sorted(directory.glob("*.parquet"))]
    if not files:
        return schema.empty_table()
    rows = ds.dataset(files, format="parquet").to_table(columns=schema.names)
    start = rows.column("window_start").cast(pa.timestamp("us", "UTC"))  # Spark's sink writes nanoseconds
    return rows.set_column(0, "window_start", start).cast(schema).combine_chunks()
