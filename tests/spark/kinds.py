"""One query for each kind of window, over the same rows, for tests that run all of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa

import lowwater as lw
from lowwater.backends.local import LocalQuery

AGGREGATES: dict[str, Any] = {
    "n": lw.count(),
    "m": lw.max("val"),
    "mid": lw.median("val"),
    "about": lw.approx_count_distinct("val"),
    "last_two": lw.top_k("val", 2),
}


def stream(data: Any, **more: Any) -> lw.Stream:
    return lw.stream(data, name="keyed", progress="ts", disorder="3 seconds", **more)


KINDS: dict[str, Callable[[Any], lw.Query]] = {
    "rows": lambda data: stream(data).window("40 rows", "15 rows").group_by("key").agg(**AGGREGATES),
    "partitioned by arrival": lambda data: (
        stream(data).window("9 rows", "4 rows", partition_by="key", order="arrival").agg(**AGGREGATES)
    ),
    "partitioned by time": lambda data: stream(data).window("9 rows", "4 rows", partition_by="key").agg(**AGGREGATES),
    "by tuple": lambda data: stream(data).window("10 seconds", "1 row", partition_by="key").agg(**AGGREGATES),
    "by arrivals": lambda data: (
        stream(data).window("10 seconds", "3 rows", partition_by="key", order="arrival").agg(**AGGREGATES)
    ),
    "by ranks": lambda data: stream(data).window("10 seconds", "3 rows", partition_by="key").agg(**AGGREGATES),
    "session": lambda data: stream(data).session("400 milliseconds").group_by("key").agg(**AGGREGATES),
    "over rows": lambda data: stream(data).over("key", rows=(3, 2)).agg(**AGGREGATES),
    "over all": lambda data: stream(data).over("key", rows=(None, 0)).agg(n=lw.count(), m=lw.max("val")),
    "over range": lambda data: stream(data).over("key", range=("2 seconds", "1 second")).agg(**AGGREGATES),
    "adaptive": lambda data: (
        stream(data, groups="skewed").window("5 seconds", "1 second").group_by("key").agg(**AGGREGATES)
    ),
    "cumulate": lambda data: (
        stream(data).window("all", "2 seconds", period="10 seconds").group_by("key").agg(**AGGREGATES)
    ),
    "table": lambda data: stream(data).window("5 seconds").group_by("key").agg(table=8, n=lw.count(), m=lw.max("val")),
    "slow flush": lambda data: (
        stream(data).window("5 seconds").emit(flush=lw.slow_flush(20)).group_by("key").agg(**AGGREGATES)
    ),
    "early and late": lambda data: (
        stream(data)
        .window("5 seconds")
        .emit(early=True, allowed_lateness="2 seconds")
        .group_by("key")
        .agg(**AGGREGATES)
    ),
    "lazy flush": lambda data: (
        stream(data).window("5 seconds").emit(flush=lw.lazy_flush(entries=64)).group_by("key").agg(**AGGREGATES)
    ),
}


def locally(kind: str, pieces: list[pa.Table]) -> pa.Table:
    """The answers of the local backend to the same rows in the same batches."""
    query: LocalQuery = KINDS[kind](pieces[0].slice(0, 0)).start(shards=3)
    for piece in pieces:
        query.push(piece)
    query.finish()
    return query.result()


def comparable(table: pa.Table) -> list[str]:
    """Rows without their order; revisions number micro-batches, of which a backend may need one more to end."""
    return sorted(repr(tuple(row[name] for name in sorted(row) if name != "revision")) for row in table.to_pylist())
