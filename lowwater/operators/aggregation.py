"""What all window aggregations share: counts of late rows, the form of answers, and the form of the late output."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lowwater.aggregates.grouped import Grouped, pick
from lowwater.operators.base import Batch, Late, Message, Operator, StreamProperties
from lowwater.operators.bucket import Bucket, WindowedAggregation

FIRST = -(2**62)
"""Below all window ids: nothing has been closed yet."""
EARLY, FINAL, REVISED = "early", "final", "revised"
LATE_COLUMNS = {"late_reason": pa.string(), "windows_missed": pa.int64(), "windows_kept": pa.int64()}

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Reduced:
    """Partials of a batch that was reduced where it was read, with its rows where the late output wants them."""

    grouped: Grouped
    rows: pa.Table | None = None


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
class Counts:
    """Rows that violated progress, so that none is lost in silence."""

    late: int = 0
    """Rows that missed at least one of their windows."""
    dropped: int = 0
    """Rows among them that missed all their windows."""
    results: int = 0


class Aggregation(Operator):
    """An aggregation over windows. `opened` is how far it has closed: a window id, or a time if groups close alone."""

    def __init__(self, what: WindowedAggregation) -> None:
        self.what = what
        self.bucket = Bucket(what)
        self.opened = FIRST
        self.counts = Counts()
        self._schema = what.result_schema()

    @property
    def demands(self) -> tuple[str, ...]:
        return (self.what.time,)

    @property
    def closed_below(self) -> int | None:
        """The first window id that is not closed, where ids close in order; None before any is."""
        return None

    def monitor(self, properties: StreamProperties) -> None:
        """Hears how far the sources are, before the punctuation that follows from it."""
        return None

    @abstractmethod
    def on_batch(self, port: int, batch: Batch | Reduced) -> list[Message]: ...

    def answer(self, closed: Closed, start: Ints | None, end: Ints, **columns: Any) -> Batch:
        """Answers as rows, counted. `columns` are further columns of the result, by name."""
        self.counts.results += len(closed)
        bounds = self.what.bounds
        keys = pick(closed.keys, closed.group)
        named: dict[str, Any] = {
            "wid": pa.array(closed.wid),
            "window_start": pa.nulls(len(closed), bounds.wide) if start is None else bounds.decode(start),
            "window_end": bounds.decode(end),
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
