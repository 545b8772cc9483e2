"""Names of columns on Spark: the same queries as over tables, with the same results."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from pyspark.sql import SparkSession

import lowwater as lw
from lowwater.backends.spark.opened import opener
from lowwater.errors import LowwaterError
from lowwater.language import bind, read
from tests.compare import multiset
from tests.test_names import QUERIES, ROWS, stream

pytestmark = pytest.mark.spark


@pytest.mark.parametrize("query", QUERIES)
def test_names_mean_the_same_on_spark(spark: SparkSession, query: str) -> None:
    frame = spark.createDataFrame(ROWS)
    found = QUERIES[query](stream(frame), str.upper).collect()
    expected = QUERIES[query](stream(), str).collect()
    assert found.column_names == expected.column_names
    assert multiset(found.to_pylist()) == multiset(expected.to_pylist())


@pytest.fixture
def exact(spark: SparkSession) -> Iterator[SparkSession]:
    spark.conf.set("spark.sql.caseSensitive", "true")
    yield spark
    spark.conf.unset("spark.sql.caseSensitive")


@pytest.mark.parametrize("query", QUERIES)
def test_names_are_exact_where_the_session_says_so(exact: SparkSession, query: str) -> None:
    rows = stream(exact.createDataFrame(ROWS), progress="Ts")
    found, expected = QUERIES[query](rows, str).collect(), QUERIES[query](stream(), str).collect()
    if query.endswith("anew"):  # BYTES is not the column Bytes, but one more
        assert found.column_names == [*ROWS.column_names, "BYTES"]
    else:
        assert multiset(found.to_pylist()) == multiset(expected.to_pylist())
    with pytest.raises(LowwaterError):
        QUERIES[query](rows, str.swapcase)


def readings(spark: SparkSession) -> lw.Relation:
    """Two columns that differ in case only, which is for sessions with exact names alone."""
    frame = spark.createDataFrame([(1, "a", "x"), (2, "a", "y")], "ts long, k string, K string")
    return lw.stream(frame, name="readings", progress="ts", disorder=0)


REFUSED: dict[str, Callable[[lw.Relation], object]] = {
    "group": lambda rows: rows.window(10).group_by("TS"),
    "filter": lambda rows: rows.where("TS > 1"),
    "derive": lambda rows: rows.with_column("n", "TS + 1"),
    "aggregate": lambda rows: rows.window(10).agg(n=lw.sum("TS")),
    "filtered": lambda rows: rows.window(10).agg(n=lw.count(where="TS > 1")),
    "time": lambda rows: rows.window(10, over="TS"),
    "join": lambda rows: rows.join(rows, on="TS", within=1),
    "text": lambda rows: lw.sql("SELECT TS FROM R", R=rows),
    "progress": lambda rows: lw.stream(rows.to_spark(), name="other", progress="TS", disorder=0),
}


@pytest.mark.parametrize("name", REFUSED)
def test_another_case_is_another_name_where_the_session_says_so(exact: SparkSession, name: str) -> None:
    with pytest.raises(LowwaterError, match="TS"):
        REFUSED[name](readings(exact))


def test_columns_may_differ_in_case_only_where_the_session_says_so(exact: SparkSession) -> None:
    rows = readings(exact)
    counts = rows.window(10).group_by("K").agg(n=lw.count(), first=lw.min("k"))
    expected = [("x", 1, "a"), ("y", 1, "a")]
    assert sorted((r["K"], r["n"], r["first"]) for r in counts.collect().to_pylist()) == expected
    said = lw.sql("SELECT K, count(*) [RANGE 10] AS n, min(k) [RANGE 10] AS first FROM R GROUP BY K", R=rows)
    assert sorted((r["K"], r["n"], r["first"]) for r in said.collect().to_pylist()) == expected


def test_aggregates_may_differ_in_case_only_where_the_session_says_so(exact: SparkSession) -> None:
    rows = readings(exact)
    windows = rows.window(10).group_by("k").agg(n=lw.count(), N=lw.max("ts"), K=lw.min("K")).collect().to_pylist()
    assert [(row["k"], row["n"], row["N"], row["K"]) for row in windows] == [("a", 2, 2, "x")]
    whole = rows.group_by("ts", "k").agg(n=lw.count(), N=lw.max("K")).collect().to_pylist()
    assert sorted((row["k"], row["n"], row["N"]) for row in whole) == [("a", 1, "x"), ("a", 1, "y")]


def test_a_declaration_is_exact_where_the_session_says_so(exact: SparkSession) -> None:
    exact.createDataFrame([(1, "a")], "t long, k string").createOrReplaceTempView("exactly")
    text = "CREATE STREAM R ({} BIGINT, k STRING) PROGRESS {} DISORDER 0 FROM TABLE exactly; SELECT * FROM R"
    (bound,) = bind(read(text.format("t", "t")), {}, opener(exact, streaming=False))
    assert bound.relation.collect().to_pylist() == [{"t": 1, "k": "a"}]
    with pytest.raises(LowwaterError, match="declares the column 'T'"):
        bind(read(text.format("T", "T")), {}, opener(exact, streaming=False))


def test_any_name_passes_steps_that_spark_evaluates_between_stages(spark: SparkSession) -> None:
    frame = spark.createDataFrame(ROWS.append_column("a`b", ROWS["Link"]))
    counts = stream(frame).window(10).group_by("a`b", "src.ip").agg(**{"how many": lw.count()})
    hashed = counts.with_column("h.h", "sha2(`a``b`, 256)").where("`how many` > 0").window(100).group_by("h.h", "a`b")
    found = hashed.agg(n=lw.sum("how many")).collect()
    assert {(row["a`b"], row["n"]) for row in found.to_pylist()} == {("x", 2), ("y", 2)}
    assert len(set(found["h.h"].to_pylist())) == 2


def test_any_name_passes_a_function_where_rows_are_read(spark: SparkSession) -> None:
    rows = ROWS.append_column("a`b", ROWS["Link"])
    found = (
        stream(spark.createDataFrame(rows)).apply(lambda table: table, rows.schema).where("`src.ip` <> 'b'").collect()
    )
    assert found.select(rows.schema.names).num_rows == 3
