"""Parquet files read by Arrow give what Spark's own scan gives, under the same bookkeeping."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

import lowwater as lw
from lowwater.backends.spark.parquet import opened
from tests.spark.answers import as_answer, assert_same, batch_answer, parts, rows, stream_of, write_part

pytestmark = pytest.mark.spark

ONCE = {"availableNow": True}


def test_files_read_by_arrow_answer_as_spark_does_across_a_restart(spark: SparkSession, tmp_path: Path) -> None:
    source, out = tmp_path / "in dir#1%3A", str(tmp_path / "out")
    first, second = parts(rows(), 4)[:2], parts(rows(), 4)[2:]
    for half in (first, second):
        for piece in half:
            write_part(piece, source, len(list(source.glob("*.parquet"))) if source.exists() else 0)
        files = lw.parquet_files(spark, str(source), maxFilesPerTrigger=1)
        query = stream_of(files).start(checkpoint=str(tmp_path / "checkpoint"), results=out)
        query.process_available()
        if half is first:
            query.stop()
    query.finish()
    assert query.metrics().rows == rows().num_rows
    assert_same(as_answer(spark.read.parquet(out)), batch_answer(spark, source))


def test_directories_of_a_union_share_tasks_and_answer_as_one(spark: SparkSession, tmp_path: Path) -> None:
    """Three directories, of which one gets its files later, through a restart."""
    names, out = ("a", "b", "c"), str(tmp_path / "out")
    pieces = parts(rows(), 6)
    for half in (0, 1):
        for number, piece in enumerate(pieces[3 * half : 3 * half + 3]):
            name = names[number] if half else names[number % 2]
            place = tmp_path / "in" / name
            write_part(piece, place, len(list(place.glob("*.parquet"))) if place.exists() else 0)
        if not half:
            write_part(pieces[0].slice(0, 0), tmp_path / "in" / "c", 0)
        first, *others = (
            lw.stream(lw.parquet_files(spark, str(tmp_path / "in" / name)), name=name, progress="ts", disorder="1 hour")
            for name in names
        )
        counts = first.union(*others).window(range="1 minute", slide="20 seconds").group_by("key").agg(n=lw.count())
        query = counts.start(checkpoint=str(tmp_path / "checkpoint"), results=out)
        query.process_available()
        if not half:
            query.stop()
    query.finish()
    assert query.metrics().rows == rows().num_rows
    assert query.metrics().late_rows == 0
    found = spark.read.parquet(out).select("window_end", "key", "n").toArrow()
    table = lw.stream(rows(), progress="ts", disorder="1 hour")
    whole = table.window(range="1 minute", slide="20 seconds").group_by("key").agg(n=lw.count()).collect()
    by = [("window_end", "ascending"), ("key", "ascending")]
    assert found.num_rows > 100
    assert found.sort_by(by).to_pylist() == whole.select(["window_end", "key", "n"]).sort_by(by).to_pylist()


def test_a_select_falls_back_to_sparks_scan(spark: SparkSession, tmp_path: Path) -> None:
    write_part(rows(2_000), tmp_path / "in", 0)
    stream = lw.stream(lw.parquet_files(spark, str(tmp_path / "in")), progress="ts", disorder="3 seconds")
    count = stream.where("key < 10").window(range="1 minute").agg(n=lw.count())
    query = count.start(checkpoint=str(tmp_path / "checkpoint"), results=str(tmp_path / "out"))
    query.finish()
    total = sum(row.n for row in spark.read.parquet(str(tmp_path / "out")).collect())
    assert total == sum(key < 10 for key in rows(2_000).column("key").to_pylist()) > 0


def test_a_file_without_a_needed_column_is_refused_by_name(spark: SparkSession, tmp_path: Path) -> None:
    write_part(rows(100), tmp_path / "in", 0)
    query = stream_of(lw.parquet_files(spark, str(tmp_path / "in")))
    write_part(rows(100).drop_columns(["val"]), tmp_path / "in", 1)
    running = query.start(checkpoint=str(tmp_path / "checkpoint"), results=str(tmp_path / "out"), trigger=ONCE)
    with pytest.raises(StreamingQueryException, match=r"0001.parquet lacks column 'val'"):
        running.await_termination()


def test_a_file_system_that_arrow_does_not_know_is_refused() -> None:
    assert opened("file:/data/h=10%3A00/a#1 b.parquet")[1] == "/data/h=10%3A00/a#1 b.parquet"
    assert opened("file:///data/a.parquet")[1] == "/data/a.parquet"
    with pytest.raises(lw.LowwaterError, match=r"Arrow cannot open dbfs://x/y.parquet here"):
        opened("dbfs://x/y.parquet")


def test_the_schema_is_sparks_own(spark: SparkSession, tmp_path: Path) -> None:
    write_part(rows(100), tmp_path / "in", 0)
    schema = lw.parquet_files(spark, str(tmp_path / "in")).schema
    assert schema.field("ts").type == pa.timestamp("us", "UTC")
    assert schema.names == ["ts", "key", "val"]
