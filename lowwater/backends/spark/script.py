"""Runs the queries of a script on Spark: each with its sinks, and those that share a stream as one, with one scan.

A query has a checkpoint under its name, and queries that run together have one under the name of the first of them. How
queries were started is kept: those with a checkpoint of their own stay alone, those with one together stay together.

sink            where a micro-batch goes                              repeated after a crash
parquet         a directory                                           once
csv, json, orc  a directory, with one directory per micro-batch       once
memory          a temporary view with all rows so far                 since the last start
console, none   `show`, which the caller gives                        shown again
table, others   Spark's own writer, by append                         at least once
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from lowwater.backends.spark.checkpoint import Checkpoint
from lowwater.backends.spark.running import RunningQuery
from lowwater.backends.spark.written import part_of
from lowwater.errors import LowwaterError
from lowwater.generate.named import GENERATORS
from lowwater.language import BoundQuery, Group, Options, Script, Sink, grouped
from lowwater.language.declaration import declaration_of
from lowwater.language.script import CreateStream
from lowwater.metrics import Metrics
from lowwater.model.words import listed

Show = Callable[[str, pa.Table], None]
"""Takes the name of a query, and rows of it."""
IN_PARTS = ("csv", "json", "orc", "text")


TOGETHER = "-together"
"""Behind the name of the first query, the name of the checkpoint of several."""


@dataclass
class Started:
    """A query of a script that runs, or several that run together."""

    group: Group
    query: RunningQuery

    @property
    def names(self) -> list[str]:
        return self.group.names

    def each(self) -> list[tuple[BoundQuery, Metrics]]:
        """The queries, each with its metrics."""
        several = len(self.names) > 1
        return [(one, self.query.metrics(one.name if several else None)) for one in self.group.queries]


def start(
    spark: SparkSession, queries: Sequence[BoundQuery], place: Path, show: Show, apart: bool = False
) -> list[Started]:
    """Starts all queries that are not finished yet. `place` has their checkpoints. With `apart` none share a scan."""
    started: list[Started] = []
    try:
        for group in arranged(spark, queries, place, apart):
            checkpoint = str(place / _named(group.names))
            if Checkpoint(spark, checkpoint).done:
                continue
            results = {q.name: destination(spark, q.name, q.results, show) for q in group.queries}
            late = {
                q.name: destination(spark, f"{q.name}, late", q.late, show) for q in group.queries if q.late is not None
            }
            options: dict[str, Any] = {"results": results, "late": late}
            if len(group.queries) == 1:
                options = {"results": results[group.name], "late": late.get(group.name)}
            started.append(Started(group, group.asked.start(checkpoint=checkpoint, name=group.name, **options)))
    except BaseException:
        for one in started:
            one.query.stop()
        raise
    return started


def _named(names: Sequence[str]) -> str:
    """The name of the checkpoint of queries."""
    return names[0] if len(names) == 1 else names[0] + TOGETHER


def arranged(spark: SparkSession, queries: Sequence[BoundQuery], place: Path, apart: bool) -> list[Group]:
    """The queries in groups: those of checkpoints that are there, and for all others those that share a stream."""
    kept = [Checkpoint(spark, str(one)).names for one in sorted(place.glob(f"*{TOGETHER}"))]
    known = {query.name for query in queries}
    for names in kept:
        if apart and names:
            raise LowwaterError(
                f"The checkpoint in {place} has the state of {listed(names)} together; leave --apart out, or use a new "
                "checkpoint directory."
            )
        lacking = [name for name in names if name not in known]
        if lacking:
            raise LowwaterError(
                f"The checkpoint in {place} has the state of {listed(names)} together, but the file has no "
                f"{lacking[0]}; restore it, or use a new checkpoint directory."
            )
    alone = dict.fromkeys(known, "it was asked for") if apart else {}
    for query in queries:
        if Checkpoint(spark, str(place / query.name)).known:
            alone[query.name] = "it has a checkpoint of its own"
    return grouped(queries, [names for names in kept if names], alone)


def destination(spark: SparkSession, name: str, sink: Sink | None, show: Show) -> Any:
    """What start() takes for a sink: a directory, or a function of a DataFrame and the number of its micro-batch."""
    kind = "console" if sink is None else sink.format.lower()
    if sink is None or kind == "console":
        return lambda rows, batch: show(name, rows.toArrow())
    options = sink.options.resolved()
    if kind == "parquet" and set(options) == {"path"}:
        return options["path"]
    if kind in (*IN_PARTS, "parquet"):
        path = options.pop("path", None)
        if path is None:
            raise LowwaterError(f"INSERT INTO {sink.format} needs OPTIONS (path '...').")
        return lambda rows, batch: _part(rows, kind, options, f"{path}/{part_of(batch)}")
    if kind == "memory":
        return _Memory(spark, options.get("name", name))
    if kind == "table":
        return lambda rows, batch: _written(
            sink.options, lambda: rows.write.mode("append").saveAsTable(options["name"])
        )
    writer = sink.format
    return lambda rows, batch: _written(
        sink.options, lambda: rows.write.format(writer).options(**options).mode("append").save()
    )


def _part(rows: DataFrame, format: str, options: dict[str, str], path: str) -> None:
    """Writes a micro-batch as a directory. A repeated one has the same rows, and takes the place of the first."""
    rows.write.format(format).options(**options).mode("overwrite").save(path)


def _written(options: Options, write: Callable[[], None]) -> None:
    """Writes. An error that a writer raises does not show the values of secrets."""
    try:
        write()
    except Exception as error:
        if options.hidden(str(error)) == str(error):
            raise
        raise LowwaterError(f"The sink cannot be written: {options.hidden(str(error)).splitlines()[0]}") from None


class _Memory:
    """All rows so far as a temporary view. Each row is kept once, because a repeated micro-batch replaces the first."""

    def __init__(self, spark: SparkSession, name: str) -> None:
        self._spark, self._name = spark, name
        self._parts: dict[int, pa.Table] = {}

    def __call__(self, rows: DataFrame, batch: int) -> None:
        self._parts[batch] = rows.toArrow()
        together = pa.concat_tables(self._parts.values())
        self._spark.createDataFrame(together).createOrReplaceTempView(self._name)


def finite(script: Script) -> bool:
    """Whether all streams of a script are generated, so that its queries end by themselves."""
    declared = [declaration_of(one.tree) for one in script if isinstance(one, CreateStream)]
    return bool(declared) and all(one.format.lower() in GENERATORS for one in declared)


__all__ = ["Started", "arranged", "destination", "finite", "start"]
