"""Topics of Kafka as a stream whose sources are their partitions.

Spark's own source reads the messages, decides which of them belong to a micro-batch, and repeats them after a failure.
Here the values become columns (message_values.py), and the partitions are asked for when the stream is declared: a
partition without a message is a source from the start, and holds the others back until it has one or `idle=` advances
it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lowwater.backends.spark.connect import is_connect
from lowwater.backends.spark.frame import SparkFrame, frame
from lowwater.backends.spark.kafka_frame import KafkaFrame, left_to_spark
from lowwater.backends.spark.message_values import (
    HEADERS,
    SOURCE,
    Value,
    cause,
    own_columns,
    read_rows,
    reading_of,
    with_columns,
)
from lowwater.declare import open_stream
from lowwater.errors import LowwaterError, NeedsConfiguration
from lowwater.model.ticks import Length
from lowwater.query.disorder import Disorder, idle
from lowwater.relation import Relation

SAMPLE = 1_000
"""Messages of a topic that its columns are inferred from."""
_WAIT = "kafka.fetch.max.wait.ms"
FETCHED = {
    "kafka.max.partition.fetch.bytes": str(8 << 20),
    "kafka.max.poll.records": "50000",
    _WAIT: "10",
}
"""What a consumer asks for at once, unless the options say it: more than Kafka's 1 MB and 500 records, so that fewer
requests are made. It takes at most so many bytes of each task.

At the end of a topic a consumer asks for more in advance, and the broker answers when there is something, or after
`fetch.max.wait.ms`. Spark asks for the last offset of the partition behind each read, and that request has to
wait for the answer: with Kafka's 500 ms each micro-batch that reaches the end takes half a second longer."""
_OFFSETS = re.compile("(starting|ending)(offsets|timestamp)", re.IGNORECASE)
_WHERE = ("subscribe", "assign", "subscribePattern")
_ADDRESS = "kafka.bootstrap.servers"
_NOBODYS = 2**31 - 1
"""A partition that no topic has."""


@dataclass(frozen=True)
class Topics:
    """Topics as Spark's source takes them: options, among them one that chooses topics or partitions."""

    spark: SparkSession
    options: Mapping[str, str] = field(repr=False)  # passwords may be among them

    @staticmethod
    def of(
        spark: SparkSession,
        servers: str | Sequence[str] | None,
        topics: str | Sequence[str] | None,
        more: Mapping[str, Any],
    ) -> Topics:
        options = {name: text_of(value) for name, value in more.items() if value is not None}
        given = {name.lower(): name for name in options}
        if servers is not None:
            options[_ADDRESS] = servers if isinstance(servers, str) else ",".join(servers)
        elif _ADDRESS not in given:
            raise LowwaterError("A stream from Kafka needs servers=, such as servers='broker-1:9092,broker-2:9092'.")
        if topics is not None:
            options["subscribe"] = topics if isinstance(topics, str) else ",".join(topics)
        chosen = [name for name in _WHERE if name.lower() in {option.lower() for option in options}]
        if len(chosen) != 1:
            raise LowwaterError(
                "A stream from Kafka needs one of topics=, assign= and subscribePattern=, but has "
                f"{' and '.join(chosen) if chosen else 'none'}."
            )
        return Topics(spark, options)

    @property
    def name(self) -> str:
        """A name for the stream: that of the topic if it is one."""
        subscribed = self._option("subscribe")
        return subscribed if subscribed and "," not in subscribed else "kafka"

    @property
    def only(self) -> str | None:
        """The topic, if there is one only."""
        subscribed = [name.strip() for name in (self._option("subscribe") or "").split(",")]
        return subscribed[0] if len(subscribed) == 1 and subscribed[0] else None

    def messages(self, streaming: bool) -> DataFrame:
        reader: Any = self.spark.readStream if streaming else self.spark.read
        try:
            given = {name.lower() for name in self.options}
            if "kafka.fetch.min.bytes" in given:  # the broker is asked to wait for them
                given.add(_WAIT)
            more = {name: value for name, value in FETCHED.items() if name not in given}
            found: DataFrame = reader.format("kafka").options(**more, **self.options).load()
            found.schema  # noqa: B018  looks the source up, which Spark Connect puts off
        except AnalysisException as error:
            if "Failed to find data source" in str(error) or "DATA_SOURCE_NOT_FOUND" in str(error):
                raise _no_connector() from error
            raise LowwaterError(f"Spark cannot read from Kafka: {str(error).splitlines()[0]}") from error
        return found

    def sample(self, number: int) -> list[str]:
        """The values of some messages, from the beginning of the topics."""
        first = {name: value for name, value in self.options.items() if name.lower() != "startingoffsets"}
        messages = replace(self, options=first).messages(streaming=False).where("value IS NOT NULL")
        return [row[0] for row in messages.select(F.col("value").cast("string")).limit(number).collect()]

    def partitions(self) -> tuple[str, ...]:
        """The names of all partitions, asked of the brokers with the same options that Spark's source has."""
        assigned = self._option("assign")
        if assigned is not None:
            return tuple(f"{topic}-{n}" for topic, numbers in json.loads(assigned).items() for n in sorted(numbers))
        return self._by_refusal() if is_connect(self.spark) else self._by_client()

    def _by_refusal(self) -> tuple[str, ...]:
        """As Spark's source names them where it refuses offsets of other partitions: a client of Spark Connect has no
        JVM that could ask the brokers."""
        kept = {name: value for name, value in self.options.items() if not _OFFSETS.match(name)}
        nobodys = json.dumps({self.name: {str(_NOBODYS): -2}})
        try:
            replace(self, options={**kept, "startingOffsets": nobodys}).messages(streaming=False).collect()
        except LowwaterError:
            raise
        except Exception as error:  # one of Spark's for this refusal, and others for what the brokers refuse
            names = assigned_in(str(error))
            if not names:
                raise self._undescribed(error) from error
            return names
        raise AssertionError("no topic has that partition")

    def _by_client(self) -> tuple[str, ...]:
        """By the client of Kafka that Spark's source brings."""
        jvm: Any = self.spark._jvm
        settings = jvm.java.util.Properties()
        for name, value in self.options.items():
            if name.lower().startswith("kafka."):
                settings.setProperty(name[len("kafka.") :], value)
        try:
            admin = jvm.org.apache.kafka.clients.admin.AdminClient.create(settings)
        except TypeError as error:  # py4j takes a class that is absent for a package
            raise _no_connector() from error
        try:
            described = admin.describeTopics(self._subscribed(admin)).allTopicNames().get()
            sizes = {str(name): int(described[name].partitions().size()) for name in described}
        except Exception as error:  # whatever the clients of Kafka raise
            raise self._undescribed(error) from error
        finally:
            admin.close()
        return tuple(f"{topic}-{number}" for topic in sorted(sizes) for number in range(sizes[topic]))

    def _undescribed(self, error: Exception) -> LowwaterError:
        return LowwaterError(f"The brokers at {self._option(_ADDRESS)} do not describe the topics: {cause(error)}.")

    def _subscribed(self, admin: Any) -> Any:
        jvm: Any = self.spark._jvm
        names = jvm.java.util.ArrayList()
        subscribed, pattern = self._option("subscribe"), self._option("subscribePattern")
        if subscribed is not None:
            for name in subscribed.split(","):
                names.add(name.strip())
            return names
        for name in admin.listTopics().names().get():
            if jvm.java.util.regex.Pattern.matches(pattern, name):
                names.add(name)
        return names

    def _option(self, name: str) -> str | None:
        return next((value for key, value in self.options.items() if key.lower() == name.lower()), None)


