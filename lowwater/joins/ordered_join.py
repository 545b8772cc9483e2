"""OPOB-Join and OPIB-Join: window joins whose results leave in order of the first input's time (TH 7.3).

OA-Join emits a pair when the later of its rows arrives, so its results are unordered even if both inputs are ordered.
Operators that rely on order need one of these joins instead. They are the baselines that OA-Join is measured against.

    OPOB   order-preserving, output-buffered: joins on arrival, as OA-Join does. Results wait until no result that
           belongs before them can come.
    OPIB   order-preserving, input-buffered: rows of the first input wait until they are final and all their partners
           have come. Then they are joined in order, and no result waits.

Both advance with the same bound, the low-watermark that OA-Join promises for the time of the first input:

    b_i       low-watermark of input i
    F         min(b_0, b_1 - wait_0, b_2 - wait_0, ...): no result with t_0 < F comes any more, all others come later
    passed    t_0 < F, so for input i   t_i < F - wait_i

Over a grid, F - wait_i is a window number, as in oa_join.py. The bounds that OA-Join promises for the other inputs
would be wrong here, because waiting results have left the join but not the operator. The bound above holds for them.

State of each join if all inputs have progressed to b and all waits are n:

    OA-Join   rows of the last n, on both sides
    OPOB      the same, and the results of the last n of the first input
    OPIB      rows of the last n of the first input and of the last 2n of the other: a row of the first waits n for its
              partners, and must still find those that came n before it

>>> from lowwater.joins.spec import JoinSide, WindowJoin
>>> from lowwater.operators.base import taken
>>> a, b = (JoinSide(name, pa.schema({"ts": pa.int64(), "k": pa.string()}), "ts", ("k",)) for name in ("a", "b"))
>>> for kind in (OAJoin, OPOBJoin, OPIBJoin):
...     join, out = kind(WindowJoin((a, b), (5, 5))), []
...     for port, ts in ((0, 3), (0, 4), (1, 8), (1, 5)):
...         out += taken(join, port, Batch(pa.table({"ts": [ts], "k": ["x"]})))
...     out += [m for port in (0, 1) for m in taken(join, port, Punctuation.linear("ts", 10))]
...     print([ts for m in out if isinstance(m, Batch) for ts in m.rows["a_ts"].to_pylist()])
[3, 4, 3, 4]
[3, 3, 4, 4]
[3, 3, 4, 4]
"""

from __future__ import annotations

from abc import abstractmethod

import numpy as np
import pyarrow as pa

from lowwater.errors import LowwaterError
from lowwater.joins.arrived import arrange
from lowwater.joins.keyed import Ints, Keyed, Mask
from lowwater.joins.oa_join import OAJoin
from lowwater.joins.spec import WindowJoin
from lowwater.model.columns import whole
from lowwater.model.punctuation import Punctuation
from lowwater.model.ticks import END, NEVER
from lowwater.operators.base import Batch, Emit, Message, Payload
from lowwater.operators.waiting import Waiting
from lowwater.state.store import Store

PIECE = 1 << 14
"""The number of rows of the first input that are joined at a time."""


