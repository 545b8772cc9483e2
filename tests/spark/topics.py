"""Topics of a broker for tests: filled and read by Spark's own connector."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession


def send(messages: DataFrame, servers: str, topic: str) -> None:
    """Messages in the order of a DataFrame of one partition: value, and partition if they are to go to one."""
    messages.write.format("kafka").option("kafka.bootstrap.servers", servers).option("topic", topic).save()


def read(spark: SparkSession, servers: str, topic: str) -> DataFrame:
    """All messages that are there."""
    return spark.read.format("kafka").option("kafka.bootstrap.servers", servers).option("subscribe", topic).load()
