"""The engines of the benchmark `sliding`: lowwater, Spark's own window() with either state store, and the floor.

    lowwater            to_spark() over parquet_files(): Arrow reads the files, Spark keeps the books
    lowwater-dataframe  to_spark() over the DataFrame that Spark's window() reads too, through Spark's scan
    spark-memory        groupBy(window(...)), state in the JVM's heap (HDFSBackedStateStoreProvider)
    spark-rocksdb       the same, state in RocksDB with changelog checkpoints, as lowwater has it
    scan                an identity mapInArrow over the DataFrame to no sink: what handing rows to Python costs alone

All take the same files in the same micro-batches; all but `scan` write the same columns by Spark's parquet sink.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

import lowwater as lw
from benchmarks.engine import Engine, on_files, on_frame

MEMORY_STATE = "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider"


@dataclass(frozen=True)
class Question:
    """RANGE and SLIDE in seconds over `ts`, by `key`; no row is later than `disorder` seconds."""

    range: int
    slide: int
    disorder: int = 3


def lowwater_answers(rows: Any, asked: Question) -> DataFrame:
    stream = lw.stream(rows, name="rows", progress="ts", disorder=f"{asked.disorder} seconds")
    windows = stream.window(range=f"{asked.range} seconds", slide=f"{asked.slide} seconds").group_by("key")
    answers: DataFrame = windows.agg(n=lw.count(), total=lw.sum("val"), most=lw.max("val")).to_spark()
    return answers.drop("wid")


def spark_answers(rows: DataFrame, asked: Question) -> DataFrame:
    window = F.window("ts", f"{asked.range} seconds", f"{asked.slide} seconds")
    grouped = rows.withWatermark("ts", f"{asked.disorder} seconds").groupBy(window, "key")
    answers = grouped.agg(F.count("*").alias("n"), F.sum("val").alias("total"), F.max("val").alias("most"))
    return answers.select(
        F.col("window.start").alias("window_start"),
        F.col("window.end").alias("window_end"),
        "key",
        "n",
        "total",
        "most",
    )


def _identity(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield from batches


def _scanned(*sides: DataFrame) -> DataFrame:
    rows = reduce(DataFrame.union, sides)
    return rows.mapInArrow(_identity, rows.schema)


def scan(sides: Sequence[str] = ()) -> Engine:
    """The floor, over one stream or the union of several."""
    return replace(on_frame("scan", _scanned, sides), writes=False)


SCAN = scan()


def ours(asked: Question) -> Engine:
    return on_files("lowwater", partial(lowwater_answers, asked=asked))


def engines(asked: Question) -> tuple[Engine, ...]:
    """All that answer a question, ours first."""
    spark = on_frame("spark-rocksdb", partial(spark_answers, asked=asked))
    return (
        ours(asked),
        on_frame("lowwater-dataframe", partial(lowwater_answers, asked=asked)),
        Engine("spark-memory", spark.answer, MEMORY_STATE),
        spark,
        SCAN,
    )
