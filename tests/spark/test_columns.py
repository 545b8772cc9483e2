"""Spark's `Column`s where a verb takes an expression or an aggregate: the same answer as with text."""

from __future__ import annotations

import datetime as dt

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import lowwater as lw
from lowwater.errors import BadAggregate, LowwaterError

pytestmark = pytest.mark.spark

NOON = dt.datetime(2026, 1, 1, 12)


@pytest.fixture(scope="module")
def rows(spark: SparkSession) -> lw.Relation:
    data = [(NOON + dt.timedelta(seconds=i), f"it's {i % 3}", i % 5, float(i)) for i in range(40)]
    frame = spark.createDataFrame(data, "ts timestamp, k string, n long, v double")
    return lw.stream(frame, name="rows", progress="ts", disorder="5 seconds")


def test_conditions_and_columns_as_columns(rows: lw.Relation) -> None:
    by_column = (
        rows.where((F.col("n") > 1) & F.col("k").isin("it's 0", "it's 1"))
        .with_column("w", F.when(F.col("v") < 20, F.lit("low")).otherwise(F.upper("k")))
        .with_column("x", F.round(F.col("v") / 3, 2) + F.lit(1))
    )
    by_text = (
        rows.where("n > 1 AND k IN ('it''s 0', 'it''s 1')")
        .with_column("w", "CASE WHEN v < 20 THEN 'low' ELSE upper(k) END")
        .with_column("x", "round(v / 3, 2) + 1")
    )
    found, expected = (
        one.window("10 seconds").group_by("w").agg(total=lw.sum("x")).where("total > 0").collect()
        for one in (by_column, by_text)
    )
    assert found.num_rows
    assert found == expected


def test_a_column_without_text_is_refused(rows: lw.Relation) -> None:
    twice = F.udf(lambda n: 2 * n, "long")
    with pytest.raises(LowwaterError, match="has no text in SQL; write it in SQL"):
        rows.with_column("m", twice("n"))
    with pytest.raises(LowwaterError, match="nowhere"):
        rows.where(F.col("nowhere") > 1)


def test_aggregates_as_columns(rows: lw.Relation) -> None:
    calls = {
        "a": (F.count("*"), lw.count()),
        "b": (F.count("v"), lw.count("v")),
        "c": (F.sum("n"), lw.sum("n")),
        "d": (F.avg(F.col("v")), lw.avg("v")),
        "e": (F.count_distinct("k"), lw.count_distinct("k")),
        "f": (F.max_by("k", "v"), lw.max_by("k", "v")),
        "g": (F.stddev("v"), lw.stddev("v")),
        "h": (F.collect_set("n"), lw.collect_set("n")),
        "i": (F.max("v"), lw.max("v")),
    }
    window = rows.window("10 seconds").group_by("n")
    found = window.agg(**{name: column for name, (column, _) in calls.items()}).collect()
    assert found == window.agg(**{name: ours for name, (_, ours) in calls.items()}).collect()


def test_what_is_no_aggregate_of_a_column_is_refused(rows: lw.Relation) -> None:
    window = rows.window("10 seconds")
    for wrong, says in {
        "of an expression": (F.sum(F.col("n") + 1), "make it a column first"),
        "of a name with dots": (F.max("src.ip"), "or write a name with dots in backticks: `src.ip`"),
        "by arrival": (F.last("n"), r"use one of lowwater's own"),
        "no call": (F.col("n"), "takes a call of an aggregate"),
    }.values():
        with pytest.raises(BadAggregate, match=says):
            window.agg(x=wrong)
    with pytest.raises(LowwaterError, match="takes Spark SQL as text or a Column, not int"):
        rows.where(3)


def test_a_filter_on_an_aggregate_counts_what_spark_counts(rows: lw.Relation, spark: SparkSession) -> None:
    def total(where: str) -> str:
        return f"sum(v) FILTER (WHERE {where})"

    ours = rows.window("10 seconds").group_by("k")
    by_argument = ours.agg(s=lw.sum("v", where="n > 2"), c=lw.count(where="n = 0")).collect()
    by_column = ours.agg(s=F.expr(total("n > 2")), c=F.expr("count(*) FILTER (WHERE n = 0)")).collect()
    assert by_argument == by_column
    data = [(NOON + dt.timedelta(seconds=i), f"it's {i % 3}", i % 5, float(i)) for i in range(40)]
    frame = spark.createDataFrame(data, "ts timestamp, k string, n long, v double")
    batch = frame.groupBy(F.window("ts", "10 seconds"), "k").agg(
        F.expr(total("n > 2")).alias("s"), F.expr("count(*) FILTER (WHERE n = 0)").alias("c")
    )
    expected = sorted((row["k"], row["window"]["start"].timestamp(), row["s"], row["c"]) for row in batch.collect())
    found = sorted((r["k"], r["window_start"].timestamp(), r["s"], r["c"]) for r in by_argument.to_pylist())
    assert len(found) == 12
    assert [f[:1] + f[2:] for f in found] == [e[:1] + e[2:] for e in expected]
