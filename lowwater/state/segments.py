"""Segments: immutable named tables as bytes, the unit in which state is written, fetched and cached.

The id of a segment is the hash of its content. So two segments with the same id are equal, whichever worker and attempt
wrote them, and a cache keyed by path and id never holds a wrong value. A batch writes its new segments and deletes
those that are no longer needed; all others stay as they are (store.py).

Layout: magic "LW", version, number of tables, then for each table its name, rows, length and an Arrow IPC stream.
"""

from __future__ import annotations

import struct
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from hashlib import blake2b

import pyarrow as pa

from lowwater.errors import CheckpointMismatch

_MAGIC = b"LW"
VERSION = 3


def pack(tables: dict[str, pa.Table]) -> bytes:
    """Packs named tables into bytes."""
    parts = [_MAGIC, struct.pack("<BH", VERSION, len(tables))]
    for name, table in tables.items():
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)
        body = sink.getvalue()
        title = name.encode()
        parts += [struct.pack("<HqQ", len(title), table.num_rows, body.size), title, body.to_pybytes()]
    return b"".join(parts)


def unpack(data: bytes | memoryview) -> dict[str, pa.Table]:
    """Unpacks the bytes of `pack`. Columns point into `data`; nothing is copied."""
    buffer = pa.py_buffer(data)
    view = memoryview(buffer)
    if bytes(view[:2]) != _MAGIC:
        raise CheckpointMismatch("A segment in the state was not written by lowwater; start with a new checkpoint.")
    version, count = struct.unpack_from("<BH", view, 2)
    if version != VERSION:
        raise CheckpointMismatch(
            f"The state was written in segment format {version}, this lowwater reads format {VERSION}; "
            "use a matching version or a new checkpoint."
        )
    tables = {}
    at = 5
    for _ in range(count):
        title, rows, size = struct.unpack_from("<HqQ", view, at)
        at += struct.calcsize("<HqQ")
        name = bytes(view[at : at + title]).decode()
        at += title
        table = pa.ipc.open_stream(buffer.slice(at, size)).read_all()
        at += size
        # An IPC stream loses the number of rows of a table without columns (the keys of a query without GROUP BY).
        tables[name] = table if table.num_columns else pa.table({"": pa.nulls(rows)}).select([])
    return tables


def hash_of(data: bytes) -> str:
    """The id of a segment."""
    return blake2b(data, digest_size=16).hexdigest()


class SegmentCache:
    """An LRU cache of decoded values, up to `budget` bytes of encoded size.

    It lives as long as the worker process. Shards move between workers from batch to batch. A worker fetches segments
    that it lacks from the state store, which is the only authority.
    """

    def __init__(self, budget: int = 512 << 20) -> None:
        self._budget = budget
        self._held = 0
        self._values: OrderedDict[Hashable, tuple[object, int]] = OrderedDict()
        self.hits = 0
        self.misses = 0

    def get(self, key: Hashable, size: int, load: Callable[[], object]) -> object:
        found = self._values.get(key)
        if found is not None:
            self.hits += 1
            self._values.move_to_end(key)
            return found[0]
        self.misses += 1
        value = load()
        self.put(key, size, value)
        return value

    def put(self, key: Hashable, size: int, value: object) -> None:
        if key in self._values:
            return
        self._values[key] = (value, size)
        self._held += size
        while self._held > self._budget and len(self._values) > 1:
            _, (_, dropped) = self._values.popitem(last=False)
            self._held -= dropped

    def of(self, query: str) -> QueryCache:
        """The cache of one query. The same bytes at the same path can mean different things in two queries."""
        return QueryCache(self, query)


@dataclass(frozen=True)
class QueryCache:
    """Decoded values of one query, by path and id."""

    shared: SegmentCache
    query: str

    def get(self, path: str, id: str, size: int, load: Callable[[], object]) -> object:
        return self.shared.get((self.query, path, id), size, load)

    def put(self, path: str, id: str, size: int, value: object) -> None:
        self.shared.put((self.query, path, id), size, value)


CACHE = SegmentCache()
"""The cache of this process. It is in a module because objects in __main__ are pickled anew for every task."""
