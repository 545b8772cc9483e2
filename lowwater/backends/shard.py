"""A shard: one instance of the plan over its share of the groups, the same under every backend.

One call of `apply` is one micro-batch, and its order is the rule that keeps results right: all rows of the batch first,
then what they tell of progress, then the punctuation that follows from it. A shuffle keeps no order between rows and
punctuation; a late effect is safe, an early one is not.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from lowwater.aggregates.grouped import merge
from lowwater.backends.ingest import Run, decode
from lowwater.backends.inputs import Inputs, check_fingerprint, shown
from lowwater.metrics import Metrics
from lowwater.model.punctuation import ALL, Punctuation
from lowwater.model.ticks import END, NEVER
from lowwater.operators.aggregation import Aggregation, Reduced, late_rows
from lowwater.operators.base import Batch, Late, Load, Message, Snapshot, StreamProperties
from lowwater.operators.bucket import ROW
from lowwater.operators.flush import EAGER, Flushing
from lowwater.operators.meld import Meld
from lowwater.query.plan import Plan
from lowwater.state.segments import Segment
from lowwater.windows.context_free import ContextFree


@dataclass
class Output:
    """What a micro-batch gives: results, late rows, and numbers."""

    results: list[pa.Table] = field(default_factory=list)
    late: list[pa.Table] = field(default_factory=list)


class Shard:
    """See the module text. Shard 0 also answers for what belongs to no group, such as rows without a progress value."""

    def __init__(self, plan: Plan, number: int = 0, shards: int = 1) -> None:
        self.plan = plan
        self.number = number
        self.shards = shards
        self.inputs = Inputs(plan)
        self.meld = Meld(plan.what.time, len(plan.inputs))
        self.operator: Aggregation = plan.open()
        self.bucket = plan.reducer()
        self.flushing = Flushing(plan.flush, plan.what.group_by, shards)
        self.numbered = 0
        self.waiting: list[Segment[pa.Table]] = []
        self.origin: int | None = None
        self.span: tuple[int, int] | None = None

    def run_of(self, data: bytes) -> Run:
        return decode(data, self.plan, self.bucket)

    def apply(
        self, runs: Sequence[Run], clock: int | None = None, end: bool = False, started: str | None = None
    ) -> Output:
        """A micro-batch. `started` tells one start of the query from another."""
        with self.plan.speaking():
            return self._apply(runs, clock, end, started)

    def _apply(self, runs: Sequence[Run], clock: int | None, end: bool, started: str | None) -> Output:
        out = Output()
        self.inputs.begin(started)
        self._rows(runs, out)
        self.inputs.learn(runs, clock)
        for run in runs:
            if run.span is not None:
                first, last = self.span or run.span
                self.span = (min(first, run.span[0]), max(last, run.span[1]))
        self.operator.monitor(self._properties())
        self.inputs.tick(clock)
        time = self.plan.what.time
        if end:
            for port in range(len(self.plan.inputs)):
                self._punctuate(self.meld.on_punctuation(port, Punctuation.linear(time, self._horizon())), out)
            self.inputs.end()
        for port, low in self.inputs.low_watermarks():
            told = ALL if low == END else Punctuation.linear(time, low)
            self._punctuate(self.meld.on_punctuation(port, told), out)
        self._collect(self.operator.settle(), out)
        self._flush(runs, out)
        return out

    def _flush(self, runs: Sequence[Run], out: Output) -> None:
        """Holds answers back as the policy says; the end of the stream leaves nothing behind."""
        if self.plan.flush == EAGER and not self.flushing.rows:
            return
        for answers in out.results:
            self.flushing.push(answers)
        named = list(self.plan.what.group_by)
        keys = [run.grouped.keys for run in runs if run.grouped is not None]
        keys += [run.rows.select(named) for run in runs if run.grouped is None and run.rows is not None]
        needed = [self.flushing.entries(key) for key in keys if key.num_columns]
        none = np.empty(0, np.int64)
        out.results = self.flushing.pace(self.operator.opened, np.unique(np.concatenate([none, *needed])))

    def _properties(self) -> StreamProperties:
        """What the operator may adapt to: how far sources are, and how much came from each."""
        return StreamProperties(
            min(progress.low_watermark for progress in self.inputs.progress),
            np.concatenate([progress.most for progress in self.inputs.progress]),
            np.concatenate([progress.rows for progress in self.inputs.progress]),
        )

    def wake(self) -> None:
        self.inputs.wake()

    def _rows(self, runs: Sequence[Run], out: Output) -> None:
        """All rows of the batch, before any of its punctuations."""
        if self.plan.sends_rows:
            for run in runs:
                if run.rows is not None:
                    self._collect(self._offer(self._numbered(run.rows)), out)
                self.numbered += run.selected
            if self.plan.numbered:  # arrival is progress: no row with a smaller number can come
                self._collect(self.operator.on_punctuation(0, Punctuation.linear(ROW, self.numbered)), out)
        else:
            parts = [run.grouped for run in runs if run.grouped is not None]
            rows = [run.rows for run in runs if run.rows is not None]
            if parts:
                reduced = Reduced(merge(parts, self.bucket.algebras), pa.concat_tables(rows) if rows else None)
                self._collect(self.operator.on_batch(0, reduced), out)
        for run in runs:
            if run.nulls is not None:
                n = run.nulls.num_rows
                reason = pa.array(["the progressing attribute is null"] * n, pa.string())
                out.late.append(late_rows(run.nulls, reason, np.zeros(n, np.int64), np.zeros(n, np.int64)))

    def _numbered(self, rows: pa.Table) -> pa.Table:
        """Row numbers over the whole stream: every shard adds up the counts of all runs, so none sees other rows."""
        if not self.plan.numbered:
            return rows
        number = rows.column(ROW).to_numpy() + self.numbered
        return rows.set_column(rows.schema.get_field_index(ROW), ROW, pa.array(number))

    def _offer(self, rows: pa.Table) -> list[Message]:
        if self.plan.what.anchored or self.origin is not None:
            return self.operator.on_batch(0, Batch(rows))
        self.waiting.append(Segment.of(rows, {"rows": rows}))
        return []

    def _punctuate(self, messages: list[Message], out: Output) -> None:
        for message in messages:
            assert isinstance(message, Punctuation)
            if not self.plan.what.anchored and self.origin is None:
                self._anchor(message, out)
            self._collect(self.operator.on_punctuation(0, message), out)

    def _anchor(self, punctuation: Punctuation, out: Output) -> None:
        """Fixes the papers' origin, min(T), once progress has passed the smallest value: nothing smaller can come."""
        low = punctuation.low_watermark(self.plan.what.time)
        if low is None or (self.span is None and low < END) or (self.span is not None and low <= self.span[0]):
            return
        self.origin = 0 if self.span is None else self.span[0]  # at the end of an empty stream any origin will do
        self._open_at(self.origin)
        waiting, self.waiting = self.waiting, []
        for segment in waiting:
            self._collect(self.operator.on_batch(0, Batch(segment.value)), out)

    def _open_at(self, origin: int) -> None:
        window = self.plan.what.grid.at(origin)
        what = dataclasses.replace(self.plan.what, window=window, anchored=True)
        self.operator = dataclasses.replace(self.plan, what=what).open()

    def _horizon(self) -> int:
        """The end of the last window that holds a row, in any shard: landmark windows are answered up to it."""
        if self.span is None:
            return NEVER
        window = self.operator.what.window
        if isinstance(window, ContextFree) and not self.plan.what.anchored and self.origin is None:
            window = window.at(self.span[0])
        return window.horizon(self.span[1]) if isinstance(window, ContextFree) else self.span[1] + 1

    @staticmethod
    def _collect(messages: list[Message], out: Output) -> None:
        for message in messages:
            if isinstance(message, Batch):
                out.results.append(message.rows)
            elif isinstance(message, Late):
                out.late.append(message.rows)

    # -- state -----------------------------------------------------------------------------------------------------

    def snapshot(self) -> Snapshot:
        """A head of plain values, and the operator's segments."""
        inner = self.operator.snapshot()
        inputs, progress = self.inputs.snapshot()
        head: dict[str, Any] = {
            "fingerprint": self.plan.fingerprint(self.shards),
            "operator": inner.head,
            "meld": self.meld.snapshot().head,
            "inputs": inputs,
            "origin": self.origin,
            "span": self.span,
            "waiting": [segment.id for segment in self.waiting],
            "numbered": self.numbered,
        }
        head["flushing"], answers = self.flushing.snapshot()
        ours = [*progress, *self.waiting, *answers]
        return Snapshot(head, inner.segments | {segment.id: segment for segment in ours})

    def restore(self, head: dict[str, Any], load: Load) -> None:
        check_fingerprint(head["fingerprint"], self.plan.fingerprint(self.shards))
        self.origin = head["origin"]
        if self.origin is not None:
            self._open_at(self.origin)
        self.operator.restore(head["operator"], load)
        self.meld.restore(head["meld"], load)
        self.inputs.restore(head["inputs"], load)
        self.waiting = [load(id) for id in head["waiting"]]
        self.span = None if head["span"] is None else (head["span"][0], head["span"][1])
        self.numbered = head["numbered"]
        self.flushing.restore(head["flushing"], load)

    def decode(self, tables: dict[str, pa.Table]) -> object:
        """The value of a segment: of progress, of rows that wait for the origin, or of the operator."""
        if "progress" in tables:
            return tables
        if "answers" in tables or "gone" in tables:
            return self.flushing.decode(tables)
        return tables["rows"] if set(tables) == {"rows"} else self.operator.decode(tables)

    def metrics(self) -> Metrics:
        held = self.operator.held()
        ticks = self.plan.what.ticks
        counts = self.operator.counts
        return Metrics(
            rows=self.inputs.read,
            null_rows=self.inputs.nulls,
            punctuations=self.inputs.punctuations,
            late_rows=counts.late,
            dropped_rows=counts.dropped,
            result_rows=counts.results - self.flushing.rows,
            state_rows=held.rows + self.flushing.rows + sum(segment.value.num_rows for segment in self.waiting),
            state_bytes=held.bytes + self.flushing.bytes + sum(segment.size for segment in self.waiting),
            low_watermark=shown(self.meld.emitted, ticks),
            closed_below=self.operator.closed_below,
            by_source=self.inputs.sources([ticks] * len(self.plan.inputs)),
        )
