"""Query files whose queries share a stream: one scan, one checkpoint, and sinks of their own for all their rows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import lowwater as lw
from lowwater.backends.spark.opened import opener
from lowwater.backends.spark.script import Started, start
from lowwater.errors import LowwaterError
from lowwater.language import BoundQuery, bind, read
from tests.spark import several

pytestmark = pytest.mark.spark

STREAM = """
CREATE STREAM {name} (ts TIMESTAMP, k STRING, v BIGINT) PROGRESS ts DISORDER 3 SECONDS
FROM parquet OPTIONS (path '{place}/{name}', maxFilesPerTrigger 1);
"""
VIEW = "CREATE VIEW PerTen AS SELECT k, count(*) AS n FROM a [RANGE 10 seconds, WA ts] GROUP BY k;\n"
QUERIES = (
    "SELECT k, n FROM PerTen WHERE n > 1",
    "SELECT sum(v * 10) AS s FROM a [RANGE 8 seconds, SLIDE 4 seconds, WA ts] WHERE k <> 'c'",
    "SELECT a.k, b.v FROM a JOIN b ON a.k = b.k WINDOW 3 seconds",
)
NAMES = ["query1", "query2", "query3"]


def declared(place: Path) -> str:
    return "".join(STREAM.format(name=name, place=place) for name in several.TABLES) + VIEW


def bound(spark: SparkSession, place: Path, queries: tuple[str, ...] = QUERIES) -> list[BoundQuery]:
    """Results as parquet files, late rows as JSON."""
    text = declared(place)
    for name, query in zip(NAMES, queries, strict=False):
        text += f"INSERT INTO parquet OPTIONS (path '{place}/out/{name}') {query};\n"
        text += f"INSERT INTO LATE json OPTIONS (path '{place}/late/{name}');\n"
    return bind(read(text), {}, opener(spark))


def alone(query: str) -> Any:
    """The query alone, in this process, over the same micro-batches."""
    streams = several.streams_of(several.TABLES)
    running = lw.sql(VIEW + query, **streams).start()
    for number in range(several.PARTS):
        running.push_all({one.name: several.parts(one.name)[number] for one in running.plan.inputs})
    running.finish()
    return running


def silent(name: str, rows: pa.Table) -> None:
    raise AssertionError(f"{name} has a sink")


def groups(started: list[Started]) -> list[list[str]]:
    return [one.names for one in started]


def test_three_queries_over_a_stream_run_as_one_and_fill_their_own_sinks(spark: SparkSession, tmp_path: Path) -> None:
    several.write(tmp_path)
    place = tmp_path / "state"
    (first,) = start(spark, bound(spark, tmp_path), place, silent)
    assert first.group.sentence == "query1, query2 and query3 run together: a is read once."
    first.query.process_available()
    first.query.stop()
    (again,) = start(spark, bound(spark, tmp_path), place, silent)
    again.query.finish()
    read_rows = [
        source["numInputRows"]
        for query in (first.query, again.query)
        for progress in query.spark.recentProgress
        for source in json.loads(progress.json)["sources"]
        if source["description"].endswith(f"{tmp_path / 'a'}]")
    ]
    assert sum(read_rows) == several.ROWS
    for (query, metrics), text in zip(again.each(), QUERIES, strict=True):
        judge = alone(text)
        out, late = str(tmp_path / "out" / query.name), str(tmp_path / "late" / query.name)
        assert judge.result().num_rows
        assert several.found_in(spark, out, judge.plan.result_schema) == several.told(judge.result())
        assert (metrics.rows, metrics.late_rows) == (judge.metrics().rows, judge.metrics().late_rows)
        expected = judge.late_output()
        assert expected.num_rows
        columns = ["operator", "late_reason", "windows_missed"]
        found = spark.read.option("recursiveFileLookup", True).json(late).toArrow().select(columns)
        assert several.told(found) == several.told(expected.select(columns))
    assert start(spark, bound(spark, tmp_path), place, silent) == []


def test_queries_stay_as_their_checkpoints_have_them(spark: SparkSession, tmp_path: Path) -> None:
    several.write(tmp_path)
    place = tmp_path / "state"
    before = start(spark, bound(spark, tmp_path, QUERIES[:1]), place, silent, apart=True)
    before[0].query.stop()
    started = start(spark, bound(spark, tmp_path), place, silent)
    try:
        assert groups(started) == [["query1"], ["query2", "query3"]]
        assert started[0].group.sentence == "query1 runs on its own, because it has a checkpoint of its own."
    finally:
        for one in started:
            one.query.rest()
            one.query.stop()
    assert {one.name for one in place.iterdir()} == {"query1", "query2-together"}
    again = start(spark, bound(spark, tmp_path), place, silent)
    try:
        assert groups(again) == [["query1"], ["query2", "query3"]]
    finally:
        for one in again:
            one.query.rest()
            one.query.stop()
    with pytest.raises(LowwaterError, match="has the state of query2 and query3 together; leave --apart out"):
        start(spark, bound(spark, tmp_path), place, silent, apart=True)
    with pytest.raises(LowwaterError, match="has the state of query2 and query3 together, but the file has no query3"):
        start(spark, bound(spark, tmp_path, QUERIES[:2]), place, silent)
