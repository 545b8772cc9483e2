"""`lowwater run`: starts the queries of a file on Spark, shows them while they run, and ends them cleanly.

Ctrl-C and SIGTERM stop the queries behind a micro-batch; the next run with the same checkpoint goes on there. On a
terminal a table is drawn again and again. Elsewhere each micro-batch is a line.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
from rich.console import Console
from rich.live import Live
from rich.table import Table

from lowwater.backends.spark import script as on_spark
from lowwater.backends.spark.formats import writer
from lowwater.backends.spark.launch import Session
from lowwater.backends.spark.opened import opener
from lowwater.backends.spark.script import Started
from lowwater.errors import LowwaterError
from lowwater.language import Script, bind
from lowwater.metrics import Metrics
from lowwater.model.text import table_lines
from lowwater.model.words import listed
from lowwater.shell.failures import cause_of
from lowwater.shell.files import of_query

LOOK = 0.25
"""Seconds between two looks at the queries."""
ROWS = 10
"""Rows of a result that are shown."""


@contextmanager
def signalled() -> Iterator[threading.Event]:
    """An event that Ctrl-C and SIGTERM set, instead of ending the process."""
    asked = threading.Event()
    before = {number: signal.signal(number, lambda *_: asked.set()) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def run(
    spark: Session,
    script: Script,
    place: Path,
    console: Console,
    finish: bool | None,
    stop: threading.Event,
    apart: bool = False,
) -> None:
    """Runs all queries of a script until they are stopped. With `finish`, ends their inputs when all rows are read.

    Those that share a stream run as one Spark query, unless they are to run `apart`.

    By default a script ends by itself if all its streams are generated.
    """
    ending = on_spark.finite(script) if finish is None else finish
    bound = bind(script, {}, opener(spark), writer(spark))
    for query in bound:
        if query.explain is not None:
            console.print(
                of_query(query, query.explain.format or "text"), markup=False, highlight=False, soft_wrap=True
            )
    queries = [query for query in bound if query.explain is None]
    view = View(console)
    started = on_spark.start(spark, queries, place, view.results, apart)
    for one in started:
        if one.group.sentence is not None:
            console.print(one.group.sentence, highlight=False, soft_wrap=True)
    running = {name for one in started for name in one.names}
    for query in queries:
        if query.name not in running:
            console.print(f"{query.name}: finished already; its results are complete.", highlight=False)
    try:
        with view.watching(started):
            if ending:
                _finish(started, view, stop)
            else:
                while not stop.is_set():
                    view.look(started)
                    stop.wait(LOOK)
    finally:
        for one in started:
            one.query.rest()
            if one.query.active:
                one.query.stop()
    view.look(started, last=True)


def _finish(started: Sequence[Started], view: View, stop: threading.Event) -> None:
    """Ends the queries one after the other, each in a thread of its own, so that the view stays alive."""
    for one in started:
        failed: list[BaseException] = []
        thread = threading.Thread(target=_caught(one.query.finish, failed), daemon=True)
        thread.start()
        while thread.is_alive() and not stop.is_set():
            view.look(started)
            thread.join(LOOK)
        if failed:
            _raise_failed(started)  # names the query; a thread of finish() may know of the failure first
            raise failed[0]
        if stop.is_set():
            return


def _raise_failed(started: Sequence[Started]) -> None:
    """Raises the error of a query that has failed, if one has."""
    for one in started:
        error = one.query.spark.exception()
        if error is not None:
            have = "has" if len(one.names) == 1 else "have"
            raise LowwaterError(f"{listed(one.names)} {have} failed: {cause_of(str(error)).rstrip('.')}.")


def _caught(call: Callable[[], None], failed: list[BaseException]) -> Callable[[], None]:
    def called() -> None:
        try:
            call()
        except BaseException as error:
            failed.append(error)

    return called


class View:
    """What a user sees of running queries."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._live: Live | None = None
        self._said: dict[str, tuple[int, int]] = {}

    @contextmanager
    def watching(self, started: Sequence[Started]) -> Iterator[None]:
        """On a terminal, draws a table while the queries run."""
        if not self._console.is_terminal or not started:
            yield
            return
        with Live(screen(started), console=self._console, refresh_per_second=4, transient=True) as self._live:
            yield
        self._live = None

    def results(self, name: str, rows: pa.Table) -> None:
        """Shows rows of a query without a sink."""
        if rows.num_rows:
            more = f", the first {ROWS} of {rows.num_rows:,}" if rows.num_rows > ROWS else ""
            lines = [f"{name}{more}", *table_lines(rows, limit=ROWS)]
            self._console.print("\n".join(lines), markup=False, highlight=False, soft_wrap=True)

    def look(self, started: Sequence[Started], last: bool = False) -> None:
        """Shows the metrics of all queries, and raises the error of one that has failed."""
        _raise_failed(started)
        if self._live is not None:
            self._live.update(screen(started))
            return
        for name, metrics in of_all(started):
            now = (metrics.rows, metrics.result_rows)
            if last or (metrics.rows and now != self._said.get(name)):
                self._said[name] = now
                self._console.print(line(name, metrics), markup=False, highlight=False, soft_wrap=True)


def of_all(started: Sequence[Started]) -> list[tuple[str, Metrics]]:
    """The metrics of all queries, in the order of the file."""
    found = sorted((pair for one in started for pair in one.each()), key=lambda pair: pair[0].statement.start)
    return [(query.name, metrics) for query, metrics in found]


def line(name: str, metrics: Metrics) -> str:
    """The metrics of a query in one line."""
    sources = ", ".join(
        f"{one.source if one.input == one.source else f'{one.input}/{one.source}'} {one.low_watermark or 'none'}"
        for one in metrics.sources[:ROWS]
    )
    return (
        f"{name}: {metrics.rows:,} rows, {metrics.result_rows:,} results, {metrics.late_rows:,} late, "
        f"state {metrics.state_rows:,} rows ({metrics.state_bytes:,} bytes), low-watermark {sources or 'none'}"
    )


def screen(started: Sequence[Started]) -> Any:
    """The metrics of all queries as a table: one row per source."""
    table = Table("query", "rows", "results", "late", "state", "source", "low-watermark", "", box=None)
    for name, metrics in of_all(started):
        numbers = [f"{n:,}" for n in (metrics.rows, metrics.result_rows, metrics.late_rows, metrics.state_rows)]
        shown = [
            (
                of.source if of.input == of.source else f"{of.input}/{of.source}",
                of.low_watermark or "none",
                of.holds_back,
            )
            for of in metrics.sources[:ROWS]
        ] or [("", "none", False)]
        for place, (source, low, slowest) in enumerate(shown):
            first = [name, *numbers] if not place else [""] * 5
            table.add_row(*first, source, low, "holds back" if slowest else "")
    return table
