"""Values of Kafka's messages as columns.

A value that cannot be read has no progress value. So it is counted in `null_rows` and goes to the late output, with the
bytes of the value; or it fails the query, if the caller wants that.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, TypeAlias

import pyarrow as pa
from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructType

from lowwater.backends.spark.frame import SparkFrame
from lowwater.backends.spark.plain_json import PlainJson
from lowwater.backends.spark.quoting import quoted
from lowwater.backends.spark.versions import json_schema, spark_schema
from lowwater.errors import LowwaterError, NeedsConfiguration

SOURCE = "kafka_source"
"""The column that names the partition of a message, as Kafka itself does: `clicks-0`."""
TIMESTAMP = "kafka_timestamp"
"""When the message was sent, or when it arrived at the broker, as the topic is configured."""
HEADERS = "kafka_headers"
"""The headers of a message. Only Spark's option includeHeaders brings them."""
UNREAD = "kafka_unread"
"""The bytes of a value that cannot be read; null for all others."""
OWN = (SOURCE, "kafka_topic", "kafka_partition", "kafka_offset", TIMESTAMP, "kafka_key", HEADERS, UNREAD)
"""The columns that messages have, behind those of their values."""
_CORRUPT, _BYTES, _READ, _WRONG = (f"__lowwater_{name}" for name in ("corrupt", "bytes", "read", "wrong"))
_UNREAD_TEXT = "cannot be read; mend the producer and start behind it (startingOffsets), or use unread='late'."

Value: TypeAlias = str | StructType | pa.Schema


@dataclass(frozen=True)
class Reading:
    """How a value becomes a struct, the fields of the struct that count, and whether reading it has failed."""

    read: Callable[[Column], Column]
    names: Sequence[str]
    failed: Callable[[Column], Column]
    plain: PlainJson | str
    """The values that Arrow can read too, or the reason why it can read none."""


def own_columns(messages: DataFrame) -> list[Column]:
    """The columns that messages have, but for those of their values."""
    headers = [F.col("headers").alias(HEADERS)] if "headers" in messages.columns else []
    return [
        F.concat_ws("-", "topic", "partition").alias(SOURCE),
        F.col("topic").alias("kafka_topic"),
        F.col("partition").alias("kafka_partition"),
        F.col("offset").alias("kafka_offset"),
        F.col("timestamp").alias(TIMESTAMP),
        F.col("key").alias("kafka_key"),
        *headers,
    ]


def read_rows(
    messages: DataFrame,
    reading: Reading,
    progress: str | None,
    refuse: bool,
    columns: Mapping[str, str],
    beside: Sequence[str] = (),
) -> DataFrame:
    """Messages with the columns of their values, and further ones in Spark SQL.

    What cannot be read has no progress value, whatever column that is. With `refuse` it fails the query.

    Rows that are no messages can come with them: they have values in the columns `beside`, which are null in messages.
    """
    clash = sorted({name.lower() for name in reading.names} & set(OWN))
    if clash:
        raise LowwaterError(f"The value has a column {clash[0]!r}, which is Kafka's own here; rename it in the value.")
    own = messages.select(*own_columns(messages)).columns
    value = F.col("value")
    rows = messages.select(value.alias(_BYTES), *own_columns(messages), reading.read(value).alias(_READ), *beside)
    is_message = reduce(Column.__and__, (F.col(name).isNull() for name in beside), F.lit(True))
    rows = rows.withColumn(_WRONG, is_message & F.coalesce(reading.failed(F.col(_READ)), F.lit(True)))
    instead: Column = F.lit(None)
    if refuse:
        place = F.concat(F.lit("The value at offset "), "kafka_offset", F.lit(" of partition "), SOURCE)
        instead = F.raise_error(F.concat_ws(" ", place, F.lit(_UNREAD_TEXT)))
    rows = rows.withColumn(_READ, F.when(F.col(_WRONG), instead).otherwise(F.col(_READ)))
    fields = [F.col(_READ).getField(name).alias(name) for name in reading.names]
    unread = F.when(F.col(_WRONG), F.col(_BYTES)).alias(UNREAD)
    rows = with_columns(rows.select(*fields, *own, unread, *beside, _WRONG), columns)
    progressing = next((name for name in rows.columns if name.lower() == (progress or "").lower()), None)
    if progressing is not None:
        given = F.col(quoted(progressing))
        rows = rows.withColumn(progressing, F.when(F.col(_WRONG), instead).otherwise(given))
    return rows.drop(_WRONG)


