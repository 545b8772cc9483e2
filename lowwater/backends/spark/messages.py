"""What travels between the stages of a query on Spark: rows of one schema, whatever they carry.

    stage, shard    where the row goes; rows for a later stage pass the stages before it as they are
    run             orders the messages of a shard, so that a repeated task does the same
    kind            message, control, outside (rows that Spark evaluates expressions on), or an output:
                    result, late, wrote (the name of a file that is written already), metrics, facts
    part, parts     which piece of its blob the row carries, and of how many; of metrics: which number it is
    blob            packed tables, or a name, or a piece of them
    operator        of metrics: whose number it is; of outside: the edge that the rows are on
    value           of metrics: a number that adds up over shards, and is not zero. Never null where rows come to a
                    stage, because pandas would make floats of the column

There are few columns, because Spark and pandas convert each of them in every task.

There is one output per stage, because Spark would run a stage twice whose DataFrame is read twice.

Blobs travel in pieces. Spark hands rows to Python in Arrow batches, bounded by a number of rows or by bytes, and asking
for bytes costs more than the handover itself (handover.py). With small pieces the number of rows alone bounds a batch.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

import pandas as pd
import pyarrow as pa

PACKED = "stage int, shard int, run long, kind string, part int, parts int, blob binary, operator int, value long"
SCHEMA = pa.schema(
    [
        ("stage", pa.int32()),
        ("shard", pa.int32()),
        ("run", pa.int64()),
        ("kind", pa.string()),
        ("part", pa.int32()),
        ("parts", pa.int32()),
        ("blob", pa.binary()),
        ("operator", pa.int32()),
        ("value", pa.int64()),
    ]
)
MESSAGE, CONTROL, OUTSIDE = "message", "control", "outside"
RESULT, LATE, WROTE, METRICS, BEYOND, FACTS = "result", "late", "wrote", "metrics", "beyond", "facts"
OUT = 1 << 20
"""The stage of rows that leave the query: behind all others."""
FRAME = 32 << 20
"""Bytes of blobs in a frame of several rows: a frame becomes one record batch, whose offsets have 32 bits."""
PIECE = 32 << 10
"""Bytes of a blob in one row."""
WHOLE = (FACTS, WROTE)
"""Kinds that are looked at row by row, and not cut: there are few of them."""


@dataclass(frozen=True)
class Packet:
    """One row."""

    stage: int
    shard: int
    kind: str
    blob: bytes = b""
    run: int = 0
    operator: int = -1
    part: int = 0
    parts: int = 1
    value: int = 0

    def values(self) -> dict[str, object]:
        """Its columns."""
        return {
            "stage": self.stage,
            "shard": self.shard,
            "run": self.run,
            "kind": self.kind,
            "part": self.part,
            "parts": self.parts,
            "blob": self.blob,
            "operator": self.operator,
            "value": self.value,
        }

    def pieces(self) -> Iterator[Packet]:
        """The rows that carry it."""
        n = -(-len(self.blob) // PIECE)
        if n <= 1 or self.parts > 1 or self.kind in WHOLE:
            yield self
            return
        for i in range(n):
            yield replace(self, blob=self.blob[i * PIECE : (i + 1) * PIECE], part=i, parts=n)


class Pieces:
    """Blobs that have come in part. Rows come in any order behind a shuffle."""

    def __init__(self) -> None:
        self._waiting: dict[tuple[int, int, str, int, int], dict[int, bytes]] = {}

    def take(self, packet: Packet) -> Packet | None:
        """The whole packet, once the last of its pieces is there."""
        if packet.parts == 1:
            return packet
        key = (packet.stage, packet.shard, packet.kind, packet.run, packet.operator)
        known = self._waiting.setdefault(key, {})
        known[packet.part] = packet.blob
        if len(known) < packet.parts:
            return None
        del self._waiting[key]
        return replace(packet, blob=b"".join(known[i] for i in range(packet.parts)), part=0, parts=1)

    def finish(self) -> None:
        assert not self._waiting, f"pieces are missing of {list(self._waiting)}"


def frames(packets: Iterable[Packet]) -> Iterator[pd.DataFrame]:
    """Packets as frames, none much larger than it must be."""
    yield from map(framed, batches(packets))


def framed(batch: pa.RecordBatch) -> pd.DataFrame:
    """A frame of the same columns, which Spark's Python turns back into Arrow without a look at their values."""
    columns = zip(batch.schema.names, batch.columns, strict=True)
    return pd.DataFrame({name: pd.arrays.ArrowExtensionArray(pa.chunked_array([c])) for name, c in columns})


def batches(packets: Iterable[Packet]) -> Iterator[pa.RecordBatch]:
    """Packets as record batches."""
    for some in _bundled(packets):
        rows = [packet.values() for packet in some]
        columns = {name: [row[name] for row in rows] for name in SCHEMA.names}
        yield pa.RecordBatch.from_pydict(columns, schema=SCHEMA)


def _bundled(packets: Iterable[Packet]) -> Iterator[list[Packet]]:
    some: list[Packet] = []
    held = 0
    for piece in chain.from_iterable(packet.pieces() for packet in packets):
        if some and held + len(piece.blob) > FRAME:
            yield some
            some, held = [], 0
        some.append(piece)
        held += len(piece.blob)
    if some:
        yield some


def packets_of(batch: pa.RecordBatch) -> Iterator[Packet]:
    """The rows of a record batch; blobs are not copied before somebody looks at them."""
    columns = {name: batch.column(name).to_pylist() for name in SCHEMA.names if name != "blob"}
    blobs = batch.column("blob")
    for i in range(batch.num_rows):
        at = {name: values[i] for name, values in columns.items()}
        blob: Any = memoryview(blobs[i].as_buffer()) if blobs[i].is_valid else b""
        yield Packet(blob=blob, **at)


def packets_in(frame: pd.DataFrame) -> Iterator[Packet]:
    """The rows of a frame."""
    columns: dict[str, list[Any]] = {name: frame[name].tolist() for name in SCHEMA.names}
    for i in range(len(frame)):
        yield Packet(**{name: values[i] for name, values in columns.items()})
