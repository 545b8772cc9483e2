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


def rescale(spark: Any, checkpoint: str, partitions: int) -> None:
    """Changes the number of partitions of a stopped query. State and offsets stay (see docs/operations.md)."""
    from lowwater.backends.spark.rescale import rescale as moved

    moved(spark, checkpoint, partitions)


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


def oblivious_join(relations: Sequence[Relation], on: Any, expect: Expect = None) -> Relation:
    """An inner join of two relations or more on a key that progresses, without a window.

    The buffers are sized by the data: by the disorder that is expected of each stream, or that is measured while the
    query runs. Streams need no declared disorder; disorder=lw.measured() is enough.

    on       the key: a column of all, several, or tuples of names. One column must progress on all relations
    expect   lw.expect(scrambling=...) of all relations, or one per name of a relation; others are measured

    If what is expected holds, no result is lost. Rows of which results may be lost go to the late output.
    """
    return oblivious_relation(tuple(relations), on, expect)


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
