"""AdaptWID: each group is kept lazily (its rows) or eagerly (its partials), whichever takes less memory (TH 6.3, A7).

A sparse group is cheaper as the few rows it has, a dense one as a partial a pane. Which is which is not known before
and changes while the stream runs, so every group is counted and switched by the threshold of threshold.py:

    rows          make a group eager when its volume rises above the upper threshold: new rows are reduced at once,
                  buffered ones as lazy_rows.py finds worth it
    punctuation   expires tuples and makes a group lazy again when its volume falls below the lower one: new rows are
                  buffered, partials stay until they are answered (the group is in transition)

Partials are kept as Paned-WID keeps them, by pane, and by window where windows do not overlap. An answer is rolled up
from the partials and from the buffered rows reduced to the same panes: whatever state a group is in, and wherever its
tuples are, they are counted once.

State: rows, partials, the numbers of the threshold and the keys of groups in transition. What is done with a batch
depends on its groups, its rows and, where groups switch, on the buffer; never on one tuple or group at a time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lowwater.aggregates.base import Algebra
from lowwater.aggregates.grouped import Codes, Grouped, factorise, merge, pick, stack, without_columns
from lowwater.operators.base import Adapting, StreamProperties
from lowwater.operators.bucket import Bucket, WindowedAggregation
from lowwater.operators.group_lows import Reached
from lowwater.operators.group_states import GroupStates
from lowwater.operators.lazy_rows import LazyRows, Part
from lowwater.operators.paned_aggregate import PanePartials
from lowwater.operators.threshold import Threshold
from lowwater.operators.waiting import Timed
from lowwater.operators.window_aggregate import Closed, Keeping
from lowwater.state.store import NamedTables, Store
from lowwater.windows.context_free import Sliding
from lowwater.windows.spec import OPEN_END

WATCH, MARKED = "watch", "marked"
"""What is kept beside rows and partials: the numbers of the threshold, and the keys of groups in transition."""


@dataclass(frozen=True)
class Buffered:
    """The codec of buffered rows: their times are a column of theirs."""

    bucket: Bucket

    def encode(self, value: Timed) -> dict[str, pa.Table]:
        return {"rows": value[0]}

    def decode(self, tables: dict[str, pa.Table]) -> Timed:
        return tables["rows"], self.bucket.ticks(tables["rows"])


class AdaptivePartials(PanePartials):
    """Rows of lazy groups beside the panes of eager ones. For sliding windows over time."""

    takes_rows = True
    partials_at = "eager"
    """Where the partials are in the state, or "" if they are where partials alone would be."""
    absorb = Keeping.absorb
    _window: Sliding

    def __init__(self, what: WindowedAggregation, algebras: Sequence[Algebra], store: Store | None = None) -> None:
        window = what.window
        assert type(window) is Sliding, "AdaptWID is for sliding windows over time"
        self._range = window.range
        if window.slide >= window.range:
            # Rows in gaps do not come here. Without them windows are those of a tumbling one, and so are the panes.
            window = Sliding(window.slide, window.slide, window.origin)
        self._what = replace(what, window=window)
        store = store or Store()
        super().__init__(self._what, algebras, store.at(self.partials_at) if self.partials_at else store)
        self._bucket = Bucket(self._what)
        self._lazy = LazyRows(Buffered(self._bucket), store)
        self._watch = store.slots(WATCH, NamedTables())
        self._fresh()
        if WATCH in self._watch:
            self._restore(self._watch[WATCH].value)
        store.settling(self._settle)

    def _fresh(self) -> None:
        self._groups: GroupStates | None = GroupStates(self._what.schema, self._what.group_by)
        self.threshold = Threshold(self._window, self._range, self._blocks.width)
        self._marked: pa.Table | None = None
        self._heard = False
        """Whether any row has come."""
        self._touched = False
        """Whether the numbers have changed since they were last put into the state."""

    def _restore(self, saved: dict[str, pa.Table]) -> None:
        self._heard, self._marked, self._groups = True, saved.get(MARKED), None
        self.threshold.restore(saved)

    def _clear(self) -> None:
        self._blocks.clear()
        self.forget()

    def begin(self, stop: int) -> None:
        """Begins where partials alone were kept, and no window below `stop` is open. Sparse groups will leave them."""
        self._groups = None
        self._touch()
        self.threshold.closed(stop)
        self.groups.fall(self.threshold.lower)

    def forget(self) -> None:
        """Forgets everything but the partials."""
        self._lazy.clear()
        self._watch.clear()
        self._fresh()

    # -- rows ------------------------------------------------------------------------------------------------------

    def buffer(self, rows: pa.Table, time: npt.NDArray[np.int64]) -> None:
        if not rows.num_rows:
            return
        self._touch()
        rows = rows.select(list(self._what.columns)).combine_chunks()
        if not self.threshold.aggr:
            self.threshold.weigh(self._bucket.reduce(rows, time))
        self.threshold.arrived(rows, time)
        groups = self.groups
        code, keys = factorise(self._keys(rows))
        present = groups.admit(keys)
        part = Part(rows, time, present[code])
        before = groups.buffered[present]
        groups.buffered[present] += np.bincount(code, minlength=len(present))
        rising = groups.rise(present, self.threshold.upper)
        eager = groups.eager[part.group]
        self._reduce(part.where(eager))
        self._lazy.append(part.where(~eager))
        if before[rising].any():
            self._reduce(self._lazy.take(groups.eager))

    def take_partials(self, grouped: Grouped) -> None:
        """Partials of rows that were reduced before they came. A group that stays lazy is in transition with them."""
        self._touch()
        self.threshold.weigh(grouped)
        self.threshold.reached(int(self._window.pane_wids(grouped.slot.max(keepdims=True))[1][0]))
        groups = self.groups
        present = groups.admit(grouped.keys)
        tuples = np.bincount(grouped.group, tuples_of(grouped), len(present)).astype(np.int64)
        before = groups.buffered[present]
        groups.reduced[present] += tuples
        rising = groups.rise(present, self.threshold.upper)
        self._blocks.absorb(grouped)
        if before[rising].any():
            self._reduce(self._lazy.take(groups.eager))

    def _reduce(self, part: Part | None) -> None:
        if not part:
            return
        grouped = self._bucket.reduce(part.rows, part.time)
        self._blocks.absorb(grouped)
        self.threshold.weigh(grouped)
        tuples = np.bincount(part.group, minlength=len(self.groups))
        self.groups.buffered -= tuples
        self.groups.reduced += tuples

    def _keys(self, rows: pa.Table) -> pa.Table:
        return rows.select(list(self._what.group_by)) if self._what.group_by else without_columns(rows.num_rows)

    def monitor(self, properties: StreamProperties) -> None:
        if self._heard:
            self._touch()
            self.threshold.hear(properties)

    # -- punctuation -----------------------------------------------------------------------------------------------

    def close(self, opened: int, stop: int) -> Closed | None:
        panes = self._due(stop)
        return None if panes is None else self._answer(panes, opened, stop)

    def _due(self, stop: int) -> Grouped | None:
        """All that windows below `stop` read, as partials."""
        parts = self._blocks.parts(below=self._reach(stop)) + self._lifted(stop)
        return merge(parts, self._algebras) if parts else None

    def _lifted(self, stop: int) -> list[Grouped]:
        """Buffered rows of windows below `stop`, as partials, if there are any."""
        if not self._lazy.parts:
            return []
        time = np.concatenate([part.time for part in self._lazy.parts])
        due = np.ones(len(time), bool) if stop == OPEN_END else time < self._window.ends(np.array([stop - 1]))[0]
        rows = pa.concat_tables([part.rows for part in self._lazy.parts]).filter(pa.array(due)).combine_chunks()
        return [self._bucket.reduce(rows, time[due])] if rows.num_rows else []

    def _answer(self, panes: Grouped, opened: Reached, stop: Reached) -> Closed:
        if self._window.panes_per_window > 1:
            return super()._answer(panes, opened, stop)
        done = panes.where((panes.slot >= opened) & (panes.slot < stop))
        results = [algebra.lower(partial) for algebra, partial in zip(self._algebras, done.partials, strict=True)]
        return Closed(done.keys, done.group, done.slot, results)

    def expire(self, stop: int) -> None:
        if stop == OPEN_END:
            self._clear()
            return
        if not self._heard:
            return
        self._touch()
        self.threshold.closed(stop)
        groups = self.groups
        self._expire_partials(stop)
        dropped = self._lazy.expire(before=int(self._window.interval(np.array([stop]))[0][0]))
        groups.buffered -= np.bincount(dropped, minlength=len(groups))
        groups.fall(self.threshold.lower)
        number = groups.forget()
        if number is not None:
            self._lazy.renumber(number)

    def _expire_partials(self, stop: int) -> None:
        """Takes the tuples of expired panes off their groups' volumes, and the panes out of the blocks."""
        edge = int(self._window.window_panes(np.array([stop]))[0][0])
        parts = self._blocks.parts(below=edge)
        if parts:
            for part, number in zip(parts, self._numbers(self.groups, [part.keys for part in parts]), strict=True):
                expired = part.slot < edge
                np.subtract.at(self.groups.reduced, number[part.group[expired]], tuples_of(part)[expired])
        super().expire(stop)

    # -- state -----------------------------------------------------------------------------------------------------

    @property
    def groups(self) -> GroupStates:
        """The groups with active tuples; after a restore they are counted anew from what is held."""
        if self._groups is None:
            self._groups = self._counted()
        return self._groups

    def _counted(self) -> GroupStates:
        groups = GroupStates(self._what.schema, self._what.group_by)
        parts, blocks = self._lazy.parts, self._blocks.parts()
        keys = [self._keys(part.rows) for part in parts] + [block.keys for block in blocks]
        if self._marked is not None:
            keys.append(self._marked)
        if not keys:
            return groups
        numbers = self._numbers(groups, keys)
        self._lazy.parts = [replace(part, group=number) for part, number in zip(parts, numbers, strict=False)]
        for number in numbers[: len(parts)]:
            groups.buffered += np.bincount(number, minlength=len(groups))
        for block, number in zip(blocks, numbers[len(parts) :], strict=False):
            np.add.at(groups.reduced, number[block.group], tuples_of(block))
        groups.eager = groups.reduced > 0
        if self._marked is not None:
            groups.eager[numbers[-1]] = False
        return groups

    @staticmethod
    def _numbers(groups: GroupStates, keys: list[pa.Table]) -> list[Codes]:
        """The group numbers of several tables of keys, found together."""
        return np.split(groups.admit(stack(keys)), np.cumsum([table.num_rows for table in keys])[:-1])

    def _touch(self) -> None:
        self._heard = self._touched = True

    def _settle(self) -> None:
        if not self._touched:
            return
        tables = self.threshold.tables()
        marked = np.flatnonzero(self.groups.transitional)
        if len(marked):
            tables[MARKED] = pick(self.groups.keys, marked).combine_chunks()
        self._watch.put(WATCH, tables)
        self._touched = False

    def least(self) -> int | None:
        found = [super().least(), *(int(self._window.bounds(part.time)[1].min()) for part in self._lazy.parts)]
        return min((wid for wid in found if wid is not None), default=None)

    @property
    def adapting(self) -> Adapting:
        return Adapting(1)

    @property
    def partials(self) -> int:
        """The entries of the table that eager groups are kept in."""
        return self._blocks.rows

    @property
    def rows(self) -> int:
        return len(self._lazy) + self.partials


def tuples_of(part: Grouped) -> npt.NDArray[np.int64]:
    """How many tuples each partial stands for; count(*) always leads."""
    return np.asarray(part.partials[0][0])
