"""Topics of a real broker on loopback: partitions as sources, killed and restarted, values that cannot be read.

`make jars` fetches the broker and Spark's connector.
"""

from __future__ import annotations

import json
import os
import signal
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import lowwater as lw
from benchmarks import jars
from benchmarks.broker import create_topic
from lowwater.backends.spark.kafka import Topics
from lowwater.backends.spark.opened import opener
from lowwater.language import sql
from tests.spark import topics
from tests.spark.answers import as_answer, assert_same, child
from tests.spark.test_finish import assert_complete

pytestmark = pytest.mark.spark

VALUE = "ts TIMESTAMP, key BIGINT, val DOUBLE"
MESSAGES = 200_000
LAGS = (0, 5, 20, 0)
"""Seconds by which the partitions of `clicks` lag. The last one falls silent after a quarter of the time."""
SECONDS = 120
SLICES = 20


def arrivals() -> pa.Table:
    """All messages in the order in which they are sent, with the partition and the place in it."""
    rng = np.random.default_rng(14)
    silent = MESSAGES // 20
    partition = np.concatenate([rng.integers(0, 3, MESSAGES - silent), np.full(silent, 3)])
    length = np.where(partition == 3, SECONDS / 4, SECONDS)
    at = rng.random(MESSAGES) * length
    sent = at + np.array(LAGS)[partition] + rng.random(MESSAGES) * 2
    order = np.argsort(sent, kind="stable")
    ts = pa.array(((1_700_000_000 + at[order]) * 1000).astype(np.int64)).cast(pa.timestamp("ms", "UTC"))
    columns = {"ts": ts, "key": rng.integers(0, 50, MESSAGES), "val": rng.integers(0, 1000, MESSAGES) / 8}
    return pa.table({**columns, "partition": pa.array(partition[order], pa.int32())})


def json_of(spark: SparkSession, rows: pa.Table) -> DataFrame:
    """Messages in their order: Spark sends those of one of its partitions one behind the other."""
    return spark.createDataFrame(rows).coalesce(1).selectExpr("to_json(struct(ts, key, val)) AS value", "partition")


