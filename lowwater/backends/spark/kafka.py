"""Topics of Kafka as a stream whose sources are their partitions.

Spark's own source reads the messages, decides which of them belong to a micro-batch, and repeats them after a failure.
Here the values become columns, and the partitions are asked for when the stream is declared: a partition without a
message is a source from the start, and holds the others back until it has one or `idle=` advances it.

A value that cannot be read has no progress value. So it is counted in `null_rows` and goes to the late output, with the
bytes of the value; or it fails the query, if the caller wants that.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import pyarrow as pa
from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StringType, StructType

from lowwater.errors import LowwaterError, NeedsConfiguration

SOURCE = "kafka_source"
"""The column that names the partition of a message, as Kafka itself does: `clicks-0`."""
TIMESTAMP = "kafka_timestamp"
"""When the message was sent, or when it arrived at the broker, as the topic is configured."""
UNREAD = "kafka_unread"
"""The bytes of a value that cannot be read; null for all others."""
OWN = (SOURCE, "kafka_topic", "kafka_partition", "kafka_offset", TIMESTAMP, "kafka_key", UNREAD)
"""The columns that every message has, behind those of its value."""
SAMPLE = 1_000
"""Messages of a topic that its columns are inferred from."""
_CORRUPT = "__lowwater_corrupt"
_WHERE = ("subscribe", "assign", "subscribePattern")
_ADDRESS = "kafka.bootstrap.servers"

Value = str | StructType | pa.Schema


@dataclass(frozen=True)
class Topics:
    """Topics as Spark's source takes them: options, among them one that chooses topics or partitions."""

    spark: SparkSession
    options: Mapping[str, str]

    @staticmethod
    def of(
        spark: SparkSession, servers: str | Sequence[str] | None, topics: str | Sequence[str] | None, more: Mapping[str, Any]
    ) -> Topics:
        options = {name: str(value) for name, value in more.items()}
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

    def messages(self, streaming: bool) -> DataFrame:
        reader: Any = self.spark.readStream if streaming else self.spark.read
        try:
            found: DataFrame = reader.format("kafka").options(**self.options).load()
        except AnalysisException as error:
            if "Failed to find data source" in str(error) or "DATA_SOURCE_NOT_FOUND" in str(error):
                raise _no_connector() from error
            raise LowwaterError(f"Spark cannot read from Kafka: {str(error).splitlines()[0]}") from error
        return found

    def partitions(self) -> tuple[str, ...]:
        """The names of all partitions, asked of the brokers with the same options that Spark's source has."""
        assigned = self._option("assign")
        if assigned is not None:
            return tuple(f"{topic}-{n}" for topic, numbers in json.loads(assigned).items() for n in sorted(numbers))
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
            raise LowwaterError(f"The brokers at {self.options[_ADDRESS]} do not describe the topics: {_cause(error)}.") from error
        finally:
            admin.close()
        return tuple(f"{topic}-{number}" for topic in sorted(sizes) for number in range(sizes[topic]))

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


def kafka_frame(
    topics: Topics,
    value: Value | None,
    schema: Value | None,
    progress: str | None,
    parse: Mapping[str, str],
    columns: Mapping[str, str],
    unread: str,
    streaming: bool,
) -> DataFrame:
    """The messages with their values as columns. See `lowwater.kafka`."""
    if unread not in ("late", "refuse"):
        raise LowwaterError(f"unread={unread!r} is unknown; use 'late' or 'refuse'.")
    messages = topics.messages(streaming)
    source = F.concat_ws("-", "topic", "partition")
    own = [
        source.alias(SOURCE),
        F.col("topic").alias("kafka_topic"),
        F.col("partition").alias("kafka_partition"),
        F.col("offset").alias("kafka_offset"),
        F.col("timestamp").alias(TIMESTAMP),
        F.col("key").alias("kafka_key"),
    ]
    if value is None:
        rows = messages.select(F.col("value").alias("kafka_value"), *own)
        return _with_columns(rows, columns)
    read, names, failed = _reading(topics, value, schema, parse)
    clash = sorted({name.lower() for name in names} & set(OWN))
    if clash:
        raise LowwaterError(f"The value has a column {clash[0]!r}, which is Kafka's own here; rename it in the value.")
    parsed = messages.select("value", *own, read(F.col("value")).alias("read"))
    wrong = F.coalesce(failed(F.col("read")), F.lit(True))
    if unread == "refuse":
        text = F.concat(
            F.lit("The value at offset "),
            "kafka_offset",
            F.lit(" of partition "),
            SOURCE,
            F.lit(" cannot be read; mend the producer and start behind it (startingOffsets), or use unread='late'."),
        )
        kept = F.when(wrong, F.raise_error(text)).otherwise(F.col("read"))
        parsed = parsed.withColumn("read", kept)
        bytes_of = F.lit(None).cast("binary")
    else:
        parsed = parsed.withColumn("wrong", wrong).withColumn("read", F.when(~F.col("wrong"), F.col("read")))
        bytes_of = F.when(F.col("wrong"), F.col("value"))
    if progress == TIMESTAMP and unread == "late":  # what cannot be read belongs to no window
        parsed = parsed.withColumn(TIMESTAMP, F.when(~F.col("wrong"), F.col(TIMESTAMP)))
    fields = [F.col("read").getField(name).alias(name) for name in names]
    rows = parsed.select(*fields, *(name for name in OWN if name != UNREAD), bytes_of.alias(UNREAD))
    return _with_columns(rows, columns)


