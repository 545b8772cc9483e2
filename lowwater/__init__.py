"""lowwater: window queries over streams that arrive late, out of order and out of step, on Spark."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

from lowwater.aggregates import (
    UserAggregate,
    approx_count_distinct,
    approx_heavy_hitters,
    approx_quantile,
    avg,
    center_of_mass,
    collect_list,
    collect_set,
    count,
    count_distinct,
    first,
    heavy_hitters,
    holistic,
    last,
    max,
    max_by,
    median,
    min,
    min_by,
    mode,
    quantile,
    stddev,
    stddev_pop,
    sum,
    top_k,
    udaf,
    var_pop,
    variance,
)
from lowwater.declare import open_stream
from lowwater.errors import LowwaterError
from lowwater.model.ticks import Length
from lowwater.operators.flush import lazy_flush, slow_flush
from lowwater.query.disorder import Disorder, delay, delay_rows, idle, learned, measured, ordered, punctuated
from lowwater.query.oblivious_options import Expect, expect
from lowwater.relation import Relation, joined_relation, oblivious_relation
from lowwater.several import Together, several

__version__ = "0.1.0"

Stream: TypeAlias = Relation
Query: TypeAlias = Relation
Joined: TypeAlias = Relation
"""Names of earlier versions: streams, window queries and joins are all relations."""

__all__ = [
    "Disorder",
    "Joined",
    "LowwaterError",
    "Query",
    "Relation",
    "Stream",
    "Together",
    "UserAggregate",
    "approx_count_distinct",
    "approx_heavy_hitters",
    "approx_quantile",
    "avg",
    "center_of_mass",
    "collect_list",
    "collect_set",
    "count",
    "count_distinct",
    "delay",
    "delay_rows",
    "expect",
    "first",
    "heavy_hitters",
    "holistic",
    "idle",
    "join",
    "kafka",
    "last",
    "lazy_flush",
    "learned",
    "max",
    "max_by",
    "measured",
    "median",
    "min",
    "min_by",
    "mode",
    "oblivious_join",
    "ordered",
    "parquet_files",
    "punctuated",
    "quantile",
    "rescale",
    "slow_flush",
    "sql",
    "stddev",
    "stddev_pop",
    "stream",
    "sum",
    "to_delta",
    "to_jdbc",
    "to_kafka",
    "to_table",
    "together",
    "top_k",
    "udaf",
    "var_pop",
    "variance",
]


def parquet_files(spark: Any, path: str, **options: Any) -> Any:
    """Parquet files that arrive in a directory, read by Arrow instead of by Spark's scan: a faster input for stream().

    Options are those of Spark's file source, such as maxFilesPerTrigger. Spark still decides which files are new and
    replays them after a failure.
    """
    from lowwater.backends.spark.parquet import parquet_files as files

    return files(spark, path, **options)


def kafka(
    spark: Any,
    *,
    servers: str | Sequence[str] | None = None,
    topics: str | Sequence[str] | None = None,
    value: Any = None,
    progress: str | None = None,
    disorder: Disorder | Length | None = None,
    **options: Any,
) -> Relation:
    """A stream of the messages of Kafka's topics. Its sources are the partitions, all known from the start.

    servers    the brokers, such as "broker-1:9092,broker-2:9092"
    topics     a topic, or several
    value      the columns of the values, which are JSON: "ts TIMESTAMP, k STRING", a StructType or an Arrow schema;
               "json" to infer them from messages; "avro" with schema=, in Avro's JSON; None for the bytes (kafka_value)
    progress, disorder, name, idle, groups   as those of stream(); progress can be kafka_timestamp
    columns    further columns: {"ts": "timestamp_millis(at)"}, in Spark SQL
    unread     "late": values that cannot be read count as null_rows and go to the late output; "refuse": they fail
               the query
    parse      options for reading values, such as {"timestampFormat": ...}
    streaming  False for all messages that are there now, as a table

    All other options are those of Spark's source: startingOffsets, maxOffsetsPerTrigger, kafka.security.protocol. Every
    message also has kafka_source, kafka_topic, kafka_partition, kafka_offset, kafka_timestamp and kafka_key; with
    includeHeaders=True, kafka_headers.
    """
    from lowwater.backends.spark.kafka import kafka as messages

    return messages(spark, servers, topics, value, progress, disorder=disorder, **options)


def rescale(spark: Any, checkpoint: str, partitions: int) -> None:
    """Changes the number of partitions of a stopped query. State and offsets stay (see docs/operations.md)."""
    from lowwater.backends.spark.rescale import rescale as moved

    moved(spark, checkpoint, partitions)


def to_delta(path: str | None = None, *, table: str | None = None, **options: Any) -> Any:
    """An output of start(): a Delta table, by its path or its name. A repeated micro-batch is not written again."""
    from lowwater.backends.spark.delta import Delta

    return Delta(path, table, options)


def to_jdbc(url: str, table: str, *, key: str | Sequence[str] = (), **options: Any) -> Any:
    """An output of start(): a table of a database. A repeated micro-batch is not written again.

    With `key`, a row replaces the row that has the same values in these columns. Options are those of Spark's JDBC
    source: user, password, driver.
    """
    from lowwater.backends.spark.jdbc import Jdbc

    return Jdbc(url, table, (key,) if isinstance(key, str) else tuple(key), options)


def to_table(name: str, *, format: str = "parquet") -> Any:
    """An output of start(): a table of Spark's catalog, of files in a format such as "parquet" or "orc".

    It is partitioned by checkpoint and micro-batch (lw_run, lw_batch), so that a repeated micro-batch replaces itself.
    """
    from lowwater.backends.spark.named_table import NamedTable

    return NamedTable(name, format)


def to_kafka(servers: str | Sequence[str], topic: str, *, key: str | Sequence[str] = (), **options: Any) -> Any:
    """An output of start(): rows as JSON in a topic of Kafka, each at least once.

    Every message has an id, which is the same if its micro-batch is repeated, so that a consumer can drop repeats. The
    id is the key of the message; with `key`, these columns are the key, and the id is in the header `lowwater-id`.
    Options are those of Spark's sink.
    """
    from lowwater.backends.spark.kafka_sink import KafkaTopic

    brokers = servers if isinstance(servers, str) else ",".join(servers)
    return KafkaTopic(brokers, topic, (key,) if isinstance(key, str) else tuple(key), options)


def join(relations: Sequence[Relation], on: Any, within: Any = None, how: str = "inner", **options: Any) -> Relation:
    """An inner join of two relations or more on one key, in one operator without intermediate results.

    `within` is one window for all, or a list with one per relation: how long its rows wait for those of the others.
    Options are those of `Relation.join`.
    """
    return joined_relation(tuple(relations), on, within, how, **options)


def sql(text: str, /, **streams: Any) -> Relation:
    """The relation of a query in the language of the papers (docs/language.md), over streams by name.

    Streams that the text declares by CREATE STREAM are generated, or read from files, in this process.

    >>> import pyarrow as pa
    >>> rows = pa.table({"ts": [1, 2, 11, 3], "k": ["a", "a", "b", "a"]})
    >>> Main = stream(rows, progress="ts", disorder=10)
    >>> counts = sql("SELECT k, count(*) [RANGE 10, WA ts] AS n FROM Main GROUP BY k", Main=Main)
    >>> [tuple(row.values()) for row in counts.collect().to_pylist()]
    [(0, 10, 'a', 3), (10, 20, 'b', 1)]
    """
    from lowwater.backends.opened import opened
    from lowwater.language import sql as relation

    return relation(text, streams, opened)


def together(**queries: Relation) -> Together:
    """Several queries as one, by their names: a stream that more than one of them reads is read once.

    Each query keeps its own results, late rows and metrics, and progresses by its own streams alone.

    >>> import pyarrow as pa
    >>> rows = pa.table({"ts": [1, 2, 11, 3], "k": ["a", "a", "b", "a"]})
    >>> Main = stream(rows, progress="ts", disorder=10)
    >>> minutes, b = Main.window(10).agg(n=count()), Main.where("k = 'b'")
    >>> {name: found.num_rows for name, found in together(minutes=minutes, b=b).collect().items()}
    {'minutes': 2, 'b': 1}
    """
    return several(queries)


def oblivious_join(
    relations: Sequence[Relation],
    on: Any,
    expect: Expect = None,
    memory: str | int | None = None,
    how: str = "inner",
    strategy: str | None = None,
    ahead: int | None = None,
) -> Relation:
    """A join of two relations or more on a key that progresses, without a window.

    The buffers are sized by the data: by the disorder that is expected of each stream, or that is measured while the
    query runs. Streams need no declared disorder; disorder=lw.measured() is enough.

    on         the key: a column of all, several, or tuples of names. One column must progress on all relations
    expect     lw.expect(scrambling=...) of all relations, or one per name of a relation; others are measured
    memory     the bytes that the rows of the join may take in memory, over all shards, as in "64 MB". Within it, the
               strategy is chosen by the cost model, and changed when the streams change
    how        inner; of two relations also left, right or full
    strategy   plain, MSF (rows are sorted first), DBF (rows of a leading stream wait on disk) or Hybrid (both),
               instead of the choice
    ahead      the number of rows that DBF reads back before their partners come

    If what is expected holds and the memory is enough, no result is lost. Rows of which results may be lost go to the
    late output, and the metrics count them by cause.
    """
    return oblivious_relation(
        tuple(relations), on, expect=expect, memory=memory, how=how, strategy=strategy, ahead=ahead
    )


def stream(
    data: Any,
    *,
    name: str = "stream",
    progress: str | None = None,
    disorder: Disorder | Length | None = None,
    source: str | None = None,
    sources: Sequence[str] = (),
    idle: idle | None = None,
    groups: str | None = None,
) -> Relation:
    """A progressing stream over a (streaming) Spark DataFrame, or over a table for the local backend.

    A table is an Arrow table, a list of dicts, a pandas or Polars frame, or a schema alone, for rows that are pushed.

    progress   the column on which the stream progresses and that windows are over
    disorder   how late rows can be: a length such as "5 seconds", or ordered(), delay_rows(), learned(), punctuated();
               measured() if that is not known, for oblivious_join()
    source     a column whose values are the sources; each source has its own low-watermark, and the slowest counts,
               except where the source is part of the key: there each source closes by its own
    sources    sources that count from the start; other sources count from their first row
    idle       when the clock can advance a source that has fallen silent
    groups     "skewed" if most groups have few rows in a window, so that keeping their rows takes less state
    """
    module = type(data).__module__
    if module == "lowwater.backends.spark.parquet":
        return open_stream(data, name, progress, disorder, source, sources, idle, groups)
    if module.startswith("pyspark."):
        from lowwater.backends.spark.frame import frame as spark_frame

        return open_stream(spark_frame(data), name, progress, disorder, source, sources, idle, groups)
    from lowwater.backends.local import frame as local_frame

    return open_stream(local_frame(data), name, progress, disorder, source, sources, idle, groups)
