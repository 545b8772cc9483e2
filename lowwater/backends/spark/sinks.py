"""The outputs of a running query: a micro-batch split into results, late rows and progress."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F

from lowwater.backends.spark import compile
from lowwater.backends.spark.checkpoint import Checkpoint
from lowwater.backends.spark.directory import OutputDirectory
from lowwater.backends.spark.files import Files
from lowwater.backends.spark.host import BATCH
from lowwater.backends.spark.messages import LATE, RESULT, WROTE
from lowwater.backends.spark.outputs import Called, Destination, Output
from lowwater.backends.spark.written import Outlet, final_name, written_by_arrow
from lowwater.errors import LowwaterError
from lowwater.plan.plan import Plan
from lowwater.runtime.graph import of_query

Sink = str | Callable[[DataFrame, int], None] | Destination

OUTPUTS = {RESULT: "results", LATE: "late"}
"""Outputs of a query by their kind, and how start() names them."""
PROGRESS = "input string, source string, low_watermark string, largest_seen string, rows long, holds_back boolean"
TIMES = ("low_watermark_time", "largest_seen_time")
"""Columns of the progress output that are timestamps. They travel as text, because Python may know another zone."""


class Sinks:
    """Takes the micro-batches of one launch of a query. Called by foreachBatch; on Spark Connect, in the server.

    What has an outlet is written by the tasks of the stateful stage; all else is an action of its own. That stage must
    run once, and in all shards: also where there are several actions, or a function that looks at few of its rows.
    """

    def __init__(
        self, plan: Plan, outputs: Mapping[str, Output], outlets: Mapping[str, Outlet], checkpoint: Checkpoint
    ) -> None:
        self._plan, self._outputs, self._outlets = plan, dict(outputs), dict(outlets)
        self._checkpoint = checkpoint
        self._taken = False

    @property
    def directories(self) -> dict[str, OutputDirectory]:
        return {kind: output for kind, output in self._outputs.items() if isinstance(output, OutputDirectory)}

    def __call__(self, host: DataFrame, batch: int) -> None:
        """One micro-batch. The first one takes the outputs: a start that Spark refuses must empty no directory."""
        for output in self._outputs.values():
            if not self._taken:
                output.take()
            output.begin(batch)
        self._taken = True
        host.sparkSession.conf.set(BATCH, batch)
        seen = Observation()
        self._write(host, seen, batch)
        # Before the micro-batch is committed: a restart without new data asks for its metrics.
        self._checkpoint.remember(batch, json.dumps(seen.get))

    def _write(self, host: DataFrame, seen: Observation, batch: int) -> None:
        """Delivers the outputs. The first action reads all of the host, and is observed."""
        metrics = compile.metrics(self._plan)
        if not self._outlets and len(self._outputs) == 1 and RESULT in self.directories:
            ((rows, output),) = self._actions(host.observe(seen, *metrics))
            output.write(rows(), batch)
            return
        actions = list(self._actions(host))
        if actions:
            host.persist()
        try:
            reports = host.observe(seen, *metrics).where(F.col("kind") == WROTE).select("blob").collect()
            wrote = [bytes(row.blob).decode().split("/") for row in reports]
            for kind, outlet in self._outlets.items():
                names = [name for of, name in wrote if of == kind] or [outlet.empty(batch)]
                self.directories[kind].show(batch, {name: final_name(name) for name in names})
            for rows, output in actions:
                output.write(rows(), batch)
        finally:
            if actions:
                host.unpersist()

    def _actions(self, host: DataFrame) -> Iterator[tuple[Callable[[], DataFrame], Output]]:
        made: dict[str, Callable[[], DataFrame]] = {"progress": partial(_progress, host)}
        for query in range(len(self._plan.roots)):
            made[of_query(RESULT, query)] = partial(compile.results, self._plan, host, query)
            made[of_query(LATE, query)] = partial(compile.late_rows, self._plan, host, query)
        for kind, output in self._outputs.items():
            if kind not in self._outlets:
                yield made[kind], output


@dataclass(frozen=True)
class Asked:
    """A sink that start() was given, by the kind of what goes there, and how start() names it."""

    kind: str
    name: str
    sink: Sink


def sinks_of(plan: Plan, results: Any, late: Any, progress: Sink | None) -> list[Asked]:
    """The sinks of all queries of a plan. Those of several queries are given by the names of the queries."""
    found = []
    for number, root in enumerate(plan.roots):
        for kind, sinks in ((RESULT, results), (LATE, late)):
            name = OUTPUTS[kind]
            if len(plan.roots) > 1:
                sinks, name = (sinks or {}).get(root.name), f"{name} of {root.name}"
            if sinks is not None:
                found.append(Asked(of_query(kind, number), name, sinks))
    return found if progress is None else [*found, Asked("progress", "progress", progress)]


def outputs_of(
    spark: SparkSession, checkpoint: Checkpoint, overwrite: bool, sinks: Sequence[Asked]
) -> dict[str, Output]:
    """The outputs that start() was given, by kind, each checked. Nothing is changed."""
    found: dict[str, Output] = {}
    for one in sinks:
        if isinstance(one.sink, str):
            found[one.kind] = OutputDirectory(spark, one.name, one.sink, checkpoint, overwrite)
        elif isinstance(one.sink, Destination):
            found[one.kind] = one.sink.opened(checkpoint.id, one.name)
        elif callable(one.sink):
            found[one.kind] = Called(one.sink)
        else:
            raise LowwaterError(
                f"{one.name}= of start() is a directory, one of lw.to_delta(), to_jdbc(), to_table() and to_kafka(), "
                f"or a function of (DataFrame, batch id), not {type(one.sink).__name__}."
            )
    directories = [output for output in found.values() if isinstance(output, OutputDirectory)]
    _check_apart({"checkpoint": checkpoint.files, **{one.output: one.files for one in directories}})
    for directory in directories:
        directory.check()
    for one in sinks:
        if isinstance(one.sink, Destination):
            one.sink.check(spark)
    return found


def _check_apart(directories: Mapping[str, Files]) -> None:
    """Each output needs a directory of its own: not that of another one, nor one inside it that readers would see."""
    for name, files in directories.items():
        for other, outer in directories.items():
            if name == other:
                continue
            if files.qualified == outer.qualified:
                raise LowwaterError(
                    f"start() needs a directory for each of its outputs, but {name} and {other} are both "
                    f"{files.directory}."
                )
            inside = files.qualified.removeprefix(f"{outer.qualified}/")
            if other != "checkpoint" and inside != files.qualified and not inside.startswith((".", "_")):
                raise LowwaterError(
                    f"{files.directory} ({name}) is inside {outer.directory} ({other}), so that a reader of {other} "
                    "would read it, too; name directories beside each other."
                )


def outlets(plan: Plan, outputs: Mapping[str, Output], run: str) -> dict[str, Outlet]:
    """Results and late rows that go to a directory which Arrow can reach, with columns that it can write."""
    schemas: dict[str, pa.Schema] = {}
    for number, query in enumerate(plan.queries):
        schemas[of_query(LATE, number)] = query.late_schema
        if not query.outside:  # else Spark evaluates the last steps on the results
            schemas[of_query(RESULT, number)] = query.result_schema
    found: dict[str, Outlet] = {}
    for kind, schema in schemas.items():
        output = outputs.get(kind)
        if isinstance(output, OutputDirectory) and output.files.direct and written_by_arrow(schema):
            found[kind] = Outlet(output.files.direct, schema, run)
    return found


def _progress(host: DataFrame) -> DataFrame:
    """One row per source: its progress, and whether it holds the others back."""
    found = compile.sources(host).objects
    texts = [tuple(None if getattr(s, time) is None else str(getattr(s, time)) for time in TIMES) for s in found]
    rows = [
        (s.input, s.source, s.low_watermark, s.largest_seen, s.rows, s.holds_back, *times)
        for s, times in zip(found, texts, strict=True)
    ]
    schema = ", ".join([PROGRESS, *(f"{time} string" for time in TIMES)])
    table = host.sparkSession.createDataFrame(rows, schema)
    return table.withColumns({time: table[time].cast("timestamp") for time in TIMES}).coalesce(1)
