"""Results, late rows, progress and metrics of a running query on Spark."""

from __future__ import annotations

import datetime as dt
import threading
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import TimestampType

import lowwater as lw
from lowwater.backends.spark.connect import by_name
from lowwater.query.bound import slots
from tests.spark.answers import (
    SCHEMA,
    as_answer,
    assert_same,
    batch_answer,
    parts,
    rows,
    stream_of,
    streaming,
    write_part,
)

pytestmark = pytest.mark.spark

ONCE = {"availableNow": True}
START = 1_700_000_000_000_000


def table(seconds: list[float | None], keys: list[int]) -> pa.Table:
    ticks = [None if s is None else START + int(s * 1_000_000) for s in seconds]
    ts = pa.array(ticks, pa.int64()).cast(pa.timestamp("us", "UTC"))
    return pa.table({"ts": ts, "key": pa.array(keys, pa.int64()), "val": np.arange(len(keys), dtype=float)})


def test_late_and_null_rows_come_out_with_their_reason_and_are_counted(spark: SparkSession, tmp_path: Path) -> None:
    source, late = tmp_path / "in", str(tmp_path / "late")
    write_part(table([0, 5, 20], [1, 1, 1]), source, 0)  # low-watermark 17: windows up to there close
    write_part(table([2, None, 12, 30], [1, 2, 1, 1]), source, 1)
    query = stream_of(streaming(spark, source)).start(
        checkpoint=str(tmp_path / "checkpoint"), results=str(tmp_path / "out"), late=late, trigger=ONCE
    )
    query.await_termination()
    found = {
        (row.val, row.late_reason, row.windows_missed, row.windows_kept) for row in spark.read.parquet(late).collect()
    }
    assert found == {
        (0.0, "all its windows are closed", 10, 0),
        (1.0, "the progressing attribute is null", 0, 0),
        (2.0, "some of its windows are closed", 5, 5),
    }
    metrics = query.metrics()
    assert (metrics.rows, metrics.null_rows, metrics.late_rows, metrics.dropped_rows) == (7, 1, 2, 1)


@pytest.mark.parametrize(("data", "count", "punctuations"), [(False, 2, 1), (True, 3, 0)])
def test_rows_that_promise_are_counted_as_punctuations_or_as_data(
    spark: SparkSession, tmp_path: Path, data: bool, count: int, punctuations: int
) -> None:
    """The third row ends the first window, beyond its own time; the row of the second file is late by it."""
    source, results = tmp_path / "in", str(tmp_path / "out")
    write_part(table([1, 3, 4, 12], [0, 0, 1, 0]), source, 0)
    write_part(table([2], [0]), source, 1)
    frame = streaming(spark, source).selectExpr("*", "key = 1 AS end", "ts + INTERVAL 5 SECONDS AS upto")
    disorder = lw.punctuated("end", "upto", data=data)
    stream = lw.stream(frame, name="rows", progress="ts", disorder=disorder)
    query = (
        stream.window("9 seconds", origin="2023-11-14T22:13:20Z")
        .agg(n=lw.count())
        .start(checkpoint=str(tmp_path / "checkpoint"), results=results, trigger=ONCE)
    )
    query.await_termination()
    metrics = query.metrics()
    assert (metrics.rows, metrics.punctuations, metrics.null_rows, metrics.late_rows) == (5, punctuations, 0, 1)
    assert [row.n for row in spark.read.parquet(results).orderBy("window_start").collect()] == [count]


