"""OVER windows: every row is answered with the aggregates of a frame of its partition around it.

Rows wait until they are final (final_rows.py), then join the history of their partition by (time, arrival). A row is
answered once its frame is complete:

    RANGE  the low-watermark is beyond its time + FOLLOWING: no row of the frame can come any more
    ROWS   FOLLOWING later final rows of its partition are there, or the stream has ended

In a partition the answered rows always lie before the open ones. So the history of some partitions, their open rows and
the rows just final, put one after the other, need one stable sort by partition to stand in order; frames are then
ranges of positions, and all answers of a batch come from one roll-up an aggregate.

State, in hash buckets of the partition, of which a batch rewrites those that it changes:

    open   rows not yet answered, all their columns
    kept   answered rows that a later frame may reach, only the columns that are computed with:
           ROWS the last PRECEDING + FOLLOWING of a partition, open ones among them; RANGE those from low-watermark -
           FOLLOWING - PRECEDING on, so that quiet partitions are forgotten as time passes
    past   instead of `kept` where PRECEDING is unbounded: one partial a partition of all its answered rows, which
           stands as its first row

The output keeps the progressing attribute of its rows: it has progressed to the oldest open row.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lowwater.aggregates.base import Partial, concat, take
from lowwater.aggregates.grouped import Grouped, factorise, gather, pick, regroup, stack, without_columns
from lowwater.aggregates.sorting import by_group
from lowwater.model.routing import route
from lowwater.model.ticks import END, NEVER
from lowwater.operators.base import Batch, Emit
from lowwater.operators.bucket import Bucket, WindowedAggregation
from lowwater.operators.final_rows import FinalRows
from lowwater.operators.group_lows import Reached, each
from lowwater.state.store import Entry, Store
from lowwater.windows.over import Over, within

BUCKETS = 16

Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


def bucket_of(partitions: pa.Table) -> Ints:
    """By bits of the hash that do not tell the shard, or a shard would fill few of its buckets."""
    return route(partitions, 1 << 32) * BUCKETS >> 32


@dataclass(frozen=True)
class History:
    """What a bucket of partitions keeps, by (partition, time, arrival); see the module text."""

    kept: pa.Table
    open: pa.Table
    past: Grouped | None
    oldest_kept: int
    oldest_open: int

    def __len__(self) -> int:
        return int(self.kept.num_rows + self.open.num_rows + len(self.past or ()))


@dataclass(frozen=True)
class Ranked:
    """Rows of whole partitions by (partition, time, arrival). `source` is where a row stood before they were sorted."""

    source: Ints
    group: Ints
    time: Ints
    begin: Ints
    end: Ints
    """Where a row's partition begins, and where it ends."""

    @staticmethod
    def of(group: Ints, time: Ints, groups: int) -> Ranked:
        """From rows that are in order of time, ties by arrival, wherever they are of one partition."""
        source, offset = by_group(group, groups)
        group = group[source]
        return Ranked(source, group, time[source], offset[group], offset[group + 1])

    def complete(self, window: Over, low: Reached) -> Mask:
        """Whose frames nothing can be added to any more. `low` is the low-watermark of all rows, or of each."""
        _, ahead = window.reach
        if window.frame == "range":
            return self.time < low - ahead  # at the end, too: no time is near END
        return (np.arange(len(self.source)) + ahead < self.end) | (low == END)

    def within_reach(self, window: Over, low: Reached) -> Mask:
        """Which rows a frame that is not complete may hold, or that of a row still to come."""
        back, ahead = window.reach
        if window.preceding is None:  # all of them, but through the past
            return np.zeros(len(self.source), bool)
        if window.frame == "range":
            return self.time >= low - ahead - back
        return (np.arange(len(self.source)) >= self.end - ahead - back) & (low != END)

    def frames(self, window: Over, at: Ints) -> tuple[Ints, Ints]:
        """The frames of the rows at these positions, as ranges [lo, hi) of positions."""
        back, ahead = window.reach
        begin, end, time = self.begin[at], self.end[at], self.time[at]
        if window.frame == "rows":  # unbounded is beyond every beginning
            return np.maximum(at - back, begin), np.minimum(at + ahead + 1, end)
        lo = begin if window.preceding is None else within(self.time, begin, at, time - back, "left")
        return lo, within(self.time, at + 1, end, time + ahead, "right")


