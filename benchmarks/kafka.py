"""The benchmark `kafka`: windows over messages of a topic, compared with Spark's window() on the same topic.

    workload    RANGE / SLIDE     a micro-batch has
    range60     60 s / 1 s        2,000,000 messages of 60 s, in 2 partitions

The rows are those of `sliding`: 1,000 keys, skewed, up to 3 s late. Each is a message in JSON. A broker of its own runs
on loopback, on the same cores. The first micro-batch is the history, and the second one is timed. Both engines read the
topic by Spark's source:

    lowwater        to_spark() over lw.kafka(): the partitions are the sources
    spark-memory    from_json and groupBy(window(...)), with state in the JVM's heap
    scan            from_json alone, without a sink: what Spark needs for the topic and its JSON
    source          the topic alone, without a sink: what no engine on Spark's source can save

The consumers of all engines ask the broker for as much at once as those of lw.kafka() do by default, which helps all.

`rounds` describes how engines take turns. Ratios are only reported if the engines agree.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import lowwater as lw
from benchmarks import jars
from benchmarks.broker import broker, create_topic
from benchmarks.engine import Engine
from benchmarks.rounds import KEYS, WARM_BATCHES, WARM_ROWS, BenchReport, Entry, Race, Say, sorted_by, take_turns
from benchmarks.sliding import difference
from benchmarks.sliding_engines import MEMORY_STATE, Question, spark_answers, windowed
from lowwater import generate
from lowwater.backends.spark.demo import Files
from lowwater.backends.spark.kafka import FETCHED

NAME = "kafka"
PARTITIONS = 2
VALUE = "ts TIMESTAMP, key BIGINT, val DOUBLE"
_TOPIC = "topic.json"


@dataclass(frozen=True)
class Workload:
    """A query and its messages: so many in the history and in each of the micro-batches that are timed."""

    name: str
    question: Question
    rows: int
    seconds: int
    batches: int

    def capped(self, rows: int | None) -> Workload:
        most = self.rows if rows is None else rows - rows % PARTITIONS
        return replace(self, rows=min(most, self.rows))

    def race(self, spark: SparkSession, servers: str) -> Race:
        entries = tuple(Entry(self.name, engine) for engine in engines(self.question))
        return Race(entries, self.rows, partial(self.send, spark, servers), sorted_by("window_end", "key"), difference)

    def send(self, spark: SparkSession, servers: str, directory: Path) -> None:
        """Sends all messages to a topic of their own, and writes down which one it is."""
        topic = "-".join(directory.parts[-2:])
        create_topic(spark, servers, topic, PARTITIONS)
        count, length = self.rows * (1 + self.batches), self.seconds * (1 + self.batches)
        rows = generate.keyed(count, length, KEYS, seed=1, max_delay=self.question.disorder)
        rows = rows.append_column("partition", pa.array(np.arange(count, dtype=np.int32) % PARTITIONS))
        generate.write_files(rows, directory, 1)
        sent = spark.read.parquet(str(directory)).coalesce(1)
        messages = sent.select(F.to_json(F.struct("ts", "key", "val")).alias("value"), "partition")
        messages.write.format("kafka").option("kafka.bootstrap.servers", servers).option("topic", topic).save()
        options = {"topic": topic, "servers": servers, "batch": self.rows}
        (directory / _TOPIC).write_text(json.dumps(options))


WORKLOADS = (Workload("range60", Question(60, 1), 2_000_000, 60, 1),)
WARM = Workload("warm", Question(10, 1), WARM_ROWS, 10, WARM_BATCHES)


def engines(question: Question) -> tuple[Engine, ...]:
    def source(spark: SparkSession, files: Files) -> DataFrame:
        topic = _topic(files)
        reader = spark.readStream.format("kafka").option("kafka.bootstrap.servers", topic["servers"])
        messages = reader.options(**_reading(topic), **FETCHED).option("subscribe", topic["topic"]).load()
        return messages.select("value")

    def values(spark: SparkSession, files: Files) -> DataFrame:
        read = F.from_json(F.col("value").cast("string"), VALUE)
        return source(spark, files).select(read.alias("row")).select("row.*")

    def spark_engine(spark: SparkSession, files: Files) -> DataFrame:
        return spark_answers(values(spark, files), question)

    def ours(spark: SparkSession, files: Files) -> DataFrame:
        topic = _topic(files)
        declared = {"progress": "ts", "disorder": f"{question.disorder} seconds"}
        places = {"servers": topic["servers"], "topics": topic["topic"], "value": VALUE}
        return windowed(lw.kafka(spark, **places, **declared, **_reading(topic)), question)

    return (
        Engine("lowwater", ours),
        Engine("spark-memory", spark_engine, MEMORY_STATE),
        Engine("scan", values, writes=False),
        Engine("source", source, writes=False),
    )


def _topic(files: Files) -> dict[str, str]:
    found: dict[str, str] = json.loads((files.directory / _TOPIC).read_text())
    return found


def _reading(topic: dict[str, str]) -> dict[str, str]:
    return {"startingOffsets": "earliest", "maxOffsetsPerTrigger": str(topic["batch"])}


def settings() -> dict[str, str]:
    """What the Spark session needs: the connector, which is fetched if it is absent."""
    jars.fetch([jars.BROKER, jars.CONNECTOR])
    return jars.spark_jars(jars.CONNECTOR)


def run(
    spark: SparkSession,
    rounds: int = 2,
    rows: int | None = None,
    say: Say = lambda text: None,
    workloads: Sequence[Workload] = WORKLOADS,
    warm: bool = True,
    servers: str | None = None,
) -> BenchReport:
    """Runs all engines on all workloads, with a broker of its own unless there is one."""
    with ExitStack() as stack:
        address = servers or stack.enter_context(broker())
        races = [workload.capped(rows).race(spark, address) for workload in workloads]
        before = [WARM.race(spark, address)] if warm else []
        return BenchReport(NAME, *take_turns(spark, races, before, rounds, say))
