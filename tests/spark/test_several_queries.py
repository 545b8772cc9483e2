"""Several queries as one streaming query: one scan per stream, and for each query what it answers alone."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

import lowwater as lw
from lowwater.errors import CheckpointMismatch
from tests.spark import several
from tests.spark.answers import write_part

pytestmark = pytest.mark.spark


def read(query: Any, place: Path) -> dict[str, list[int]]:
    """Rows that Spark has read in each micro-batch, by streams. A stream with two sources would be there twice."""
    found: dict[str, list[int]] = {}
    for progress in query.spark.recentProgress:
        sources = json.loads(progress.json)["sources"]
        for name in several.TABLES:
            own = [one["numInputRows"] for one in sources if one["description"].endswith(f"{place / name}]")]
            assert len(own) == 1, sources
            found.setdefault(name, []).extend(own)
    return found


@pytest.fixture(scope="module")
def ran(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[dict[str, list[int]]], Any]:
    """All queries together, stopped between and started again by queries built anew."""
    place = tmp_path_factory.mktemp("several")
    seen = []
    for numbers in (range(2), range(2, several.PARTS)):
        several.write(place, numbers)
        asked = several.together(spark, place)
        query = asked.start(
            checkpoint=str(place / "checkpoint"),
            results={name: str(place / "out" / name) for name in asked.names},
            late={name: str(place / "late" / name) for name in several.LATE},
        )
        query.process_available()
        if numbers.start:
            query.finish()
        else:
            query.stop()
        seen.append(read(query, place))
    return place, seen, query


def test_a_stream_of_several_queries_is_read_once(ran: tuple[Path, list[dict[str, list[int]]], Any]) -> None:
    _, seen, query = ran
    for of in seen:
        for name in several.TABLES:
            rows = [n for n in of[name] if n]
            assert rows == [several.ROWS // several.PARTS] * 2, "each file once, in a micro-batch of its own"
    assert query.metrics().rows == sum(table.num_rows for table in several.TABLES.values())


@pytest.mark.parametrize("name", ["busy", "longest", "all", "later", "doubled", "pairs"])
def test_each_query_has_its_own_results_late_rows_and_metrics(name: str, spark: SparkSession, ran: Any) -> None:
    place, _, query = ran
    alone = several.alone(name)
    assert several.found_in(spark, str(place / "out" / name), alone.plan.result_schema) == several.told(alone.result())
    assert alone.result().num_rows
    if name in several.LATE:
        expected = alone.late_output()
        assert len(set(expected["late_reason"].to_pylist())) > 1, "rows without a time, and rows behind their windows"
        assert several.found_in(spark, str(place / "late" / name), expected.schema) == several.told(expected)
    ours, theirs = query.metrics(name), alone.metrics()
    for number in ("rows", "late_rows", "dropped_rows", "result_rows", "state_rows", "low_watermark"):
        assert getattr(ours, number) == getattr(theirs, number), number
    assert [one.name for one in ours.operators] == [one.name for one in theirs.operators]


def parquet_files(spark: SparkSession, place: Path) -> dict[str, Any]:
    return {name: lw.parquet_files(spark, str(place / name), maxFilesPerTrigger=1) for name in several.TABLES}


def by_arrow(streams: dict[str, lw.Relation]) -> dict[str, lw.Relation]:
    """Queries that need nothing of Spark's scan."""
    a = streams["a"]
    return {
        "n": a.window("10 seconds").group_by("k").agg(n=lw.count()),
        "most": a.window("8 seconds", "4 seconds").agg(most=lw.max("v")),
    }


def mixed(streams: dict[str, lw.Relation]) -> dict[str, lw.Relation]:
    """One that Arrow reads alone, and one that selects columns before it needs Spark's expressions."""
    a = streams["a"]
    narrow = a.select("k", "ts").where("k = 'a'")
    return {**by_arrow(streams), "some": narrow.window("10 seconds").agg(n=lw.count())}