def _with_columns(rows: DataFrame, columns: Mapping[str, str]) -> DataFrame:
    from lowwater.backends.spark.frame import analysed

    for name, expression in columns.items():
        rows = analysed(lambda name=name, expression=expression: rows.withColumn(name, F.expr(expression)), expression)  # type: ignore[misc]
    return rows


Reading = tuple[Callable[[Column], Column], list[str], Callable[[Column], Column]]
"""How a value is read as a struct, the fields of it that count, and whether reading it has failed."""


def _reading(topics: Topics, value: Value, schema: Value | None, parse: Mapping[str, str]) -> Reading:
    if value == "avro":
        return _avro(topics.spark, schema, parse)
    if value == "json":
        return _json(_struct(topics.spark, schema) if schema is not None else _inferred(topics), parse)
    if schema is not None:
        raise LowwaterError("schema= is for value='json' and value='avro'; value= is a schema itself here.")
    return _json(_struct(topics.spark, value), parse)


def _json(fields: StructType, parse: Mapping[str, str]) -> Reading:
    """By from_json, which fills a field of its own where a value, or a part of it, does not fit the schema."""
    whole = StructType([*fields.fields]).add(_CORRUPT, StringType())
    options = {"mode": "PERMISSIVE", **parse, "columnNameOfCorruptRecord": _CORRUPT}
    return (
        lambda bytes: F.from_json(bytes.cast("string"), whole, options),
        fields.names,
        lambda read: read.isNull() | read.getField(_CORRUPT).isNotNull(),
    )


def _avro(spark: SparkSession, schema: Any, parse: Mapping[str, str]) -> Reading:
    """By from_avro, which returns a struct of nulls where it fails."""
    from pyspark.sql.avro.functions import from_avro

    if not isinstance(schema, str):
        raise LowwaterError("value='avro' needs schema=, the schema of the values as Avro writes it, in JSON.")
    options = {"mode": "PERMISSIVE", **parse}

    def read(bytes: Column) -> Column:
        return from_avro(bytes, schema, options)

    try:
        none = spark.createDataFrame([], "value binary").select(read(F.col("value")).alias("read"))
        type = none.schema["read"].dataType
    except Exception as error:  # Avro's own errors come as those of the JVM
        if "spark-avro" in str(error) or "AVRO_NOT_LOADED" in str(error) or "AvroUtils" in str(error):
            raise NeedsConfiguration(
                "Spark reads Avro by a package of its own; start the session with spark-avro in spark.jars.packages."
            ) from error
        raise LowwaterError(f"schema= of value='avro' is not one of Avro's: {_cause(error)}.") from error
    if not isinstance(type, StructType):
        raise LowwaterError(f"schema= of value='avro' must be that of a record, not of {type.simpleString()}.")

    def failed(read: Column) -> Column:
        return read.isNull() | reduce(Column.__and__, (read.getField(name).isNull() for name in type.names))

    return read, type.names, failed


def _struct(spark: SparkSession, schema: Any) -> StructType:
    if isinstance(schema, pa.Schema):
        return from_arrow_schema(schema)
    if isinstance(schema, StructType):
        return schema
    if not isinstance(schema, str):
        raise LowwaterError(f"The schema of a value is text, a StructType or an Arrow schema, not {type(schema).__name__}.")
    try:
        return spark.createDataFrame([], schema).schema
    except (ParseException, AnalysisException) as error:
        raise LowwaterError(
            f"value={schema!r} is neither 'json' nor 'avro' nor a schema such as 'ts TIMESTAMP, v DOUBLE'."
        ) from error


def _inferred(topics: Topics) -> StructType:
    """The columns of the first messages of the topics, as Spark infers them from JSON."""
    first = {name: value for name, value in topics.options.items() if name.lower() != "startingoffsets"}
    messages = Topics(topics.spark, first).messages(streaming=False)
    values = messages.where("value IS NOT NULL").select(F.col("value").cast("string")).limit(SAMPLE).collect()
    texts = topics.spark.sparkContext.parallelize([row[0] for row in values], 1)
    found = topics.spark.read.json(texts).schema
    if not found.fields or found.names == ["_corrupt_record"]:
        raise LowwaterError(
            f"The topics of {topics.name!r} have no message in JSON that columns could be inferred from; give the "
            "schema, as in value='ts TIMESTAMP, v DOUBLE'."
        )
    return StructType([field for field in found.fields if field.name != "_corrupt_record"])


def _no_connector() -> NeedsConfiguration:
    return NeedsConfiguration(
        "Spark reads and writes Kafka by a package of its own; start the session with spark-sql-kafka-0-10_2.13 in "
        "spark.jars.packages (docs/kafka.md)."
    )


def _cause(error: Exception) -> str:
    """The last cause of an exception of Java, in one line."""
    java = getattr(error, "java_exception", None)
    while java is not None and java.getCause() is not None:
        java = java.getCause()
    text = str(java.getMessage() if java is not None else error).strip() or type(error).__name__
    return text.splitlines()[0].rstrip(".")
