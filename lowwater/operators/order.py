"""Order: results in order of a time. All rows meet in one shard, and each leaves when progress has passed it.

Rows of one time come by their values, so that the order does not depend on how rows arrived.

State: the rows at or above the low-watermark. Needs linear punctuation on the time, and passes it on.

>>> from lowwater.model.punctuation import Punctuation
>>> from lowwater.operators.base import Batch, taken
>>> order = Order(pa.schema({"ts": pa.int64(), "k": pa.string()}), "ts")
>>> taken(order, 0, Batch(pa.table({"ts": [5, 3, 9, 3], "k": ["a", "b", "a", "a"]})))
[]
>>> rows, low = taken(order, 0, Punctuation.linear("ts", 6))
>>> rows.rows.to_pylist(), str(low)
([{'ts': 3, 'k': 'a'}, {'ts': 3, 'k': 'b'}, {'ts': 5, 'k': 'a'}], '(ts: (-inf, 6))')
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lowwater.operators.base import Emit, Operator
from lowwater.operators.final_rows import FinalRows
from lowwater.operators.layout import Layout, RowLayout
from lowwater.operators.spec import Need, OperatorSpec
from lowwater.operators.survivors import in_order
from lowwater.state.store import Store


@dataclass(frozen=True)
class OrderSpec(OperatorSpec):
    """Order as the planner places it."""

    schema: pa.Schema
    time: str
    name = "Order"

    @property
    def result(self) -> pa.Schema:
        return self.schema

    def need(self, port: int) -> Need:
        return Need(())

    def layout(self, port: int, route: tuple[str, ...] | None) -> Layout:
        return RowLayout(tuple(self.schema.names), route)

    def open(self, store: Store, shards: int) -> Operator:
        return Order(self.schema, self.time, store)

    def partitioned(self, routes: Sequence[tuple[str, ...] | None]) -> tuple[str, ...] | None:
        return routes[0]

    @property
    def title(self) -> str:
        return f"Order  by {self.time}"

    def lines(self) -> list[tuple[str, str]]:
        return [
            ("because", "all rows meet in one shard, and a row leaves when progress has passed it"),
            ("state", "the rows between the low-watermark and the newest row"),
        ]

    @property
    def order(self) -> list[tuple[str, str]]:
        return [(self.time, "ascending")]


class Order(FinalRows):
    """See the module text."""

    def on_final(self, rows: pa.Table, time: npt.NDArray[np.int64], emit: Emit) -> None:
        by_value, again = in_order(rows, np.zeros(len(time), np.int64), time, 1)
        self.answer(rows.take(pa.array(by_value)) if again.any() else rows, emit)