@dataclass(frozen=True)
class Gathered:
    """All there is of some partitions: `past`, then `rows` (first the kept, then the unanswered ones), and ranked."""

    past: Grouped | None
    rows: pa.Table
    unanswered: pa.Table
    """The last of `rows` with all their columns."""
    partitions: pa.Table
    ranked: Ranked

    def pending(self) -> Mask:
        return np.asarray(self.ranked.source >= len(self.ranked.source) - self.unanswered.num_rows)

    def take(self, table: pa.Table, at: Ints) -> pa.Table:
        """The rows at these positions, of `rows` or of `unanswered`: either table holds the last of all."""
        return table.take(pa.array(self.ranked.source[at] - (len(self.ranked.source) - table.num_rows)))


@dataclass(frozen=True)
class HistoryCodec:
    """How a history becomes tables of the state, and comes back."""

    bucket: Bucket

    def encode(self, value: History) -> dict[str, pa.Table]:
        past = value.past.tables(self.bucket.algebras) if value.past else {}
        return {"kept": value.kept, "open": value.open} | past

    def decode(self, tables: dict[str, pa.Table]) -> History:
        past = Grouped.of_tables(tables, self.bucket.algebras) if "partials" in tables else None
        return self.of(tables["kept"], tables["open"], past)

    def of(self, kept: pa.Table, open: pa.Table, past: Grouped | None) -> History:
        oldest = [int(self.bucket.ticks(rows).min(initial=END)) for rows in (kept, open)]
        return History(kept, open, past if past else None, *oldest)


