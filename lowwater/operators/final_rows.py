"""Final rows: the base of operators that decide rows when progress has passed them.

A row is final when the low-watermark has passed it: no row that belongs before it can come any more. What is decided
then does not depend on the order of arrival.

    Progressing   takes rows that are not late, and passes the low-watermark on. A row below it is late
    FinalRows     lets its rows wait until they are final, and then decides them in one method, `on_final`

`DropDuplicates` (distinct.py) is an example.

With `by`, a column of the rows is their source, and a row is final when the low-watermark of its own source has passed
it (group_lows.py). That is for operators that decide each source on its own.

State: the low-watermark, the promises, and of `FinalRows` the rows from the low-watermark on (waiting.py). Both need
linear punctuation on the time. Other punctuation ends here. The lows of sources are kept with `by`.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lowwater.model.columns import whole
from lowwater.model.punctuation import Punctuation
from lowwater.model.ticks import END, NEVER, Ticks, checked
from lowwater.operators.base import Batch, Emit, Operator, Payload, Promises, batch_of
from lowwater.operators.group_lows import Advance, Frontier, GroupLows, Own
from lowwater.operators.waiting import Waiting
from lowwater.state.store import Store

Ints = npt.NDArray[np.int64]


@dataclass
class Passed:
    """The low-watermark: rows below it are late."""

    low: int = NEVER


class Progressing(Operator):
    """Rows that are not late, and progress on their time. `LATE` is the reason that late rows get."""

    LATE: str

    def __init__(self, schema: pa.Schema, time: str, store: Store | None = None, by: str | None = None) -> None:
        super().__init__(store)
        self.time = time
        self._own = Own(by, time, self.store)
        self._columns = schema.names
        self._ticks = Ticks(schema.field(time).type)
        self._passed = self.store.record("passed", Passed())
        self._promises = self.store.record("promises", Promises())

    @property
    def low(self) -> int:
        """The low-watermark of the slowest source."""
        return self._passed.low

    @property
    def frontier(self) -> Frontier:
        """The low-watermark of each source, or of all."""
        return Frontier(self.low, self._own.lows)

    @property
    def demands(self) -> tuple[str, ...]:
        return (self.time,)

    def on_rows(self, port: int, rows: Payload, emit: Emit) -> None:
        given = batch_of(rows).select(self._columns)
        time = checked(self._ticks.encode(whole(given.column(self.time))), self.time)
        late = time < self.frontier.of(given)
        kept = self.without_late(given, late, self.LATE, emit)
        if kept.num_rows:
            self.on_time(kept, time[~late], emit)

    def on_punctuation(self, port: int, punctuation: Punctuation, emit: Emit) -> None:
        low = punctuation.low_watermark(self.time)
        if low is None or low <= self.low:
            return
        before, self._passed.low = self.frontier, low
        self.on_progress(Advance(before, self.frontier, low), emit)
        if low == END:
            self._own.forget()
        self._promises.emit({self.time: self.promise}, emit)  # after the rows that it excludes

    def on_group_lows(self, port: int, lows: GroupLows, emit: Emit) -> None:
        before = self.frontier
        grown = self._own.hear(lows, self.low)
        if grown is not None:
            self.on_progress(Advance(before, self.frontier, grown), emit)

    @abstractmethod
    def on_time(self, rows: pa.Table, time: Ints, emit: Emit) -> None:
        """Rows that are not late, with their times in ticks."""

    @abstractmethod
    def on_progress(self, step: Advance, emit: Emit) -> None:
        """The low-watermark has grown, of all sources or of some."""

    @property
    def promise(self) -> int:
        """The time from which on results can still come: the low-watermark, if no final row is held back."""
        return self.low

    def answer(self, rows: pa.Table, emit: Emit) -> None:
        """Emits results, and counts them."""
        if rows.num_rows:
            self.counts.results += rows.num_rows
            emit(Batch(rows))

    def passed(self, held: Waiting, holds: str) -> str | None:
        """The sentence for `excess`, if rows are held that the low-watermark has passed."""
        least = held.passed(self.frontier)
        if least is None:
            return None
        return f"A row at {least} {holds}, though the low-watermark has passed it."


class FinalRows(Progressing):
    """Rows that are decided when they are final."""

    LATE = "rows of its time are final already"
    step: Advance
    """The step of progress that has made rows final."""

    def __init__(self, schema: pa.Schema, time: str, store: Store | None = None, by: str | None = None) -> None:
        super().__init__(schema, time, store, by)
        self._waiting = Waiting(schema, self.store)

    def on_time(self, rows: pa.Table, time: Ints, emit: Emit) -> None:
        self._waiting.add(rows, time)

    def on_progress(self, step: Advance, emit: Emit) -> None:
        self.step = step
        self.on_final(*self._waiting.release(step.most, step.due), emit)

    @abstractmethod
    def on_final(self, rows: pa.Table, time: Ints, emit: Emit) -> None:
        """The low-watermark has grown. `rows` have become final, and come by (time, arrival) with their times.

        There may be no rows: progress alone can decide or forget something.
        """

    @property
    def rows(self) -> int:
        return self._waiting.rows

    def excess(self) -> str | None:
        return self.passed(self._waiting, "waits")
