"""Ingest: what happens to rows where they are read, without state, one run of rows at a time.

Of the rows of a run that go on (arrivals.py) ingest makes partials by (group, pane), and packs one message a shard.
Every shard gets the facts of every run; rows and partials go to the shard of their group.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lowwater.aggregates.grouped import Grouped, gather, merge, regroup, split, without_columns
from lowwater.aggregates.sorting import parted
from lowwater.backends.arrivals import Arrivals, conformed, facts_of, facts_table
from lowwater.model.progress import Facts
from lowwater.model.routing import route
from lowwater.operators.bucket import ROW, Bucket
from lowwater.operators.sub_aggregation import Lazy, SubAggregation
from lowwater.query.plan import Plan
from lowwater.state.segments import pack, unpack

_MERGE_AFTER = 1 << 18
"""Partials pending before they are merged, or packed as they are: bounds the memory of a long run."""


@dataclass(frozen=True)
class Run:
    """What one run sends to one shard."""

    port: int
    facts: Facts
    grouped: Grouped | None
    rows: pa.Table | None
    nulls: pa.Table | None
    counted: tuple[int, int, int]
    """Rows read, rows without a progress value and punctuations, of the whole run (the same in every shard)."""
    span: tuple[int, int] | None
    """The smallest and largest time of the rows that the select let through, of the whole run."""
    selected: int = 0
    """How many rows the select let through, of the whole run."""
    parts: Sequence[bytes] = ()
    """On the way to the shard: packed partials as the low-level table evicted them; `grouped` on arrival."""


class Ingest:
    """One run of one input. `late` asks for the rows themselves, so that late ones can be handed out."""

    def __init__(self, plan: Plan, port: int, shards: int, late: bool) -> None:
        self._arrivals = Arrivals(plan.inputs[port], plan.what.schema, plan.what.time)
        self._what = plan.what
        self._plan = plan
        self._port = port
        self._shards = shards
        self._late = late
        self._bucket = plan.reducer()
        self._parts: list[Grouped] = []
        self._packed: list[list[bytes]] = [[] for _ in range(shards)]
        self._table: SubAggregation | None = None
        if plan.table is not None and not plan.sends_rows:  # a run is short: nothing in the table gets too late
            self._table = SubAggregation(self._bucket, plan.table, Lazy(windows=None), by_slot=True)
        self._rows: list[pa.Table] = []

    def run(self, batches: Iterable[pa.RecordBatch]) -> list[bytes]:
        """The packed message of every shard, or nothing if there was no row."""
        with self._plan.speaking():
            for batch in batches:
                if batch.num_rows:
                    self._take(pa.Table.from_batches([conformed(batch, self._what.schema)]))
            return self._messages() if self._arrivals.read else []

    def _take(self, arrived: pa.Table) -> None:
        before = self._arrivals.selected
        found = self._arrivals.take(arrived)
        if found is None:
            return
        table, ticks = found
        if self._plan.numbered:
            table = table.append_column(ROW, pa.array(np.arange(table.num_rows) + before))
        if self._plan.sends_rows or self._late:
            self._rows.append(self._arrivals.as_given(table, ROW))
        if self._table is not None:
            self._parts.append(self._table.take(table, ticks).partials)
            if sum(len(part) for part in self._parts) > _MERGE_AFTER:
                self._pack()
        elif not self._plan.sends_rows:
            self._parts.append(self._bucket.reduce(table, ticks))
            if len(self._parts) > 1 and sum(len(part) for part in self._parts) > _MERGE_AFTER:
                self._parts = [merge(self._parts, self._bucket.algebras)]

    def _pack(self) -> None:
        """Packs what the low-level table has evicted as it is: the shards merge it, so the source need not hold it."""
        whole = gather(self._parts)
        self._parts = []
        for packed, part in zip(self._packed, split(whole, route(whole.keys, self._shards), self._shards), strict=True):
            if len(part):
                packed.append(pack(part.tables(self._bucket.algebras)))

    def _messages(self) -> list[bytes]:
        shards = range(self._shards)
        parts: list[Grouped | None] = [None for _ in shards]
        rows: list[pa.Table | None] = [None for _ in shards]
        if self._table is not None:
            self._parts.append(self._table.flush())
            self._pack()
        elif self._parts:
            whole = merge(self._parts, self._bucket.algebras)
            parts = list(split(whole, route(whole.keys, self._shards), self._shards))
        if self._rows:
            table = pa.concat_tables(self._rows)
            keys = table.select(list(self._what.group_by)) if self._what.group_by else without_columns(table.num_rows)
            rows = list(parted(table, route(keys, self._shards), self._shards))
        nulls = self._arrivals.nulls
        counted = self._arrivals.counted
        facts = self._arrivals.facts()
        first = nulls if self._late else None  # rows that belong to no group go to the first shard
        return [
            encode(
                Run(
                    self._port,
                    facts,
                    parts[i],
                    rows[i],
                    None if i else first,
                    counted,
                    self._arrivals.span,
                    self._arrivals.selected,
                    self._packed[i],
                ),
                self._bucket,
            )
            for i in shards
        ]


def encode(run: Run, bucket: Bucket) -> bytes:
    first, last = run.span or (None, None)
    head = pa.table(
        {
            "port": [run.port],
            "read": [run.counted[0]],
            "nulls": [run.counted[1]],
            "punctuations": [run.counted[2]],
            "selected": [run.selected],
            "first": pa.array([first], pa.int64()),
            "last": pa.array([last], pa.int64()),
        }
    )
    tables = {"head": head, "facts": facts_table(run.facts)}
    if run.grouped is not None and len(run.grouped):
        tables |= run.grouped.tables(bucket.algebras)
    if run.parts:
        tables["parts"] = pa.table({"part": pa.array(run.parts, pa.large_binary())})
    if run.rows is not None and run.rows.num_rows:
        tables["rows"] = run.rows
    if run.nulls is not None:
        tables["nulls"] = run.nulls
    return pack(tables)


def decode(data: bytes, plan: Plan, bucket: Bucket) -> Run:
    tables = unpack(data)
    head = tables["head"].to_pylist()[0]
    return Run(
        head["port"],
        facts_of(tables["facts"], plan.inputs[head["port"]].policy),
        _partials(tables, bucket),
        tables.get("rows"),
        tables.get("nulls"),
        (head["read"], head["nulls"], head["punctuations"]),
        None if head["first"] is None else (head["first"], head["last"]),
        head["selected"],
    )


def _partials(tables: dict[str, pa.Table], bucket: Bucket) -> Grouped | None:
    """The partials of a run, distinct and sorted."""
    if "partials" in tables:
        return Grouped.of_tables(tables, bucket.algebras)
    if "parts" not in tables:
        return None
    packed = [unpack(part.as_buffer()) for part in tables["parts"].column("part")]
    rows = gather([Grouped.of_tables(part, bucket.algebras) for part in packed])
    return regroup(rows.keys, rows.group, rows.slot, rows.partials, bucket.algebras)