class OrderedJoin(OAJoin):
    """The base of both joins: the bound F, the punctuation that follows from it, and the rows that wait for it.

    `promised[0]` is the F of the last punctuation. All results before it have been emitted.
    """

    def __init__(self, what: WindowJoin, store: Store | None = None) -> None:
        if what.how != "inner" or what.rows is not None:
            kind = f"a {what.how} join" if what.how != "inner" else "a join over tuple-count windows"
            raise LowwaterError(f"{type(self).__name__} keeps the order of inner joins over time, not of {kind}.")
        super().__init__(what, store=store)
        self._waiting = Waiting(self._waits(), self.store)

    @abstractmethod
    def _waits(self) -> pa.Schema:
        """The schema of the rows that wait."""

    @property
    def _final(self) -> int:
        """F: the least time of the first input in any later result."""
        return min(self.low[0], self.what.axis.since(OAJoin._bound(self, 0)))

    def _reach(self, port: int, final: int) -> int:
        """The least position on another input that a row of the first input at `final` or later can join."""
        reached, wait = self.what.axis.reached(final), self.what.waits[port]
        if reached in (NEVER, END):
            return reached
        return NEVER if wait is None else reached - wait

    def _least(self) -> int:
        return self.what.axis.reached(self._final)  # results at F or later may still wait

    def _first_time(self, results: pa.Table) -> Ints:
        return self.what.sides[0].ticks.encode(whole(results.column(self.what.times[0])))

    def _slabs(self, emit: Emit) -> None:
        final = self._final
        lows = [final, *(self.what.axis.since(self._reach(port, final)) for port in range(1, self.ports))]
        for port, (name, low) in enumerate(zip(self.what.times, lows, strict=True)):
            if low > self.promised[port]:
                self.promised[port] = low
                emit(Punctuation.linear(name, low))

    def excess(self) -> str | None:
        """The bound of OA-Join. In addition, no row waits whose place in the order is certain."""
        least = self._waiting.least
        if least is not None and least < self.promised[0]:
            return f"A row at {least} still waits, although all rows before {self.promised[0]} have been emitted."
        return super().excess()

    @property
    def rows(self) -> int:
        return super().rows + self._waiting.rows


class OPOBJoin(OrderedJoin):
    """OA-Join with an output buffer for its results."""

    def _waits(self) -> pa.Schema:
        return self.what.result_schema()

    def on_rows(self, port: int, rows: Payload, emit: Emit) -> None:
        def hold(message: Message) -> None:
            if isinstance(message, Batch):
                self._waiting.add(message.rows, self._first_time(message.rows))
            else:
                emit(message)

        super().on_rows(port, rows, hold)

    def _passed(self, emit: Emit) -> None:
        rows, _ = self._waiting.release(self._final)
        if rows.num_rows:
            emit(Batch(rows))


class OPIBJoin(OrderedJoin):
    """A join that processes the rows of its first input in order. They wait unsorted; only other inputs are probed."""

    def _waits(self) -> pa.Schema:
        return self.what.sides[0].schema

    def _probe(self, port: int, keyed: Keyed, emit: Emit) -> Mask:
        """Joins nothing on arrival."""
        return np.zeros(len(keyed), np.bool_)

    def _keep(self, port: int, keyed: Keyed, matched: Mask, emit: Emit) -> None:
        if port:
            super()._keep(port, keyed, matched, emit)
            return
        rows, grid = keyed.rows, self.what.grid
        time = self._time(0, rows)
        if grid is not None and grid.range != grid.slide:  # a row that is in several windows waits once
            once = keyed.at == grid.bounds(time)[0]
            rows, time = rows.filter(pa.array(once)), time[once]
        self._waiting.add(rows, time)

    def _bound(self, port: int) -> int:
        """Rows of other inputs are kept as long as a row of the first input that is not joined yet can need them."""
        return self._reach(port, self.promised[0]) if port else super()._bound(port)

    def _passed(self, emit: Emit) -> None:
        final = self._final
        rows, _ = self._waiting.release(final)
        for at in range(0, rows.num_rows, PIECE):
            self._joined(rows.slice(at, PIECE), emit)
        for port in range(1, self.ports):  # after the join, which still needed these rows
            self.sides[port].invalidate(self._reach(port, final), which=False)

    def _joined(self, rows: pa.Table, emit: Emit) -> None:
        """Emits the results of rows of the first input, in order of their time."""
        found: list[Message] = []
        super()._probe(0, arrange(self.what, 0, rows).keyed, found.append)
        tables = [message.rows for message in found if isinstance(message, Batch)]
        if tables:
            results = pa.concat_tables(tables).combine_chunks()
            emit(Batch(results.take(pa.array(np.argsort(self._first_time(results), kind="stable")))))
