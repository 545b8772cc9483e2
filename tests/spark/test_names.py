"""Names of columns on Spark: the same queries as over tables, with the same results."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

import lowwater as lw
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
