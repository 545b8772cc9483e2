"""The engines of the benchmark `sliding`: lowwater, Spark's own window() with both state stores, and a bare scan.

    lowwater            to_spark() over parquet_files(): Arrow reads the files, Spark assigns them to micro-batches
    lowwater-dataframe  to_spark() over the same DataFrame as Spark's window(), through Spark's scan
    spark-memory        groupBy(window(...)), with state in the JVM's heap (HDFSBackedStateStoreProvider)
    spark-rocksdb       the same, with state in RocksDB with changelog checkpoints, as lowwater has it
    scan                an identity mapInArrow over the DataFrame, without a sink: the cost of handing rows to Python

All engines read the same files in the same micro-batches. All except `scan` write the same columns with Spark's parquet
sink.
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
    """A window query: RANGE and SLIDE in seconds over `ts`, by `key`. No row is later than `disorder` seconds."""

    range: int
    slide: int
    disorder: int = 3


def lowwater_answers(rows: Any, question: Question) -> DataFrame:
    return windowed(lw.stream(rows, name="rows", progress="ts", disorder=f"{question.disorder} seconds"), question)


def windowed(stream: lw.Relation, question: Question) -> DataFrame:
    windows = stream.window(range=f"{question.range} seconds", slide=f"{question.slide} seconds").group_by("key")
    answers: DataFrame = windows.agg(n=lw.count(), total=lw.sum("val"), most=lw.max("val")).to_spark()
    return answers.drop("wid")


def spark_answers(rows: DataFrame, question: Question) -> DataFrame:
    window = F.window("ts", f"{question.range} seconds", f"{question.slide} seconds")
    grouped = rows.withWatermark("ts", f"{question.disorder} seconds").groupBy(window, "key")
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
    """The bare scan of one stream, or of the union of several."""
    return replace(on_frame("scan", _scanned, sides), writes=False)


SCAN = scan()


def ours(question: Question) -> Engine:
    return on_files("lowwater", partial(lowwater_answers, question=question))


def engines(question: Question) -> tuple[Engine, ...]:
    """All engines for a query, lowwater first."""
    spark = on_frame("spark-rocksdb", partial(spark_answers, question=question))
    return (
        ours(question),
        on_frame("lowwater-dataframe", partial(lowwater_answers, question=question)),
        Engine("spark-memory", spark.answer, MEMORY_STATE),
        spark,
        SCAN,
    )
