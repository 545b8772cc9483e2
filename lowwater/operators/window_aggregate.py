"""Window aggregation: one driver, and what is kept between windows as its tactic.

The driver knows ids, lateness and output; a `Keeping` knows state. WID keeps partials by window id, Paned-WID by
pane, landmark windows one partial a group, the buffering baseline the rows themselves. All give the same results.

    rows     are reduced by Bucket (or come reduced from the source), checked against closed windows, and kept
    punctuation on time becomes punctuation on ids: every window that ends at or before it is answered and forgotten

Late is a matter of windows, not of rows (S6): a row that misses some of its windows still counts in those that are
open. It goes to the late output with the number of windows it missed, and is counted whether or not anyone reads that.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lowwater.aggregates.base import Algebra
from lowwater.aggregates.grouped import Grouped, pick
from lowwater.model.punctuation import Punctuation
from lowwater.model.ticks import END
from lowwater.operators.base import Batch, Held, Late, Load, Message, Operator, Snapshot
from lowwater.operators.bucket import Bucket, WindowedAggregation
from lowwater.state.segments import Segment
from lowwater.windows.spec import OPEN_END

FIRST = -(2**62)
"""Below all window ids: nothing has been closed yet."""


@dataclass(frozen=True)
class Reduced:
    """Partials of a batch that was reduced where it was read, with its rows where the late output wants them."""

    grouped: Grouped
    rows: pa.Table | None = None


@dataclass(frozen=True)
class Closed:
    """Answers: for each row its group, window id and one result a distinct aggregate."""

    keys: pa.Table
    group: npt.NDArray[np.int64]
    wid: npt.NDArray[np.int64]
    results: list[pa.Array]


class Keeping(ABC):
    """What is kept between windows."""

    takes_rows = False
    """Whether it wants rows as they come instead of partials."""

    def absorb(self, grouped: Grouped, opened: int) -> None:
        """Takes partials; ids below `opened` are closed and must not be touched again."""
        raise TypeError(f"{type(self).__name__} takes rows, not partials.")

    def buffer(self, rows: pa.Table, time: npt.NDArray[np.int64]) -> None:
        raise TypeError(f"{type(self).__name__} takes partials, not rows.")

    @abstractmethod
    def close(self, opened: int, stop: int) -> Closed | None:
        """Answers of all windows opened <= id < stop that hold anything."""

    @abstractmethod
    def expire(self, stop: int) -> None:
        """Forgets what no window from `stop` on will read."""

    @abstractmethod
    def segments(self) -> dict[str, Segment[Any]]:
        """State by name within this keeping; unchanged segments are the same objects as before."""

    @abstractmethod
    def restore(self, segments: dict[str, Segment[Any]]) -> None: ...

    @abstractmethod
    def decode(self, tables: dict[str, pa.Table]) -> object: ...

    @property
    @abstractmethod
    def rows(self) -> int: ...


@dataclass
class Counts:
    """Rows that violated progress, so that none is lost in silence."""

    late: int = 0
    """Rows that missed at least one of their windows."""
    dropped: int = 0
    """Rows among them that missed all their windows."""
    results: int = 0


class WindowAggregate(Operator):
    """The driver. `opened` is the first window id that is not closed."""

    def __init__(
        self, what: WindowedAggregation, keeping: Callable[[WindowedAggregation, list[Algebra]], Keeping]
    ) -> None:
        self.what = what
        self.bucket = Bucket(what)
        self.keeping = keeping(what, self.bucket.algebras)
        self.opened = FIRST
        self.counts = Counts()
        self._schema = what.result_schema()

    @property
    def demands(self) -> tuple[str, ...]:
        return (self.what.time,)

    def on_batch(self, port: int, batch: Batch | Reduced) -> list[Message]:
        if self.keeping.takes_rows:
            assert isinstance(batch, Batch), "this tactic wants rows"
            return self._take_rows(batch.rows)
        reduced = Reduced(self.bucket.reduce(batch.rows), batch.rows) if isinstance(batch, Batch) else batch
        return self._take_partials(reduced)

    def _take_rows(self, rows: pa.Table) -> list[Message]:
        time = self.bucket.ticks(rows)
        first, last = self.what.window.bounds(time)
        missed, gone = self._missed(first, last)
        self._count(missed, gone, np.ones(len(first), np.int64))
        kept = ~gone & (first <= last)
        self.keeping.buffer(rows.filter(pa.array(kept)), time[kept])
        return [self._late(rows, first, last, missed)] if missed.any() else []

    def _take_partials(self, reduced: Reduced) -> list[Message]:
        """All rows of a pane share their windows, so lateness is decided for partials, and told for rows if wanted."""
        grouped = reduced.grouped
        missed, gone = self._missed(*self.what.window.pane_wids(grouped.slot))
        self._count(missed, gone, np.asarray(grouped.partials[0][0]))
        kept = grouped.where(~gone)
        if len(kept):
            self.keeping.absorb(kept, self.opened)
        if reduced.rows is None or not missed.any():
            return []
        first, last = self.what.window.bounds(self.bucket.ticks(reduced.rows))
        return [self._late(reduced.rows, first, last, self._missed(first, last)[0])]

    def _missed(self, first: Any, last: Any) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
        """Which have missed a window of theirs, and which all of them: after the end, also those of open id ranges."""
        inside = first <= last
        return (first < self.opened) & inside, ((last < self.opened) | (self.opened == OPEN_END)) & inside

    def _count(self, missed: Any, gone: Any, rows: npt.NDArray[np.int64]) -> None:
        self.counts.late += int(rows[missed].sum())
        self.counts.dropped += int(rows[gone].sum())

    def _late(self, rows: pa.Table, first: Any, last: Any, missed: Any) -> Late:
        first, last = first[missed], last[missed]
        n_missed = np.minimum(last, self.opened - 1) - first + 1
        if self.opened == OPEN_END:
            n_missed[last == OPEN_END] = -1
        if self.opened == OPEN_END:
            n_kept = np.zeros(len(first), np.int64)
        else:
            n_kept = np.where(last == OPEN_END, -1, np.maximum(last - np.maximum(first, self.opened) + 1, 0))
        reason = pa.DictionaryArray.from_arrays(
            pa.array((n_kept != 0).astype(np.int32)),
            pa.array(["all its windows are closed", "some of its windows are closed"]),
        )
        return Late(late_rows(rows.filter(pa.array(missed)), reason.cast(pa.string()), n_missed, n_kept))

    def on_punctuation(self, port: int, punctuation: Punctuation) -> list[Message]:
        low = punctuation.low_watermark(self.what.time)
        if low is None:
            return []
        stop = OPEN_END if low == END else self.what.window.closed_below(low)
        if stop <= self.opened:
            return []
        closed = self.keeping.close(self.opened, int(stop))
        self.keeping.expire(int(stop))
        self.opened = int(stop)
        out: list[Message] = []
        if closed is not None and len(closed.wid):
            self.counts.results += len(closed.wid)
            out.append(Batch(self._result(closed)))
        return [*out, Punctuation.linear("wid", self.opened)]

    def _result(self, closed: Closed) -> pa.Table:
        ticks = self.what.ticks
        start, end = self.what.window.interval(closed.wid)
        times = [pa.nulls(len(closed.wid), ticks.wide) if start is None else ticks.decode(start), ticks.decode(end)]
        keys = pick(closed.keys, closed.group)
        results = [closed.results[i] for _, i in self.what.outputs()]
        columns = [pa.array(closed.wid), *times, *(keys.columns if keys.num_columns else []), *results]
        return pa.table(columns, schema=self._schema)

    def snapshot(self) -> Snapshot:
        segments = self.keeping.segments()
        head = {
            "opened": self.opened,
            "counts": dict(vars(self.counts)),
            "segments": {name: segment.id for name, segment in segments.items()},
        }
        return Snapshot(head, {segment.id: segment for segment in segments.values()})

    def restore(self, head: dict[str, Any], load: Load) -> None:
        self.opened = head["opened"]
        self.counts = Counts(**head["counts"])
        self.keeping.restore({name: load(id) for name, id in head["segments"].items()})

    def decode(self, tables: dict[str, pa.Table]) -> object:
        return self.keeping.decode(tables)

    def held(self) -> Held:
        return Held(self.keeping.rows, sum(segment.size for segment in self.keeping.segments().values()))


LATE_COLUMNS = {"late_reason": pa.string(), "windows_missed": pa.int64(), "windows_kept": pa.int64()}


def late_rows(rows: pa.Table, reason: pa.Array, missed: npt.NDArray[np.int64], kept: npt.NDArray[np.int64]) -> pa.Table:
    """Rows of the late output: the row, why it is here, how many windows it missed and in how many it still counts.

    A number is null where it is open (landmark windows); below zero stands for that here.
    """
    values = (reason, pa.array(missed, mask=missed < 0), pa.array(kept, mask=kept < 0))
    for name, column in zip(LATE_COLUMNS, values, strict=True):
        rows = rows.append_column(name, column)
    return rows


def late_schema(schema: pa.Schema) -> pa.Schema:
    return pa.schema([*schema, *(pa.field(name, type) for name, type in LATE_COLUMNS.items())])
