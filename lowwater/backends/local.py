"""The local backend: one process, deterministic. Tests, docs and figures use it.

Its clock moves only by push, advance and tick.

It runs the same ingest and the same shards as Spark does, without Spark: a batch pushed is a micro-batch, and its
stages run one after the other.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from time import monotonic
from typing import Any

import numpy as np
import pyarrow as pa

from lowwater.backends.tables import rows_of, table_of
from lowwater.errors import LowwaterError
from lowwater.expressions import Expression, zone_of
from lowwater.metrics import Metrics
from lowwater.model.columns import KEEP, whole
from lowwater.model.progress import Facts, declared_names, observe
from lowwater.model.ticks import Ticks
from lowwater.operators.rowwise import mapped_where
from lowwater.plan.plan import Entry, Plan
from lowwater.query.analyzed import Measured
from lowwater.query.logical import Node
from lowwater.query.planner import plan as planned
from lowwater.query.refuse import refuse_number
from lowwater.runtime.graph import LATE, RESULT, Graph, of_query
from lowwater.runtime.ingest import Ingest, Parcel
from lowwater.state.store import Saved

Step = Callable[[pa.Table], pa.Table]
Clock = int | dt.datetime
"""System time: microseconds since the epoch, or a datetime with its time zone."""
BATCH = 10_000
"""Rows of each input in a micro-batch of EXPLAIN ANALYZE."""
EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


@dataclass(frozen=True)
class LocalFrame:
    """A table, or only its schema, and the steps that rows go through where they are read."""

    table: pa.Table
    full: pa.Schema
    """The columns behind all steps, marks included."""
    steps: tuple[Step, ...] = ()
    how = ""

    @property
    def backend(self) -> LocalBackend:
        return LocalBackend()

    @property
    def schema(self) -> pa.Schema:
        return pa.schema([f for f in self.full if f.name != KEEP])

    def with_column(self, name: str, expression: str) -> LocalFrame:
        bound = Expression.of(expression, self.full, zone_of(self.full))

        def step(rows: pa.Table) -> pa.Table:
            new = bound.evaluate(rows)
            at = rows.schema.get_field_index(name)
            return rows.append_column(name, new) if at < 0 else rows.set_column(at, name, new)

        return self._then(step)

    def select(self, columns: Sequence[str]) -> LocalFrame:
        return self._then(lambda rows: rows.select(list(columns)))

    def apply(self, function: Step, schema: pa.Schema) -> LocalFrame:
        return self._then(lambda rows: mapped_where(rows, KEEP, function, schema))

    def _then(self, step: Step) -> LocalFrame:
        return replace(self, full=step(self.full.empty_table()).schema, steps=(*self.steps, step))

    def first_rows(self, n: int) -> pa.Table:
        return self.prepare(self.table.slice(0, n))

    def arrived(self, columns: Sequence[str]) -> pa.Table:
        return self.prepare(self.table).select(list(columns))

    def prepare(self, rows: pa.Table) -> pa.Table:
        """Rows after all steps."""
        for step in self.steps:
            rows = step(rows)
        return rows


def frame(data: Any) -> LocalFrame:
    """A frame of a table of any kind (tables.py), or of a schema alone."""
    table = table_of(data, "The rows of stream()", "a Spark DataFrame, ")
    if KEEP in table.schema.names:
        raise LowwaterError(f"The table has a column {KEEP!r}, which lowwater uses itself; rename it.")
    return LocalFrame(table, table.schema)


def microseconds_of(clock: dt.datetime) -> int:
    if clock.tzinfo is None:
        raise LowwaterError(f"The clock {clock} has no time zone; give one, as in datetime(..., tzinfo=UTC).")
    return (clock - EPOCH) // dt.timedelta(microseconds=1)


@dataclass(repr=False)
class LocalQuery:
    """A running query. `push` is a micro-batch; `advance` and `tick` let time pass; `finish` ends all inputs."""

    plan: Plan
    frames: Sequence[LocalFrame]
    shards: int = 1
    late: bool = True
    strict: bool = True
    """Whether a broken bound on state is an error. Otherwise it is counted in the metrics."""

    def __post_init__(self) -> None:
        self._results: list[list[pa.Table]] = [[] for _ in self.plan.roots]
        self._late_rows: list[list[pa.Table]] = [[] for _ in self.plan.roots]
        self._saved = [Saved() for _ in range(self.plan.stages * self.shards)]
        self._graphs = [self._opened(stage, shard) for stage in range(self.plan.stages) for shard in range(self.shards)]
        self._failed = False

    def __repr__(self) -> str:
        m = self.metrics()
        held = f"{m.state_rows} rows of state; low-watermark {m.low_watermark}"
        return f"<LocalQuery {self.plan.name}: {m.rows} rows read, {m.result_rows} results, {held}>"

    def _opened(self, stage: int, shard: int) -> Graph:
        return Graph(self.plan, stage, shard, self.shards, self._saved[stage * self.shards + shard].open())

    def graph(self, stage: int, shard: int) -> Graph:
        return self._graphs[stage * self.shards + shard]

    def _refuse_failed(self) -> None:
        if self._failed:
            raise LowwaterError(
                f"The query over {self.plan.name!r} has failed in the middle of a batch; start it anew and push its "
                "rows again."
            )

    # -- inputs ----------------------------------------------------------------------------------------------------

    def push(self, rows: Any = None, /, port: int | str = 0, clock: Clock | None = None, **inputs: Any) -> pa.Table:
        """Rows of one input, or of several by name as in push(orders=..., payments=...), as one micro-batch.

        Returns the results that it closes. Rows are an Arrow table, a list of dicts, or a pandas or Polars frame.
        """
        if rows is not None and inputs:
            raise LowwaterError("push() takes the rows of one input, or inputs by name, not both.")
        if rows is None and not inputs:
            raise LowwaterError("push() needs rows; where only time passes, use advance(to=) or tick().")
        return self.push_all({port: rows} if rows is not None else inputs, clock)

    def push_all(self, rows: Mapping[Any, Any], clock: Clock | None = None) -> pa.Table:
        """Rows of several inputs as one micro-batch, by the number or the name of each input."""
        tables = {port: self._rows(port, own) for which, own in rows.items() for port in [self._port(which)]}
        messages = self._no_messages()
        for port, table in tables.items():
            self._ingest(port, table, messages)
        return self._apply(messages, clock, False)

    def _port(self, which: int | str) -> int:
        names = [declared.name for declared in self.plan.inputs]
        if isinstance(which, str):
            if which not in names:
                raise LowwaterError(f"{which!r} is no input of the query; its inputs are {' and '.join(names)}.")
            if names.count(which) > 1:
                raise LowwaterError(f"Several inputs are called {which!r}; name each by stream(..., name=).")
            return names.index(which)
        if not 0 <= which < len(names):
            raise LowwaterError(f"{which} is no input of the query, which has {len(names)}, counted from 0.")
        return which

    def _entries(self, port: int) -> list[tuple[int, Entry]]:
        return [(n, entry) for n, entry in enumerate(self.plan.entries) if entry.input == port]

    def table(self, port: int) -> pa.Table:
        """The table that an input was declared over."""
        return self.frames[self._entries(port)[0][1].frame].table

    def _rows(self, port: int, rows: Any) -> pa.Table:
        return rows_of(rows, self.table(port).schema, f"The rows of {self.plan.inputs[port].name!r}")

    def _no_messages(self) -> list[list[list[bytes]]]:
        """Per stage and shard, a list of messages."""
        return [[[] for _ in range(self.shards)] for _ in range(self.plan.stages)]

    def _ingest(self, port: int, rows: pa.Table, messages: list[list[list[bytes]]]) -> None:
        reading = self._entries(port)
        for number, stage in sorted({(entry.frame, entry.stage) for _, entry in reading}):
            own = [n for n, entry in reading if (entry.frame, entry.stage) == (number, stage)]
            ready = self.frames[number].prepare(rows).combine_chunks()
            for shard, blobs in enumerate(Ingest(self.plan, own, self.shards, self.late).run(ready.to_batches())):
                messages[stage][shard] += blobs

    def advance(self, to: Any, port: int | str | None = None, source: Any = None) -> pa.Table:
        """Time passes without rows: no row below `to`, a value of the progressing attribute, follows.

        Moves all inputs, one input (`port`, by number or name), or one source of an input. A low-watermark that is
        further already stays where it is. Returns the results that this closes.
        """
        ports = range(len(self.plan.inputs)) if port is None else [self._port(port)]
        messages = self._no_messages()
        for number in ports:
            for n, entry in self._entries(number):
                if entry.learns:
                    promise = self._promise(entry, to, source)
                    tables = self.plan.layout(entry).open(self.shards, self.late, 0).finish()
                    for shard, own in enumerate(tables):
                        messages[entry.stage][shard].append(Parcel(n, facts=promise, tables=own).packed())
        return self._apply(messages, None, False)

    def _promise(self, entry: Entry, to: Any, source: Any) -> Facts:
        declared = self.plan.inputs[entry.input]
        column = entry.schema.field(declared.time).type
        if isinstance(to, dt.datetime) and to.tzinfo is None and pa.types.is_timestamp(column) and column.tz:
            raise LowwaterError(f"The time {to} has no time zone, but {declared.time} has; give one, as in tzinfo=UTC.")
        least = Ticks(column).point(to, "advance(to=)")
        names = whole(self.metrics().by_source.by_name[declared.name].column("source"))
        if source is not None:
            type = entry.schema.field(declared.source).type if declared.source else pa.string()
            (name,) = declared_names([source], type)
            if name not in names.to_pylist():
                known = ", ".join(names.to_pylist()) or "none yet"
                raise LowwaterError(f"{name!r} is no known source of {declared.name!r}: {known}.")
            names = pa.array([name])
        if not len(names):
            raise LowwaterError(
                f"No source of {declared.name!r} is known yet, so none can advance; declare them in sources=."
            )
        none = np.empty(0, np.int64)
        return observe(declared.policy, none, none, names, np.full(len(names), least))

    def tick(self, clock: Clock) -> pa.Table:
        """System time passes without data: a datetime, or microseconds since the epoch."""
        return self._apply(None, clock, False)

    def finish(self) -> pa.Table:
        """The end of all inputs: the all-matching punctuation."""
        return self._apply(None, None, True)

    # -- a micro-batch ---------------------------------------------------------------------------------------------

    def _apply(self, messages: list[list[list[bytes]]] | None, clock: Clock | None, end: bool) -> pa.Table:
        self._refuse_failed()
        now = microseconds_of(clock) if isinstance(clock, dt.datetime) else clock
        came = messages or self._no_messages()
        closed: list[list[pa.Table]] = [[] for _ in self.plan.roots]
        outputs = {of_query(RESULT, query): tables.append for query, tables in enumerate(closed)}
        outputs |= {of_query(LATE, query): tables.append for query, tables in enumerate(self._late_rows)}
        self._failed = True  # until this is through: half a batch in some shards is no state to go on from
        for stage in range(self.plan.stages):
            for shard in range(self.shards):
                graph = self.graph(stage, shard)
                runs = [graph.run_of(number, blob) for number, blob in enumerate(came[stage][shard])]
                crossing = graph.apply(runs, lambda kind, rows: outputs[kind](rows), now, end)
                for later, shards in crossing.items():
                    for to, blobs in enumerate(shards):
                        came[later][to] += blobs
                excess = graph.excess() if self.strict else None
                assert excess is None, excess
        self._failed = False
        for known, new in zip(self._results, closed, strict=True):
            known += new
        return self._of_each(self._together(closed))

    def _together(self, results: Sequence[Sequence[pa.Table]]) -> list[pa.Table]:
        """The results of each query as one table."""
        found = []
        for query, tables in zip(self.plan.queries, results, strict=True):
            whole = pa.concat_tables([query.result_schema.empty_table(), *tables]).combine_chunks()
            found.append(query.in_order(whole))
        return found

    def _of_each(self, tables: Sequence[pa.Table]) -> Any:
        """A table per query, by its name; of a plan with one query that table itself."""
        names = [root.name for root in self.plan.roots]
        return tables[0] if len(tables) == 1 else dict(zip(names, tables, strict=True))

    @property
    def results(self) -> list[pa.Table]:
        """The results of each micro-batch; of a plan with one query."""
        (tables,) = self._results
        return tables

    def result(self) -> pa.Table:
        """All results so far; of several queries a table of each by its name."""
        return self._of_each(self._together(self._results))

    def late_output(self) -> pa.Table:
        """All late rows so far, with the reason; of several queries a table of each by its name."""
        pairs = zip(self.plan.queries, self._late_rows, strict=True)
        return self._of_each([pa.concat_tables([of.late_schema.empty_table(), *tables]) for of, tables in pairs])

    def metrics(self, query: str | None = None) -> Metrics:
        """The metrics of all that runs here, or of one of several queries."""
        over = [() if self.strict else graph.excesses() for graph in self._graphs]
        each = [graph.metrics(own) for graph, own in zip(self._graphs, over, strict=True)]
        for graph in self._graphs:  # a state that is only measured is not kept a second time, as bytes
            graph.store.forget()
        total = Metrics.total(each, [root.operator for root in self.plan.roots])
        return total if query is None else self.plan.metrics_of(self.plan.number_of(query), total)

    def restart(self, again: Node | None = None) -> None:
        """Stops and starts from the committed state through bytes, as a crash and restart would.

        `again` is the same query built anew, as a new process builds it: what its functions kept in Python is gone.
        """
        self._refuse_failed()
        for saved, graph in zip(self._saved, self._graphs, strict=True):
            saved.apply(graph.store.commit())
        if again is not None:
            found = planned(again, self.late)
            self.plan, self.frames = found.plan, found.frames  # type: ignore[assignment]
        self._graphs = [self._opened(graph.stage, graph.number) for graph in self._graphs]
        for graph in self._graphs:
            graph.wake()


class LocalBackend:
    """Runs plans in this process."""

    name = "Arrow tables"
    outside = False
    exact_names = False

    def type_of(self, expression: str, schema: pa.Schema, role: str) -> pa.DataType:
        return Expression.of(expression, schema, zone_of(schema), role).type

    def text_of(self, column: object, schema: pa.Schema, role: str) -> str:
        raise LowwaterError(f"{role} over tables takes Spark SQL as text, as in 'n > 3', not {type(column).__name__}.")

    def call_of(self, column: object) -> str | None:
        return None

    def collect(self, node: Node, batch_rows: int | None = None, shards: int = 1) -> pa.Table:
        query = self.start(node, shards=shards, late=False)
        for port in range(len(query.plan.inputs)):
            table = query.table(port)
            step = batch_rows or max(1, table.num_rows)
            for at in range(0, table.num_rows, step):
                query.push(table.slice(at, step), port)
        query.finish()
        return query.result()

    def analyze(self, node: Node, seconds: float | None = None, batch_rows: int = BATCH, shards: int = 1) -> Measured:
        """Runs a query over the rows of its tables, or over as many as come in so many seconds, and measures it."""
        query = self.start(node, shards=shards, late=False)
        query.strict = False
        run, begun = Measured(), monotonic()
        tables = [query.table(port) for port in range(len(query.plan.inputs))]
        before: dict[int, int] = {}

        def note() -> None:
            metrics = query.metrics()
            each = tuple(replace(o, nanoseconds=o.nanoseconds - before.get(o.number, 0)) for o in metrics.operators)
            before.update({one.number: one.nanoseconds for one in metrics.operators})
            run.note(replace(metrics, operators=each))

        for at in range(0, max((table.num_rows for table in tables), default=0), batch_rows):
            if seconds is not None and monotonic() - begun > seconds:
                break
            slices = {port: table.slice(at, batch_rows) for port, table in enumerate(tables)}
            query.push_all({port: rows for port, rows in slices.items() if rows.num_rows})
            note()
        query.finish()
        note()
        run.seconds = monotonic() - begun
        return run

    def start(self, node: Node, shards: int = 1, late: bool = True, **options: Any) -> LocalQuery:
        if options:
            given = ", ".join(f"{name}=" for name in options)
            raise LowwaterError(
                f"start() over tables takes shards= and late=, not {given}; it runs here, takes rows by push() and "
                "gives results by result()."
            )
        refuse_number(shards, "shards")
        found = planned(node, late)
        return LocalQuery(found.plan, found.frames, shards, late)  # type: ignore[arg-type]

    def to_spark(self, node: Node, **options: Any) -> Any:
        raise LowwaterError("This stream is an Arrow table; to run on Spark, give stream() a Spark DataFrame.")
