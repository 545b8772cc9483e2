"""From a plan of either kind to what runs it: ingest where rows are read, a shard where state is kept."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Protocol

import pyarrow as pa

from lowwater.backends.ingest import Ingest
from lowwater.backends.join_ingest import JoinIngest
from lowwater.backends.join_shard import JoinShard
from lowwater.backends.shard import Output, Shard
from lowwater.metrics import Metrics
from lowwater.operators.base import Load, Snapshot
from lowwater.query.join_plan import JoinPlan
from lowwater.query.plan import Plan, Planned


class Ingesting(Protocol):
    """One run of one input: batches of rows in, a packed message a shard out."""

    def run(self, batches: Iterable[pa.RecordBatch]) -> list[bytes]: ...


class Running(Protocol):
    """A shard: messages of a micro-batch in, results out; state given out and taken back."""

    number: int
    shards: int

    def run_of(self, data: bytes) -> Any: ...

    def apply(
        self, runs: Sequence[Any], clock: int | None = None, end: bool = False, started: str | None = None
    ) -> Output: ...

    def wake(self) -> None: ...

    def snapshot(self) -> Snapshot: ...

    def restore(self, head: dict[str, Any], load: Load) -> None: ...

    def decode(self, tables: dict[str, pa.Table]) -> object: ...

    def metrics(self) -> Metrics: ...


def open_ingest(plan: Planned, port: int, shards: int, late: bool) -> Ingesting:
    if isinstance(plan, JoinPlan):
        return JoinIngest(plan, port, shards, late)
    assert isinstance(plan, Plan)
    return Ingest(plan, port, shards, late)


def open_shard(plan: Planned, number: int, shards: int) -> Running:
    if isinstance(plan, JoinPlan):
        return JoinShard(plan, number, shards)
    assert isinstance(plan, Plan)
    return Shard(plan, number, shards)