class OverAggregate(FinalRows):
    """See the module text."""

    def __init__(self, what: WindowedAggregation, store: Store | None = None, by: str | None = None) -> None:
        super().__init__(what.schema, what.time, store, by)
        assert isinstance(what.window, Over), "this operator is for OVER windows"
        self.what, self.window = what, what.window
        self.bucket = Bucket(what)
        self._schema = what.result_schema()
        self._codec = HistoryCodec(self.bucket)
        self._buckets = self.store.slots("buckets", self._codec)

    def on_final(self, rows: pa.Table, time: Ints, emit: Emit) -> None:
        self._advance(rows, emit)

    @property
    def promise(self) -> int:
        """The oldest open row is still to be answered."""
        return int(min([self.low, *(entry.meta["oldest_open"] for entry in self._buckets)]))

    def _advance(self, final: pa.Table, emit: Emit) -> None:
        """Takes rows just final, answers what is complete now, and forgets what is out of reach."""
        numbers = set(bucket_of(factorise(self._keys(final))[1]).tolist())
        numbers |= {int(entry.name) for entry in self._buckets if self._moves(entry, self.step.most)}
        if not numbers:
            return
        there = [str(b) for b in sorted(numbers) if str(b) in self._buckets]
        gathered = self._gather([self._buckets[b].value for b in there], final)
        pending, past = gathered.pending(), gathered.past
        low = each(self.frontier.of(gathered.partitions), gathered.ranked.group)
        done = pending & gathered.ranked.complete(self.window, low)
        pending &= ~done
        if done.any():
            partials = self._lifted(gathered)
            emit(self._answers(gathered, partials, np.flatnonzero(done)))
            if self.window.preceding is None:
                past = self._folded(gathered, partials, ~pending)
        if self.low == END:
            self._buckets.clear()
        else:
            self._keep(numbers, gathered, pending, past, low)

    def _moves(self, of: Entry[History], low: int) -> bool:
        """Whether a low-watermark alone can complete a frame there, or put a row out of reach."""
        back, ahead = self.window.reach
        if self.window.frame == "rows" or low == END:
            return low == END
        return bool(of.meta["oldest_open"] < low - ahead or of.meta["oldest_kept"] < low - ahead - back)

    def _keys(self, rows: pa.Table) -> pa.Table:
        return rows.select(list(self.what.group_by)) if self.what.group_by else without_columns(rows.num_rows)

    def _gather(self, histories: list[History], final: pa.Table) -> Gathered:
        unanswered = pa.concat_tables([*(history.open for history in histories), final]).combine_chunks()
        kept = [history.kept for history in histories]
        rows = pa.concat_tables([*kept, unanswered.select(list(self.what.columns))]).combine_chunks()
        keys, time = self._keys(rows), self.bucket.ticks(rows)
        pasts = [history.past for history in histories if history.past is not None]
        past = gather(pasts) if pasts else None
        if past is not None:
            keys = stack([pick(past.keys, past.group), keys])
            time = np.concatenate([np.full(len(past), NEVER), time])
        group, partitions = factorise(keys)
        return Gathered(past, rows, unanswered, partitions, Ranked.of(group, time, partitions.num_rows))

    def _lifted(self, gathered: Gathered) -> list[Partial]:
        """Each row as a partial of its own, and the past as it is, in order."""
        rows, past = gathered.rows, gathered.past
        time, each = self.bucket.ticks(rows), np.arange(rows.num_rows)
        partials = []
        for i, (aggregate, algebra) in enumerate(zip(self.what.distinct, self.bucket.algebras, strict=True)):
            values = aggregate.argument(rows)
            partial = algebra.lift(values, time, each, len(each))
            if past is not None:
                partial = tuple(concat([a, b]) for a, b in zip(past.partials[i], partial, strict=True))
            partials.append(tuple(take(column, gathered.ranked.source) for column in partial))
        return partials

    def _answers(self, gathered: Gathered, partials: list[Partial], at: Ints) -> Batch:
        """The rows at these positions with their frames' aggregates: those long open, then the others by time."""
        at = at[np.argsort(gathered.ranked.source[at])]
        lo, hi = gathered.ranked.frames(self.window, at)
        results = [a.roll(partial, lo, hi) for a, partial in zip(self.bucket.algebras, partials, strict=True)]
        self.counts.results += len(at)
        columns = [*gathered.take(gathered.unanswered, at).columns, *(results[i] for _, i in self.what.outputs())]
        return Batch(pa.table(columns, schema=self._schema))

    def _folded(self, gathered: Gathered, partials: list[Partial], answered: Mask) -> Grouped:
        """One partial a partition of all its answered rows: they are in every later frame."""
        group = gathered.ranked.group[answered]
        columns = [tuple(take(column, answered) for column in partial) for partial in partials]
        return regroup(gathered.partitions, group, np.zeros(len(group), np.int64), columns, self.bucket.algebras)

    def _keep(self, numbers: set[int], gathered: Gathered, pending: Mask, past: Grouped | None, low: Reached) -> None:
        """Puts what later frames need back into these buckets."""
        ranked = gathered.ranked
        reached = ~pending & ranked.within_reach(self.window, low)
        bucket = bucket_of(gathered.partitions)[ranked.group]
        of_past = None if past is None else bucket_of(past.keys)[past.group]
        for b in numbers:
            here = bucket == b
            kept = gathered.take(gathered.rows, np.flatnonzero(reached & here))
            open = gathered.take(gathered.unanswered, np.flatnonzero(pending & here))
            history = self._codec.of(kept, open, None if past is None else past.take(np.flatnonzero(of_past == b)))
            if not len(history):
                self._buckets.drop(str(b))
                continue
            about = {"oldest_kept": history.oldest_kept, "oldest_open": history.oldest_open}
            partitions = len(np.unique(ranked.group[(reached | pending) & here]))
            self._buckets.put(str(b), history, rows=len(history), partitions=partitions, **about)

    def excess(self) -> str | None:
        """RANGE: no row that no frame reaches any more. ROWS: PRECEDING + FOLLOWING rows per partition."""
        back, ahead = self.window.reach
        if self.low == END:
            return f"{self.rows} rows are kept after the end of the stream." if self.rows else None
        for bucket in self._buckets:
            if self.window.frame == "range" and self._moves(bucket, self.frontier.most) and self._passed_by(bucket):
                return "A row is kept that no frame from the low-watermark on reaches."
            unbounded = self.window.frame == "range" or self.window.preceding is None
            if not unbounded and bucket.meta["rows"] > (most := bucket.meta["partitions"] * (back + ahead)):
                return f"{bucket.meta['rows']} rows are kept of {bucket.meta['partitions']} partitions, over {most}."
        return super().excess()

    def _passed_by(self, bucket: Entry[History]) -> bool:
        """Whether the low-watermark of its source has passed all frames that could hold some row there."""
        back, ahead = self.window.reach
        reached = [(bucket.value.open, ahead), (bucket.value.kept, ahead + back)]
        return any((self.bucket.ticks(rows) < self.frontier.of(rows) - reach).any() for rows, reach in reached)

    @property
    def rows(self) -> int:
        return super().rows + self._buckets.rows
