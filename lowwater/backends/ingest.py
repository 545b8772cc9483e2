"""Ingest: what happens to rows where they are read, without state, one run of rows at a time.

A run is one partition of one micro-batch (or one batch given to the local backend). Ingest takes out rows that have no
progress value, learns the facts of progress from all others, applies the select, reduces what is left to partials
by (group, pane), and packs one message a shard. Every shard gets the facts of every run; rows and partials go to
the shard of their group. The order of rows within a run is the order of arrival.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lowwater.aggregates.grouped import Grouped, factorise, gather, merge, regroup, split, without_columns
from lowwater.model.progress import Facts, Progress, observe
from lowwater.model.routing import route
from lowwater.model.ticks import END, NEVER
from lowwater.operators.bucket import ROW, Bucket
from lowwater.operators.sub_aggregation import Lazy, SubAggregation
from lowwater.query.plan import Input, Plan
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
    counted: tuple[int, int]
    """Rows read and rows without a progress value, of the whole run (the same in every shard)."""
    span: tuple[int, int] | None
    """The smallest and largest time of the rows that the select let through, of the whole run."""
    selected: int = 0
    """How many rows the select let through, of the whole run."""
    parts: Sequence[bytes] = ()
    """On the way to the shard: packed partials as the low-level table evicted them; `grouped` on arrival."""


class Ingest:
    """One run of one input. `late` asks for the rows themselves, so that late ones can be handed out."""

    def __init__(self, plan: Plan, port: int, shards: int, late: bool) -> None:
        self._input: Input = plan.inputs[port]
        self._what = plan.what
        self._plan = plan
        self._port = port
        self._shards = shards
        self._late = late
        self._bucket = plan.reducer()
        self._progress = Progress(self._input.policy, run=True)
        self._parts: list[Grouped] = []
        self._packed: list[list[bytes]] = [[] for _ in range(shards)]
        self._table: SubAggregation | None = None
        if plan.table is not None and not plan.sends_rows:  # a run is short: nothing in the table gets too late
            self._table = SubAggregation(self._bucket, plan.table, Lazy(windows=None), by_slot=True)
        self._rows: list[pa.Table] = []
        self._nulls: list[pa.Table] = []
        self._read = 0
        self._selected = 0
        self._span: tuple[int, int] | None = None

    def run(self, batches: Iterable[pa.RecordBatch]) -> list[bytes]:
        """The packed message of every shard, or nothing if there was no row."""
        with self._plan.speaking():
            for batch in batches:
                if batch.num_rows:
                    self._take(pa.Table.from_batches([conformed(batch, self._what.schema)]))
            return self._messages() if self._read else []

    def _take(self, table: pa.Table) -> None:
        self._read += table.num_rows
        time = table.column(self._what.time)
        marks = self._input.punctuation
        is_mark = None if marks is None else pc.fill_null(table.column(marks.when), False)
        missing = pc.is_null(time) if is_mark is None else pc.and_(pc.is_null(time), pc.invert(is_mark))
        if time.null_count and pc.any(missing).as_py():
            self._nulls.append(self._as_given(self._let_through(table.filter(missing))))
        present = pc.is_valid(time) if time.null_count else None
        if is_mark is not None:
            self._promise(table.filter(is_mark))
            rows = pc.invert(is_mark)
            present = rows if present is None else pc.and_(rows, present)
        if present is not None:
            table = table.filter(present)
        if not table.num_rows:
            return
        ticks = self._bucket.ticks(table)
        source, names = self._sources(table)
        self._progress.learn(observe(self._input.policy, ticks, source, names, before=self._progress.reached(names)))
        table = self._let_through(table)
        if not table.num_rows:
            return
        ticks = ticks if len(ticks) == table.num_rows else self._bucket.ticks(table)
        first, last = self._span or (int(ticks[0]), int(ticks[0]))
        self._span = (min(first, int(ticks.min())), max(last, int(ticks.max())))
        if self._plan.numbered:
            table = table.append_column(ROW, pa.array(np.arange(table.num_rows) + self._selected))
        self._selected += table.num_rows
        if self._plan.sends_rows or self._late:
            self._rows.append(self._as_given(table))
        if self._table is not None:
            self._parts.append(self._table.take(table, ticks).partials)
            if sum(len(part) for part in self._parts) > _MERGE_AFTER:
                self._pack()
        elif not self._plan.sends_rows:
            self._parts.append(self._bucket.reduce(table, ticks))
            if len(self._parts) > 1 and sum(len(part) for part in self._parts) > _MERGE_AFTER:
                self._parts = [merge(self._parts, self._bucket.algebras)]

    def _let_through(self, table: pa.Table) -> pa.Table:
        """The rows that the select lets through."""
        return table if self._input.keep is None else table.filter(pc.fill_null(table.column(self._input.keep), False))

    def _sources(self, table: pa.Table) -> tuple[npt.NDArray[np.int64], list[str]]:
        if self._input.source is None:
            return np.zeros(table.num_rows, np.int64), [self._input.name]
        code, distinct = factorise(table.select([self._input.source]))
        return code, ["<null>" if value is None else str(value) for value in distinct.column(0).to_pylist()]

    def _promise(self, marks: pa.Table) -> None:
        """Punctuations in the data: the furthest promise of each source in this run."""
        assert self._input.punctuation is not None
        marks = marks.filter(pc.is_valid(marks.column(self._input.punctuation.upto)))
        if not marks.num_rows:
            return
        upto = self._what.ticks.encode(pa.concat_arrays(marks.column(self._input.punctuation.upto).chunks))
        source, names = self._sources(marks)
        promised = np.full(len(names), NEVER)
        beyond = upto >= -NEVER  # a promise of all values: the source has ended
        np.maximum.at(
            promised, source, np.where(beyond, END, np.minimum(upto, -NEVER) + self._input.punctuation.closed)
        )
        none = np.empty(0, np.int64)
        self._progress.learn(observe(self._input.policy, none, none, names, promised))

    def _as_given(self, table: pa.Table) -> pa.Table:
        """The user's columns in the order of the plan: inputs that are melded may have them in another order."""
        return table.select([name for name in (*self._what.schema.names, ROW) if name in table.column_names])

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
            of_row = route(keys, self._shards)
            rows = [table.filter(pa.array(of_row == shard)) for shard in shards]
        nulls = pa.concat_tables(self._nulls) if self._nulls else None
        counted = (self._read, nulls.num_rows if nulls is not None else 0)
        facts = self._progress.facts()
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
                    self._span,
                    self._selected,
                    self._packed[i],
                ),
                self._bucket,
            )
            for i in shards
        ]


