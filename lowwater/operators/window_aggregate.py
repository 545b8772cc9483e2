"""Window aggregation: one driver, and what is kept between windows as its tactic.

The driver knows ids, lateness and output; a `Keeping` knows state. WID keeps partials by window id, Paned-WID by
pane, slide-by-tuple windows by bin, landmark windows one partial a group, the buffering baseline the rows themselves.
All give the same results.

    rows     are reduced by Bucket (or come reduced from the source), checked against closed windows, and kept
    punctuation on time becomes punctuation on ids: every window that ends at or before it is answered and forgotten

Late is a matter of windows, not of rows (S6): a row that misses some of its windows still counts in those that are
open. It goes to the late output with the number of windows it missed, and is counted whether or not anyone reads that.
With late="drop" a row late for one window is taken out of all (the consistent slack of the thesis). With an allowed
lateness closed windows are kept that much longer, and what a late row changes is said again (revisions.py).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lowwater.aggregates.base import Algebra
from lowwater.aggregates.grouped import Grouped
from lowwater.model.punctuation import Punctuation
from lowwater.model.ticks import END
from lowwater.operators.aggregation import EARLY, FINAL, FIRST, REVISED, Aggregation, Closed, Counts, Reduced, late_rows
from lowwater.operators.base import Batch, Held, Late, Load, Message, Snapshot, StreamProperties
from lowwater.operators.bucket import ROW, WindowedAggregation
from lowwater.operators.revisions import Touched
from lowwater.state.segments import Segment
from lowwater.windows.context_aware import SlideByTuple
from lowwater.windows.context_free import ContextFree, TupleBased
from lowwater.windows.spec import OPEN_END

__all__ = ["Closed", "Keeping", "Reduced", "WindowAggregate", "late_rows"]


class Keeping(ABC):
    """What is kept between windows."""

    takes_rows = False
    """Whether it wants rows as they come instead of partials."""

    def absorb(self, grouped: Grouped, opened: int) -> None:
        """Takes partials; ids below `opened` are closed and must not be touched again."""
        raise TypeError(f"{type(self).__name__} takes rows, not partials.")

    def buffer(self, rows: pa.Table, time: npt.NDArray[np.int64]) -> None:
        raise TypeError(f"{type(self).__name__} takes partials, not rows.")

    def arrived(self, rows: pa.Table) -> pa.Table:
        """All rows of a batch in arrival order, before late ones are taken out; where they count, they are marked."""
        return rows

    def monitor(self, properties: StreamProperties) -> None:
        """How the sources stand, before each punctuation; for tactics that adapt to it."""
        return None

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


class WindowAggregate(Aggregation):
    """The driver, for windows whose ids close in order. `kept` is the first id whose state is still there."""

    def __init__(
        self, what: WindowedAggregation, keeping: Callable[[WindowedAggregation, list[Algebra]], Keeping]
    ) -> None:
        super().__init__(what)
        assert isinstance(what.window, ContextFree | SlideByTuple)
        self.window = what.window
        self.axis = ROW if isinstance(what.window, TupleBased) else what.time
        self.keeping = keeping(what, self.bucket.algebras)
        self.kept = FIRST
        self.revision = 0
        self.newest = FIRST
        self._unsaid = Touched(self.window.pane_wids)  # since closed windows were last revised
        self._fresh = Touched(self.window.pane_wids)  # since the last batch ended

    @property
    def closed_below(self) -> int | None:
        return self.opened if FIRST < self.opened < OPEN_END else None

    def on_batch(self, port: int, batch: Batch | Reduced) -> list[Message]:
        if self.keeping.takes_rows:
            assert isinstance(batch, Batch), "this tactic wants rows"
            return self._take_rows(batch.rows)
        reduced = Reduced(self.bucket.reduce(batch.rows), batch.rows) if isinstance(batch, Batch) else batch
        return self._take_partials(reduced)

    def _take_rows(self, rows: pa.Table) -> list[Message]:
        rows = self.keeping.arrived(rows)
        time = self.bucket.ticks(rows)
        first, last = self.window.bounds(self.bucket.places(rows, time))
        missed, gone = self._missed(first, last)
        self._count(missed, gone, np.ones(len(first), np.int64))
        kept = ~gone & (first <= last)
        self.keeping.buffer(rows.filter(pa.array(kept)), time[kept])
        return [self._late(rows, first, last, missed)] if missed.any() else []

    def _take_partials(self, reduced: Reduced) -> list[Message]:
        """All rows of a pane share their windows, so lateness is decided for partials, and told for rows if wanted."""
        grouped = reduced.grouped
        missed, gone = self._missed(*self.window.pane_wids(grouped.slot))
        self._count(missed, gone, np.asarray(grouped.partials[0][0]))
        kept = grouped.where(~gone)
        if len(kept):
            self.keeping.absorb(kept, self.kept)
            if self.what.lateness:
                self._unsaid.note(kept)
            if self.what.early:
                self._note(kept)
        if reduced.rows is None or not missed.any():
            return []
        first, last = self.window.bounds(self.bucket.places(reduced.rows, self.bucket.ticks(reduced.rows)))
        return [self._late(reduced.rows, first, last, self._missed(first, last)[0])]

    def _note(self, grouped: Grouped) -> None:
        """What early answers are about; of open id ranges (landmarks) they go as far as the newest row."""
        self._fresh.note(grouped)
        first, last = self.window.pane_wids(grouped.slot)
        self.newest = max(self.newest, int(np.where(last == OPEN_END, first, last).max()))

    def _missed(self, first: Any, last: Any) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
        """Which have missed a window of theirs, and which all of them: after the end, also those of open id ranges."""
        inside = first <= last
        missed = (first < self.kept) & inside
        if self.what.late == "drop":
            return missed, missed
        return missed, ((last < self.kept) | (self.kept == OPEN_END)) & inside

    def _count(self, missed: Any, gone: Any, rows: npt.NDArray[np.int64]) -> None:
        self.counts.late += int(rows[missed].sum())
        self.counts.dropped += int(rows[gone].sum())

    def _late(self, rows: pa.Table, first: Any, last: Any, missed: Any) -> Late:
        first, last = first[missed], last[missed]
        n_missed = np.minimum(last, self.kept - 1) - first + 1
        n_kept = np.where(last == OPEN_END, -1, np.maximum(last - np.maximum(first, self.kept) + 1, 0))
        if self.kept == OPEN_END:
            n_missed[last == OPEN_END] = -1
            n_kept[:] = 0
        if self.what.late == "drop":
            n_missed, n_kept = np.where(n_kept < 0, -1, n_missed + n_kept), np.zeros_like(n_kept)
        if isinstance(self.window, SlideByTuple):  # ids that may exist, not windows that do
            n_missed, n_kept = np.full(len(first), -1), np.where(n_kept > 0, -1, 0)
        reason = pa.DictionaryArray.from_arrays(
            pa.array((n_kept != 0).astype(np.int32)),
            pa.array(["all its windows are closed", "some of its windows are closed"]),
        )
        if self.what.late == "drop":
            reason = pa.array(["one of its windows is closed, so it is dropped from all"] * len(first), pa.string())
        plain = rows.select([name for name in rows.column_names if name in self.what.schema.names])
        return Late(late_rows(plain.filter(pa.array(missed)), reason.cast(pa.string()), n_missed, n_kept))

    def monitor(self, properties: StreamProperties) -> None:
        self.keeping.monitor(properties)

    def on_punctuation(self, port: int, punctuation: Punctuation) -> list[Message]:
        low = punctuation.low_watermark(self.axis)
        if low is None:
            return []
        stop = OPEN_END if low == END else self.window.closed_below(low)
        keep = stop if low == END or not self.what.lateness else self.window.closed_below(low - self.what.lateness)
        out = self._revised()  # before anything it needs is forgotten
        if stop > self.opened:
            out += self._answers(self.keeping.close(self.opened, int(stop)), FINAL)
            self.opened = int(stop)
        if keep > self.kept:
            self.keeping.expire(int(keep))
            self.kept = int(keep)
            out.append(Punctuation.linear("wid", self.kept))
        return out

    def settle(self) -> list[Message]:
        """Answers of closed windows that this batch has changed, and of open ones, where that is asked for."""
        if not self.what.revises:
            return []
        out = self._revised()
        if self.what.early and self.opened < OPEN_END:
            out += self._again(self._fresh, self.opened, self.newest + 1, EARLY)
        self._fresh.forget()
        self.revision += 1
        return out

    def _revised(self) -> list[Message]:
        """New answers of closed windows that late rows have fallen into."""
        if not self.what.lateness:
            return []
        out = self._again(self._unsaid, self.kept, self.opened, REVISED)
        self._unsaid.forget()
        return out

    def _again(self, touched: Touched, first: int, stop: int, emitted: str) -> list[Message]:
        """Answers of windows first <= id < stop that rows have touched."""
        span = touched.span(first, stop)
        if span is None:
            return []
        closed = self.keeping.close(*span)
        return [] if closed is None else self._answers(touched.among(closed, *span), emitted)

    def _answers(self, closed: Closed | None, emitted: str) -> list[Message]:
        if closed is None or not len(closed):
            return []
        columns = {}
        if self.what.revises:
            n = len(closed)
            columns = {"emitted": pa.array([emitted] * n, pa.string()), "revision": pa.array(np.full(n, self.revision))}
        return [self.answer(closed, *self.window.interval(closed.wid), **columns)]

    def snapshot(self) -> Snapshot:
        segments = self.keeping.segments()
        head = {
            "opened": self.opened,
            "kept": self.kept,
            "revision": self.revision,
            "newest": self.newest,
            "counts": dict(vars(self.counts)),
            "segments": {name: segment.id for name, segment in segments.items()},
        }
        return Snapshot(head, {segment.id: segment for segment in segments.values()})

    def restore(self, head: dict[str, Any], load: Load) -> None:
        self.opened, self.kept = head["opened"], head["kept"]
        self.revision, self.newest = head["revision"], head["newest"]
        self.counts = Counts(**head["counts"])
        self.keeping.restore({name: load(id) for name, id in head["segments"].items()})

    def decode(self, tables: dict[str, pa.Table]) -> object:
        return self.keeping.decode(tables)

    def held(self) -> Held:
        return Held(self.keeping.rows, sum(segment.size for segment in self.keeping.segments().values()))
