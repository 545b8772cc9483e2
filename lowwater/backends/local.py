"""The local backend: one process, deterministic, a clock that only moves when told. Tests, docs and figures use it.

It runs the same ingest and the same shards as Spark does, without Spark: a batch pushed is a micro-batch, and its
stages run one after the other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from lowwater.errors import LowwaterError
from lowwater.expressions import Expression, zone_of
from lowwater.metrics import Metrics
from lowwater.model.columns import KEEP
from lowwater.operators.rowwise import mapped_where
from lowwater.plan.plan import Plan
from lowwater.query.logical import Node
from lowwater.query.planner import plan as planned
from lowwater.runtime.graph import LATE, RESULT, Graph
from lowwater.runtime.ingest import Ingest
from lowwater.state.store import Saved

Step = Callable[[pa.Table], pa.Table]


@dataclass(frozen=True)
class LocalFrame:
    """A table, or only its schema, and the steps that rows go through where they are read."""

    table: pa.Table
    full: pa.Schema
    """The columns behind all steps, marks included."""
    steps: tuple[Step, ...] = ()

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

    def prepare(self, rows: pa.Table) -> pa.Table:
        """Rows after all steps."""
        for step in self.steps:
            rows = step(rows)
        return rows


def frame(data: Any) -> LocalFrame:
    """A frame of an Arrow table, record batches, or a list of dicts."""
    if isinstance(data, pa.RecordBatch):
        data = pa.Table.from_batches([data])
    if isinstance(data, list):
        data = pa.Table.from_pylist(data)
    if not isinstance(data, pa.Table):
        raise LowwaterError(f"stream() takes a Spark DataFrame or an Arrow table, not {type(data).__name__}.")
    if KEEP in data.schema.names:
        raise LowwaterError(f"The table has a column {KEEP!r}, which lowwater uses itself; rename it.")
    return LocalFrame(data, data.schema)


@dataclass
class LocalQuery:
    """A running query. `push` is a micro-batch of one input; `tick` lets time pass; `finish` ends all inputs."""

    plan: Plan
    frames: Sequence[LocalFrame]
    shards: int = 1
    late: bool = True
    results: list[pa.Table] = field(default_factory=list)
    late_rows: list[pa.Table] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._saved = [Saved() for _ in range(self.plan.stages * self.shards)]
        self._graphs = [self._opened(stage, shard) for stage in range(self.plan.stages) for shard in range(self.shards)]
        self._failed = False

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

    def push(self, rows: pa.Table | list[dict[str, Any]], port: int = 0, clock: int | None = None) -> pa.Table:
        """Rows of one input as a micro-batch; returns the results that it closes."""
        reading = [n for n, entry in enumerate(self.plan.entries) if entry.input == port]
        if isinstance(rows, list):
            rows = pa.Table.from_pylist(rows, schema=self.frames[self.plan.entries[reading[0]].frame].table.schema)
        messages: list[list[list[bytes]]] = [[[] for _ in range(self.shards)] for _ in range(self.plan.stages)]
        read = {(self.plan.entries[n].frame, self.plan.entries[n].stage) for n in reading}
        for number, stage in sorted(read):
            own = [n for n in reading if (self.plan.entries[n].frame, self.plan.entries[n].stage) == (number, stage)]
            ready = self.frames[number].prepare(rows).combine_chunks()
            for shard, blobs in enumerate(Ingest(self.plan, own, self.shards, self.late).run(ready.to_batches())):
                messages[stage][shard] += blobs
        return self._apply(messages, clock, False)

    def tick(self, clock: int) -> pa.Table:
        """System time in microseconds passes without data."""
        return self._apply(None, clock, False)

    def finish(self) -> pa.Table:
        """The end of all inputs: the all-matching punctuation."""
        return self._apply(None, None, True)

    def _apply(self, messages: list[list[list[bytes]]] | None, clock: int | None, end: bool) -> pa.Table:
        self._refuse_failed()
        came = messages or [[[] for _ in range(self.shards)] for _ in range(self.plan.stages)]
        closed: list[pa.Table] = []
        outputs = {RESULT: closed.append, LATE: self.late_rows.append}
        self._failed = True  # until this is through: half a batch in some shards is no state to go on from
        for stage in range(self.plan.stages):
            for shard in range(self.shards):
                graph = self.graph(stage, shard)
                runs = [graph.run_of(number, blob) for number, blob in enumerate(came[stage][shard])]
                crossing = graph.apply(runs, lambda kind, rows: outputs[kind](rows), clock, end)
                for later, shards in crossing.items():
                    for to, blobs in enumerate(shards):
                        came[later][to] += blobs
                excess = graph.excess()
                assert excess is None, excess
        self._failed = False
        self.results += closed
        return self._together(closed)

    def _together(self, tables: list[pa.Table]) -> pa.Table:
        schema = self.plan.result_schema
        together = pa.concat_tables([schema.empty_table(), *tables]).combine_chunks()
        return self.plan.in_order(together)

    def result(self) -> pa.Table:
        """All results so far."""
        return self._together(self.results)

    def late_output(self) -> pa.Table:
        """All late rows so far, with the reason."""
        return pa.concat_tables([self.plan.late_schema.empty_table(), *self.late_rows])

    def metrics(self) -> Metrics:
        return Metrics.total([graph.metrics() for graph in self._graphs], self.plan.root)

    def restart(self) -> None:
        """Stops and starts from the committed state through bytes, as a crash and restart would."""
        self._refuse_failed()
        for saved, graph in zip(self._saved, self._graphs, strict=True):
            saved.apply(graph.store.commit())
        self._graphs = [self._opened(graph.stage, graph.number) for graph in self._graphs]
        for graph in self._graphs:
            graph.wake()


class LocalBackend:
    """Runs plans in this process."""

    name = "Arrow tables"
    outside = False

    def type_of(self, expression: str, schema: pa.Schema, role: str) -> pa.DataType:
        return Expression.of(expression, schema, zone_of(schema), role).type

    def collect(self, node: Node, batch_rows: int | None = None, shards: int = 1) -> pa.Table:
        query = self.start(node, shards=shards, late=False)
        for port in range(len(query.plan.inputs)):
            entry = next(e for e in query.plan.entries if e.input == port)
            table = query.frames[entry.frame].table
            step = batch_rows or max(1, table.num_rows)
            for at in range(0, table.num_rows, step):
                query.push(table.slice(at, step), port)
        query.finish()
        return query.result()

    def start(self, node: Node, shards: int = 1, late: bool = True) -> LocalQuery:
        found = planned(node, late)
        return LocalQuery(found.plan, found.frames, shards, late)  # type: ignore[arg-type]

    def to_spark(self, node: Node, **options: Any) -> Any:
        raise LowwaterError("This stream is an Arrow table; to run on Spark, give stream() a Spark DataFrame.")
