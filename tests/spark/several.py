"""Queries that run together: over two streams with late rows, in files of one micro-batch each.

Each reads the first stream in its own way. The judge of each is the local backend, which runs it alone over the same
micro-batches.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

import lowwater as lw
from tests.spark.answers import write_part

PARTS, ROWS = 4, 60
STAMP = pa.timestamp("us", "UTC")


def _rows(seed: int, rows: int) -> pa.Table:
    """Times that ascend with disorder of a few seconds, and now and then a row that is late or has no time."""
    random = np.random.default_rng(seed)
    late = np.where(random.random(rows) < 0.1, 40, 0)
    times: list[int | None] = ((np.arange(rows) - random.integers(0, 4, rows) - late + 100) * 1_000_000).tolist()
    times[rows // 2] = None
    return pa.table(
        {
            "ts": pa.array(times, STAMP),
            "k": pa.array(random.choice(["a", "b", "c"], rows)),
            "v": pa.array(random.integers(0, 9, rows)),
        }
    )


TABLES = {"a": _rows(1, ROWS), "b": _rows(2, ROWS)}
LATE = ("busy", "longest", "later", "pairs")
"""The queries whose late rows are asked for."""


def parts(name: str) -> list[pa.Table]:
    step = ROWS // PARTS
    return [TABLES[name].slice(at, step) for at in range(0, ROWS, step)]


def write(place: Path, numbers: range = range(PARTS)) -> None:
    for name in TABLES:
        for number in numbers:
            write_part(parts(name)[number], place / name, number)


def doubled(rows: pa.Table) -> pa.Table:
    return rows.set_column(2, "v", pa.array([None if v is None else 2 * v for v in rows["v"].to_pylist()], pa.int64()))


def queries(streams: dict[str, lw.Relation]) -> dict[str, lw.Relation]:
    a, b = streams["a"], streams["b"]
    view = a.window("10 seconds").group_by("k").agg(n=lw.count(), most=lw.max("v"))
    totals = view.group_by("window_end").agg(total=lw.sum("n"))
    return {
        "busy": view.where("n > 1"),
        "longest": a.where("k <> 'c'").with_column("v", "v * 10").window("8 seconds", "4 seconds").agg(s=lw.sum("v")),
        "all": totals,
        "later": totals.named("x").join(b.named("y"), on=[("total", "v")], within="20 seconds"),
        "doubled": a.apply(doubled, TABLES["a"].schema).where("v > 2").window("10 seconds").agg(s=lw.sum("v")),
        "pairs": a.select("ts", "k").join(b, on="k", within="3 seconds"),
    }


def streams_of(frames: dict[str, Any]) -> dict[str, lw.Relation]:
    return {name: lw.stream(of, name=name, progress="ts", disorder="3 seconds") for name, of in frames.items()}


def streaming(spark: SparkSession, place: Path) -> dict[str, lw.Relation]:
    reader = spark.readStream.option("maxFilesPerTrigger", 1)
    frames = {
        name: reader.schema(from_arrow_schema(table.schema)).parquet(str(place / name))
        for name, table in TABLES.items()
    }
    return streams_of(frames)


def together(spark: SparkSession, place: Path) -> lw.Together:
    return lw.together(**queries(streaming(spark, place)))


def alone(name: str) -> Any:
    """One query alone, in this process, over the same micro-batches."""
    query = queries(streams_of(TABLES))[name].start(late=name in LATE)
    inputs = [one.name for one in query.plan.inputs]
    for number in range(PARTS):
        query.push_all({of: parts(of)[number] for of in inputs})
    query.finish()
    return query


def told(table: pa.Table) -> list[str]:
    return sorted(map(str, table.to_pylist()))


def found_in(spark: SparkSession, directory: str, schema: pa.Schema) -> list[str]:
    return told(spark.read.parquet(directory).toArrow().select(schema.names).cast(schema))
