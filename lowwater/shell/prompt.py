"""`lowwater sql`: a prompt for queries. It keeps declarations, runs a query at once and draws results as they arrive.

Queries run in this process over generated streams and files, a slice of the rows after the other, as if they arrived.
With `--spark` they run on Spark, over any source. Ctrl-C ends a query, Ctrl-D the prompt.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import IO, Any

import pyarrow as pa
from rich.console import Console

from lowwater.backends.local import LocalQuery
from lowwater.backends.opened import opened
from lowwater.errors import LowwaterError
from lowwater.extras import needs
from lowwater.language import BadQuery, BoundQuery, CreateStream, CreateView, Script, bind, read
from lowwater.model.text import table_lines
from lowwater.shell.failures import sentences
from lowwater.shell.files import columns_only, of_query

SLICES = 20
"""Parts in which the rows of each stream arrive, in this process."""
ROWS = 20
"""Rows of one arrival that are drawn."""
HELP = """A statement ends with ; and may have several lines.
  CREATE STREAM, CREATE VIEW   declare what later statements name
  SELECT ...                   runs a query and draws its results as they arrive; Ctrl-C ends it
  EXPLAIN [ANALYZE] SELECT     prints its plan
  streams;                     lists streams and views with their columns
  help; quit;"""
KEYWORDS = (
    "SELECT", "FROM", "WHERE", "GROUP BY", "HAVING", "UNION", "JOIN", "ON", "WITH", "AS", "DISTINCT",
    "RANGE", "SLIDE", "WA", "CREATE STREAM", "CREATE VIEW", "PROGRESS", "DISORDER", "SOURCE", "EXPLAIN", "ANALYZE",
)  # fmt: skip
Runs = Callable[[BoundQuery, Callable[[pa.Table], None]], int]
"""Runs a query, hands on results as they arrive, and returns the number of late rows."""


class Prompt:
    """The statements so far, and what the next one does."""

    def __init__(self, console: Console, runs: Runs, opener: Any = opened) -> None:
        self._console, self._runs, self._opener = console, runs, opener
        self._declared: dict[str, str] = {}
        self._columns: dict[str, list[str]] | None = None

    def enter(self, text: str) -> bool:
        """One entry of the user: statements, or a word of the prompt. Returns whether the prompt goes on."""
        word = text.strip().rstrip(";").strip().lower()
        if word in ("quit", "exit", "\\q"):
            return False
        if word in ("help", "\\h", "?"):
            self._say(HELP)
        elif word in ("streams", "\\d"):
            self._say("\n".join(f"{name}: {', '.join(columns)}" for name, columns in self.columns().items()) or "none")
        elif word:
            try:
                for statement in read(text):
                    with sentences(self._script(statement.text)):
                        self._statement(statement)
            except LowwaterError as error:
                self._say(str(error))
        return True

    @property
    def _before(self) -> str:
        """The declarations so far."""
        return "".join(f"{one};\n" for one in self._declared.values())

    def _script(self, text: str) -> Script:
        return read(self._before + text)

    def _bound(self, text: str, open: Any) -> list[BoundQuery]:
        """A statement behind all declarations. Errors have the line of the statement itself."""
        before = self._before
        try:
            return bind(self._script(text), {}, open)
        except BadQuery as error:
            line = error.line - before.count("\n")
            if line < 1:
                raise
            start = sum(len(one) + 1 for one in text.split("\n")[: line - 1]) + error.column - 1
            raise BadQuery(error.sentence, text, start) from error

    def _statement(self, statement: Any) -> None:
        declares = isinstance(statement, CreateStream | CreateView)
        explains = statement.tree.key == "explained" and not statement.tree.args.get("analyze")
        # A declaration is only planned, so that an error in it shows now.
        planned = partial(columns_only, otherwise=self._opener)
        open = planned if declares or (explains and self._opener is opened) else self._opener
        if isinstance(statement, CreateStream):
            self._bound(f"{statement.text};\nSELECT * FROM `{statement.name}`", open)
        else:
            bound = self._bound(f"{statement.text};", open)
        if declares:
            same = [name for name in self._declared if name.lower() == statement.name.lower()]
            self._declared = {name: text for name, text in self._declared.items() if name not in same}
            self._declared[statement.name] = statement.text
            self._columns = None
            self._say(f"{statement.name} is declared.")
            return
        query = bound[-1]
        if query.explain is not None:
            self._say(of_query(query, query.explain.format or "text"))
            return
        self._run(query)

    def _run(self, query: BoundQuery) -> None:
        rows = 0

        def arrived(results: pa.Table) -> None:
            nonlocal rows
            if results.num_rows:
                rows += results.num_rows
                self._say("\n".join(table_lines(results, limit=ROWS)))

        try:
            late = self._runs(query, arrived)
        except KeyboardInterrupt:
            self._say(f"Stopped after {rows:,} rows.")
        else:
            self._say(f"{rows:,} rows, {late:,} late rows.")

    def columns(self) -> dict[str, list[str]]:
        """The columns of each stream and view, for completion. They are found once per declaration, not per key."""
        if self._columns is not None:
            return self._columns
        found: dict[str, list[str]] = {}
        for name in self._declared:
            try:
                (*_, last) = self._bound(f"SELECT * FROM `{name}`", columns_only)
            except LowwaterError:  # only Spark knows its columns
                continue
            found[name] = list(last.relation.schema.names)
        self._columns = found
        return found

    def words(self) -> list[str]:
        """Names and keywords that can come next."""
        columns = self.columns()
        return list(dict.fromkeys([*columns, *(name for own in columns.values() for name in own), *KEYWORDS]))

    def _say(self, text: str) -> None:
        self._console.print(text, markup=False, highlight=False, soft_wrap=True)


def in_process(query: BoundQuery, arrived: Callable[[pa.Table], None]) -> int:
    """Runs a query in this process. Streams arrive side by side, each in slices."""
    if query.results is not None or query.late is not None:
        raise LowwaterError("INSERT needs Spark; start the prompt by `lowwater sql --spark`, or leave INSERT out.")
    running: LocalQuery = query.relation.start()
    tables = {port: running.table(port) for port in range(len(running.plan.inputs))}
    for part in range(SLICES):
        cuts = {
            port: (table.num_rows * part // SLICES, table.num_rows * (part + 1) // SLICES)
            for port, table in tables.items()
        }
        came = {port: tables[port].slice(at, stop - at) for port, (at, stop) in cuts.items() if stop > at}
        if came:
            arrived(running.push_all(came))
    arrived(running.finish())
    return running.metrics().late_rows


def on_spark(spark: Any) -> Runs:
    """Runs queries on Spark until their generated streams end, or Ctrl-C."""
    from lowwater.backends.spark import script

    def run(query: BoundQuery, arrived: Callable[[pa.Table], None]) -> int:
        with tempfile.TemporaryDirectory(prefix="lowwater-sql-") as place:
            for one in script.start(spark, [query], Path(place), lambda _, rows: arrived(rows)):
                try:
                    one.query.finish()
                finally:
                    if one.query.active:
                        one.query.stop()
                return one.query.metrics().late_rows
        return 0

    return run


# -- where statements come from ------------------------------------------------------------------------------------


def entries_of(file: IO[str]) -> Iterator[str]:
    """Statements out of a file or a pipe, each when its ; has come."""
    pending = ""
    for line in file:
        pending += line
        if complete(pending):
            yield pending
            pending = ""
    if pending.strip():
        yield pending


def complete(text: str) -> bool:
    """Whether an entry is ended: by ; or as a word of the prompt."""
    return text.rstrip().endswith(";") or bool(re.fullmatch(r"\s*(quit|exit|help|streams|\?|\\[qhd])\s*", text, re.I))


def typed(prompt: Prompt, history: Path, **terminal: Any) -> Iterator[str]:
    """Statements that a user types, with history and completion. `terminal` sets the input and output, for tests."""
    with needs("The prompt"):  # statements through a pipe need no further package
        from prompt_toolkit import PromptSession
        from prompt_toolkit.completion import WordCompleter
        from prompt_toolkit.history import FileHistory
        from prompt_toolkit.key_binding import KeyBindings
    keys = KeyBindings()

    @keys.add("enter")
    def _(event: Any) -> None:
        buffer = event.current_buffer
        if complete(buffer.text):
            buffer.validate_and_handle()
        else:
            buffer.insert_text("\n")

    session: PromptSession[str] = PromptSession(
        "lowwater> ",
        multiline=True,
        history=FileHistory(str(history)),
        completer=WordCompleter(prompt.words, ignore_case=True),
        key_bindings=keys,
        prompt_continuation="       -> ",
        **terminal,
    )
    while True:
        try:
            yield session.prompt()
        except KeyboardInterrupt:
            continue
        except EOFError:
            return


def run(prompt: Prompt, entries: Iterable[str]) -> None:
    """Takes entries until they end or the user quits."""
    for text in entries:
        if not prompt.enter(text):
            return


def history_file() -> Path:
    return Path(os.environ.get("LOWWATER_HISTORY") or Path.home() / ".lowwater_history")
