"""DupElim: rows without their duplicates, in state that progress bounds (TH 2.1).

    Distinct         equal rows once. The time is one of the columns, so equal rows have equal times: a row is emitted
                     when it comes, remembered, and forgotten when progress has passed its time
    DropDuplicates   rows of a key that are more than `within` apart. In order of (time, values) a row survives if no
                     survivor of its key is at most `within` before it. A row is decided when it is final: progress has
                     passed it, and no earlier row of its key can come. So the answer does not depend on arrival order

Null is a value, NaN equals NaN and -0.0 equals 0.0, as in GROUP BY. A row below the low-watermark is late.

State: `Distinct` keeps one row for each distinct row from the low-watermark on. `DropDuplicates` keeps the rows that
are not final (final_rows.py), and the last survivor of each key while a row that is still to come can be within its
reach: survivor + within >= low-watermark (survivors.py).

Both need linear punctuation on the time and pass it on. Other punctuation ends here.

>>> from lowwater.model.punctuation import Punctuation
>>> from lowwater.operators.base import Batch, taken
>>> schema = pa.schema({"ts": pa.int64(), "id": pa.string()})
>>> distinct = Distinct(schema, ("ts", "id"), "ts")
>>> [m.rows.to_pylist() for m in taken(distinct, 0, Batch(pa.table({"ts": [1, 1, 2], "id": ["a", "a", "a"]})))]
[[{'ts': 1, 'id': 'a'}, {'ts': 2, 'id': 'a'}]]
>>> [str(p) for p in taken(distinct, 0, Punctuation.linear("ts", 2))], distinct.held().rows
(['(ts: (-inf, 2))'], 1)
>>> first = DropDuplicates(schema, ("id",), "ts", within=3)
>>> taken(first, 0, Batch(pa.table({"ts": [5, 1, 4, 9], "id": ["a", "a", "a", "a"]})))
[]
>>> rows, low = taken(first, 0, Punctuation.linear("ts", 6))
>>> rows.rows["ts"].to_pylist(), str(low), first.held().rows
([1, 5], '(ts: (-inf, 6))', 2)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lowwater.aggregates.grouped import Grouped, factorise
from lowwater.model.ticks import NEVER, Ticks
from lowwater.model.words import length
from lowwater.operators.base import Emit, Operator
from lowwater.operators.final_rows import FinalRows, Progressing
from lowwater.operators.group_lows import Advance, less
from lowwater.operators.layout import Layout, RowLayout
from lowwater.operators.spec import Need, OperatorSpec
from lowwater.operators.survivors import LastSurvivors, apart, in_order
from lowwater.operators.waiting import Waiting
from lowwater.state.store import Store

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class DistinctSpec(OperatorSpec):
    """DupElim as the planner places it. Without `within`, results have the columns `on`; otherwise they are whole."""

    schema: pa.Schema
    on: tuple[str, ...]
    time: str
    within: int | None = None
    by: str | None = None
    """The source column, if it is part of the key and rows are decided by the progress of their own source."""

    @property
    def name(self) -> str:
        return "Distinct" if self.within is None else "Drop-duplicates"

    @property
    def result(self) -> pa.Schema:
        return self.schema if self.within is not None else pa.schema([self.schema.field(name) for name in self.on])

    def need(self, port: int) -> Need:
        return Need(self.on)

    def layout(self, port: int, route: tuple[str, ...] | None) -> Layout:
        return RowLayout(tuple(self.schema.names), route)

    def open(self, store: Store, shards: int) -> Operator:
        if self.within is None:
            return Distinct(self.schema, self.on, self.time, store, self.by)
        return DropDuplicates(self.schema, self.on, self.time, self.within, store, self.by)

    def closes_by(self, port: int) -> str | None:
        return self.by

    def choice(self) -> dict[str, Any]:
        return {} if self.by is None else {"closes_by": self.by}

    def as_pinned(self, choice: Mapping[str, Any]) -> DistinctSpec:
        return replace(self, by=choice.get("closes_by"))

    def partitioned(self, routes: Sequence[tuple[str, ...] | None]) -> tuple[str, ...] | None:
        return routes[0]

    @property
    def order(self) -> list[tuple[str, str]]:
        return [(name, "ascending") for name in dict.fromkeys([self.time, *self.on])]

    @property
    def title(self) -> str:
        if self.within is None:
            return f"Distinct  {', '.join(self.on)}"
        return f"Drop-duplicates  on {', '.join(self.on)}, within {self._length}"

    @property
    def _length(self) -> str:
        return length(self.within or 0, Ticks(self.schema.field(self.time).type))

    def lines(self) -> list[tuple[str, str]]:
        if self.within is None:
            return [
                ("because", f"equal rows have the same {self.time}, so a row is forgotten when progress has passed it"),
                ("state", "one entry for each row between the low-watermark and the newest row"),
            ]
        final = f"a row is final when progress has passed its {self.time}, since no earlier row of its key can come"
        kept = f"one entry for each key of the last {self._length}, and the rows that are not final yet"
        return [("because", final), ("state", kept)]


class Distinct(Progressing):
    """See the module text."""

    LATE = "equal rows are forgotten already"

    def __init__(
        self, schema: pa.Schema, on: Sequence[str], time: str, store: Store | None = None, by: str | None = None
    ) -> None:
        super().__init__(schema, time, store, by)
        self.on = list(on)
        self._seen = Waiting(pa.schema([schema.field(name) for name in on]), self.store.at("seen"))

    def on_time(self, rows: pa.Table, time: Ints, emit: Emit) -> None:
        given = rows.select(self.on)
        seen = self._seen.of_times(time)  # rows of other times cannot be equal
        code, distinct = factorise(pa.concat_tables([seen, given.cast(seen.schema)]))
        first = np.full(distinct.num_rows, -1)
        first[code[::-1]] = np.arange(len(code))[::-1]  # of equal rows the first is written last
        new = np.sort(first[first >= seen.num_rows]) - seen.num_rows
        fresh = given.take(pa.array(new))
        self._seen.add(fresh, time[new])
        self.answer(fresh, emit)

    def on_progress(self, step: Advance, emit: Emit) -> None:
        self._seen.release(step.most, step.due)

    @property
    def rows(self) -> int:
        return self._seen.rows

    def excess(self) -> str | None:
        return self.passed(self._seen, "is remembered")


class DropDuplicates(FinalRows):
    """See the module text."""

    def __init__(
        self,
        schema: pa.Schema,
        on: Sequence[str],
        time: str,
        within: int,
        store: Store | None = None,
        by: str | None = None,
    ) -> None:
        super().__init__(schema, time, store, by)
        self.on, self.within = list(on), within
        self._last = LastSurvivors(self.store.at("last"))

    def on_final(self, rows: pa.Table, time: Ints, emit: Emit) -> None:
        if len(time):
            self.answer(self._survivors(rows, time), emit)
        step, reach = self.step, self.within + 1
        self._last.extract(less(step.most, reach), lambda keys: step.before_due(keys, reach))

    def _survivors(self, rows: pa.Table, time: Ints) -> pa.Table:
        """The survivors of rows that are final now, by time. They become the last of their keys."""
        group, keys = factorise(rows.select(self.on))
        last, known = self._last.of_keys(keys)
        order, again = in_order(rows, group, time, keys.num_rows)
        once = order[~again]  # the smallest row of each key and time
        reach = np.where(known, last, NEVER) + self.within
        chosen = once[apart(group[once], time[once], reach, known, self.within)]
        chosen.sort()  # rows that are final come in order of time
        self._last.absorb(Grouped(keys, group[chosen], time[chosen], ()))
        return rows.take(pa.array(chosen))

    @property
    def rows(self) -> int:
        return super().rows + self._last.rows

    def excess(self) -> str | None:
        frontier, reach = self.frontier, self.within + 1
        if self._last.overdue(less(frontier.most, reach), lambda keys: frontier.of(keys) - reach):
            return "A survivor is kept, though its reach ends before the low-watermark."
        if self._last.rows > self._last.keys:
            return f"{self._last.rows} survivors are kept of {self._last.keys} keys."
        return super().excess()
