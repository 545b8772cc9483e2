"""The engines of the benchmark: lowwater, Spark's own window() with either state store, and the floor under both.

    lowwater        to_spark(), written by Spark's own file sink
    spark-memory    groupBy(window(...)), state in the JVM's heap (HDFSBackedStateStoreProvider)
    spark-rocksdb   the same, state in RocksDB with changelog checkpoints, as lowwater has it
    scan            an identity mapInArrow over the same files to no sink: what reading rows into Python costs alone

All read the same files in the same micro-batches; all but `scan` write the same columns to parquet.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming import DataStreamWriter

import lowwater as lw
from lowwater.backends.spark import session

MEMORY_STATE = "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider"


@dataclass(frozen=True)
class Question:
    """RANGE and SLIDE in seconds over `ts`, by `key`; no row is later than `disorder` seconds."""

    range: int
    slide: int
    disorder: int = 3


@dataclass(frozen=True)
class Batch:
    """A micro-batch that read rows, as Spark timed it."""

    rows: int
    seconds: float


def answered_by_lowwater(rows: DataFrame, asked: Question) -> DataFrame:
    stream = lw.stream(rows, name="rows", progress="ts", disorder=f"{asked.disorder} seconds")
    windows = stream.window(range=f"{asked.range} seconds", slide=f"{asked.slide} seconds").group_by("key")
    answers: DataFrame = windows.agg(n=lw.count(), total=lw.sum("val"), most=lw.max("val")).to_spark()
    return answers.drop("wid")


def answered_by_spark(rows: DataFrame, asked: Question) -> DataFrame:
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


def scanned(rows: DataFrame, asked: Question) -> DataFrame:
    return rows.mapInArrow(_identity, rows.schema)


@dataclass(frozen=True)
class Engine:
    """A way to answer, and the state store it runs on. An engine that answers nothing writes nothing."""

    name: str
    answer: Callable[[DataFrame, Question], DataFrame]
    provider: str
    writes: bool = True

    def run(self, spark: SparkSession, source: Path, files: int, asked: Question, work: Path) -> list[Batch]:
        """All files of `source`, `files` a micro-batch; answers go to `work`/answers. Micro-batches in order."""
        for name, value in (session.settings() | {session.PROVIDER: self.provider}).items():
            spark.conf.set(name, value)
        schema = spark.read.parquet(str(source)).schema
        rows = spark.readStream.schema(schema).option("maxFilesPerTrigger", files).parquet(str(source))
        writer = self.answer(rows, asked).writeStream.outputMode("append")
        spark.conf.set(session.PROVIDER, self.provider)  # asking lowwater has set its own
        _sink(writer, work / "answers" if self.writes else None)
        _collect_garbage(spark)  # each engine begins without the rubbish of the one before
        query = writer.option("checkpointLocation", str(work / "checkpoint")).trigger(availableNow=True).start()
        query.awaitTermination()
        told = [(int(p.numInputRows), p.durationMs["triggerExecution"] / 1000) for p in query.recentProgress]
        return [Batch(rows, seconds) for rows, seconds in told if rows]


def _sink(writer: DataStreamWriter, answers: Path | None) -> DataStreamWriter:
    return writer.format("noop") if answers is None else writer.format("parquet").option("path", str(answers))


def _collect_garbage(spark: SparkSession) -> None:
    jvm: Any = spark._jvm
    jvm.System.gc()


ENGINES = (
    Engine("lowwater", answered_by_lowwater, session.ROCKSDB),
    Engine("spark-memory", answered_by_spark, MEMORY_STATE),
    Engine("spark-rocksdb", answered_by_spark, session.ROCKSDB),
    Engine("scan", scanned, session.ROCKSDB, writes=False),
)


def batch_counts(rows: DataFrame, range: str, slide: str, by: list[str]) -> pa.Table:
    """The batch answer to a count over windows, by Spark's own window(): the second opinion of the demo."""
    counted = rows.groupBy(F.window("ts", range, slide), *by).agg(F.count("*").alias("n"))
    start = F.unix_micros("window.start").alias("window_start")
    return counted.select(start, *by, F.col("n").cast("long")).toArrow()
