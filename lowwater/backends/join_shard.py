"""A shard of a join: one instance of the join over its share of the keys, and what follows it, under every backend.

The order within a micro-batch is that of shard.py: all rows of all inputs, then the values that they have ended, then
what the rows tell of progress and the punctuation that follows from it. One exception: where every tuple is its own
punctuation, it takes effect at once, since a second tuple of the value breaks the promise whichever run it is in.

Each side progresses by itself, at the pace of the slowest input that is melded into it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from lowwater.backends.inputs import Inputs, check_fingerprint, shown
from lowwater.backends.join_ingest import ALL_ROWS, BROKEN, ENDED, MISSING, NULLS, RANGES, JoinRun, decode_join
from lowwater.backends.shard import Output
from lowwater.joins.keyed import Keyed
from lowwater.joins.oa_join import TEXT, Arrived
from lowwater.joins.pwjoin import UNGRAMMATICAL, PWJoin
from lowwater.metrics import Metrics
from lowwater.model.columns import whole
from lowwater.model.punctuation import ALL, Punctuation
from lowwater.model.ticks import END
from lowwater.operators.aggregation import Aggregation, all_late
from lowwater.operators.base import Batch, Ended, Late, Load, Message, Operator, Snapshot
from lowwater.operators.group_by import GroupBy
from lowwater.operators.meld import Meld
from lowwater.query.join_plan import JoinPlan

NULL_TIME = "the progressing attribute is null"
JOIN = "join"
"""The input of rows that the join itself has given to what follows."""


class JoinShard:
    """See the module text."""

    def __init__(self, plan: JoinPlan, number: int = 0, shards: int = 1) -> None:
        self.plan = plan
        self.number = number
        self.shards = shards
        self.inputs = Inputs(plan)
        self.operator = plan.open()
        self.next = plan.open_next()
        sides = range(len(plan.what.sides))
        self.melds = [Meld(plan.what.sides[side].time, plan.sides.count(side)) for side in sides]

    def run_of(self, data: bytes) -> JoinRun:
        return decode_join(data, self.plan)

    def apply(
        self, runs: Sequence[JoinRun], clock: int | None = None, end: bool = False, started: str | None = None
    ) -> Output:
        """A micro-batch. `started` tells one start of the query from another."""
        with self.plan.speaking():
            out = Output()
            self.inputs.begin(started)
            self._rows(runs, out)
            self._ended(runs, out)
            self.inputs.learn(runs, clock)
            self.inputs.tick(clock)
            if end:
                self.inputs.end()
            for port, low in self.inputs.low_watermarks():
                self._progressed(port, low, out)
            self._forward(self.operator.settle(), out)
            if self.next is not None:
                self._collect(self.next.settle(), out)
            return out

    def _rows(self, runs: Sequence[JoinRun], out: Output) -> None:
        """All rows of the batch, by input. Runs of one input are one batch, but where each ends its values."""
        for port in range(len(self.plan.inputs)):
            side = self.plan.sides[port]
            own = [run for run in runs if run.port == port]
            unique = (ends := self.plan.inputs[port].ends) is not None and ends.when is None
            large = sum(run.keyed.rows.nbytes for run in own if run.keyed is not None) > TEXT
            for some in [[run] for run in own] if unique or large else [own]:
                keyed = [run.keyed for run in some if run.keyed is not None]
                nulls = [run.tables[NULLS] for run in some if NULLS in run.tables]
                if keyed or nulls:
                    rows = Keyed.merged(keyed)[0] if len(keyed) > 1 else keyed[0] if keyed else self._none(side)
                    arrived = Arrived(rows, pa.concat_tables(nulls) if nulls else None)
                    self._forward(self.operator.on_batch(side, arrived), out)
                whole = [run.tables[ALL_ROWS] for run in some if ALL_ROWS in run.tables]
                if whole:
                    self._forward(self.operator.on_batch(side, Batch(pa.concat_tables(whole))), out)
                for run in some if unique else []:
                    self._end_values(side, run, out)
            for run in own:
                for name, reason in ((BROKEN, UNGRAMMATICAL), (MISSING, NULL_TIME)):
                    if name in run.tables:
                        self._aside(side, run.tables[name], reason, out)

    def _none(self, side: int) -> Keyed:
        what = self.plan.what.sides[side]
        return Keyed.of(what.schema.empty_table(), what.on, np.empty(0, np.int64))

    def _aside(self, side: int, rows: pa.Table, reason: str, out: Output) -> None:
        if reason == UNGRAMMATICAL:
            self.operator.counts.late += rows.num_rows
        out.late.append(all_late(self.plan.what.late(side, rows), reason).rows)

    def _ended(self, runs: Sequence[JoinRun], out: Output) -> None:
        for run in runs:
            ends = self.plan.inputs[run.port].ends
            if ends is None or ends.when is None:
                continue
            side = self.plan.sides[run.port]
            if run.marked is not None and isinstance(self.operator, PWJoin):
                self.operator.marked(run.marked)
            self._end_values(side, run, out)
            if RANGES in run.tables and isinstance(self.operator, PWJoin):
                low, high = (whole(run.tables[RANGES].column(name)) for name in ("low", "high"))
                self._forward(self.operator.on_ranges(side, low, high), out)

    def _end_values(self, side: int, run: JoinRun, out: Output) -> None:
        if ENDED in run.tables:
            self._forward(self.operator.on_ended(side, Ended(run.tables[ENDED])), out)

    def _progressed(self, port: int, low: int, out: Output) -> None:
        side = self.plan.sides[port]
        place = self.plan.sides[:port].count(side)
        time = self.plan.what.sides[side].time
        punctuation = ALL if low == END else Punctuation.linear(time, low)
        for message in self.melds[side].on_punctuation(place, punctuation):
            assert isinstance(message, Punctuation)
            self._forward(self.operator.on_punctuation(side, message), out)

    def _forward(self, messages: list[Message], out: Output) -> None:
        """What the join gives out: to the operator that follows, or out."""
        if self.next is None:
            self._collect(messages, out)
            return
        for message in messages:
            if isinstance(message, Late):
                self._collect([message], out)
            elif isinstance(message, Batch):
                self._collect(self.next.on_batch(0, message), out)
            elif isinstance(message, Ended):
                self._collect(self.next.on_ended(0, message), out)
            else:
                self._collect(self.next.on_punctuation(0, message), out)

    def _collect(self, messages: list[Message], out: Output) -> None:
        for message in messages:
            if isinstance(message, Batch):
                out.results.append(message.rows)
            elif isinstance(message, Late):
                out.late.append(self._as_late(message.rows))

    def _as_late(self, rows: pa.Table) -> pa.Table:
        """Late rows as the late output has them; results of the join that come late to what follows are its own."""
        if "input" in rows.column_names:
            return rows
        schema, n = self.plan.late_schema, rows.num_rows
        known = set(rows.column_names)
        columns = [rows.column(f.name) if f.name in known else pa.nulls(n, f.type) for f in schema]
        columns[schema.get_field_index("input")] = pa.array([JOIN] * n, pa.string())
        return pa.table(columns, schema=schema)

    def wake(self) -> None:
        self.inputs.wake()

    # -- state -----------------------------------------------------------------------------------------------------

    def _operators(self) -> list[Operator]:
        return [self.operator] if self.next is None else [self.operator, self.next]

    def snapshot(self) -> Snapshot:
        """A head of plain values, and the operators' segments."""
        inner = [operator.snapshot() for operator in self._operators()]
        inputs, progress = self.inputs.snapshot()
        head: dict[str, Any] = {
            "fingerprint": self.plan.fingerprint(self.shards),
            "operators": [one.head for one in inner],
            "melds": [meld.snapshot().head for meld in self.melds],
            "inputs": inputs,
        }
        segments = {segment.id: segment for segment in progress}
        for one in inner:
            segments |= one.segments
        return Snapshot(head, segments)

    def restore(self, head: dict[str, Any], load: Load) -> None:
        check_fingerprint(head["fingerprint"], self.plan.fingerprint(self.shards))
        for operator, saved in zip(self._operators(), head["operators"], strict=True):
            operator.restore(saved, load)
        for meld, saved in zip(self.melds, head["melds"], strict=True):
            meld.restore(saved, load)
        self.inputs.restore(head["inputs"], load)

    def decode(self, tables: dict[str, pa.Table]) -> object:
        """The value of a segment: of progress, of the join, or of what follows it."""
        if "progress" in tables:
            return tables
        if self.next is None or {"keyed", "flags", "spans", "waiting"} & tables.keys():
            return self.operator.decode(tables)
        return self.next.decode(tables)

    def metrics(self) -> Metrics:
        held = [operator.held() for operator in self._operators()]
        counts = self.operator.counts
        results = counts.results
        dropped = 0
        if isinstance(self.next, Aggregation | GroupBy):
            results = self.next.counts.results
            dropped = self.next.counts.late
        sides = self.plan.what.sides
        return Metrics(
            rows=self.inputs.read,
            null_rows=self.inputs.nulls,
            punctuations=self.inputs.punctuations,
            late_rows=counts.late,
            dropped_rows=dropped,
            result_rows=results,
            state_rows=sum(h.rows for h in held),
            state_bytes=sum(h.bytes for h in held),
            ended_values=self.operator.remembered,
            low_watermark=shown(min(meld.emitted for meld in self.melds), sides[0].ticks),
            by_source=self.inputs.sources([sides[side].ticks for side in self.plan.sides]),
        )
