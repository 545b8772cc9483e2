"""DupElim: rows without their duplicates, in state that progress bounds (TH 2.1).

    Distinct         equal rows once. The time is one of the columns, so equal rows have equal times: a row is emitted
                     when it comes, remembered, and forgotten when progress has passed its time
    DropDuplicates   rows of a key that are more than `within` apart. In order of (time, values) a row survives if no
                     survivor of its key is at most `within` before it. A row is decided when it is final: progress has
                     passed it, and no earlier row of its key can come. So the answer does not depend on arrival order

Null is a value, NaN equals NaN and -0.0 equals 0.0, as in GROUP BY. A row below the low-watermark is late.

State: `Distinct` keeps one row for each distinct row from the low-watermark on. `DropDuplicates` keeps the rows that
are not final (waiting.py), and the last survivor of each key while a row that is still to come can be within its reach:
survivor + within >= low-watermark (survivors.py).

Both need linear punctuation on the time and pass it on. Other punctuation ends here.

>>> from lowwater.operators.base import taken
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

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lowwater.aggregates.grouped import Grouped, factorise
from lowwater.model.columns import whole
from lowwater.model.punctuation import Punctuation
from lowwater.model.ticks import END, NEVER, Ticks, checked
from lowwater.model.words import length
from lowwater.operators.base import Batch, Emit, Operator, Payload, Promises, batch_of
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
            return Distinct(self.schema, self.on, self.time, store)
        return DropDuplicates(self.schema, self.on, self.time, self.within, store)

    def partitioned(self, routes: Sequence[tuple[str, ...] | None]) -> tuple[str, ...] | None:
        return routes[0]

    @property
    def order(self) -> list[tuple[str, str]]:
        sortable = [name for name in self.on if not pa.types.is_null(self.schema.field(name).type)]
        return [(name, "ascending") for name in dict.fromkeys([self.time, *sortable])]

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


@dataclass
class Passed:
    """The low-watermark: rows below it are late."""

    low: int = NEVER


class DupElim(Operator):
    """What both share: late rows, and progress on the time."""

    LATE: str

    def __init__(self, schema: pa.Schema, on: Sequence[str], time: str, store: Store | None = None) -> None:
        super().__init__(store)
        self.on, self.time = list(on), time
        self._ticks = Ticks(schema.field(time).type)
        self._passed = self.store.record("passed", Passed())
        self._promises = self.store.record("promises", Promises())

    @property
    def low(self) -> int:
        return self._passed.low

    @property
    def demands(self) -> tuple[str, ...]:
        return (self.time,)

    def on_rows(self, port: int, rows: Payload, emit: Emit) -> None:
        given = batch_of(rows)
        time = checked(self._ticks.encode(whole(given.column(self.time))), self.time)
        late = time < self.low
        kept = self.without_late(given, late, self.LATE, emit)
        if kept.num_rows:
            self._arrive(kept, time[~late], emit)

    def on_punctuation(self, port: int, punctuation: Punctuation, emit: Emit) -> None:
        low = punctuation.low_watermark(self.time)
        if low is None or low <= self.low:
            return
        self._passed.low = low
        self._pass(emit)
        self._promises.emit({self.time: low}, emit)

    @abstractmethod
    def _arrive(self, rows: pa.Table, time: Ints, emit: Emit) -> None:
        """Rows that are not late, with their times."""

    @abstractmethod
    def _pass(self, emit: Emit) -> None:
        """The low-watermark has grown."""

    def _answer(self, rows: pa.Table, emit: Emit) -> None:
        if rows.num_rows:
            self.counts.results += rows.num_rows
            emit(Batch(rows))


class Distinct(DupElim):
    """See the module text."""

    LATE = "equal rows are forgotten already"

    def __init__(self, schema: pa.Schema, on: Sequence[str], time: str, store: Store | None = None) -> None:
        super().__init__(schema, on, time, store)
        self._seen = Waiting(pa.schema([schema.field(name) for name in on]), self.store.at("seen"))

    def _arrive(self, rows: pa.Table, time: Ints, emit: Emit) -> None:
        given = rows.select(self.on)
        seen = self._seen.of_times(time)  # rows of other times cannot be equal
        code, distinct = factorise(pa.concat_tables([seen, given.cast(seen.schema)]))
        first = np.full(distinct.num_rows, -1)
        first[code[::-1]] = np.arange(len(code))[::-1]  # of equal rows the first is written last
        new = np.sort(first[first >= seen.num_rows]) - seen.num_rows
        fresh = given.take(pa.array(new))
        self._seen.add(fresh, time[new])
        self._answer(fresh, emit)

    def _pass(self, emit: Emit) -> None:
        self._seen.release(self.low)

    @property
    def rows(self) -> int:
        return self._seen.rows

    def excess(self) -> str | None:
        return before_low("remembers", self._seen.least, self.low)


class DropDuplicates(DupElim):
    """See the module text."""

    LATE = "rows of its time are final already"

    def __init__(
        self, schema: pa.Schema, on: Sequence[str], time: str, within: int, store: Store | None = None
    ) -> None:
        super().__init__(schema, on, time, store)
        self.within = within
        self._waiting = Waiting(schema, self.store)
        self._last = LastSurvivors(self.store.at("last"))

    def _arrive(self, rows: pa.Table, time: Ints, emit: Emit) -> None:
        self._waiting.add(rows, time)

    def _pass(self, emit: Emit) -> None:
        rows, time = self._waiting.release(self.low)
        if len(time):
            self._answer(self._survivors(rows, time), emit)
        self._last.extract(END if self.low == END else self.low - self.within - 1)

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
        return self._waiting.rows + self._last.rows

    def excess(self) -> str | None:
        last = self._last.least
        if last is not None and last + self.within < self.low:
            return f"keeps a survivor at {last}, whose reach ends before the low-watermark {self.low}"
        if self._last.rows > self._last.keys:
            return f"keeps {self._last.rows} survivors of {self._last.keys} keys"
        return before_low("waits with", self._waiting.least, self.low)


def before_low(holds: str, least: int | None, low: int) -> str | None:
    if least is None or least >= low:
        return None
    return f"{holds} a row at {least}, which the low-watermark {low} has passed"
