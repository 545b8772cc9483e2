"""Runs the queries of a script on Spark: each with its sinks and a checkpoint of its own.

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
from lowwater.language import BoundQuery, Options, Script, Sink
from lowwater.language.declaration import declaration_of
from lowwater.language.script import CreateStream

Show = Callable[[str, pa.Table], None]
"""Takes the name of a query, and rows of it."""
IN_PARTS = ("csv", "json", "orc", "text")


@dataclass
class Started:
    """A query of a script that runs."""

    name: str
    bound: BoundQuery
    query: RunningQuery


def start(spark: SparkSession, queries: Sequence[BoundQuery], place: Path, show: Show) -> list[Started]:
    """Starts all queries that are not finished yet. `place` has a checkpoint of each, by its name."""
    started: list[Started] = []
    try:
        for bound in queries:
            checkpoint = str(place / bound.name)
            if Checkpoint(spark, checkpoint).done:
                continue
            options: dict[str, Any] = {"results": destination(spark, bound.name, bound.results, show)}
            if bound.late is not None:
                options["late"] = destination(spark, f"{bound.name}, late", bound.late, show)
            started.append(
                Started(bound.name, bound, bound.relation.start(checkpoint=checkpoint, name=bound.name, **options))
            )
    except BaseException:
        for one in started:
            one.query.stop()
        raise
    return started


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


__all__ = ["Started", "destination", "finite", "start"]
