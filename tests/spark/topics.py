"""Topics of a broker for tests: made, filled and read by Spark's own connector."""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame, SparkSession


def create(spark: SparkSession, servers: str, topic: str, partitions: int) -> None:
    jvm: Any = spark._jvm
    settings = jvm.java.util.Properties()
    settings.setProperty("bootstrap.servers", servers)
    admin = jvm.org.apache.kafka.clients.admin.AdminClient.create(settings)
    try:
        wanted = jvm.java.util.ArrayList()
        wanted.add(jvm.org.apache.kafka.clients.admin.NewTopic(topic, partitions, 1))
        admin.createTopics(wanted).all().get()
    finally:
        admin.close()


def send(messages: DataFrame, servers: str, topic: str) -> None:
    """Messages in the order of a DataFrame of one partition: value, and partition if they are to go to one."""
    messages.write.format("kafka").option("kafka.bootstrap.servers", servers).option("topic", topic).save()


def read(spark: SparkSession, servers: str, topic: str) -> DataFrame:
    """All messages that are there."""
    return spark.read.format("kafka").option("kafka.bootstrap.servers", servers).option("subscribe", topic).load()
