"""What all window aggregations share: how far they have closed, and the form of answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lowwater.aggregates.grouped import pick
from lowwater.operators.base import Batch, Operator, Promises
from lowwater.operators.bucket import Bucket, WindowedAggregation
from lowwater.state.store import Store

FIRST = -(2**62)
"""Below all window ids: nothing has been closed yet."""
EARLY, FINAL, REVISED = "early", "final", "revised"

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
