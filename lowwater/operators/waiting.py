"""Waiting: rows that are kept until they are final, and then go on in order of time, ties by arrival.

A row is final once the low-watermark has passed it: nothing that belongs before it can come any more, so its place in
the order is known for good. What needs that order (frames, ranks, windows over numbered rows) lets its rows wait here.

State: one entry per batch, as it came. An entry that is released whole is dropped, one that is not yet reached stays as
it is, and only those that the low-watermark cuts are written anew.

>>> waiting = Waiting(pa.schema([("ts", pa.int64()), ("v", pa.string())]))
>>> for ts, v in (([5, 3], ["a", "b"]), ([9, 3], ["c", "d"])):
...     waiting.add(pa.table({"ts": ts, "v": v}), np.array(ts))
>>> rows, time = waiting.release(6)
>>> rows["v"].to_pylist(), time.tolist(), waiting.rows
(['b', 'd', 'a'], [3, 3, 5], 1)
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lowwater.operators.group_lows import Frontier, Reached
from lowwater.state.store import Store

Times = npt.NDArray[np.int64]
Timed = tuple[pa.Table, Times]
"""Rows and their times in ticks."""


class TimedRows:
    """The codec of rows with their times."""

    def encode(self, value: Timed) -> dict[str, pa.Table]:
        rows, time = value
        return {"rows": rows, "time": pa.table({"time": time})}

    def decode(self, tables: dict[str, pa.Table]) -> Timed:
        return tables["rows"], np.asarray(tables["time"].column("time").to_numpy(), np.int64)


class Waiting:
    """Rows of one schema in arrival order. Columns that the schema does not name are left behind."""

    def __init__(self, schema: pa.Schema, store: Store | None = None) -> None:
        self._schema = pa.schema([pa.field(f.name, f.type) for f in schema])
        self._parts = (store or Store()).slots("waiting", TimedRows())

    def add(self, rows: pa.Table, time: Times) -> None:
        """Rows as they arrive, with their times in ticks; none below a low-watermark already released."""
        if rows.num_rows:
            columns = [rows.column(name) for name in self._schema.names]
            self._parts.add((pa.table(columns, schema=self._schema), time), **_facts(time))

    def release(self, low: int, of: Callable[[pa.Table], Reached] | None = None) -> Timed:
        """The rows with time < low, by (time, arrival), and their times. With `of`, those below what it has for each
        row, which is `low` at most."""
        gone = []
        for entry in self._parts:
            if entry.meta["least"] >= low:
                continue
            rows, time = entry.value
            reached = low if of is None else of(rows)
            out = time < reached
            if out.all():
                gone.append((rows, time))
                self._parts.drop(entry.name)
                continue
            if not out.any():
                continue
            gone.append((rows.filter(pa.array(out)), time[out]))
            left = rows.filter(pa.array(~out)).combine_chunks()
            self._parts.put(entry.name, (left, time[~out]), **_facts(time[~out]))
        if not gone:
            return self._schema.empty_table(), np.empty(0, np.int64)
        time = np.concatenate([time for _, time in gone])
        order = np.argsort(time, kind="stable")
        rows = pa.concat_tables([rows for rows, _ in gone]).combine_chunks()
        return rows.take(pa.array(order)), time[order]

    def of_times(self, times: Times) -> pa.Table:
        """The rows that have one of these times, by arrival. They go on waiting."""
        least, most = (int(times.min()), int(times.max())) if len(times) else (0, -1)
        near = [entry.value for entry in self._parts if entry.meta["least"] <= most and entry.meta["most"] >= least]
        found = [rows.filter(pa.array(np.isin(time, times))) for rows, time in near]
        return pa.concat_tables([self._schema.empty_table(), *found])

    @property
    def rows(self) -> int:
        return self._parts.rows

    @property
    def least(self) -> int | None:
        """The smallest time of the rows that wait."""
        return min((entry.meta["least"] for entry in self._parts), default=None)

    def passed(self, frontier: Frontier) -> int | None:
        """The smallest time of the rows that wait though the low-watermark of their source has passed them."""
        if frontier.own is None:
            return self.least if self.least is not None and self.least < frontier.least else None
        parts = [(time, np.asarray(time < frontier.of(rows))) for rows, time in (entry.value for entry in self._parts)]
        return min((int(time[below].min()) for time, below in parts if below.any()), default=None)


def _facts(time: Times) -> dict[str, int]:
    return {"rows": len(time), "least": int(time.min()), "most": int(time.max())}
