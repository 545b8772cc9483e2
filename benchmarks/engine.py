"""An engine of a benchmark: a way to answer, run once over files that arrive in micro-batches.

All engines take the same files in the same micro-batches, start from an empty checkpoint and without the rubbish of the
engine before, and write their answers by Spark's parquet sink.
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
    """A way to answer, and the state store it runs on. An engine that answers nothing writes nothing."""

    name: str
    answer: Callable[[SparkSession, Files], DataFrame]
    provider: str = session.ROCKSDB
    writes: bool = True

    def run(self, spark: SparkSession, files: Files, work: Path) -> list[float]:
        """All files; answers go to `work`/answers. Seconds of the micro-batches that read something, in order."""
        answers = self.answer(spark, files)
        for name, value in (session.settings() | {session.PROVIDER: self.provider}).items():
            spark.conf.set(name, value)  # after asking, since lowwater sets its own
        writer = _sink(answers.writeStream.outputMode("append"), work / "answers" if self.writes else None)
        _collect_garbage(spark)  # each engine begins without the rubbish of the one before
        query = writer.option("checkpointLocation", str(work / "checkpoint")).trigger(availableNow=True).start()
        query.awaitTermination()
        return _seconds(query.recentProgress)


@dataclass(frozen=True)
class Started(Engine):
    """A query of lowwater as its users start it: it writes its own outputs. `answer` gives the query."""

    def run(self, spark: SparkSession, files: Files, work: Path) -> list[float]:
        query: Any = self.answer(spark, files)
        _collect_garbage(spark)
        outputs = {"checkpoint": str(work / "checkpoint"), "results": str(work / "answers")}
        running = query.start(**outputs, trigger={"availableNow": True})
        running.await_termination()
        return _seconds(running.spark.recentProgress)


def started(name: str, query: Callable[..., Any], sides: Sequence[str] = ()) -> Engine:
    """A query of lowwater over the files as Arrow reads them, written as start() writes."""
    return Started(name, lambda spark, files: query(*(side.by_arrow(spark) for side in files.each(sides))))


def on_files(name: str, query: Callable[..., DataFrame], sides: Sequence[str] = ()) -> Engine:
    """A query of lowwater over the files as Arrow reads them; of one stream, or of one a side."""
    return Engine(name, lambda spark, files: query(*(side.by_arrow(spark) for side in files.each(sides))))


def on_frame(name: str, query: Callable[..., DataFrame], sides: Sequence[str] = ()) -> Engine:
    """A query over the files as Spark scans them; of one stream, or of one a side."""
    return Engine(name, lambda spark, files: query(*(side.frame(spark) for side in files.each(sides))))


def _sink(writer: DataStreamWriter, answers: Path | None) -> DataStreamWriter:
    return writer.format("noop") if answers is None else writer.format("parquet").option("path", str(answers))


def _seconds(progress: Sequence[Any]) -> list[float]:
    told = [(int(p.numInputRows), p.durationMs["triggerExecution"] / 1000) for p in progress]
    return [seconds for read, seconds in told if read]


def _collect_garbage(spark: SparkSession) -> None:
    jvm: Any = spark._jvm
    jvm.System.gc()