def encode(run: Run, bucket: Bucket) -> bytes:
    facts = run.facts
    memory = (
        pa.FixedSizeListArray.from_arrays(pa.array(facts.memory.ravel()), max(1, facts.memory.shape[1]))
        if facts.memory.size
        else None
    )
    columns = {
        "source": pa.array(facts.source, pa.string()),
        "rows": facts.rows,
        "least": facts.least,
        "most": facts.most,
        "promised": facts.promised,
    }
    if memory is not None:
        columns["memory"] = memory
    first, last = run.span or (None, None)
    head = pa.table(
        {
            "port": [run.port],
            "read": [run.counted[0]],
            "nulls": [run.counted[1]],
            "selected": [run.selected],
            "first": pa.array([first], pa.int64()),
            "last": pa.array([last], pa.int64()),
        }
    )
    tables = {"head": head, "facts": pa.table(columns)}
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
    head, facts = tables["head"].to_pylist()[0], tables["facts"]
    numbers = {name: facts.column(name).to_numpy() for name in ("rows", "least", "most", "promised")}
    memory = plan.inputs[head["port"]].policy.empty(facts.num_rows)
    if "memory" in facts.column_names:
        memory = pc.list_flatten(facts.column("memory")).to_numpy().reshape(memory.shape)
    return Run(
        head["port"],
        Facts(
            facts.column("source").to_pylist(),
            numbers["rows"],
            numbers["least"],
            numbers["most"],
            numbers["promised"],
            memory,
        ),
        _partials(tables, bucket),
        tables.get("rows"),
        tables.get("nulls"),
        (head["read"], head["nulls"]),
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


def conformed(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """A batch in the plan's types. Spark hands timestamps over in the session's time zone; the numbers are equal."""
    known = {f.name: f for f in schema}
    wanted = pa.schema([pa.field(f.name, known[f.name].type) if f.name in known else f for f in batch.schema])
    return batch if batch.schema.equals(wanted) else batch.cast(wanted)