@pytest.mark.parametrize("queries", [by_arrow, mixed])
def test_parquet_files_that_arrow_reads_are_read_once(
    queries: Callable[..., dict[str, lw.Relation]], spark: SparkSession, tmp_path: Path
) -> None:
    several.write(tmp_path)
    asked = lw.together(**queries(several.streams_of(parquet_files(spark, tmp_path))))
    results = {name: str(tmp_path / "out" / name) for name in asked.names}
    query = asked.start(checkpoint=str(tmp_path / "checkpoint"), results=results)
    query.finish()
    sources = json.loads(query.spark.recentProgress[0].json)["sources"]
    assert [one["description"] for one in sources if str(tmp_path / "a") in one["description"]] != []
    assert len([one for one in sources if one["description"].endswith(f"{tmp_path / 'a'}]")]) == 1
    assert query.metrics().rows == several.ROWS
    for name, one in queries(several.streams_of(several.TABLES)).items():
        alone = one.start()
        for part in several.parts("a"):
            alone.push(part)
        alone.finish()
        assert several.found_in(spark, results[name], alone.plan.result_schema) == several.told(alone.result())


def test_sinks_of_other_kinds_and_expressions_of_spark_behind_the_last_operator(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Functions get the rows of their query alone; one query has a step that only Spark evaluates."""
    several.write(tmp_path)
    a = several.streaming(spark, tmp_path)["a"]
    counts = a.window("10 seconds").group_by("k").agg(n=lw.count())
    asked = lw.together(n=counts, again=counts.with_column("code", "soundex(k)"), raw=a.where("v > 7"))
    got: dict[str, dict[int, pa.Table]] = {"n": {}, "again": {}}

    def into(name: str) -> Callable[[DataFrame, int], None]:
        return lambda rows, batch: got[name].update({batch: rows.toArrow()})

    sinks = {"n": into("n"), "again": into("again"), "raw": str(tmp_path / "raw")}
    query = asked.start(checkpoint=str(tmp_path / "checkpoint"), results=sinks, late={"again": str(tmp_path / "late")})
    query.finish()
    tables = {name: pa.concat_tables(parts.values()) for name, parts in got.items()}
    assert told_codes(tables["again"]) == told_codes(
        tables["n"].append_column("code", pa.array([f"{k.upper()}000" for k in tables["n"]["k"].to_pylist()]))
    )
    assert tables["n"].num_rows
    local = several.streams_of(several.TABLES)["a"]
    n, raw = (one.start() for one in (local.window("10 seconds").group_by("k").agg(n=lw.count()), local.where("v > 7")))
    for part in several.parts("a"):
        n.push(part)
        raw.push(part)
    n.finish(), raw.finish()
    assert several.told(tables["n"].select(n.result().column_names).cast(n.plan.result_schema)) == several.told(
        n.result()
    )
    assert several.found_in(spark, str(tmp_path / "raw"), raw.plan.result_schema) == several.told(raw.result())
    late = n.late_output()
    assert several.found_in(spark, str(tmp_path / "late"), late.schema) == several.told(late)


def told_codes(table: pa.Table) -> list[tuple[Any, ...]]:
    return sorted(zip(*(table[name].to_pylist() for name in ("window_end", "k", "n", "code")), strict=True))


def test_batch_dataframes_are_collected_query_by_query(spark: SparkSession) -> None:
    df = spark.createDataFrame(several.TABLES["a"])
    streams = several.streams_of({"a": df})
    found = lw.together(**mixed(streams)).collect()
    for name, one in mixed(several.streams_of(several.TABLES)).items():
        assert several.told(found[name]) == several.told(one.collect()), name


def test_a_checkpoint_of_other_queries_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    write_part(several.parts("a")[0], tmp_path / "a", 0)
    reader = spark.readStream.schema(from_arrow_schema(several.TABLES["a"].schema))
    a = several.streams_of({"a": reader.parquet(str(tmp_path / "a"))})["a"]
    counts, most = a.window("10 seconds").agg(n=lw.count()), a.window("10 seconds").agg(most=lw.max("v"))
    checkpoint = str(tmp_path / "checkpoint")

    def start(**queries: lw.Relation) -> Any:
        results = {name: str(tmp_path / "out" / name) for name in queries}
        return lw.together(**queries).start(checkpoint=checkpoint, results=results)

    start(n=counts, most=most).stop()
    with pytest.raises(CheckpointMismatch, match="the query was a set of queries"):
        counts.start(checkpoint=checkpoint, results=str(tmp_path / "one"))
    with pytest.raises(CheckpointMismatch, match="names of its set of queries was n, most and is now n, longest"):
        start(n=counts, longest=most)
