"""EXPLAIN ANALYZE on Spark: runs a query without a sink and collects the metrics of its micro-batches."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from pyspark.sql import DataFrame, Observation, SparkSession

from lowwater.backends.spark import compile
from lowwater.backends.spark.host import BOUNDS
from lowwater.backends.spark.reach import temporary
from lowwater.backends.spark.running import RunningQuery
from lowwater.errors import LowwaterError
from lowwater.plan.plan import Plan
from lowwater.query.analyzed import Measured


@contextmanager
def bounds_counted(spark: SparkSession) -> Iterator[None]:
    """Queries started inside count the shards whose state is above its bound."""
    before = spark.conf.get(BOUNDS, None)
    spark.conf.set(BOUNDS, "count")
    try:
        yield
    finally:
        if before is None:
            spark.conf.unset(BOUNDS)
        else:
            spark.conf.set(BOUNDS, before)


def finite_run(plan: Plan, packed: Callable[[Observation], DataFrame]) -> Measured:
    """Runs a query over batch DataFrames, whose shards are called once with all rows."""
    observation, run = Observation(), Measured()
    packed(observation).write.format("noop").mode("overwrite").save()
    metrics = compile.observed(observation.get, plan)
    if metrics is not None:
        run.note(metrics)
    return run


def streaming_run(
    spark: SparkSession, start: Callable[..., RunningQuery], seconds: float | None, queries: Sequence[str]
) -> Measured:
    """Runs a stream for so many seconds, or to the end of all rows that are there."""
    run = Measured()
    with temporary(spark, "lowwater-analyze-") as place:
        results = _nowhere if len(queries) == 1 else dict.fromkeys(queries, _nowhere)
        query = start(checkpoint=f"file:{place}", results=results)
        if seconds is None:
            query.finish()
        else:
            query.await_termination(seconds)
            query.stop()
        for progress in query.spark.recentProgress:
            found = query.observed(progress)
            if found is not None:
                run.note(found)
    if not run.batches:
        raise LowwaterError("EXPLAIN ANALYZE has seen no micro-batch; give it more seconds, or a source that has rows.")
    return run


def _nowhere(rows: DataFrame, batch: int) -> None:
    """A sink that keeps nothing."""