def with_columns(rows: DataFrame, columns: Mapping[str, str]) -> DataFrame:
    for name, expression in columns.items():
        rows = SparkFrame(rows).with_column(name, expression).df
    return rows


def reading_of(
    spark: SparkSession, value: Value, schema: Value | None, parse: Mapping[str, str], sample: Callable[[], list[str]]
) -> Reading:
    """The reading that `value=` and `schema=` ask for. `sample` returns some values, to infer columns from."""
    if value == "avro":
        return _avro(spark, schema, parse)
    if value == "json":
        return _json(spark, _struct(spark, schema) if schema is not None else _inferred(spark, sample()), parse)
    if schema is not None:
        raise LowwaterError("schema= is for value='json' and value='avro'; value= is a schema itself here.")
    return _json(spark, _struct(spark, value), parse)


def _json(spark: SparkSession, fields: StructType, parse: Mapping[str, str]) -> Reading:
    """By from_json, which fills a field of its own where a value, or a part of it, does not fit the schema."""
    whole = StructType([*fields.fields]).add(_CORRUPT, StringType())
    options = {"mode": "PERMISSIVE", **parse, "columnNameOfCorruptRecord": _CORRUPT}
    return Reading(
        lambda bytes: F.from_json(bytes.cast("string"), whole, options),
        fields.names,
        lambda read: read.isNull() | read.getField(_CORRUPT).isNotNull(),
        _plain(spark, fields, parse),
    )


def _plain(spark: SparkSession, fields: StructType, parse: Mapping[str, str]) -> PlainJson | str:
    if parse:
        return "parse= changes how values are read"
    if (spark.conf.get("spark.sql.legacy.timeParserPolicy") or "").upper() == "LEGACY":
        return "spark.sql.legacy.timeParserPolicy is LEGACY"
    return PlainJson.of(fields, spark.conf.get("spark.sql.session.timeZone") == "UTC")


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
        raise LowwaterError(f"schema= of value='avro' is not one of Avro's: {cause(error)}.") from error
    if not isinstance(type, StructType):
        raise LowwaterError(f"schema= of value='avro' must be that of a record, not of {type.simpleString()}.")

    def failed(read: Column) -> Column:
        return read.isNull() | reduce(Column.__and__, (read.getField(name).isNull() for name in type.names))

    return Reading(read, type.names, failed, "they are Avro")


def _struct(spark: SparkSession, schema: Any) -> StructType:
    if isinstance(schema, pa.Schema):
        return spark_schema(schema)
    if isinstance(schema, StructType):
        return schema
    if not isinstance(schema, str):
        raise LowwaterError(
            f"The schema of a value is text, a StructType or an Arrow schema, not {type(schema).__name__}."
        )
    try:
        return spark.createDataFrame([], schema).schema
    except (ParseException, AnalysisException) as error:
        raise LowwaterError(
            f"value={schema!r} is neither 'json' nor 'avro' nor a schema such as 'ts TIMESTAMP, v DOUBLE'."
        ) from error


def _inferred(spark: SparkSession, texts: list[str]) -> StructType:
    """The columns of some values, as Spark infers them from JSON."""
    found = json_schema(spark, texts, inferTimestamp=True)
    fields = [field for field in found.fields if field.name != "_corrupt_record"]
    if not fields:
        raise LowwaterError(
            "The topics have no message in JSON that columns could be inferred from; give the schema, as in "
            "value='ts TIMESTAMP, v DOUBLE'."
        )
    return StructType(fields)


def cause(error: Exception) -> str:
    """The last cause of an exception of Java, in one line."""
    java = getattr(error, "java_exception", None)
    while java is not None and java.getCause() is not None:
        java = java.getCause()
    text = str(java.getMessage() if java is not None else error).strip() or type(error).__name__
    return text.splitlines()[0].rstrip(".")
