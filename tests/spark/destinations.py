"""Outputs that must not repeat themselves, by name: how start() gets them, and how a test reads them back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

import lowwater as lw
from benchmarks.broker import create_topic
from lowwater.backends.spark.named_table import BATCH, RUN
from tests.spark import topics
from tests.spark.answers import rows, streaming
from tests.spark.small import WITH_DELTA

KINDS = ("delta",) if WITH_DELTA else ("jdbc", "table", "kafka")
"""Those of this environment. Delta has one of its own."""
COLUMNS = {
    "results": "window_start timestamp, window_end timestamp, wid bigint, key bigint, n bigint, s double",
    "late": "input string, operator string, ts timestamp, key bigint, val double, late_reason string, "
    "windows_missed bigint, windows_kept bigint",
}
MADE = rows(1_200, seconds=60, keys=5)
ROWS = MADE.set_column(0, "ts", MADE["ts"].cast(pa.timestamp("ms", "UTC"), safe=False).cast(MADE["ts"].type))
"""In milliseconds: SQLite has no microseconds."""


def query(spark: SparkSession, place: Path) -> lw.Relation:
    """Tumbling windows over rows that are later than it expects, so that there are late rows."""
    stream = lw.stream(streaming(spark, place / "in"), name="rows", progress="ts", disorder=lw.ordered())
    return stream.window("2 seconds").group_by("key").agg(n=lw.count(), s=lw.sum("val"))


def names_of(own: Path) -> dict[str, str]:
    """Names for tables and topics of one query: no other one has them."""
    return {output: f"{output}_{own.name.replace('-', '_')}" for output in COLUMNS}


def destinations(spark: SparkSession, kind: str, own: Path, servers: str) -> dict[str, Any]:
    """`results=` and `late=` of a query that has the directory `own`."""
    names = names_of(own)
    if kind == "jdbc":
        url = f"jdbc:sqlite:{own / 'database'}"
        options = {"numPartitions": 1, "driver": "org.sqlite.JDBC"}
        return {
            "results": lw.to_jdbc(url, names["results"], key=["window_start", "key"], **options),
            "late": lw.to_jdbc(url, names["late"], **options),
        }
    if kind == "table":
        for output, name in names.items():  # this catalog forgets tables and partitions when its process ends
            parts = f"{RUN} string, {BATCH} bigint"
            definition = f"({COLUMNS[output]}, {parts}) USING parquet PARTITIONED BY ({RUN}, {BATCH})"
            spark.sql(f"CREATE TABLE IF NOT EXISTS {name} {definition} LOCATION '{own / name}'")
            if (own / name).exists():
                spark.sql(f"ALTER TABLE {name} RECOVER PARTITIONS")
        return {output: lw.to_table(name) for output, name in names.items()}
    if kind == "kafka":
        return {output: lw.to_kafka(servers, name) for output, name in names.items()}
    spark.sql(f"CREATE TABLE IF NOT EXISTS {names['late']} ({COLUMNS['late']}) USING delta LOCATION '{own / 'late'}'")
    return {"results": lw.to_delta(str(own / "results")), "late": lw.to_delta(table=names["late"])}


def prepare(spark: SparkSession, kind: str, own: Path, servers: str) -> None:
    own.mkdir(parents=True)
    if kind == "kafka":
        for name in names_of(own).values():
            create_topic(spark, servers, name, 2)


def read(spark: SparkSession, kind: str, own: Path, servers: str, output: str) -> DataFrame:
    """The rows of an output, as whoever uses it reads them: of Kafka, repeats are dropped by the key."""
    name, columns = names_of(own)[output], [one.split()[0] for one in COLUMNS[output].split(", ")]
    if kind == "jdbc":
        options = {"url": f"jdbc:sqlite:{own / 'database'}", "dbtable": name, "driver": "org.sqlite.JDBC"}
        found = spark.read.format("jdbc").options(**options).load()
    elif kind == "table":
        found = spark.table(name)
    elif kind == "kafka":
        once = topics.read(spark, servers, name).dropDuplicates(["key"])
        found = once.selectExpr(f"from_json(cast(value as string), '{COLUMNS[output]}') AS row").select("row.*")
    else:
        found = spark.read.format("delta").load(str(own / output))
    return found.select(*columns)
