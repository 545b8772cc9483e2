"""Bucket: tags rows with window ids, and reduces what shares them (TH 6.1.3.1, Fig. 6-2; 8.3.3).

The thesis tags each tuple with a range of ids and leaves grouping to Aggregate. Tuples of one pane share their range,
so a batch is tagged by pane and reduced to one partial per (group, pane) at once; nothing is ever exploded row by row.
The reduction keeps no state and so runs where the rows are read, before the shuffle.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lowwater.aggregates.base import Aggregate, Algebra
from lowwater.aggregates.bounded import count
from lowwater.aggregates.grouped import Grouped, lift, without_columns
from lowwater.model.columns import whole
from lowwater.model.ticks import Ticks, checked
from lowwater.windows.context_free import ContextFree


@dataclass(frozen=True)
class WindowedAggregation:
    """What is computed: window, groups and aggregates over a stream of this schema. EXPLAIN prints it; workers get it
    as it is."""

    window: ContextFree
    time: str
    schema: pa.Schema
    group_by: tuple[str, ...]
    aggregates: tuple[tuple[str, Aggregate], ...]
    anchored: bool = True
    """Whether the origin is known. Otherwise it is the smallest value of the first tuples (the papers' origin)."""

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
        time = self.ticks.wide
        fields = [pa.field("wid", pa.int64()), pa.field("window_start", time), pa.field("window_end", time)]
        fields += [self.schema.field(name) for name in self.group_by]
        fields += [pa.field(name, algebras[i].result) for name, i in self.outputs()]
        return pa.schema([pa.field(f.name, f.type) for f in fields])

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that the computation reads."""
        read = [self.time, *self.group_by, *(a.column for a in self.distinct if a.column is not None)]
        return tuple(dict.fromkeys(read))


class Bucket:
    """Reduces batches to partials by (group, pane)."""

    def __init__(self, what: WindowedAggregation) -> None:
        self.what = what
        self.algebras = what.algebras()

    def ticks(self, rows: pa.Table) -> npt.NDArray[np.int64]:
        return checked(self.what.ticks.encode(whole(rows.column(self.what.time))), self.what.time)

    def reduce(self, rows: pa.Table, time: npt.NDArray[np.int64] | None = None) -> Grouped:
        """Partials of a batch without null progress values. Rows in the gaps of SLIDE > RANGE are in no window."""
        window = self.what.window
        if time is None:
            time = self.ticks(rows)
        slot = window.pane_of(time)
        first, last = window.pane_wids(slot)
        if len(slot) and (first > last).any():
            inside = first <= last
            rows, slot, time = rows.filter(pa.array(inside)), slot[inside], time[inside]
        keys = rows.select(list(self.what.group_by)) if self.what.group_by else without_columns(rows.num_rows)
        values = [None if a.column is None else whole(rows.column(a.column)) for a in self.what.distinct]
        return lift(keys, slot, values, time, self.algebras)
