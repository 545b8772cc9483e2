"""Shard keys against Spark's own hash, and shards against Spark's own partitions."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from lowwater.backends.spark.sharding import shard_key

pytestmark = pytest.mark.spark


def test_sparks_hash_of_a_shard_key_is_its_number(spark: SparkSession) -> None:
    keys = spark.createDataFrame([(i, shard_key(i)) for i in range(1000)], "shard int, key int")
    assert keys.where(F.hash("key") != F.col("shard")).count() == 0


@pytest.mark.parametrize("shards", [2, 3, 7])
def test_each_shard_has_a_partition_of_its_own(spark: SparkSession, shards: int) -> None:
    keys = spark.createDataFrame([(shard_key(i),) for i in range(shards)], "key int")
    placed = keys.repartition(shards, "key").select(F.spark_partition_id().alias("partition")).collect()
    assert sorted(row.partition for row in placed) == list(range(shards))
