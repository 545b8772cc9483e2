"""The Spark backend: `to_spark` for any sink, `start` for separate outputs, `collect` for a finite input."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from lowwater.backends.spark import compile, session
from lowwater.backends.spark.compile import Ingested
from lowwater.backends.spark.handover import ROWS, reduces
from lowwater.backends.spark.running import Checkpoint, RunningQuery, Sink, Sinks, check_apart, outlets
from lowwater.errors import LowwaterError, NeedsConfiguration
from lowwater.query.plan import Planned


class SparkBackend:
    """Runs plans inside the SparkSession that the user's DataFrames belong to."""

    def to_spark(self, plan: Planned, frames: Sequence[Ingested], shards: int | None = None) -> DataFrame:
        """Results as a DataFrame, streaming if the input is. Metrics: `lastProgress.observedMetrics["lowwater"]`."""
        spark = frames[0].spark
        session.configure(spark, *_batches(plan, frames))
        streaming = any(frame.streaming for frame in frames)
        number = shards or (int(spark.conf.get(session.PARTITIONS) or 1) if streaming else _default_shards(spark))
        return _results(plan, frames, number)

    def collect(self, plan: Planned, frames: Sequence[Ingested], shards: int | None = None) -> pa.Table:
        """All results of batch DataFrames, sorted by window and group."""
        if any(frame.streaming for frame in frames):
            raise LowwaterError("collect() needs a finite input; for a streaming DataFrame use start() or to_spark().")
        spark = frames[0].spark
        number = shards or _default_shards(spark)
        with session.configured(spark, number, *_batches(plan, frames)):
            rows = _results(plan, frames, number).toArrow()
        return rows.cast(plan.result_schema).sort_by(plan.order)

    def start(
        self,
        plan: Planned,
        frames: Sequence[Ingested],
        *,
        checkpoint: str,
        results: Sink,
        late: Sink | None = None,
        progress: Sink | None = None,
        trigger: dict[str, Any] | None = None,
        shards: int | None = None,
        name: str | None = None,
    ) -> RunningQuery:
        """Starts a streaming query.

        A sink is a directory (parquet; each micro-batch overwrites its own part, so a repeated batch leaves no
        duplicates) or a function of (DataFrame, batch id). `trigger` is what DataStreamWriter.trigger takes, such as
        {"availableNow": True}.
        """
        spark = frames[0].spark
        if not all(frame.streaming for frame in frames):
            raise LowwaterError("start() needs streaming DataFrames; for batch DataFrames use to_spark() or collect().")
        check_apart(spark, checkpoint=checkpoint, results=results, late=late, progress=progress)
        place = Checkpoint(spark, checkpoint)
        number = shards or place.shards() or _default_shards(spark)
        place.claim(plan.fingerprint(number))
        direct = outlets(spark, plan, results, late)
        sinks = Sinks(plan, results, late, progress, direct)

        def launch(again: dict[str, Any] | None = None) -> Any:
            control = [compile.commands(spark, place.control)]
            if _needs_clock(plan):
                control.append(compile.heartbeats(spark))
            with session.configured(spark, number, *_batches(plan, frames, late is not None)):
                host = compile.packed(plan, frames, number, late is not None, control, direct)
                writer = (
                    host.writeStream.outputMode("append").option("checkpointLocation", checkpoint).foreachBatch(sinks)
                )
                if name is not None:
                    writer = writer.queryName(name)
                return writer.trigger(**(again or trigger or {"processingTime": "0 seconds"})).start()

        return RunningQuery(plan, launch, place)


def _results(plan: Planned, frames: Sequence[Ingested], shards: int) -> DataFrame:
    streaming = any(frame.streaming for frame in frames)
    control = [compile.heartbeats(frames[0].spark)] if streaming and _needs_clock(plan) else []
    return compile.results(plan, compile.packed(plan, frames, shards, False, control))


def _batches(plan: Planned, frames: Sequence[Ingested], late: bool = False) -> tuple[int, bool]:
    """How many rows Spark may hand over at once, and whether the limit in bytes can be lifted."""
    rows = min(frame.batch_rows(plan, port, late) for port, frame in enumerate(frames))
    free = reduces(plan, late)
    return (rows if free else ROWS), free


def _needs_clock(plan: Planned) -> bool:
    return any(i.idle is not None for i in plan.inputs)


def _default_shards(spark: SparkSession) -> int:
    """One shard a core: state is split as far as work can be done at once, and no further."""
    found = spark.sparkContext.defaultParallelism
    if found < 1:
        raise NeedsConfiguration("Spark reports no cores; give start() the number of shards, as in shards=8.")
    return int(found)
