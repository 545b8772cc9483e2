"""What all window aggregations share: how far they have closed, the form of answers, and that of the late output."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lowwater.aggregates.grouped import pick
from lowwater.operators.base import Batch, Late, Operator, Promises
from lowwater.operators.bucket import Bucket, WindowedAggregation
from lowwater.state.store import Store

FIRST = -(2**62)
"""Below all window ids: nothing has been closed yet."""
EARLY, FINAL, REVISED = "early", "final", "revised"
LATE_COLUMNS = {"late_reason": pa.string(), "windows_missed": pa.int64(), "windows_kept": pa.int64()}

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Closed:
    """Answers: for each row its group, window id and one result a distinct aggregate."""

    keys: pa.Table
    group: Ints
    wid: Ints
    results: list[pa.Array]

    def __len__(self) -> int:
        return len(self.wid)

    def where(self, keep: npt.NDArray[np.bool_]) -> Closed:
        if keep.all():
            return self
        results = [result.filter(pa.array(keep)) for result in self.results]
        return Closed(self.keys, self.group[keep], self.wid[keep], results)


@dataclass
class Reached:
    """How far an aggregation has closed: a window id, or a time if groups close alone."""

    opened: int = FIRST


class Aggregation(Operator):
    """An aggregation over windows. `opened` is how far it has closed."""

    def __init__(self, what: WindowedAggregation, store: Store | None = None) -> None:
        super().__init__(store)
        self.what = what
        self.bucket = Bucket(what)
        self._schema = what.result_schema()
        self._reached = self.store.record("reached", Reached())
        self._promises = self.store.record("promises", Promises())

    @property
    def opened(self) -> int:
        return self._reached.opened

    @opened.setter
    def opened(self, opened: int) -> None:
        self._reached.opened = opened

    @property
    def demands(self) -> tuple[str, ...]:
        return (self.what.time,)

    def answer(self, closed: Closed, start: Ints | None, end: Ints, **columns: Any) -> Batch:
        """Answers as rows, counted. `columns` are further columns of the result, by name."""
        self.counts.results += len(closed)
        bounds = self.what.bounds
        keys = pick(closed.keys, closed.group)
        named: dict[str, Any] = {
            "wid": pa.array(closed.wid),
            "window_start": pa.nulls(len(closed), bounds.wide) if start is None else bounds.decode(start),
            "window_end": bounds.decode(end),
            **({"window_time": bounds.decode(self.what.last_tick(end))} if self.what.window_time else {}),
            **columns,
            **dict(zip(keys.column_names, keys.columns, strict=True)),
            **{name: closed.results[i] for name, i in self.what.outputs()},
        }
        return Batch(pa.table([named[name] for name in self._schema.names], schema=self._schema))


def late_rows(rows: pa.Table, reason: pa.Array, missed: Ints, kept: Ints) -> pa.Table:
    """Rows of the late output: the row, why it is here, how many windows it missed and in how many it still counts.

    A number is null where it is open or not known (landmark windows, windows that tuples define); below zero stands
    for that here.
    """
    values = (reason, pa.array(missed, mask=missed < 0), pa.array(kept, mask=kept < 0))
    for name, column in zip(LATE_COLUMNS, values, strict=True):
        rows = rows.append_column(name, column)
    return rows


def all_late(rows: pa.Table, reason: str) -> Late:
    """Rows that count nowhere; how many windows they missed is not known."""
    n = rows.num_rows
    return Late(late_rows(rows, pa.array([reason] * n, pa.string()), np.full(n, -1), np.zeros(n, np.int64)))


def late_schema(schema: pa.Schema) -> pa.Schema:
    return pa.schema([*schema, *(pa.field(name, type) for name, type in LATE_COLUMNS.items())])