def test_progress_output_names_the_source_that_holds_back(spark: SparkSession, tmp_path: Path) -> None:
    source = tmp_path / "in"
    write_part(table([0, 50, 7], [1, 1, 2]), source, 0)
    query = (
        lw.stream(
            streaming(spark, source),
            name="links",
            progress="ts",
            disorder=lw.ordered(),
            source="key",
            sources=("1", "2"),
        )
        .window(range="10 seconds")
        .agg(n=lw.count())
        .start(
            checkpoint=str(tmp_path / "checkpoint"),
            results=str(tmp_path / "out"),
            progress=str(tmp_path / "progress"),
            trigger=ONCE,
        )
    )
    query.await_termination()
    progress = spark.read.parquet(str(tmp_path / "progress"))
    assert {row.source: row.holds_back for row in progress.collect()} == {"1": False, "2": True}
    for column in ("low_watermark", "largest_seen"):
        assert progress.schema[f"{column}_time"].dataType == TimestampType()
        told = progress.select("source", F.unix_seconds(f"{column}_time"), column).collect()
        assert {row.source: tuple(row)[1:] for row in told} == {
            source: (START // 1_000_000 + s, str(dt.datetime.fromtimestamp(START // 1_000_000 + s, dt.UTC)))
            for source, s in (("1", 50), ("2", 7))
        }
    assert query.metrics().low_watermark_time == query.metrics().sources[1].largest_seen_time
    assert query.metrics().held_back_by == "links/2"
    assert spark.read.parquet(str(tmp_path / "out")).count() == 0


def test_to_spark_goes_into_any_sink_and_its_metrics_are_in_lastprogress(spark: SparkSession, tmp_path: Path) -> None:
    source = tmp_path / "in"
    for i, piece in enumerate(parts(rows(), 3)):
        write_part(piece, source, i)
    results = stream_of(streaming(spark, source)).to_spark()
    assert results.isStreaming
    query = (
        results.writeStream.format("parquet")
        .option("path", str(tmp_path / "out"))
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    last = query.lastProgress
    assert last is not None
    ((name, observed),) = last.observedMetrics.items()
    assert name.startswith("lowwater:")
    assert by_name(observed)["state_rows"] > 0
    got, expected = as_answer(spark.read.parquet(str(tmp_path / "out"))), batch_answer(spark, source)
    closed = max(end for end, _ in got)
    assert_same(got, {key: value for key, value in expected.items() if key[0] <= closed})


def test_a_batch_dataframe_takes_the_same_path_and_closes_every_window(spark: SparkSession, tmp_path: Path) -> None:
    write_part(rows(), tmp_path / "in", 0)
    found = stream_of(spark.read.schema(SCHEMA).parquet(str(tmp_path / "in"))).to_spark()
    assert not found.isStreaming
    assert_same(as_answer(found), batch_answer(spark, tmp_path / "in"))


def test_groups_that_fall_silent_leave_the_state(spark: SparkSession, tmp_path: Path) -> None:
    source = tmp_path / "in"
    write_part(table([i % 5 for i in range(10_000)], list(range(10_000))), source, 0)
    for part in range(1, 4):
        at = [20 * part + i % 20 for i in range(200)]
        write_part(table([*map(float, at)], [i % 10 for i in range(200)]), source, part)
    held: list[int] = []
    query = stream_of(streaming(spark, source)).start(
        checkpoint=str(tmp_path / "checkpoint"), results=lambda df, batch: held.append(df.count()), trigger=ONCE
    )
    query.await_termination()
    window = stream_of(streaming(spark, source)).plan.spec.what.window
    observed = [m for p in query.spark.recentProgress for m in (p.observedMetrics or {}).values()]
    seen = [by_name(metrics)["state_rows"] for metrics in observed]
    assert seen[0] >= 10_000
    assert seen[-1] <= 10 * slots(window, "panes", 3_000_000)


def test_a_silent_source_is_advanced_by_the_clock(spark: SparkSession, tmp_path: Path) -> None:
    source = tmp_path / "in"
    write_part(table([0, 50, 7], [1, 1, 2]), source, 0)
    closed = threading.Event()
    counts: dict[int, int] = {}  # by micro-batch: on a slow machine the clock frees the silent source earlier

    def sink(df: DataFrame, batch: int) -> None:
        counts[batch] = df.count()
        if sum(counts.values()) == 3:  # windows of both sources: the clock, decades ahead of the data, has freed them
            closed.set()

    query = (
        lw.stream(
            streaming(spark, source),
            progress="ts",
            disorder=lw.ordered(),
            source="key",
            sources=("1", "2", "never seen"),
            idle=lw.idle(after="1 second", lag="1 second"),
        )
        .window(range="5 seconds")
        .group_by("key")
        .agg(n=lw.count())
        .start(checkpoint=str(tmp_path / "checkpoint"), results=sink)
    )
    freed = closed.wait(120)
    query.stop()
    assert freed, query.metrics()
