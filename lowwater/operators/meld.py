"""Meld: a union without order (TH 8.2, Fig. 8-2). Rows pass at once. State: one bound per input and attribute, and
those of the sources.

Emits, on every attribute on which all inputs progress, the minimum of their bounds, whenever it has grown. (Merge,
which keeps order, has to buffer every row of the faster inputs instead.)

The progress of each source passes too, where inputs report it: of a source the minimum over the inputs.

A value that one input has ended can still come from another, so ended values do not pass. With `whole`, inputs report
values that have ended in all of them, as ends() behind union() declares; these pass.

>>> from lowwater.model.punctuation import Punctuation
>>> from lowwater.operators.base import taken
>>> meld = Meld(("ts",), 2)
>>> taken(meld, 0, Punctuation.linear("ts", 20))
[]
>>> [p.low_watermark("ts") for t in (19, 20, 21, 22) for p in taken(meld, 1, Punctuation.linear("ts", t))]
[19, 20]
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from lowwater.model.punctuation import ALL, Punctuation
from lowwater.model.ticks import END, NEVER
from lowwater.operators.base import Batch, Emit, Ended, Operator, Payload
from lowwater.operators.bucket import ROW
from lowwater.operators.group_lows import GroupLows, LowsCodec, least
from lowwater.operators.layout import Layout, RowLayout
from lowwater.operators.spec import Need, OperatorSpec, carried
from lowwater.state.store import Store


@dataclass(frozen=True)
class MeldSpec(OperatorSpec):
    """A union of `ports` inputs that progress on the same attributes."""

    schema: pa.Schema
    attributes: tuple[str, ...]
    ports: int = 1
    whole: bool = False
    """Whether values that an input ends have ended in all of them."""
    name = "Meld"

    @property
    def result(self) -> pa.Schema:
        return self.schema

    @property
    def title(self) -> str:
        if self.ports == 1:
            return "Rows  as they come"
        return f"Meld  of {self.ports} inputs: rows pass at once, progress is the minimum"

    def need(self, port: int) -> Need:
        return Need(None)

    def layout(self, port: int, route: tuple[str, ...] | None) -> Layout:
        return RowLayout(tuple(self.schema.names), route)

    def open(self, store: Store, shards: int) -> Operator:
        return Meld(self.attributes, self.ports, store, self.whole, self.schema.names)

    def partitioned(self, routes: Sequence[tuple[str, ...] | None]) -> tuple[str, ...] | None:
        return carried(routes, self.schema.names)

    def lines(self) -> list[tuple[str, str]]:
        return []


@dataclass
class Bounds:
    """By attribute: the bound of every input, and the bound that was emitted."""

    low: dict[str, list[int]] = field(default_factory=dict)
    emitted: dict[str, int] = field(default_factory=dict)


class Meld(Operator):
    """A union of `ports` inputs. See the module text."""

    def __init__(
        self,
        attributes: Sequence[str],
        ports: int,
        store: Store | None = None,
        whole: bool = False,
        columns: Sequence[str] | None = None,
    ) -> None:
        super().__init__(store)
        self._columns = None if columns is None else list(columns)
        self.ports = ports
        self._whole = whole
        self.attributes = tuple(attributes)
        fresh = Bounds({name: [NEVER] * ports for name in attributes}, dict.fromkeys(attributes, NEVER))
        self._bounds = self.store.record("bounds", fresh)
        self._own = self.store.slots("own", LowsCodec())

    @property
    def demands(self) -> tuple[str, ...]:
        return self.attributes

    def emitted(self, attribute: str) -> int:
        return self._bounds.emitted[attribute]

    def on_rows(self, port: int, rows: Payload, emit: Emit) -> None:
        if isinstance(rows, Batch):  # rows that are reduced or sorted already are counted by the next operator
            self.counts.results += len(rows)
            rows = self._alike(rows)
        emit(rows)

    def _alike(self, batch: Batch) -> Batch:
        """Rows of all inputs with the same columns in the same order; row numbers stay beside them."""
        names = batch.rows.column_names
        if self._columns is None or names[: len(self._columns)] == self._columns:
            return batch
        return Batch(batch.rows.select([*self._columns, *(name for name in names if name == ROW)]), batch.run)

    def on_ended(self, port: int, ended: Ended, emit: Emit) -> None:
        if self.ports == 1 or self._whole:
            emit(ended)

    def on_group_lows(self, port: int, lows: GroupLows, emit: Emit) -> None:
        if lows.attribute in self.attributes and self._bounds.low[lows.attribute][port] < END:
            self._own.put(f"{port} {lows.attribute}", lows)
            self._least(lows.attribute, emit)

    def _least(self, attribute: str, emit: Emit) -> None:
        """Emits the progress of each source, if inputs have reported it."""
        names = [f"{port} {attribute}" for port in range(self.ports)]
        each = [self._own[name].value if name in self._own else None for name in names]
        lows = least(each, self._bounds.low[attribute])
        if lows is not None:
            emit(lows)

    def on_punctuation(self, port: int, punctuation: Punctuation, emit: Emit) -> None:
        for attribute in self.attributes:
            low = punctuation.low_watermark(attribute)
            if low is not None:
                bounds = self._bounds.low[attribute]
                grows = low > bounds[port]
                bounds[port] = max(bounds[port], low)
                if grows and self.ports > 1 and len(self._own):  # of sources that this input does not know
                    self._least(attribute, emit)
        before = dict(self._bounds.emitted)
        slowest = {name: min(bounds) for name, bounds in self._bounds.low.items()}
        if set(slowest.values()) == {END}:
            if set(before.values()) != {END}:
                self._bounds.emitted = slowest
                self._own.clear()
                emit(ALL)
            return
        for name, low in slowest.items():
            if before[name] < low < END:
                self._bounds.emitted[name] = low
                emit(Punctuation.linear(name, low))
