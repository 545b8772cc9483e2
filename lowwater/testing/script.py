"""A script: a query run step by step in this process, with what comes out after each step.

>>> import pyarrow as pa, lowwater as lw
>>> from lowwater.testing import Script, stream
>>> def per_user(clicks):
...     return clicks.window(10).group_by("user").agg(n=lw.count())
>>> clicks = pa.schema({"at": pa.int64(), "user": pa.string()})
>>> script = Script(per_user, clicks=stream(clicks, progress="at", disorder=5))
>>> script.rows([(3, "ann"), (12, "bob")]).answers("user", "n")
[]
>>> script.progress(to=10).answers("user", "n")
[('ann', 1)]
>>> print(script)
1  rows
   clicks         at  user
                   3  ann
                  12  bob
   results        none
   low-watermark  clicks  7
   held           2
<BLANKLINE>
2  progress to 10
   results        window_start  window_end  user  n
                             0          10  ann   1
   low-watermark  clicks  10
   held           1
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lowwater.backends.tables import rows_of
from lowwater.errors import LowwaterError, UnknownColumn
from lowwater.metrics import Metrics
from lowwater.model.text import block, table_lines, value_text, without_wid
from lowwater.model.ticks import Length, microseconds
from lowwater.operators.late import LATE_COLUMNS
from lowwater.plan.plan import WHERE_FROM
from lowwater.testing.query import Function, Query


@dataclass(frozen=True, repr=False)
class Step:
    """One step of a script: what happened, what came out, and where the query stands after it."""

    number: int
    action: str
    rows: Mapping[str, pa.Table]
    """The rows of each input that this step brought."""
    results: pa.Table
    """The results that this step has closed."""
    late: pa.Table
    """The late rows of this step, with the reason."""
    metrics: Metrics
    """The metrics of the query after this step."""

    def answers(self, *columns: str) -> list[Any]:
        """The results of this step as tuples of these columns, or of all; of one column, its values."""
        for column in columns:
            if column not in self.results.column_names:
                raise UnknownColumn(column, self.results.column_names, "answers()")
        found = self.results.select(list(columns)) if columns else self.results
        rows = list(zip(*(column.to_pylist() for column in found.columns), strict=True))
        return [value for (value,) in rows] if len(columns) == 1 else rows

    @property
    def held(self) -> int:
        """The state: rows or partials that the query holds after this step."""
        return self.metrics.state_rows

    @property
    def low_watermarks(self) -> dict[str, Any]:
        """The low-watermark of each source: None before any progress, "end" when it has ended.

        A source is named by its input, or as in "clicks/phone" where the input has a column of sources.
        """
        found = {}
        for input, table in self.metrics.by_source.by_name.items():
            for row in table.to_pylist():
                name = input if row["source"] == input else f"{input}/{row['source']}"
                found[name] = "end" if row["ended"] else row["low_watermark"]
        return found

    def __repr__(self) -> str:
        came = f"{self.results.num_rows} results, {self.late.num_rows} late rows, {self.held} held"
        return f"<Step {self.number} {self.action}: {came}>"

    def __str__(self) -> str:
        shown = without_wid(self.results)
        parts: list[tuple[str, Sequence[str]]] = [(name, table_lines(rows)) for name, rows in self.rows.items()]
        parts.append(("results", table_lines(shown) if shown.num_rows else ["none"]))
        if self.late.num_rows:
            hidden = [*list(WHERE_FROM)[1:], *(name for name in LATE_COLUMNS if name != "late_reason")]
            parts.append(("late", table_lines(self.late.drop_columns(hidden))))
        lows = {name: value_text(low) if low is not None else "none yet" for name, low in self.low_watermarks.items()}
        width = max((len(name) for name in lows), default=0)
        parts.append(("low-watermark", [f"{name.ljust(width)}  {low}" for name, low in lows.items()] or ["none yet"]))
        parts.append(("held", [str(self.held)]))
        return "\n".join([f"{self.number}  {self.action}", *(f"   {line}" for line in block(parts))])


class Script:
    """Runs a query in steps: rows, progress, silence, restart, end. Each step is returned, and kept in `steps`.

    `query` is a function from streams to a relation. Its inputs are given by the names of its parameters (a query with
    one parameter takes its only input without a name), as `testing.stream(schema, progress=, disorder=)`. A function
    that declares its streams itself is given tables or schemas instead.

    The script has a clock of its own, for `idle=`: the largest time that has arrived, moved on by `silence()`.
    """

    def __init__(self, query: Function | Query, rows: Any = None, /, *, shards: int = 1, **inputs: Any) -> None:
        self.query = query if isinstance(query, Query) else Query.of(query, rows, inputs)
        self.steps: list[Step] = []
        self.clock_follows_rows = True
        self._running = self.query.start(shards)
        self._ports = self.query.ports(self._running)
        self._clock = 0
        self._late = 0
        self._ended = False

    # -- steps -----------------------------------------------------------------------------------------------------

    def rows(self, rows: Any = None, /, **inputs: Any) -> Step:
        """Rows arrive, all in one micro-batch: of the only input, or of inputs by name.

        Rows are a list of dicts or of tuples in the order of the columns, a table, or a pandas or Polars frame.
        """
        self._refuse_ended()
        if rows is not None:
            if inputs or len(self._ports) > 1:
                names = ", ".join(f"{name}=" for name in self._ports)
                raise LowwaterError(f"The query has several inputs; give their rows by name, as in rows({names}).")
            inputs = {next(iter(self._ports)): rows}
        tables = {name: self._table(name, own) for name, own in inputs.items()}
        if self.clock_follows_rows:
            self._clock = max([self._clock, *(self._newest(name, table) for name, table in tables.items())])
        given = {port: table for name, table in tables.items() for port in self._ports[name]}
        return self._done("rows", self._running.push_all(given, self._clock), tables)

    def progress(self, to: Any, of: str | None = None, source: Any = None) -> Step:
        """The low-watermark moves without rows: of all inputs, of the input `of`, or of one source."""
        self._refuse_ended()
        if of is None and source is None:
            return self._done(f"progress to {value_text(to)}", self._running.advance(to))
        if of is None and len(self._ports) > 1:
            raise LowwaterError(f"Name the input of the source {source!r}, as in of={next(iter(self._ports))!r}.")
        name = of or next(iter(self._ports))
        closed = [self._running.advance(to, port, source) for port in self._known(name)]
        whose = name if source is None else f"{name}/{source}"
        return self._done(f"progress of {whose} to {value_text(to)}", pa.concat_tables(closed))

    def silence(self, length: Length) -> Step:
        """The clock moves on and no row comes. Streams with `idle=` advance the sources that are silent too long."""
        self._refuse_ended()
        self._clock += microseconds(length, "silence()")
        return self._done(f"silence of {length}", self._running.tick(self._clock))

    def restart(self) -> Step:
        """The query stops and starts again from its saved state. Its function is called again."""
        self._refuse_ended()
        self._running.restart(self.query.built().node)
        return self._done("restart", self._running.plan.result_schema.empty_table())

    def end(self) -> Step:
        """All inputs end."""
        self._refuse_ended()
        self._ended = True
        return self._done("end", self._running.finish())

    # -- what came out ---------------------------------------------------------------------------------------------

    @property
    def results(self) -> pa.Table:
        """All results so far."""
        return self._running.result()

    @property
    def late(self) -> pa.Table:
        """All late rows so far, with the reason."""
        return self._running.late_output()

    def __repr__(self) -> str:
        return f"<Script {', '.join(self._ports)}: {len(self.steps)} steps; print() shows them>"

    def __str__(self) -> str:
        return "\n\n".join(str(step) for step in self.steps)

    def _done(self, action: str, results: pa.Table, rows: Mapping[str, pa.Table] | None = None) -> Step:
        late = self.late.slice(self._late)
        self._late += late.num_rows
        step = Step(len(self.steps) + 1, action, rows or {}, results, late, self._running.metrics())
        self.steps.append(step)
        return step

    # -- rows ------------------------------------------------------------------------------------------------------

    def _table(self, name: str, rows: Any) -> pa.Table:
        self._known(name)
        schema = self.query.tables[name].schema
        if isinstance(rows, list):
            rows = [_named(row, name, schema.names) if isinstance(row, tuple) else row for row in rows]
        return rows_of(rows, schema, f"The rows of {name!r}")

    def _newest(self, name: str, table: pa.Table) -> int:
        """The largest time of these rows as system time, or 0 where they progress on something else."""
        times = {self._running.plan.inputs[port].time for port in self._ports[name]}
        columns = [table.column(time) for time in times if pa.types.is_timestamp(table.schema.field(time).type)]
        newest = [pc.max(column.cast(pa.timestamp("us"), safe=False)).cast(pa.int64()).as_py() for column in columns]
        return max((time for time in newest if time is not None), default=0)

    # -- checks ----------------------------------------------------------------------------------------------------

    def _refuse_ended(self) -> None:
        if self._ended:
            raise LowwaterError("The script has ended; no step can follow end().")

    def _known(self, name: str) -> list[int]:
        if name not in self._ports:
            raise LowwaterError(f"{name!r} is no input of the query; its inputs are {' and '.join(self._ports)}.")
        return self._ports[name]


def _named(row: tuple[Any, ...], name: str, columns: list[str]) -> dict[str, Any]:
    if len(row) != len(columns):
        raise LowwaterError(
            f"A row of {name!r} has {len(row)} values, but the stream has {len(columns)} columns: {', '.join(columns)}."
        )
    return dict(zip(columns, row, strict=True))
