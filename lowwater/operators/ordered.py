"""Merge and Sort: order enforced on rows, the technique of in-order systems (TH 8.2, 8.4; A1, X3).

Rows wait until nothing that belongs before them can come, then go out in order of the progressing attribute, and the
operators behind may trust that order. The baselines of the figures are made of these; no plan asks for them, since
window aggregation needs no order.

    Merge   union of several inputs: a row waits until every input has progressed past it; ties in order of the ports
    Sort    one input: a row waits until the largest value seen is `slack` beyond it, or a punctuation passes it

State: the rows that wait (waiting.py). A row whose place in the order has passed goes to the late output. The output
progresses by its order; punctuation goes out when punctuation comes in.

>>> from lowwater.operators.base import taken
>>> schema = pa.schema({"ts": pa.int64()})
>>> merge = Merge(schema, "ts", 2)
>>> taken(merge, 0, Batch(pa.table({"ts": [5, 3]}))), taken(merge, 1, Batch(pa.table({"ts": [4]})))
([], [])
>>> taken(merge, 0, Punctuation.linear("ts", 9)), merge.held().rows
([], 3)
>>> rows, low = taken(merge, 1, Punctuation.linear("ts", 5))
>>> rows.rows["ts"].to_pylist(), str(low), merge.held().rows
([3, 4], '(ts: (-inf, 5))', 1)
>>> sort = Sort(schema, "ts", slack=2)
>>> [m.rows["ts"].to_pylist() for m in taken(sort, 0, Batch(pa.table({"ts": [1, 3, 2, 6, 3, 8]})))]
[[3], [1, 2, 3]]
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lowwater.model.columns import whole
from lowwater.model.punctuation import ALL, Punctuation
from lowwater.model.ticks import END, NEVER, Ticks, checked
from lowwater.operators.base import Batch, Emit, Operator, Payload, batch_of
from lowwater.operators.waiting import Waiting
from lowwater.state.store import Store

Times = npt.NDArray[np.int64]
LATE = "its place in the order has passed"


@dataclass
class Order:
    """Bounds of the inputs, how far the order has gone and was told, and, for a sort, the largest value seen."""

    bounds: list[int] = field(default_factory=list)
    passed: int = NEVER
    emitted: int = NEVER
    most: int = NEVER


class InOrder(Operator):
    """What Merge and Sort share. `passed` is how far the order has gone: no row below it goes out any more."""

    def __init__(self, schema: pa.Schema, attribute: str, ports: int, store: Store | None = None) -> None:
        super().__init__(store)
        self.attribute = attribute
        self.ports = ports
        self._order = self.store.record("order", Order([NEVER] * ports))
        self._ticks = Ticks(schema.field(attribute).type)
        self._waiting = [Waiting(schema, self.store.at(str(port))) for port in range(ports)]

    @property
    def bounds(self) -> list[int]:
        return self._order.bounds

    @property
    def passed(self) -> int:
        return self._order.passed

    @abstractmethod
    def _low(self) -> int:
        """How far the order can go now."""

    @abstractmethod
    def _least(self, time: Times) -> Times | int:
        """For rows as they arrive: the least value that each of them may have."""

    @property
    def demands(self) -> tuple[str, ...]:
        return (self.attribute,)

    def on_rows(self, port: int, rows: Payload, emit: Emit) -> None:
        given = batch_of(rows)
        time = checked(self._ticks.encode(whole(given.column(self.attribute))), self.attribute)
        late = time < self._least(time)
        self._waiting[port].add(self.without_late(given, late, LATE, emit), time[~late])
        self._release(emit)

    def on_punctuation(self, port: int, punctuation: Punctuation, emit: Emit) -> None:
        low = punctuation.low_watermark(self.attribute)
        if low is None:
            return
        self.bounds[port] = max(self.bounds[port], low)
        self._release(emit)
        if self.passed > self._order.emitted:
            self._order.emitted = self.passed
            emit(ALL if self.passed == END else Punctuation.linear(self.attribute, self.passed))

    def _release(self, emit: Emit) -> None:
        """Emits the rows that are passed now, in order: by time, then by port, then as they came."""
        low = self._low()
        if low <= self.passed:
            return
        self._order.passed = low
        gone = [waiting.release(low) for waiting in self._waiting]
        time = np.concatenate([time for _, time in gone])
        if not len(time):
            return
        self.counts.results += len(time)
        rows = pa.concat_tables([rows for rows, _ in gone]).combine_chunks()
        emit(Batch(rows if self.ports == 1 else rows.take(pa.array(np.argsort(time, kind="stable")))))

    def excess(self) -> str | None:
        """No row waits that the order has passed."""
        least = min((of.least for of in self._waiting if of.least is not None), default=None)
        return None if least is None or least >= self.passed else f"A row at {least} waits below {self.passed}."

    @property
    def rows(self) -> int:
        return sum(waiting.rows for waiting in self._waiting)


class Merge(InOrder):
    """Union of inputs that progress on the same attribute, in order. It holds what the faster ones are ahead by."""

    def _low(self) -> int:
        return min(self.bounds)

    def _least(self, time: Times) -> int:
        return self.passed


class Sort(InOrder):
    """Order on one input of which no row is more than `slack` behind the largest value before it; the rest is late.

    That is told row by row and so does not depend on how rows are cut into batches.
    """

    def __init__(self, schema: pa.Schema, attribute: str, slack: int, store: Store | None = None) -> None:
        super().__init__(schema, attribute, 1, store)
        self.slack = slack

    def _low(self) -> int:
        by_slack = NEVER if self._order.most == NEVER else self._order.most - self.slack
        return max(self.bounds[0], by_slack)

    def _least(self, time: Times) -> Times:
        """Takes note of the largest value, too: `time` is what arrives."""
        reached = np.maximum.accumulate(np.concatenate([[self._order.most], time]))
        self._order.most = int(reached[-1])
        by_slack = np.where(reached == NEVER, NEVER, reached - self.slack)[:-1]
        return np.maximum(by_slack, self.passed)
