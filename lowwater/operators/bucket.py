"""Bucket: tags rows with window ids, and reduces what shares them (TH 6.1.3.1, Fig. 6-2; 8.3.3).

The thesis tags each tuple with a range of ids and leaves grouping to Aggregate. Tuples of one pane share their range,
so a batch is tagged by pane and reduced to one partial per (group, pane) at once; nothing is ever exploded row by row.
The reduction keeps no state and so runs where the rows are read, before the shuffle.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lowwater.aggregates.base import Aggregate, Algebra
from lowwater.aggregates.bounded import count
from lowwater.aggregates.grouped import Grouped, lift, without_columns
from lowwater.model.columns import whole
from lowwater.model.ticks import Ticks, checked
from lowwater.windows.context_aware import Partitioned, Session, SlideByTuple
from lowwater.windows.context_free import ContextFree, TupleBased
from lowwater.windows.over import Over

ROW = "__lw_row"
"""The column of row numbers (arrival order over the whole stream), where windows are over them."""

WindowKind: TypeAlias = ContextFree | SlideByTuple | Partitioned | Session | Over
EMITTED = {"emitted": pa.string(), "revision": pa.int64()}
"""Columns of results that may be spoken too early or too late: early, final or revised; a larger revision is newer."""


@dataclass(frozen=True)
class WindowedAggregation:
    """What is computed: window, groups and aggregates over a stream of this schema. EXPLAIN prints it; workers get it
    as it is."""

    window: WindowKind
    time: str
    schema: pa.Schema
    group_by: tuple[str, ...]
    aggregates: tuple[tuple[str, Aggregate], ...]
    anchored: bool = True
    """Whether the origin is known. Otherwise it is the smallest value of the first tuples (the papers' origin)."""
    late: str = "include"
    """A row late for one of its windows is still included in the open ones (generous), or else dropped (consistent)."""
    early: bool = False
    """Whether open windows are answered before they close, after each batch that changed them."""
    lateness: int = 0
    """For how many ticks after its close a window still takes late rows, each of which revises its answer."""
    window_time: bool = False
    """Whether results have `window_time`, the last tick inside their window: the time of whatever follows."""

    @property
    def ticks(self) -> Ticks:
        return Ticks(self.schema.field(self.time).type)

    @property
    def distinct(self) -> tuple[Aggregate, ...]:
        """Each aggregate once; count(*) always leads, since late rows are counted by it."""
        return tuple(dict.fromkeys([count(), *(aggregate for _, aggregate in self.aggregates)]))

    def algebras(self) -> list[Algebra]:
        return [aggregate.bind(self.schema) for aggregate in self.distinct]

    def outputs(self) -> list[tuple[str, int]]:
        """Result columns and the position of their aggregate in `distinct`."""
        distinct = self.distinct
        return [(name, distinct.index(aggregate)) for name, aggregate in self.aggregates]

    def result_schema(self) -> pa.Schema:
        algebras = self.algebras()
        if isinstance(self.window, Over):  # a result is its row, with the aggregates of its frame
            fields = list(self.schema)
        else:
            bound = self.bounds.wide
            fields = [pa.field("wid", pa.int64()), pa.field("window_start", bound), pa.field("window_end", bound)]
            fields += [pa.field("window_time", bound)] if self.window_time else []
            fields += [pa.field(name, type) for name, type in EMITTED.items() if self.revises]
            fields += [self.schema.field(name) for name in self.group_by]
        fields += [pa.field(name, algebras[i].result) for name, i in self.outputs()]
        return pa.schema([pa.field(f.name, f.type) for f in fields])

    @property
    def order(self) -> list[tuple[str, str]]:
        """How finite results are sorted: by window and group."""
        first = [self.time] if isinstance(self.window, Over) else ["wid"]
        names = [*first, *self.group_by, *(["revision"] if self.revises else [])]
        return [(name, "ascending") for name in dict.fromkeys(names)]

    @property
    def bounds(self) -> Ticks:
        """The type that windows begin and end in: that of the progressing attribute, or row numbers."""
        return Ticks(pa.int64()) if isinstance(self.window, TupleBased | Partitioned) else self.ticks

    def last_tick(self, end: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """`window_time` of windows that end there: the last tick inside. Slide-by-tuple windows hold their end."""
        return end if isinstance(self.window, SlideByTuple) else end - 1

    @property
    def grid(self) -> ContextFree:
        """The window, where it is known to be context-free."""
        assert isinstance(self.window, ContextFree), "this operator is for context-free windows"
        return self.window

    @property
    def revises(self) -> bool:
        """Whether a window may be answered more than once."""
        return self.early or self.lateness > 0

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that the computation reads."""
        read = [self.time, *self.group_by, *(column for a in self.distinct for column in a.columns)]
        return tuple(dict.fromkeys(read))


class Bucket:
    """Reduces batches to partials by (group, pane)."""

    def __init__(self, what: WindowedAggregation) -> None:
        self.what = what
        self.algebras = what.algebras()

    def ticks(self, rows: pa.Table) -> npt.NDArray[np.int64]:
        return checked(self.what.ticks.encode(whole(rows.column(self.what.time))), self.what.time)

    def places(self, rows: pa.Table, time: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Where rows lie on the axis of the windows: their time, or their number."""
        if isinstance(self.what.window, TupleBased):
            return np.asarray(whole(rows.column(ROW)).to_numpy(), np.int64)
        return time

    def reduce(self, rows: pa.Table, time: npt.NDArray[np.int64] | None = None) -> Grouped:
        """Partials of a batch without null progress values. Rows in the gaps of SLIDE > RANGE are in no window."""
        window = self.what.window
        assert isinstance(window, ContextFree | SlideByTuple), "other kinds reduce in their own operators"
        if time is None:
            time = self.ticks(rows)
        slot = window.pane_of(self.places(rows, time))
        if isinstance(window, ContextFree) and window.has_gaps:
            first, last = window.pane_wids(slot)
            inside = first <= last
            rows, slot, time = rows.filter(pa.array(inside)), slot[inside], time[inside]
        keys = rows.select(list(self.what.group_by)) if self.what.group_by else without_columns(rows.num_rows)
        values = [a.argument(rows) for a in self.what.distinct]
        return lift(keys, slot, values, time, self.algebras)
