"""The engines of the benchmark `join`: lowwater, Spark's stream-stream join with both state stores, and a bare scan.

    lowwater            start() over parquet_files() of both sides, with a results directory: Arrow reads and writes
    lowwater-dataframe  to_spark() over the same DataFrames as Spark's join, to Spark's parquet sink
    spark-memory        join() on key and band, both sides with a watermark, with state in the JVM's heap
    spark-rocksdb       the same, with state in RocksDB with changelog checkpoints, as lowwater has it
    scan                an identity mapInArrow over the union of both sides, without a sink

All engines read the same files in the same micro-batches. All except `scan` find the pairs of rows with the same key
that are at most `band` seconds apart, and write `COLUMNS` as parquet: lowwater with its own output, the others with
Spark's sink.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

import lowwater as lw
from benchmarks.engine import Engine, on_frame, started
from benchmarks.sliding_engines import MEMORY_STATE, scan
from lowwater.generate.two import MAX_DELAY, SIDES

COLUMNS = ("l_ts", "key", "l_id", "l_val", "r_ts", "r_id", "r_val")
DISORDER = f"{MAX_DELAY} seconds"


def lowwater_query(a: Any, b: Any, band: int) -> lw.Relation:
    left, right = (
        lw.stream(rows, name=side, progress="ts", disorder=DISORDER) for side, rows in zip(SIDES, (a, b), strict=True)
    )
    return left.join(right, on="key", within=f"{band} seconds")


def lowwater_pairs(a: Any, b: Any, band: int) -> DataFrame:
    pairs: DataFrame = lowwater_query(a, b, band).to_spark()
    return pairs


def spark_pairs(a: DataFrame, b: DataFrame, band: int) -> DataFrame:
    left, right = (
        rows.withWatermark("ts", DISORDER).select(*(F.col(column).alias(f"{side}_{column}") for column in rows.columns))
        for side, rows in zip(SIDES, (a, b), strict=True)
    )
    apart = f"INTERVAL {band} SECONDS"
    near = F.expr(f"l_key = r_key AND r_ts >= l_ts - {apart} AND r_ts <= l_ts + {apart}")
    return left.join(right, near).withColumnRenamed("l_key", "key").select(*COLUMNS)


def ours(band: int, place: str = "") -> Engine:
    """lowwater over the sides in the directory `place`, as in "place/"."""
    return started("lowwater", partial(lowwater_query, band=band), [f"{place}{side}" for side in SIDES])


def engines(band: int) -> tuple[Engine, ...]:
    """All engines for a band, lowwater first."""
    spark = on_frame("spark-rocksdb", partial(spark_pairs, band=band), SIDES)
    return (
        ours(band),
        on_frame("lowwater-dataframe", partial(lowwater_pairs, band=band), SIDES),
        Engine("spark-memory", spark.answer, MEMORY_STATE),
        spark,
        scan(SIDES),
    )
