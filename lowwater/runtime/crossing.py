"""The crossing from one stage to the next: rows in the layout of the next operator, and punctuation.

In the later stage, each shard of the earlier stage is one run and one source. Linear punctuation goes to every shard,
and the later stage progresses at the minimum of the bounds that the earlier shards have promised. Every shard sends a
message to every shard in every micro-batch, so that a silent shard delays nothing and the end passes all stages in one
batch.

Ended values do not cross, because the next operator reads rows by other columns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from lowwater.model.columns import whole
from lowwater.model.punctuation import ALL, Punctuation, Range
from lowwater.model.ticks import END, NEVER, Ticks
from lowwater.operators.base import Batch, Message
from lowwater.operators.layout import Tables
from lowwater.plan.plan import Edge, Plan
from lowwater.state.segments import pack
from lowwater.state.store import Store

PIECE = 32 << 20
"""Bytes of rows per message, so that messages stay far below the limits of Spark."""


@dataclass(frozen=True)
class Crossed:
    """A message from a shard of an earlier stage to a shard of a later one. `lows` are bounds by attribute."""

    edge: int
    shard: int
    selected: int = 0
    span: tuple[int, int] | None = None
    lows: dict[str, int] = field(default_factory=dict)
    boxes: tuple[tuple[tuple[str, ...], tuple[int, ...]], ...] = ()
    """Joint punctuation: attributes, and the bounds that hold for them together."""
    tables: Tables = field(default_factory=dict)

    def packed(self) -> bytes:
        first, last = self.span or (None, None)
        head = {"edge": [self.edge], "shard": [self.shard], "selected": [self.selected]}
        ends = {"first": pa.array([first], pa.int64()), "last": pa.array([last], pa.int64())}
        lows = pa.table(
            {"attribute": pa.array(list(self.lows), pa.string()), "low": pa.array(list(self.lows.values()), pa.int64())}
        )
        boxes = pa.table(
            {
                "attributes": pa.array([list(names) for names, _ in self.boxes], pa.list_(pa.string())),
                "lows": pa.array([list(bounds) for _, bounds in self.boxes], pa.list_(pa.int64())),
            }
        )
        return pack({"crossed": pa.table({**head, **ends}), "lows": lows, "boxes": boxes, **self.tables})

    @staticmethod
    def of(tables: Tables) -> Crossed:
        (head,) = tables.pop("crossed").to_pylist()
        lows = tables.pop("lows")
        boxes = tables.pop("boxes").to_pylist()
        return Crossed(
            head["edge"],
            head["shard"],
            head["selected"],
            None if head["first"] is None else (head["first"], head["last"]),
            dict(zip(lows.column(0).to_pylist(), lows.column(1).to_pylist(), strict=True)),
            tuple((tuple(box["attributes"]), tuple(box["lows"])) for box in boxes),
            tables,
        )


class Outgoing:
    """The results of one operator in one micro-batch, on their way to a later stage."""

    def __init__(
        self, plan: Plan, number: int, shard: int, shards: int, outside: Callable[[pa.Table], None] | None
    ) -> None:
        self._plan, self._number, self._shard, self._shards = plan, number, shard, shards
        self._outside = outside
        self._edge = plan.edges[number]
        self._time = plan.operators[self._edge.reader[0]].times[self._edge.reader[1]]
        self._pieces: list[list[bytes]] = [[] for _ in range(shards)]
        self._lows: dict[str, int] = {}
        self._boxes: dict[tuple[str, ...], tuple[int, ...]] = {}
        self._open()

    def _open(self) -> None:
        self._laying = self._plan.layout(self._edge).open(self._shards, False, self._shard)
        self._held = self._selected = 0
        self._span: tuple[int, int] | None = None

    def take(self, message: Message) -> None:
        if isinstance(message, Batch):
            if self._outside is not None:  # Spark evaluates the outside steps before rows are laid out
                self._outside(message.rows)
            else:
                self.rows(message.rows)
        elif isinstance(message, Punctuation):
            self._promise(message)

    def rows(self, rows: pa.Table) -> None:
        self._laying.take(rows)
        self._held += rows.nbytes
        self._selected += rows.num_rows
        if self._time is not None and self._time in rows.column_names and rows.num_rows:
            ticks = Ticks(rows.schema.field(self._time).type).encode(whole(rows.column(self._time)).drop_null())
            if len(ticks):
                first, last = self._span or (int(ticks[0]), int(ticks[0]))
                self._span = (min(first, int(ticks.min())), max(last, int(ticks.max())))
        if self._held > PIECE:
            self._send({})

    def _promise(self, punctuation: Punctuation) -> None:
        patterns = dict(punctuation.patterns)
        if not patterns:
            self._lows[""] = END
        elif len(patterns) == 1:
            ((name, _),) = patterns.items()
            low = punctuation.low_watermark(name)
            if low is not None and (name in self._edge.attributes):
                self._lows[name] = max(low, self._lows.get(name, NEVER))
        elif all(isinstance(p, Range) and p.low is None for p in patterns.values()):
            ranges = [p for p in patterns.values() if isinstance(p, Range)]
            self._boxes[tuple(patterns)] = tuple(END if p.high is None else int(p.high) for p in ranges)

    def _send(self, lows: dict[str, int], boxes: Sequence[tuple[tuple[str, ...], tuple[int, ...]]] = ()) -> None:
        for shard, tables in enumerate(self._laying.finish()):
            sent = Crossed(self._number, self._shard, self._selected, self._span, lows, tuple(boxes), tables)
            self._pieces[shard].append(sent.packed())
        self._open()

    def finish(self) -> list[list[bytes]]:
        """The packed messages of every shard of the later stage."""
        self._send(self._lows, list(self._boxes.items()))
        return self._pieces


@dataclass
class Lows:
    """The promises of the earlier shards: per attribute, one bound per shard. The name "" stands for the end."""

    low: dict[str, list[int]] = field(default_factory=dict)
    boxes: list[list[Any]] = field(default_factory=list)
    """Joint punctuation: the attributes, and their bounds per shard."""


class Incoming:
    """The progress of one edge into this stage: the minimum of the bounds that the earlier shards have promised."""

    def __init__(self, edge: Edge, shards: int, store: Store) -> None:
        self._shards = shards
        self._attributes = edge.attributes
        self._lows = store.record("lows", Lows())

    def learn(self, crossed: Crossed) -> None:
        for name, low in crossed.lows.items():
            bounds = self._lows.low.setdefault(name, [NEVER] * self._shards)
            bounds[crossed.shard] = max(bounds[crossed.shard], low)
        for names, box in crossed.boxes:
            known = next((one for one in self._lows.boxes if one[0] == list(names)), None)
            if known is None:
                known = [list(names), [[NEVER] * len(names) for _ in range(self._shards)]]
                self._lows.boxes.append(known)
            known[1][crossed.shard] = list(box)

    def punctuation(self) -> Iterator[Punctuation]:
        """The punctuation that holds for the rows of all earlier shards."""
        ended = self._lows.low.get("", [NEVER] * self._shards)
        if min(ended) == END:
            yield ALL
            return
        for name in self._attributes:
            bounds = self._lows.low.get(name, [NEVER] * self._shards)
            low = min(max(own, end) for own, end in zip(bounds, ended, strict=True))
            if low > NEVER:
                yield Punctuation.linear(name, low)
        for names, shards in self._lows.boxes:
            each = [[END] * len(names) if end == END else own for own, end in zip(shards, ended, strict=True)]
            least = np.array(each, np.int64).min(axis=0)
            if least.min() > NEVER:
                highs = [None if low == END else int(low) for low in least]
                yield Punctuation({name: Range(None, high) for name, high in zip(names, highs, strict=True)})
