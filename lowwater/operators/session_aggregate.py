"""Session windows: a session of a group lasts while its rows are less than a gap apart (W10).

    rows         are reduced to fragments (or come reduced from the source), which wait in the buckets of their groups
    punctuation  coalesces what came with what is open; sessions that end at or before it are answered and forgotten

A session [first, last + gap) is closed by a low-watermark at or beyond its end. A row is late if its session, made of
all that is open and of all that came since the last punctuation, was closed by that punctuation: a row below the
low-watermark that joins an open session is welcome, and so is the row that builds the bridge to it later. Hence late is
told at the next punctuation, when the bridge has come or not, and then depends neither on the order of arrival nor on
the cut into batches. A closed session is forgotten, so late ones are made of new fragments only. Rows that may turn
out to be late (their own fragment is closed) are kept until then, if the late output wants them.

Since late rows may lengthen an open session to the front, no start can be promised while the stream goes on. The end
can: every session still to be answered ends after the low-watermark. Punctuation goes out on `window_end`.

State: one row for each open session, in buckets of groups, and the rows that may be late.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from lowwater.aggregates.grouped import Grouped
from lowwater.model.punctuation import ALL, Punctuation
from lowwater.model.ticks import END
from lowwater.operators.aggregation import Aggregation, Closed, Counts, Reduced, all_late
from lowwater.operators.base import Batch, Held, Load, Message, Snapshot
from lowwater.operators.bucket import WindowedAggregation
from lowwater.operators.buckets import Buckets
from lowwater.operators.fragments import Fragments, last
from lowwater.state.segments import Segment

LATE = "its session is closed"


class Suspects:
    """Rows of one batch that may be late, written as a segment at most once."""

    def __init__(self, rows: pa.Table, written: Segment[pa.Table] | None = None) -> None:
        self.rows = rows
        self._written = written

    @cached_property
    def segment(self) -> Segment[pa.Table]:
        return self._written or Segment.of(self.rows, {"rows": self.rows})


class SessionAggregate(Aggregation):
    """See the module text. `opened` is the low-watermark: every session that ends at or before it is closed."""

    bucket: Fragments

    def __init__(self, what: WindowedAggregation) -> None:
        super().__init__(what)
        self.bucket = Fragments(what)
        self.gap = self.bucket.gap
        self._sessions = Buckets(self.bucket.algebras, self.bucket.coalesce, last)
        self._suspects: list[Suspects] = []

    def on_batch(self, port: int, batch: Batch | Reduced) -> list[Message]:
        reduced = Reduced(self.bucket.reduce(batch.rows), batch.rows) if isinstance(batch, Batch) else batch
        if not len(reduced.grouped):
            return []
        if self.opened == END:  # nothing can come that would open a session
            return self._late(self.bucket.coalesce([reduced.grouped]), reduced.rows)
        self._suspect(reduced)
        self._sessions.absorb(reduced.grouped)
        return []

    def _suspect(self, reduced: Reduced) -> None:
        """Keeps the rows whose own fragment is closed."""
        if reduced.rows is None or int(reduced.grouped.slot.min()) > self.opened - self.gap:
            return
        fragments = self.bucket.coalesce([reduced.grouped])
        rows = self._within(fragments.where(last(fragments) <= self.opened - self.gap), reduced.rows)
        if rows.num_rows:
            self._suspects.append(Suspects(rows))

    def _within(self, sessions: Grouped, rows: pa.Table) -> pa.Table:
        """The rows that are part of these sessions, in the columns that the user knows."""
        rows = rows.select([name for name in rows.column_names if name in self.what.schema.names])
        time = self.bucket.ticks(rows)
        near = time <= self.opened - self.gap
        rows, time = rows.filter(pa.array(near)), time[near]
        return rows.filter(pa.array(self.bucket.find(sessions, rows, time) >= 0)).combine_chunks()

    def _late(self, sessions: Grouped, rows: pa.Table | None) -> list[Message]:
        """Counts the rows of closed sessions, and hands them out where they were given."""
        n = int(np.asarray(sessions.partials[0][0]).sum())
        self.counts.late += n
        self.counts.dropped += n
        if rows is None:
            return []
        late = self._within(sessions, rows)
        return [all_late(late, LATE)] if late.num_rows else []

    def on_punctuation(self, port: int, punctuation: Punctuation) -> list[Message]:
        low = punctuation.low_watermark(self.what.time)
        if low is None or low <= self.opened:
            return []
        out: list[Message] = []
        due = self._sessions.extract(low if low == END else low - self.gap)
        if due is not None:
            is_late = last(due) <= self.opened - self.gap
            if is_late.any():
                rows = pa.concat_tables([part.rows for part in self._suspects]) if self._suspects else None
                out += self._late(due.where(is_late), rows)
            if not is_late.all():
                out.append(self._answers(due.where(~is_late)))
        self._suspects = []
        self.opened = low
        out.append(ALL if low == END else Punctuation.linear("window_end", low + 1))
        return out

    def _answers(self, sessions: Grouped) -> Batch:
        closed = Closed(sessions.keys, sessions.group, sessions.slot, self.bucket.lower(sessions))
        return self.answer(closed, sessions.slot, last(sessions) + self.gap)

    def snapshot(self) -> Snapshot:
        sessions = self._sessions.segments()
        suspects = [part.segment for part in self._suspects]
        head = {
            "opened": self.opened,
            "counts": dict(vars(self.counts)),
            "segments": {name: segment.id for name, segment in sessions.items()},
            "suspects": [segment.id for segment in suspects],
        }
        return Snapshot(head, {segment.id: segment for segment in [*sessions.values(), *suspects]})

    def restore(self, head: dict[str, Any], load: Load) -> None:
        self.opened = head["opened"]
        self.counts = Counts(**head["counts"])
        self._sessions.restore({name: load(id) for name, id in head["segments"].items()})
        self._suspects = [Suspects(segment.value, segment) for segment in map(load, head["suspects"])]

    def decode(self, tables: dict[str, pa.Table]) -> object:
        return tables["rows"] if "rows" in tables else self._sessions.decode(tables)

    def held(self) -> Held:
        segments = [*self._sessions.segments().values(), *(part.segment for part in self._suspects)]
        return Held(
            self._sessions.rows + sum(part.rows.num_rows for part in self._suspects),
            sum(segment.size for segment in segments),
        )