def text_of(option: Any) -> str:
    """An option as Spark's source takes it: offsets and partitions in JSON.

    >>> text_of("latest"), text_of(False), text_of({"orders": {0: 23}})
    ('latest', 'false', '{"orders": {"0": 23}}')
    """
    return json.dumps(option) if isinstance(option, bool | dict) else str(option)


def assigned_in(refusal: str) -> tuple[str, ...]:
    """
    >>> assigned_in("Specified: Set(a-2147483647) Assigned: HashSet(by-item-10, by-item-9, a-0)\\nand more-1")
    ('a-0', 'by-item-9', 'by-item-10')
    >>> assigned_in("This server does not host this topic-partition.")
    ()
    """
    assigned = re.search(r"Assigned: (.*)", refusal)
    names = re.findall(r"([\w.-]+)-(\d+)", assigned[1]) if assigned else []
    return tuple(f"{topic}-{number}" for topic, number in sorted((topic, int(number)) for topic, number in names))


def messages_of(
    topics: Topics,
    value: Value | None,
    progress: str | None,
    schema: Value | None = None,
    parse: Mapping[str, str] | None = None,
    unread: str = "late",
    streaming: bool = True,
    columns: Mapping[str, str] | None = None,
) -> SparkFrame | KafkaFrame:
    """The messages with the columns of their values; with their bytes, if `value` is None."""
    if unread not in ("late", "refuse"):
        raise LowwaterError(f"unread={unread!r} is unknown; use 'late' or 'refuse'.")
    messages = topics.messages(streaming)
    if value is None:
        given = messages.select(F.col("value").alias("kafka_value"), *own_columns(messages))
        return frame(with_columns(given, columns or {}))
    reading = reading_of(topics.spark, value, schema, parse or {}, lambda: topics.sample(SAMPLE))
    rows = frame(read_rows(messages, reading, progress, unread == "refuse", columns or {}))
    if isinstance(reading.plain, str):
        return replace(rows, how=left_to_spark(reading.plain))
    if columns:
        return replace(rows, how=left_to_spark("columns= is Spark's"))
    if HEADERS in rows.schema.names:
        return replace(rows, how=left_to_spark("headers travel with them"))
    return KafkaFrame(messages, reading, reading.plain, progress, unread == "refuse", topics.only, rows.schema)


def kafka(
    spark: SparkSession,
    servers: str | Sequence[str] | None,
    topics: str | Sequence[str] | None,
    value: Value | None,
    progress: str | None,
    *,
    schema: Value | None = None,
    parse: Mapping[str, str] | None = None,
    columns: Mapping[str, str] | None = None,
    unread: str = "late",
    streaming: bool = True,
    name: str | None = None,
    disorder: Disorder | Length | None = None,
    idle: idle | None = None,
    groups: str | None = None,
    **options: Any,
) -> Relation:
    """The messages of topics as a stream. See `lowwater.kafka`."""
    found = Topics.of(spark, servers, topics, options)
    rows = messages_of(found, value, progress, schema, parse, unread, streaming, columns)
    return open_stream(rows, name or found.name, progress, disorder, SOURCE, found.partitions(), idle, groups)


def _no_connector() -> NeedsConfiguration:
    return NeedsConfiguration(
        "Spark reads and writes Kafka by a package of its own; start the session with spark-sql-kafka-0-10_2.13 in "
        "spark.jars.packages (docs/kafka.md)."
    )
