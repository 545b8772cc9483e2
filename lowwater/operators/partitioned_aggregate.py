"""Windows over the rows of each partition: RANGE n rows SLIDE m rows PA p (TH 5.1.3; W4).

    order="arrival"  a row is numbered when it comes, after the rows its partition had before
    order="time"     a row is numbered when it is final, below the low-watermark, after all rows of its partition with
                     smaller times (ties by arrival): disorder does not show. A row that comes below it is late.

A numbered row falls into the pane of gcd(RANGE, SLIDE) rows that its number is in, and windows are runs of panes, as
over time; only that each partition closes its own windows, by its own count. A window is answered when its last row is
there, and what is not full at the end of the stream is answered then.

State: for each partition that was ever seen its count, and the panes of its last RANGE rows; by time also the rows that
are not final yet. It lies in hash buckets, of which a batch touches those of its partitions.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lowwater.aggregates.base import argument
from lowwater.aggregates.bounded import Tally
from lowwater.aggregates.grouped import Grouped, cover, factorise, lift, pick, runs, without_columns
from lowwater.model.punctuation import ALL, Punctuation
from lowwater.model.ticks import END
from lowwater.operators.aggregation import Aggregation, Closed, Counts, Reduced, all_late
from lowwater.operators.base import Batch, Held, Load, Message, Snapshot
from lowwater.operators.bucket import WindowedAggregation
from lowwater.operators.buckets import Buckets
from lowwater.operators.counted import places, tallies, tally_of
from lowwater.operators.waiting import Waiting
from lowwater.state.segments import Segment
from lowwater.windows.context_aware import Partitioned

Ints = npt.NDArray[np.int64]
LATE = "rows of its partition with larger times are numbered already"
ENDED = "the stream has ended"


class PartitionedAggregate(Aggregation):
    """See the module text. `opened` is the low-watermark up to which rows are final."""

    def __init__(self, what: WindowedAggregation) -> None:
        super().__init__(what)
        assert isinstance(what.window, Partitioned)
        self.by_time = what.window.order == "time"
        self.window = what.window.over_ranks
        self._panes = Buckets(self.bucket.algebras)
        self._tallies = Buckets([Tally()])
        read = [what.schema.field(name) for name in what.columns]
        self._waiting = Waiting(pa.schema(read))

    def on_batch(self, port: int, batch: Batch | Reduced) -> list[Message]:
        assert isinstance(batch, Batch), "rows are numbered here, so they come as they are"
        time = self.bucket.ticks(batch.rows)
        late = time < self.opened if self.by_time else np.full(len(time), self.opened == END)
        out: list[Message] = []
        rows = batch.rows
        if late.any():
            self.counts.late += int(late.sum())
            self.counts.dropped += int(late.sum())
            out.append(all_late(rows.filter(pa.array(late)), ENDED if self.opened == END else LATE))
            rows, time = rows.filter(pa.array(~late)), time[~late]
        if self.by_time:
            self._waiting.add(rows, time)
            return out
        return out + self._number(rows, time)

    def on_punctuation(self, port: int, punctuation: Punctuation) -> list[Message]:
        low = punctuation.low_watermark(self.what.time)
        if low is None or low <= self.opened:
            return []
        self.opened = low
        out = self._number(*self._waiting.release(low)) if self.by_time else []
        if low < END:
            return out
        return [*out, *self._finish(), ALL]

    def _number(self, rows: pa.Table, time: Ints) -> list[Message]:
        """Numbers rows in the order given, reduces them to panes and answers the windows that have become full."""
        if not rows.num_rows:
            return []
        named = list(self.what.group_by)
        group, keys = factorise(rows.select(named) if named else without_columns(rows.num_rows))
        before = self._tallies.touched(keys)
        number = tally_of(keys, before)[group] + places(group)
        new = tallies(keys, np.bincount(group, minlength=keys.num_rows))
        for counts in (before, new):
            if counts is not None:
                self._tallies.absorb(counts)
        pane = self.window.pane_of(number)
        first, last = self.window.pane_wids(pane)
        inside = first <= last  # rows in the gaps of SLIDE > RANGE are counted but in no window
        if inside.any():
            at = np.flatnonzero(inside)
            values = [argument(aggregate, rows) for aggregate in self.what.distinct]
            values = [None if value is None else value.take(pa.array(at)) for value in values]
            lifted = lift(pick(keys, group[at]), pane[at], values, time[at], self.bucket.algebras)
            self._panes.absorb(lifted)
        panes = self._panes.touched(keys)
        if panes is None:
            return []
        came = tally_of(panes.keys, new)
        count = tally_of(panes.keys, before) + came
        opened, stop = (count - came) // self.window.slide, count // self.window.slide
        self._panes.absorb(panes.where(self.window.pane_wids(panes.slot)[1] >= stop[panes.group]))
        return self._answers(panes, opened, stop)

    def _finish(self) -> list[Message]:
        """The end of the stream: windows that are not full are answered as they are."""
        panes, counts = self._panes.extract(END), self._tallies.extract(END)
        if panes is None:
            return []
        count = tally_of(panes.keys, counts)
        return self._answers(panes, count // self.window.slide, self.window.bounds(count - 1)[1] + 1)

    def _answers(self, panes: Grouped, opened: Ints, stop: Ints) -> list[Message]:
        """Windows opened <= id < stop of each group."""
        of_row = panes.group
        group, wid = cover(of_row, panes.slot, self.window.pane_wids, opened[of_row], stop[of_row])
        if not len(wid):
            return []
        lo, hi = runs(panes, group, *self.window.window_panes(wid))
        pairs = zip(self.bucket.algebras, panes.partials, strict=True)
        closed = Closed(panes.keys, group, wid, [algebra.roll(partial, lo, hi) for algebra, partial in pairs])
        return [self.answer(closed, *self.window.interval(wid))]

    # -- state -----------------------------------------------------------------------------------------------------

    def _segments(self) -> dict[str, dict[str, Segment[Any]]]:
        return {
            "panes": dict(self._panes.segments()),
            "tallies": dict(self._tallies.segments()),
            "waiting": self._waiting.segments(),
        }

    def snapshot(self) -> Snapshot:
        parts = self._segments()
        head = {
            "opened": self.opened,
            "counts": dict(vars(self.counts)),
            **{name: {key: segment.id for key, segment in part.items()} for name, part in parts.items()},
        }
        return Snapshot(head, {segment.id: segment for part in parts.values() for segment in part.values()})

    def restore(self, head: dict[str, Any], load: Load) -> None:
        self.opened = head["opened"]
        self.counts = Counts(**head["counts"])
        saved = {name: {key: load(id) for key, id in head[name].items()} for name in ("panes", "tallies", "waiting")}
        self._panes.restore(saved["panes"])
        self._tallies.restore(saved["tallies"])
        self._waiting.restore(saved["waiting"])

    def decode(self, tables: dict[str, pa.Table]) -> object:
        if Waiting.decodes(tables):
            return self._waiting.decode(tables)
        # Panes have group, slot and at least the columns of count(*) and of one aggregate; tallies only a count.
        counted = tables["partials"].num_columns == 3
        return self._tallies.decode(tables) if counted else self._panes.decode(tables)

    def held(self) -> Held:
        sizes = [segment.size for part in self._segments().values() for segment in part.values()]
        return Held(self._panes.rows + self._tallies.rows + self._waiting.rows, sum(sizes))
