"""The local backend: one process, deterministic, a clock that only moves when told. Tests, docs and figures use it.

It runs the same ingest and the same shards as Spark does, without Spark: a batch pushed is a micro-batch.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lowwater.backends.opening import Running, open_ingest, open_shard
from lowwater.errors import LowwaterError
from lowwater.expressions import Expression, zone_of
from lowwater.metrics import Metrics
from lowwater.operators.base import Batch
from lowwater.operators.stateless import Apply, Project, applied
from lowwater.query.plan import Planned
from lowwater.state.segments import Segment, Stored, unpack

Step = Callable[[pa.Table], pa.Table]
KEEP = "__lw_keep"


@dataclass(frozen=True)
class LocalFrame:
    """A table, or only its schema, and the steps that rows go through before the window."""

    table: pa.Table
    schema: pa.Schema
    steps: tuple[Step, ...] = ()
    keep: str | None = None

    @property
    def backend(self) -> LocalBackend:
        return LocalBackend()

    def where(self, condition: str) -> LocalFrame:
        mask = Expression.condition(condition, self.schema, zone_of(self.schema), "where()")

        def step(rows: pa.Table) -> pa.Table:
            at = rows.schema.get_field_index(KEEP)
            kept = pa.array(np.asarray(mask.evaluate(rows, _kept(rows)).fill_null(False), np.bool_))
            return rows.append_column(KEEP, kept) if at < 0 else rows.set_column(at, KEEP, kept)

        return LocalFrame(self.table, self.schema, (*self.steps, step), KEEP)

    def with_column(self, name: str, expression: str) -> LocalFrame:
        value = Expression.of(expression, self.schema, zone_of(self.schema), "with_column()")

        def step(rows: pa.Table) -> pa.Table:
            new = value.evaluate(rows, _kept(rows))
            at = rows.schema.get_field_index(name)
            return rows.append_column(name, new) if at < 0 else rows.set_column(at, name, new)

        changed = step(self._sample()).schema
        return LocalFrame(self.table, _visible(changed), (*self.steps, step), self.keep)

    def select(self, columns: Sequence[str]) -> LocalFrame:
        carried = [*columns, *([self.keep] if self.keep else [])]
        project = Project(carried)

        def step(rows: pa.Table) -> pa.Table:
            return _rows(project.on_batch(0, Batch(rows)))

        return LocalFrame(
            self.table, pa.schema([self.schema.field(c) for c in columns]), (*self.steps, step), self.keep
        )

    def apply(self, function: Step, schema: pa.Schema) -> LocalFrame:
        def visible(rows: pa.Table) -> pa.Table:
            return applied(rows, KEEP, function, schema)

        apply = Apply(visible, schema.names)

        def step(rows: pa.Table) -> pa.Table:
            return _rows(apply.on_batch(0, Batch(rows)))

        return LocalFrame(self.table, schema, (*self.steps, step), self.keep)

    def prepare(self, rows: pa.Table) -> pa.Table:
        """Rows after all steps."""
        for step in self.steps:
            rows = step(rows)
        return rows

    def _sample(self) -> pa.Table:
        return self.prepare(self.table.slice(0, 0))


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


def _rows(messages: Sequence[Any]) -> pa.Table:
    return messages[0].rows


def _visible(schema: pa.Schema) -> pa.Schema:
    return pa.schema([f for f in schema if f.name != KEEP])


def _kept(rows: pa.Table) -> npt.NDArray[np.bool_] | None:
    """The rows that the filters so far have kept; None if there was none. Expressions are asked for no others."""
    return rows.column(KEEP).to_numpy() if KEEP in rows.column_names else None


@dataclass
class LocalQuery:
    """A running query. `push` is a micro-batch of one input; `tick` lets time pass; `finish` ends all inputs."""

    plan: Planned
    frames: Sequence[LocalFrame]
    shards: int = 1
    late: bool = True
    results: list[pa.Table] = field(default_factory=list)
    late_rows: list[pa.Table] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._shards = [open_shard(self.plan, i, self.shards) for i in range(self.shards)]
        self._failed = False

    def _refuse_failed(self) -> None:
        if self._failed:
            raise LowwaterError(
                f"The query over {self.plan.name!r} has failed in the middle of a batch; start it anew and push its "
                "rows again."
            )

    def push(self, rows: pa.Table | list[dict[str, Any]], port: int = 0, clock: int | None = None) -> pa.Table:
        """Rows of one input as a micro-batch; returns the results that it closes."""
        if isinstance(rows, list):
            rows = pa.Table.from_pylist(rows, schema=self.frames[port].table.schema)
        ready = self.frames[port].prepare(rows).combine_chunks()
        messages = open_ingest(self.plan, port, self.shards, self.late).run(ready.to_batches())
        return self._apply(messages, clock, False)

    def tick(self, clock: int) -> pa.Table:
        """System time in microseconds passes without data."""
        return self._apply([], clock, False)

    def finish(self) -> pa.Table:
        """The end of all inputs: the all-matching punctuation."""
        return self._apply([], None, True)

    def _apply(self, messages: list[bytes], clock: int | None, end: bool) -> pa.Table:
        self._refuse_failed()
        closed: list[pa.Table] = []
        self._failed = True  # until this is through: half a batch in some shards is no state to go on from
        for i, shard in enumerate(self._shards):
            runs = [shard.run_of(messages[i])] if messages else []
            out = shard.apply(runs, clock, end)
            closed += out.results
            self.late_rows += out.late
        self._failed = False
        self.results += closed
        return self._together(closed)

    def _together(self, tables: list[pa.Table]) -> pa.Table:
        schema = self.plan.result_schema
        return pa.concat_tables([schema.empty_table(), *tables]).combine_chunks().sort_by(self.plan.order)

    def result(self) -> pa.Table:
        """All results so far."""
        return self._together(self.results)

    def late_output(self) -> pa.Table:
        """All late rows so far, with the reason."""
        schema = self.plan.late_schema
        return pa.concat_tables([schema.empty_table(), *(t.select(schema.names).cast(schema) for t in self.late_rows)])

    def metrics(self) -> Metrics:
        return Metrics.total([shard.metrics() for shard in self._shards])

    def restart(self) -> None:
        """Stops and starts from a snapshot through bytes, as a crash and restart would."""
        self._refuse_failed()
        self._shards = [_revived(self.plan, shard) for shard in self._shards]


def _revived(plan: Planned, shard: Running) -> Running:
    saved = shard.snapshot()
    stored = {id: segment.data for id, segment in saved.segments.items()}
    head = json.loads(json.dumps(saved.head))
    fresh = open_shard(plan, shard.number, shard.shards)

    def load(id: str) -> Segment[Any]:
        data = stored[id]
        assert data is not None
        return Stored(id, data, len(data), lambda: fresh.decode(unpack(data)))

    fresh.restore(head, load)
    fresh.wake()
    return fresh


class LocalBackend:
    """Runs plans in this process."""

    def collect(
        self, plan: Planned, frames: Sequence[LocalFrame], batch_rows: int | None = None, shards: int = 1
    ) -> pa.Table:
        query = self.start(plan, frames, shards=shards)
        for port, of_port in enumerate(frames):
            table = of_port.table
            step = batch_rows or max(1, table.num_rows)
            for at in range(0, table.num_rows, step):
                query.push(table.slice(at, step), port)
        query.finish()
        return query.result()

    def start(self, plan: Planned, frames: Sequence[LocalFrame], shards: int = 1, late: bool = True) -> LocalQuery:
        return LocalQuery(plan, frames, shards, late)

    def to_spark(self, plan: Planned, frames: Sequence[LocalFrame], **options: Any) -> Any:
        raise LowwaterError("This stream is an Arrow table; to run on Spark, give stream() a Spark DataFrame.")
