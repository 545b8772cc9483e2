"""An engine of a benchmark: a query that runs once over files that arrive in micro-batches.

All engines read the same files in the same micro-batches, start from an empty checkpoint after a garbage collection,
and write their answers with Spark's parquet sink.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.cloudpickle import register_pickle_by_value
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

import benchmarks
from lowwater.backends.spark import session
from lowwater.backends.spark.demo import Files

register_pickle_by_value(benchmarks)  # type: ignore[no-untyped-call]  # workers may have no such package


@dataclass(frozen=True)
class Engine:
    """A query, and the state store that it uses. If not `writes`, its results go to a no-op sink."""

    name: str
    answer: Callable[[SparkSession, Files], DataFrame]
    provider: str = session.ROCKSDB
    writes: bool = True

    def run(self, spark: SparkSession, files: Files, work: Path) -> list[float]:
        """Runs over all files and writes to `work`/answers. Returns the seconds of the micro-batches that read rows."""
        answers = self.answer(spark, files)
        for name, value in (session.settings() | {session.PROVIDER: self.provider}).items():
            spark.conf.set(name, value)  # after the query is built, because lowwater sets its own values then
        writer = _sink(answers.writeStream.outputMode("append"), work / "answers" if self.writes else None)
        _collect_garbage(spark)  # so that no engine pays for the garbage of the one before it
        query = writer.option("checkpointLocation", str(work / "checkpoint")).trigger(availableNow=True).start()
        query.awaitTermination()
        return _seconds(query.recentProgress)


@dataclass(frozen=True)
class Started(Engine):
    """A query of lowwater that is started with start() and writes its own outputs. `answer` returns the query."""

    def run(self, spark: SparkSession, files: Files, work: Path) -> list[float]:
        query: Any = self.answer(spark, files)
        _collect_garbage(spark)
        outputs = {"checkpoint": str(work / "checkpoint"), "results": str(work / "answers")}
        running = query.start(**outputs, trigger={"availableNow": True})
        running.await_termination()
        return _seconds(running.spark.recentProgress)


def started(name: str, query: Callable[..., Any], sides: Sequence[str] = ()) -> Engine:
    """An engine for a query of lowwater over files that Arrow reads. start() writes its results."""
    return Started(name, lambda spark, files: query(*(side.by_arrow(spark) for side in files.each(sides))))


def on_files(name: str, query: Callable[..., DataFrame], sides: Sequence[str] = ()) -> Engine:
    """An engine for a query of lowwater over files that Arrow reads: one stream, or one per side."""
    return Engine(name, lambda spark, files: query(*(side.by_arrow(spark) for side in files.each(sides))))


def on_frame(name: str, query: Callable[..., DataFrame], sides: Sequence[str] = ()) -> Engine:
    """An engine for a query over files that Spark scans: one stream, or one per side."""
    return Engine(name, lambda spark, files: query(*(side.frame(spark) for side in files.each(sides))))


def _sink(writer: DataStreamWriter, answers: Path | None) -> DataStreamWriter:
    return writer.format("noop") if answers is None else writer.format("parquet").option("path", str(answers))


def _seconds(progress: Sequence[Any]) -> list[float]:
    batches = [(int(p.numInputRows), p.durationMs["triggerExecution"] / 1000) for p in progress]
    return [seconds for read, seconds in batches if read]


def _collect_garbage(spark: SparkSession) -> None:
    jvm: Any = spark._jvm
    jvm.System.gc()
