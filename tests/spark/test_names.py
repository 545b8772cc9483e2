"""Names of columns on Spark: the same queries as over tables, with the same results."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

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
