"""Waiting: rows that are kept until they are final, and then go on in order of time, ties by arrival.

A row is final once the low-watermark has passed it: nothing that belongs before it can come any more, so its place in
the order is known for good. What needs that order (frames, ranks, windows over numbered rows) lets its rows wait here.

State: one segment a batch, as it came. A segment that is released whole is dropped, one that is not yet reached stays
the same object, and only those that the low-watermark cuts are written anew.

>>> waiting = Waiting(pa.schema([("ts", pa.int64()), ("v", pa.string())]))
>>> for ts, v in (([5, 3], ["a", "b"]), ([9, 3], ["c", "d"])):
...     waiting.add(pa.table({"ts": ts, "v": v}), np.array(ts))
>>> rows, time = waiting.release(6)
>>> rows["v"].to_pylist(), time.tolist(), waiting.rows
(['b', 'd', 'a'], [3, 3, 5], 1)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lowwater.state.segments import Segment

Times = npt.NDArray[np.int64]


@dataclass
class Part:
    """Rows of one batch that wait; only `segment` is ever set, once, when they are written."""

    rows: pa.Table
    time: Times
    segment: Segment[Any] | None = None

    def __post_init__(self) -> None:
        self.least, self.most = int(self.time.min()), int(self.time.max())

    def where(self, mask: npt.NDArray[np.bool_]) -> Part:
        return self if mask.all() else Part(self.rows.filter(pa.array(mask)).combine_chunks(), self.time[mask])

    def written(self) -> Segment[Any]:
        """The name of the first table is not `rows`, by which a shard knows rows that wait for their origin."""
        if self.segment is None:
            tables = {"waiting": self.rows, "time": pa.table({"time": self.time})}
            self.segment = Segment.of((self.rows, self.time), tables)
        return self.segment


class Waiting:
    """Rows of one schema in arrival order. Columns that the schema does not name are left behind."""

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = pa.schema([pa.field(f.name, f.type) for f in schema])
        self._parts: list[Part] = []

    def add(self, rows: pa.Table, time: Times) -> None:
        """Rows as they arrive, with their times in ticks; none below a low-watermark already released."""
        if rows.num_rows:
            columns = [rows.column(name) for name in self._schema.names]
            self._parts.append(Part(pa.table(columns, schema=self._schema), time))

    def release(self, low: int) -> tuple[pa.Table, Times]:
        """The rows with time < low, by (time, arrival), and their times."""
        gone = [part.where(part.time < low) for part in self._parts if part.least < low]
        self._parts = [part.where(part.time >= low) for part in self._parts if part.most >= low]
        if not gone:
            return self._schema.empty_table(), np.empty(0, np.int64)
        time = np.concatenate([part.time for part in gone])
        order = np.argsort(time, kind="stable")
        rows = pa.concat_tables([part.rows for part in gone]).combine_chunks()
        return rows.take(pa.array(order)), time[order]

    @property
    def rows(self) -> int:
        return sum(part.rows.num_rows for part in self._parts)

    def segments(self) -> dict[str, Segment[Any]]:
        """By position in arrival order; unchanged segments are the same objects as before."""
        return {str(i): part.written() for i, part in enumerate(self._parts)}

    def restore(self, segments: dict[str, Segment[Any]]) -> None:
        ordered = [segments[name] for name in sorted(segments, key=int)]
        self._parts = [Part(segment.value[0], segment.value[1], segment) for segment in ordered]

    @staticmethod
    def decodes(tables: dict[str, pa.Table]) -> bool:
        """Whether these are the tables of a segment written here, among others of the same operator."""
        return "waiting" in tables

    def decode(self, tables: dict[str, pa.Table]) -> object:
        return tables["waiting"], np.asarray(tables["time"].column("time").to_numpy(), np.int64)
