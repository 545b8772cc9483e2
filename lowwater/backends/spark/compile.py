"""From a plan to Spark DataFrames: ingest, shuffle by shard, host, unpack.

    source ── IngestRun ──> packed messages ── shuffle by shard ──> Host (state) ──> packed ── Unpack ──> rows
              mapInArrow    (shard, run, blob)                      transformWithState         mapInArrow

Spark's columns are pruned to what the plan reads, unless late rows are wanted whole.
"""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Protocol

import pyarrow as pa
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from lowwater.backends.spark.host import LATE, MESSAGE, METRICS, PACKED, RESULT, TOTALS, ControlRun, Host, Unpack
from lowwater.backends.spark.written import Outlet
from lowwater.metrics import Metrics, Sources
from lowwater.query.plan import Planned
from lowwater.state.segments import unpack

OBSERVED, SHARED, SOURCES = "lowwater", "shared", "sources"


class Ingested(Protocol):
    """A frame as the compiler sees it: rows that can be ingested, where they are read, into packed messages."""

    @property
    def spark(self) -> SparkSession: ...

    @property
    def streaming(self) -> bool: ...

    def ingested(self, plan: Planned, port: int, shards: int, late: bool) -> DataFrame: ...

    def batch_rows(self, plan: Planned, port: int, late: bool) -> int:
        """Rows that may come from Spark in one Arrow batch where no number of bytes bounds it."""


def packed(
    plan: Planned,
    frames: Sequence[Ingested],
    shards: int,
    late: bool,
    control: Sequence[DataFrame] = (),
    outlets: Mapping[str, Outlet] | None = None,
) -> DataFrame:
    """The host's output, still packed: one or a few rows a shard and batch, observed under the name `lowwater`."""
    finite = not any(frame.streaming for frame in frames)
    inputs = [frame.ingested(plan, port, shards, late) for port, frame in enumerate(frames)]
    inputs += [df.mapInArrow(ControlRun(shards), MESSAGE) for df in control]
    messages = reduce(DataFrame.union, inputs)
    host = Host(plan, shards, finite, outlets)
    hosted = messages.groupBy("shard").transformWithState(host, PACKED, "Append", "None")
    sources = F.base64(F.max(F.when(F.col("kind") == METRICS, F.col("blob")))).alias(SOURCES)  # events become JSON
    totals = (F.sum(name).alias(name) for name in TOTALS)
    return hosted.observe(OBSERVED, F.max("shared").alias(SHARED), sources, *totals)


def observed(row: Row) -> Metrics | None:
    """The metrics of a micro-batch out of what was observed under the name `lowwater`; None where nothing ran."""
    if not row[SHARED]:
        return None
    totals = {name: row[name] or 0 for name in TOTALS}
    return Metrics.of(json.loads(row[SHARED]) | totals, Sources.of_tables(unpack(b64decode(row[SOURCES]))))


def sources(host: DataFrame) -> Sources:
    """The progress of every source at the end of a micro-batch, out of the host's output."""
    told = host.where((F.col("kind") == METRICS) & F.col("blob").isNotNull()).select("blob").collect()
    return Sources.of_tables(unpack(bytes(told[0].blob))) if told else Sources()


def results(plan: Planned, host: DataFrame) -> DataFrame:
    return _unpacked(host, RESULT, plan.result_schema)


def late_rows(plan: Planned, host: DataFrame) -> DataFrame:
    return _unpacked(host, LATE, plan.late_schema)


def _unpacked(host: DataFrame, kind: str, schema: pa.Schema) -> DataFrame:
    return host.select("kind", "blob").mapInArrow(Unpack(kind, schema), from_arrow_schema(schema))


def heartbeats(spark: SparkSession) -> DataFrame:
    """A clock as a stream: replayed after a restart with the same values, so that a repeated batch decides the same."""
    rate = spark.readStream.format("rate").option("rowsPerSecond", 1).load()
    return rate.select(F.unix_micros("timestamp").alias("clock"), F.lit(False).alias("end"))


def commands(spark: SparkSession, directory: str) -> DataFrame:
    """The control directory as a stream: each file is one command, taken exactly once. `end` ends all inputs."""
    lines = spark.readStream.schema("value string").text(directory)
    return lines.select(F.lit(None).cast("long").alias("clock"), (F.col("value") == "end").alias("end"))