def clicks(spark: SparkSession, servers: str, **more: Any) -> lw.Relation:
    options = {"disorder": "3 seconds", "startingOffsets": "earliest", "maxOffsetsPerTrigger": MESSAGES // 10, **more}
    stream = lw.kafka(spark, servers=servers, topics="clicks", value=VALUE, progress="ts", **options)
    windows = stream.window(range="10 seconds", slide="1 second").group_by("key")
    return windows.agg(n=lw.count(), s=lw.sum("val"), m=lw.max("val"))


PROGRAM = """
import sys, threading
from tests.spark import topics
from tests.spark.small import session
from tests.spark.test_kafka import SLICES, MESSAGES, arrivals, clicks, json_of

place, servers = sys.argv[1:]
spark = session(memory="1g", killed=True)


def written(rows, batch):
    if batch == 2:
        print("in the middle of batch 2", flush=True)
        threading.Event().wait()


running = None
step = MESSAGES // SLICES
for number in range(SLICES):
    topics.send(json_of(spark, arrivals().slice(number * step, step)), servers, "clicks")
    print("sent", number, flush=True)
    running = running or clicks(spark, servers).start(
        checkpoint=place + "/checkpoint", results=place + "/out", progress=written, shards=2
    )
    if number == 12:
        while running.active:
            running.await_termination(0.1)
        raise running.spark.exception()
"""
"""A producer and a query. The producer stops behind slice 12 if the query does not reach its point."""


def kill_producer_and_query(place: Path, servers: str) -> None:
    running = child(PROGRAM, str(place), servers)
    assert running.stdout is not None
    said: set[str] = set()
    for line in iter(running.stdout.readline, ""):
        said.add(line.strip())
        if {"in the middle of batch 2", "sent 5"} <= said:
            break
    os.killpg(running.pid, signal.SIGKILL)
    running.wait()
    assert {"in the middle of batch 2", "sent 5"} <= said


def send_the_rest(spark: SparkSession, servers: str) -> None:
    """The producer again: each partition from where it is."""
    rows = arrivals()
    there = {
        row.partition: row["count"]
        for row in topics.read(spark, servers, "clicks").groupBy("partition").count().collect()
    }
    assert 0 < sum(there.values()) < MESSAGES, "killed in the middle"
    partition = rows["partition"].to_numpy()
    place = np.zeros(MESSAGES, np.int64)
    for one in range(len(LAGS)):
        own = partition == one
        place[own] = np.arange(own.sum())
    left = place >= np.array([there.get(one, 0) for one in range(len(LAGS))])[partition]
    topics.send(json_of(spark, rows.filter(pa.array(left))), servers, "clicks")


def read_values(spark: SparkSession, servers: str) -> DataFrame:
    text = topics.read(spark, servers, "clicks").selectExpr(f"from_json(cast(value as string), '{VALUE}') AS row")
    return text.select("row.*")


def test_producer_and_query_killed_and_restarted(spark: SparkSession, kafka: str, tmp_path: Path) -> None:
    """Four partitions lag by different times, and one falls silent: 200,000 messages, each counted once."""
    create_topic(spark, kafka, "clicks", len(LAGS))
    kill_producer_and_query(tmp_path, kafka)
    send_the_rest(spark, kafka)
    again = clicks(spark, kafka).start(checkpoint=str(tmp_path / "checkpoint"), results=str(tmp_path / "out"))
    while again.metrics().rows < MESSAGES:
        assert not again.await_termination(0.1)
    metrics = again.metrics()
    assert metrics.held_back_by == "clicks/clicks-3", "the partition that has fallen silent"
    assert [source.source for source in metrics.sources] == [f"clicks-{n}" for n in range(len(LAGS))]
    behind = {source.source: source.largest_seen for source in metrics.sources}
    assert behind["clicks-3"] < behind["clicks-2"]
    again.finish(timeout=600)
    metrics = again.metrics()
    assert (metrics.rows, metrics.null_rows, metrics.late_rows, metrics.state_rows) == (MESSAGES, 0, 0, 0)
    windows = read_values(spark, kafka).groupBy(F.window("ts", "10 seconds", "1 second"), "key")
    batch = windows.agg(F.count("*").alias("n"), F.sum("val").alias("s"), F.max("val").alias("m"))
    expected = as_answer(batch.select(F.col("window.end").alias("window_end"), "key", "n", "s", "m"))
    assert_same(as_answer(spark.read.parquet(str(tmp_path / "out"))), expected)


@pytest.fixture(scope="module")
def mixed(spark: SparkSession, kafka: str) -> str:
    """A topic of three partitions: twenty seconds of messages in two of them, and values that cannot be read."""
    create_topic(spark, kafka, "mixed", 3)
    good = "to_json(struct(timestamp_seconds(id) AS ts, id % 3 AS key, cast(id AS double) AS val)) AS value"
    topics.send(spark.range(20).coalesce(1).selectExpr(good, "cast(id % 2 AS int) AS partition"), kafka, "mixed")
    bad = ["no JSON", None, "", "[1]", '{"ts": "1970-01-01T00:00:01Z", "key": 1, "val": "x"}', '{"key": 1}']
    topics.send(
        spark.createDataFrame([(one,) for one in bad], "value string").selectExpr("value", "0 AS partition"),
        kafka,
        "mixed",
    )
    return kafka


def opened(spark: SparkSession, servers: str, **more: Any) -> lw.Relation:
    options = {"topics": "mixed", "value": VALUE, "progress": "ts", "disorder": "1 second", **more}
    if "streaming" not in more:
        options["startingOffsets"] = "earliest"
    return lw.kafka(spark, servers=servers, **options)


def test_values_that_cannot_be_read_are_counted_and_late(spark: SparkSession, mixed: str, tmp_path: Path) -> None:
    running = (
        opened(spark, mixed)
        .window("5 seconds")
        .agg(n=lw.count())
        .start(
            checkpoint=str(tmp_path / "checkpoint"),
            results=str(tmp_path / "out"),
            late=str(tmp_path / "late"),
            shards=2,
        )
    )
    running.finish(timeout=600)
    assert (running.metrics().rows, running.metrics().null_rows) == (26, 6)
    assert sorted(row.n for row in spark.read.parquet(str(tmp_path / "out")).collect()) == [5, 5, 5, 5]
    late = spark.read.parquet(str(tmp_path / "late")).orderBy("kafka_offset").collect()
    assert [row.kafka_offset for row in late] == [10, 11, 12, 13, 14, 15]
    unread = Counter(None if row.kafka_unread is None else bytes(row.kafka_unread).decode() for row in late)
    assert unread == Counter(["no JSON", "", "[1]", '{"ts": "1970-01-01T00:00:01Z", "key": 1, "val": "x"}', None, None])


@pytest.mark.parametrize("filter", [None, "val >= 0"])
def test_several_queries_over_a_topic_read_it_once(
    filter: str | None, spark: SparkSession, mixed: str, tmp_path: Path
) -> None:
    """One query reads the keys, and one the values, of the same messages. A filter leaves all values to from_json."""
    rows = opened(spark, mixed)
    queries = {
        "keys": rows.window("5 seconds").group_by("key").agg(n=lw.count()),
        "values": (rows if filter is None else rows.where(filter)).window("10 seconds").agg(s=lw.sum("val")),
    }
    outs = {name: str(tmp_path / name) for name in queries}
    together = lw.together(**queries)
    assert "mixed is read once, for keys and values" in together.explain()
    running = together.start(checkpoint=str(tmp_path / "checkpoint"), results=outs, shards=2)
    running.finish(timeout=600)
    assert (running.metrics().rows, running.metrics().null_rows) == (26, 6)
    last = running.spark.lastProgress  # finish() has started the query anew, so that it counts no rows here
    assert len([source for source in last.sources if "Kafka" in source.description]) == 1
    keys = Counter((row.window_end.timestamp(), row.key) for row in spark.read.parquet(outs["keys"]).collect())
    counted = Counter((second // 5 * 5 + 5, second % 3) for second in range(20))
    found = {(row.window_end.timestamp(), row.key): row.n for row in spark.read.parquet(outs["keys"]).collect()}
    assert (found, set(keys.values())) == (dict(counted), {1})
    assert sorted(row.s for row in spark.read.parquet(outs["values"]).collect()) == [45.0, 145.0]


def test_values_that_cannot_be_read_can_be_refused(spark: SparkSession, mixed: str) -> None:
    counts = opened(spark, mixed, streaming=False, unread="refuse").window("5 seconds").agg(n=lw.count())
    with pytest.raises(Exception, match=r"The value at offset 1\d of partition mixed-0 cannot be read"):
        counts.collect()


def test_messages_as_a_table_with_other_columns(spark: SparkSession, mixed: str) -> None:
    plain = opened(spark, mixed, streaming=False).window("10 seconds").group_by("key").agg(n=lw.count())
    inferred = opened(
        spark, mixed, streaming=False, value="json", progress="later", columns={"later": "ts + INTERVAL 0 SECONDS"}
    )
    counted = inferred.window("10 seconds").group_by("key").agg(n=lw.count()).collect()
    assert sum(counted["n"].to_pylist()) == sum(plain.collect()["n"].to_pylist()) + 1 == 21, "one value is text there"
    arrived = opened(spark, mixed, streaming=False, progress="kafka_timestamp", disorder="1 hour")
    counted = arrived.window("1 day").agg(n=lw.count()).collect()
    assert sum(counted["n"].to_pylist()) == 21, "one value can be read and has no ts, which is not the progress here"
    raw = opened(spark, mixed, streaming=False, value=None, progress="kafka_offset", disorder=100)
    assert sum(raw.window(100).agg(n=lw.count()).collect()["n"].to_pylist()) == 26


def test_a_partition_without_messages_holds_back_until_idle_advances_it(
    spark: SparkSession, mixed: str, tmp_path: Path
) -> None:
    for number, options in enumerate(({}, {"idle": lw.idle(after="1 second", lag="1 second")})):
        counts = opened(spark, mixed, **options).window("5 seconds").agg(n=lw.count())
        places = {"checkpoint": str(tmp_path / f"checkpoint-{number}"), "results": str(tmp_path / f"out-{number}")}
        running = counts.start(**places, shards=2)
        while running.metrics().rows < 26 or (options and running.metrics().state_rows):
            assert not running.await_termination(0.1)
        if not options:
            assert (running.metrics().held_back_by, running.metrics().result_rows) == ("mixed/mixed-2", 0)
        else:
            assert running.metrics().result_rows == 4
        running.stop()


def test_a_topic_that_is_still_written_is_finished(spark: SparkSession, kafka: str, tmp_path: Path) -> None:
    create_topic(spark, kafka, "busy", 2)
    ended, begun = threading.Event(), threading.Event()

    def produce() -> None:
        number = 0
        while not ended.is_set():
            rows = spark.range(100 * number, 100 * (number + 1)).coalesce(1)
            value = "to_json(struct(timestamp_seconds(id) AS ts)) AS value"
            topics.send(rows.selectExpr(value, "cast(id % 2 AS int) AS partition"), kafka, "busy")
            begun.set()
            number += 1

    producer = threading.Thread(target=produce, daemon=True)
    producer.start()
    try:
        begun.wait()
        options = {"progress": "ts", "disorder": lw.ordered(), "startingOffsets": "earliest"}
        stream = lw.kafka(spark, servers=kafka, topics="busy", value="ts TIMESTAMP", **options)
        outputs = {"results": str(tmp_path / "out"), "late": str(tmp_path / "late")}
        running = (
            stream.window("10 seconds")
            .agg(n=lw.count())
            .start(checkpoint=str(tmp_path / "checkpoint"), shards=2, **outputs)
        )
        running.finish(timeout=600)
    finally:
        ended.set()
        producer.join()
    assert_complete(running, spark, tmp_path)
    assert running.metrics().late_rows == 0


def test_headers_are_a_column_where_spark_is_asked_for_them(spark: SparkSession, kafka: str, tmp_path: Path) -> None:
    create_topic(spark, kafka, "headed", 1)
    header = "array(struct('trace' AS key, cast(string(id) AS binary) AS value)) AS headers"
    good = "to_json(struct(timestamp_seconds(id) AS ts)) AS value"
    topics.send(spark.range(3).coalesce(1).selectExpr(good, header), kafka, "headed")
    topics.send(spark.createDataFrame([("no JSON",)], "value string"), kafka, "headed")
    options = {"topics": "headed", "progress": "ts", "disorder": "1 second", "startingOffsets": "earliest"}
    plain = lw.kafka(spark, servers=kafka, value="ts TIMESTAMP", **options)
    assert "kafka_headers" not in plain.schema.names
    stream = lw.kafka(spark, servers=kafka, value="ts TIMESTAMP", includeHeaders=True, **options)
    traced = stream.with_column("trace", "string(kafka_headers[0].value)")
    places = {name: str(tmp_path / name) for name in ("checkpoint", "results", "late")}
    traced.window("1 minute").group_by("trace").agg(n=lw.count()).start(**places, shards=2).finish(timeout=600)
    assert sorted(row.trace for row in spark.read.parquet(places["results"]).collect()) == ["0", "1", "2"]
    (late,) = spark.read.parquet(places["late"]).collect()
    assert (late.kafka_headers, bytes(late.kafka_unread)) == (None, b"no JSON")
    raw = lw.kafka(
        spark,
        servers=kafka,
        streaming=False,
        includeHeaders=True,
        **(options | {"progress": "kafka_offset", "disorder": 0}),
    )
    assert raw.schema.names[-1] == "kafka_headers"


EVERY = {
    "startingTimestamp": 1,
    "startingOffsetsByTimestampStrategy": "latest",
    "failOnDataLoss": False,
    "kafkaConsumer.pollTimeoutMs": 60_000,
    "fetchOffset.numRetries": 2,
    "fetchOffset.retryIntervalMs": 5,
    "minOffsetsPerTrigger": 1,
    "maxOffsetsPerTrigger": 7,
    "maxTriggerDelay": "1s",
    "minPartitions": 12,
    "groupIdPrefix": "lowwater-tests",
    "kafka.group.id": "lowwater-tests",
    "kafka.client.id": "lowwater-tests",
    "includeHeaders": True,
    "startingOffsets": None,
}
"""Options of Spark's source. minPartitions cuts each partition of Kafka into several tasks."""


def test_options_of_sparks_source_pass_through(spark: SparkSession, mixed: str, tmp_path: Path) -> None:
    counts = []
    for number, more in enumerate(
        ({}, EVERY, {"topics": None, "assign": {"mixed": [0, 1]}}, {"subscribePattern": "mix.*", "topics": None})
    ):
        options = {"topics": "mixed", "startingOffsets": "earliest", "disorder": lw.ordered(), **more}
        stream = lw.kafka(spark, servers=mixed, value=VALUE, progress="ts", **options)
        places = {"checkpoint": str(tmp_path / f"checkpoint-{number}"), "results": str(tmp_path / f"out-{number}")}
        running = stream.window("5 seconds").group_by("key").agg(n=lw.count()).start(**places, shards=2)
        running.finish(timeout=600)
        assert (running.metrics().rows, running.metrics().late_rows) == (26, 0), more
        counts.append(Counter((row.wid, row.key, row.n) for row in spark.read.parquet(places["results"]).collect()))
    assert counts[0]
    assert all(found == counts[0] for found in counts)
    ends = {
        "topics": None,
        "assign": {"mixed": [0]},
        "endingOffsets": {"mixed": {0: 4}},
        "startingOffsets": {"mixed": {"0": 1}},
    }
    some = lw.kafka(spark, servers=mixed, value=VALUE, progress="ts", disorder="1 hour", streaming=False, **ends)
    assert sum(some.window("1 day").agg(n=lw.count()).collect()["n"].to_pylist()) == 3


def test_the_language_reads_topics(spark: SparkSession, mixed: str) -> None:
    text = f"""
        CREATE STREAM Mixed (ts TIMESTAMP, key BIGINT, val DOUBLE) PROGRESS ts DISORDER 1 SECOND
            FROM kafka OPTIONS (servers '{mixed}', topics 'mixed');
        SELECT key, count(*) [RANGE 10 SECONDS, WA ts] AS n FROM Mixed GROUP BY key
    """
    made = sql(text, {}, opener(spark, streaming=False))
    plain = opened(spark, mixed, streaming=False).window("10 seconds").group_by("key").agg(n=lw.count())
    columns = ["window_start", "key", "n"]
    found, expected = (sorted(map(str, one.collect().select(columns).to_pylist())) for one in (made, plain))
    assert found == expected
    assert found


def test_avro(spark: SparkSession, kafka: str) -> None:
    from pyspark.sql.avro.functions import to_avro

    if not jars.AVRO.there:
        pytest.skip(jars.missing(jars.AVRO))
    create_topic(spark, kafka, "records", 1)
    fields = [{"name": "at", "type": "long"}, {"name": "k", "type": "string"}]
    schema = json.dumps({"type": "record", "name": "r", "fields": fields})
    rows = spark.range(10).select(F.struct(F.col("id").alias("at"), F.lit("a").alias("k")).alias("row"))
    topics.send(rows.coalesce(1).select(to_avro("row", schema).alias("value")), kafka, "records")
    topics.send(spark.createDataFrame([(b"\xff",)], "value binary"), kafka, "records")
    options = {"topics": "records", "value": "avro", "schema": schema, "progress": "at", "disorder": 0}
    found = lw.kafka(spark, servers=kafka, streaming=False, **options).window(5).group_by("k").agg(n=lw.count())
    assert found.collect()["n"].to_pylist() == [5, 5]


def test_values_that_only_from_json_reads_among_plain_ones(spark: SparkSession, kafka: str, tmp_path: Path) -> None:
    """Two partitions of plain values, with some between them that cannot be read, and others that only Spark reads.
    The same query with from_json alone is the judge."""
    create_topic(spark, kafka, "plain", 2)
    plain = "to_json(struct(timestamp_seconds(id div 40) AS ts, id % 3 AS key, cast(id AS double) AS val))"
    cases = f"WHEN id = 20 THEN 'no JSON' WHEN id > 150 AND id % 5 = 0 THEN translate({plain}, '\"', '~')"
    value = f"translate(CASE {cases} WHEN id <> 30 THEN {plain} END, '~', '\\'') AS value"
    topics.send(spark.range(400).coalesce(1).selectExpr(value, "cast(id % 2 AS int) AS partition"), kafka, "plain")

    def counts(**more: Any) -> Any:
        windows = opened(spark, kafka, topics="plain", **more).window("1 second").group_by("key", "kafka_source")
        aggregates = {"total": lw.sum("val"), "last": lw.max("kafka_offset"), "sent": lw.max("kafka_timestamp")}
        return windows.agg(n=lw.count(), **aggregates)

    def answers(found: DataFrame) -> Counter[Any]:
        return Counter(found.select("window_start", "key", "kafka_source", "n", "total", "last", "sent").collect())

    judge = counts(streaming=False, parse={"mode": "PERMISSIVE"})
    assert "from_json, because parse= " in judge.explain()
    expected = answers(judge.to_spark())
    assert len(expected) == 10 * 3 * 2
    ours = counts(streaming=False)
    assert "read by Arrow from plain JSON" in ours.explain()
    assert answers(ours.to_spark()) == expected
    places = {name: str(tmp_path / name) for name in ("checkpoint", "results", "late")}
    running = counts(maxOffsetsPerTrigger=300).start(**places, shards=2)
    running.finish(timeout=600)
    assert (running.metrics().rows, running.metrics().null_rows) == (400, 2)
    assert answers(spark.read.parquet(places["results"])) == expected
    late = spark.read.parquet(places["late"]).orderBy("kafka_offset").collect()
    assert [(row.kafka_source, row.kafka_offset, row.kafka_unread) for row in late] == [
        ("plain-0", 10, b"no JSON"),
        ("plain-0", 15, None),
    ]


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"topics": None}, "needs one of topics=, assign= and subscribePattern=, but has none"),
        ({"assign": '{"mixed": [0]}'}, "but has subscribe and assign"),
        ({"topics": "absent"}, "do not describe the topics"),
        ({"value": "no schema at all"}, "is neither 'json' nor 'avro' nor a schema"),
        ({"value": "avro"}, "needs schema=, the schema of the values as Avro writes it"),
        ({"value": "kafka_offset BIGINT"}, "has a column 'kafka_offset', which is Kafka's own"),
        ({"unread": "lost"}, "unread='lost' is unknown"),
        ({"progress": None}, "progress"),
    ],
)
def test_refusals(spark: SparkSession, mixed: str, options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(lw.LowwaterError, match=sentence):
        opened(spark, mixed, **options)


def test_partitions_are_found_by_assign_and_by_pattern(spark: SparkSession, mixed: str) -> None:
    def sources(**options: Any) -> tuple[str, ...]:
        return Topics.of(spark, mixed, None, options).partitions()

    assert sources(assign='{"mixed": [2, 0]}') == ("mixed-0", "mixed-2")
    assert sources(subscribePattern="mix.*") == ("mixed-0", "mixed-1", "mixed-2")
    assert sources(subscribe="mixed") == ("mixed-0", "mixed-1", "mixed-2")
