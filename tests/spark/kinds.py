"""One query for each kind of window, over the same rows, for tests that run all of them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession

import lowwater as lw
from lowwater.backends.local import LocalQuery
from tests.scenarios import Widest
from tests.spark import answers

READ = answers.rows(3_000, seconds=30, keys=20, seed=11)
PIECES = answers.parts(READ.append_column("note", pc.cast(READ["key"], "string")), 3)
"""The rows of each micro-batch, with a column that no query computes with."""
SCHEMA = "ts timestamp, key bigint, val double, note string"


class WidestDouble(Widest):
    state, result = (pa.float64(), pa.float64()), pa.float64()


def odd_one(values: pa.Array) -> float:
    return float(values[len(values) // 3].as_py())


SPECIAL = {
    "quantile": lw.quantile("val", 0.3),
    "approx_quantile": lw.approx_quantile("val", 0.3),
    "center_of_mass": lw.center_of_mass("val", "key"),
    "mode": lw.mode("note"),
    "heavy_hitters": lw.heavy_hitters("note", 0.3),
    "approx_heavy_hitters": lw.approx_heavy_hitters("key", 0.3),
    "top_k": lw.top_k("val", 2, label="note"),
    "max_by": lw.max_by("note", "val"),
    "min_by": lw.min_by("val", "note"),
    "udaf": lw.udaf("val", WidestDouble()),
    "holistic": lw.holistic("val", odd_one, pa.float64()),
}


def public() -> dict[str, Any]:
    """Every aggregate of the API, so that each kind of window runs with each of them."""
    returned = {name: getattr(getattr(lw, name), "__annotations__", {}).get("return") for name in lw.__all__}
    names = [name for name, kind in returned.items() if kind == "Aggregate"]
    return {f"a_{name}": SPECIAL.get(name) or getattr(lw, name)("val") for name in names}


AGGREGATES = public()
BOUNDED = {name: aggregate for name, aggregate in AGGREGATES.items() if aggregate.bounded}


def stream(data: Any, **more: Any) -> lw.Stream:
    return lw.stream(data, name="keyed", progress="ts", disorder="3 seconds", **more)


KINDS: dict[str, Callable[[Any], lw.Query]] = {
    "sliding": lambda data: stream(data).window("5 seconds", "1 second").group_by("key").agg(**AGGREGATES),
    "each source alone": lambda data: (
        stream(data, source="key").window("5 seconds", "1 second").group_by("key").agg(**AGGREGATES)
    ),
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
    "over all": lambda data: stream(data).over("key", rows=(None, 0)).agg(**BOUNDED),
    "landmark": lambda data: stream(data).window("all", "5 seconds").group_by("key").agg(**BOUNDED),
    "over range": lambda data: stream(data).over("key", range=("2 seconds", "1 second")).agg(**AGGREGATES),
    "adaptive": lambda data: (
        stream(data, groups="skewed").window("5 seconds", "1 second").group_by("key").agg(**AGGREGATES)
    ),
    "cumulate": lambda data: (
        stream(data).window("all", "2 seconds", period="10 seconds").group_by("key").agg(**AGGREGATES)
    ),
    "table": lambda data: stream(data).window("5 seconds").group_by("key").agg(table=8, **AGGREGATES),
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


def streaming(spark: SparkSession, directory: Path) -> DataFrame:
    return answers.streaming(spark, directory, SCHEMA)


def locally(kind: str) -> LocalQuery:
    """The same rows in the same micro-batches on the local backend."""
    query: LocalQuery = KINDS[kind](PIECES[0].slice(0, 0)).start(shards=3)
    for piece in PIECES:
        query.push(piece)
    query.finish()
    return query


def comparable(table: pa.Table) -> list[str]:
    """Rows without their order, doubles to nine digits: partials are merged in another order.

    Revisions are left out: they number micro-batches, of which a backend may need one more to end. An approximate
    quantile depends on which sketches are merged first (laws/test_sketch_bounds.py has its error), so it only has to be
    there.
    """
    told = [{name: _short(value) for name, value in row.items() if name != "revision"} for row in table.to_pylist()]
    for row in told:
        if "a_approx_quantile" in row:
            row["a_approx_quantile"] = row["a_approx_quantile"] is not None
    return sorted(repr(sorted(row.items())) for row in told)


def _short(value: Any) -> Any:
    if isinstance(value, list):
        return [_short(item) for item in value]
    return f"{value:.9g}" if isinstance(value, float) else value
