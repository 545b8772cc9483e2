"""Merge and Sort: order enforced on rows, the technique of in-order systems (TH 8.2, 8.4; A1, X3).

Rows wait until nothing that belongs before them can come, then go out in order of the progressing attribute, and the
operators behind may trust that order. The baselines of the figures are made of these; no plan asks for them, since
window aggregation needs no order.

    Merge   union of several inputs: a row waits until every input has progressed past it; ties in order of the ports
    Sort    one input: a row waits until the largest value seen is `slack` beyond it, or a punctuation passes it

State: the rows that wait (waiting.py). A row whose place in the order has passed goes to the late output. The output
progresses by its order; punctuation goes out when punctuation comes in.

>>> from lowwater.model.punctuation import Punctuation
>>> schema = pa.schema({"ts": pa.int64()})
>>> merge = Merge(schema, "ts", 2)
>>> merge.on_batch(0, Batch(pa.table({"ts": [5, 3]}))), merge.on_batch(1, Batch(pa.table({"ts": [4]})))
([], [])
>>> merge.on_punctuation(0, Punctuation.linear("ts", 9)), merge.held().rows
([], 3)
>>> rows, low = merge.on_punctuation(1, Punctuation.linear("ts", 5))
>>> rows.rows["ts"].to_pylist(), str(low), merge.held().rows
([3, 4], '(ts: (-inf, 5))', 1)
>>> sort = Sort(schema, "ts", slack=2)
>>> [m.rows["ts"].to_pylist() for m in sort.on_batch(0, Batch(pa.table({"ts": [1, 3, 2, 6, 3, 8]})))]
[[3], [1, 2, 3]]
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lowwater.model.columns import whole
from lowwater.model.punctuation import ALL, Punctuation
from lowwater.model.ticks import END, NEVER, Ticks, checked
from lowwater.operators.aggregation import all_late
from lowwater.operators.base import Batch, Held, Load, Message, Operator, Snapshot
from lowwater.operators.waiting import Waiting
from lowwater.state.segments import Segment

Times = npt.NDArray[np.int64]
LATE = "its place in the order has passed"


class InOrder(Operator):
    """What Merge and Sort share. `passed` is how far the order has gone: no row below it goes out any more."""

    def __init__(self, schema: pa.Schema, attribute: str, ports: int) -> None:
        self.attribute = attribute
        self.ports = ports
        self.bounds = [NEVER] * ports
        self.passed = NEVER
        self.emitted = NEVER
        self._ticks = Ticks(schema.field(attribute).type)
        self._waiting = [Waiting(schema) for _ in range(ports)]

    @abstractmethod
    def _low(self) -> int:
        """How far the order can go now."""

    @abstractmethod
    def _least(self, time: Times) -> Times | int:
        """For rows as they arrive: the least value that each of them may have."""

    @property
    def demands(self) -> tuple[str, ...]:
        return (self.attribute,)

    def on_batch(self, port: int, batch: Batch) -> list[Message]:
        time = checked(self._ticks.encode(whole(batch.rows.column(self.attribute))), self.attribute)
        late = time < self._least(time)
        out: list[Message] = []
        rows = batch.rows
        if late.any():
            out.append(all_late(rows.filter(pa.array(late)), LATE))
            rows, time = rows.filter(pa.array(~late)), time[~late]
        self._waiting[port].add(rows, time)
        return [*out, *self._release()]

    def on_punctuation(self, port: int, punctuation: Punctuation) -> list[Message]:
        low = punctuation.low_watermark(self.attribute)
        if low is None:
            return []
        self.bounds[port] = max(self.bounds[port], low)
        out = self._release()
        if self.passed > self.emitted:
            self.emitted = self.passed
            out.append(ALL if self.passed == END else Punctuation.linear(self.attribute, self.passed))
        return out

    def _release(self) -> list[Message]:
        """The rows that are passed now, in order: by time, then by port, then as they came."""
        low = self._low()
        if low <= self.passed:
            return []
        self.passed = low
        gone = [waiting.release(low) for waiting in self._waiting]
        time = np.concatenate([time for _, time in gone])
        if not len(time):
            return []
        rows = pa.concat_tables([rows for rows, _ in gone]).combine_chunks()
        return [Batch(rows if self.ports == 1 else rows.take(pa.array(np.argsort(time, kind="stable"))))]

    def _segments(self) -> list[dict[str, Segment[Any]]]:
        return [waiting.segments() for waiting in self._waiting]

    def snapshot(self) -> Snapshot:
        segments = self._segments()
        head = {
            "bounds": list(self.bounds),
            "passed": self.passed,
            "emitted": self.emitted,
            "waiting": [{name: segment.id for name, segment in port.items()} for port in segments],
        }
        return Snapshot(head, {segment.id: segment for port in segments for segment in port.values()})

    def restore(self, head: dict[str, Any], load: Load) -> None:
        self.bounds = list(head["bounds"])
        self.passed, self.emitted = head["passed"], head["emitted"]
        for waiting, ids in zip(self._waiting, head["waiting"], strict=True):
            waiting.restore({name: load(id) for name, id in ids.items()})

    def decode(self, tables: dict[str, pa.Table]) -> object:
        return self._waiting[0].decode(tables)

    def held(self) -> Held:
        size = sum(segment.size for port in self._segments() for segment in port.values())
        return Held(sum(waiting.rows for waiting in self._waiting), size)


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

    def __init__(self, schema: pa.Schema, attribute: str, slack: int) -> None:
        super().__init__(schema, attribute, 1)
        self.slack = slack
        self.most = NEVER

    def _low(self) -> int:
        by_slack = NEVER if self.most == NEVER else self.most - self.slack
        return max(self.bounds[0], by_slack)

    def _least(self, time: Times) -> Times:
        """Takes note of the largest value, too: `time` is what arrives."""
        reached = np.maximum.accumulate(np.concatenate([[self.most], time]))
        self.most = int(reached[-1])
        by_slack = np.where(reached == NEVER, NEVER, reached - self.slack)[:-1]
        return np.maximum(by_slack, self.passed)

    def snapshot(self) -> Snapshot:
        ours = super().snapshot()
        return Snapshot({**ours.head, "most": self.most}, ours.segments)

    def restore(self, head: dict[str, Any], load: Load) -> None:
        super().restore(head, load)
        self.most = head["most"]
