"""The engines of the benchmark: lowwater, Spark's own window() with either state store, and the floor under them.

    lowwater            to_spark() over parquet_files(): Arrow reads the files, Spark keeps the books
    lowwater-dataframe  to_spark() over the DataFrame that Spark's window() reads too, through Spark's scan
    spark-memory        groupBy(window(...)), state in the JVM's heap (HDFSBackedStateStoreProvider)
    spark-rocksdb       the same, state in RocksDB with changelog checkpoints, as lowwater has it
    scan                an identity mapInArrow over the DataFrame to no sink: what handing rows to Python costs alone

All take the same files in the same micro-batches; all but `scan` write the same columns by Spark's parquet sink.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.readwriter import DataStreamWriter

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
class Files:
    """A directory of parquet files as a stream, `a_batch` of them at a time."""

    directory: Path
    a_batch: int

    def frame(self, spark: SparkSession) -> DataFrame:
        schema = spark.read.parquet(str(self.directory)).schema
        return spark.readStream.schema(schema).option("maxFilesPerTrigger", self.a_batch).parquet(str(self.directory))


def lowwater_on_frame(spark: SparkSession, files: Files, asked: Question) -> DataFrame:
    return _lowwater(files.frame(spark), asked)


def lowwater_on_files(spark: SparkSession, files: Files, asked: Question) -> DataFrame:
    return _lowwater(lw.parquet_files(spark, str(files.directory), maxFilesPerTrigger=files.a_batch), asked)


def _lowwater(rows: Any, asked: Question) -> DataFrame:
    stream = lw.stream(rows, name="rows", progress="ts", disorder=f"{asked.disorder} seconds")
    windows = stream.window(range=f"{asked.range} seconds", slide=f"{asked.slide} seconds").group_by("key")
    answers: DataFrame = windows.agg(n=lw.count(), total=lw.sum("val"), most=lw.max("val")).to_spark()
    return answers.drop("wid")


def spark_window(spark: SparkSession, files: Files, asked: Question) -> DataFrame:
    window = F.window("ts", f"{asked.range} seconds", f"{asked.slide} seconds")
    grouped = files.frame(spark).withWatermark("ts", f"{asked.disorder} seconds").groupBy(window, "key")
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


def scanned(spark: SparkSession, files: Files, asked: Question) -> DataFrame:
    rows = files.frame(spark)
    return rows.mapInArrow(_identity, rows.schema)


@dataclass(frozen=True)
class Engine:
    """A way to answer, and the state store it runs on. An engine that answers nothing writes nothing."""

    name: str
    answer: Callable[[SparkSession, Files, Question], DataFrame]
    provider: str
    writes: bool = True

    def run(self, spark: SparkSession, files: Files, asked: Question, work: Path) -> list[float]:
        """All files; answers go to `work`/answers. Seconds of the micro-batches that read something, in order."""
        answers = self.answer(spark, files, asked)
        for name, value in (session.settings() | {session.PROVIDER: self.provider}).items():
            spark.conf.set(name, value)  # after asking, since lowwater sets its own
        writer = _sink(answers.writeStream.outputMode("append"), work / "answers" if self.writes else None)
        _collect_garbage(spark)  # each engine begins without the rubbish of the one before
        query = writer.option("checkpointLocation", str(work / "checkpoint")).trigger(availableNow=True).start()
        query.awaitTermination()
        told = [(int(p.numInputRows), p.durationMs["triggerExecution"] / 1000) for p in query.recentProgress]
        return [seconds for read, seconds in told if read]


def _sink(writer: DataStreamWriter, answers: Path | None) -> DataStreamWriter:
    return writer.format("noop") if answers is None else writer.format("parquet").option("path", str(answers))


def _collect_garbage(spark: SparkSession) -> None:
    jvm: Any = spark._jvm
    jvm.System.gc()


ENGINES = (
    Engine("lowwater", lowwater_on_files, session.ROCKSDB),
    Engine("lowwater-dataframe", lowwater_on_frame, session.ROCKSDB),
    Engine("spark-memory", spark_window, MEMORY_STATE),
    Engine("spark-rocksdb", spark_window, session.ROCKSDB),
    Engine("scan", scanned, session.ROCKSDB, writes=False),
)


def batch_counts(rows: DataFrame, range: str, slide: str, by: list[str]) -> pa.Table:
    """The batch answer to a count over windows, by Spark's own window(): the second opinion of the demo."""
    counted = rows.groupBy(F.window("ts", range, slide), *by).agg(F.count("*").alias("n"))
    start = F.unix_micros("window.start").alias("window_start")
    return counted.select(start, *by, F.col("n").cast("long")).toArrow()
