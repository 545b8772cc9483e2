"""Opens declared streams on Spark: any source by name and options, tables of the catalog, and generated streams."""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from lowwater.backends.opened import as_declared, first_rows
from lowwater.backends.spark.backend import SparkBackend
from lowwater.backends.spark.formats import reading
from lowwater.backends.spark.frame import SparkFrame, frame
from lowwater.backends.spark.kafka import Topics, messages_of
from lowwater.backends.spark.message_values import OWN, SOURCE
from lowwater.backends.spark.versions import spark_schema
from lowwater.errors import LowwaterError
from lowwater.generate.files import write_files
from lowwater.generate.named import GENERATORS, generated
from lowwater.language import Declaration
from lowwater.query.statistics import ENOUGH
from lowwater.relation import Relation

MESSAGE = {"key", "value", "topic", "partition", "offset", "timestamp", "timestamptype", "headers"}
"""Columns of Spark's source for Kafka, in lower case."""
FILES = 20
"""Files of a generated stream: each is one micro-batch at most."""


def opener(spark: SparkSession, streaming: bool = True) -> Callable[[Declaration], Relation]:
    """Opens streams in this session; without `streaming` as tables, all of whose rows are there."""

    def open(declared: Declaration) -> Relation:
        if declared.format.lower() in GENERATORS:
            return declared.relation(_generated(spark, declared, streaming))
        if declared.format.lower() == "kafka" and _has_values(declared):
            return _kafka(spark, declared, streaming)
        return declared.relation(frame(_read(spark, declared, streaming), first_rows(declared, ENOUGH)))

    return open


def _has_values(declared: Declaration) -> bool:
    """Whether columns are declared that the messages of Kafka do not have themselves: those of their values."""
    return declared.schema is not None and not {name.lower() for name in declared.schema.names} <= MESSAGE


def _kafka(spark: SparkSession, declared: Declaration, streaming: bool) -> Relation:
    """Topics whose values are JSON with the declared columns. Their partitions are the sources if no others are."""
    assert declared.schema is not None
    options = declared.options.resolved()
    servers, named, unread = (options.pop(name, None) for name in ("servers", "topics", "unread"))
    topics = Topics.of(spark, servers, named, options)
    value = pa.schema([field for field in declared.schema if field.name.lower() not in OWN])
    rows = messages_of(topics, value, declared.progress.lower(), unread=unread or "late", streaming=streaming)
    if declared.source is None:
        declared = replace(declared, source=SOURCE, sources=declared.sources or topics.partitions())
    return declared.relation(rows)


def _read(spark: SparkSession, declared: Declaration, streaming: bool) -> DataFrame:
    options = declared.options.resolved()
    name = declared.format.lower()
    reader = spark.readStream if streaming else spark.read
    if name == "table":
        return reader.table(options.pop("name"))
    reader = reader.format(declared.format).options(**options)
    if declared.schema is not None and name not in ("rate", "rate-micro-batch", "socket", "kafka"):
        reader = reader.schema(spark_schema(declared.schema))
    elif streaming and name in ("parquet", "csv", "json", "orc", "text"):
        raise LowwaterError(
            f"A stream of {name} files needs its columns: CREATE STREAM {declared.name} (ts TIMESTAMP, ...)."
        )
    df = reading(declared.format, reader.load)
    if declared.schema is None:
        return df
    types = spark_schema(declared.schema)
    found = zip(declared.found_in(df.columns, SparkBackend(spark).exact_names), types, strict=True)
    return df.select(*(df[name].cast(one.dataType).alias(one.name) for name, one in found))


def _generated(spark: SparkSession, declared: Declaration, streaming: bool) -> SparkFrame:
    """A generated stream as files in a directory that follows from its options, so that a query can start again."""
    options = declared.options.resolved()
    files = int(options.pop("files", FILES))
    table = as_declared(generated(declared.format.lower(), options), declared)
    if not streaming:
        return frame(spark.createDataFrame(table), table)
    text = json.dumps([declared.format.lower(), sorted(options.items()), files, str(table.schema)])
    into = Path(tempfile.gettempdir()) / f"lowwater-generated-{hashlib.sha256(text.encode()).hexdigest()[:16]}"
    done = into / "_written"
    if not done.exists():
        for old in into.glob("*.parquet"):
            old.unlink()
        write_files(table, into, min(files, max(1, table.num_rows)))
        done.touch()
    reader = spark.readStream.schema(spark_schema(table.schema)).option("maxFilesPerTrigger", 1)
    return frame(reader.parquet(str(into)), table.slice(0, ENOUGH))
