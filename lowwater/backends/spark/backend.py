"""The Spark backend: `to_spark` for any sink, `start` for separate outputs, `collect` for a finite input."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from time import monotonic
from typing import Any

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from lowwater.backends.spark import compile, session
from lowwater.backends.spark.analyzed import bounds_counted, finite_run, streaming_run
from lowwater.backends.spark.checkpoint import Checkpoint
from lowwater.backends.spark.columns import call_text, sql_of
from lowwater.backends.spark.compile import Ingested
from lowwater.backends.spark.connect import default_parallelism
from lowwater.backends.spark.running import RunningQuery
from lowwater.backends.spark.sinks import Sink, Sinks, outlets, outputs_of, sinks_of
from lowwater.backends.spark.versions import arrow_schema, spark_schema
from lowwater.errors import LowwaterError, NeedsConfiguration, sentence_in
from lowwater.plan.plan import Plan
from lowwater.query.analyzed import Measured
from lowwater.query.logical import Node
from lowwater.query.planner import plan as planned
from lowwater.query.refuse import refuse_number

SHARD_BYTES = 256 << 20
"""Bytes of a finite input that one shard takes: messages and state of so much fit in a worker's memory."""


class SparkBackend:
    """Runs plans inside the SparkSession that the user's DataFrames belong to."""

    name = "Spark DataFrames"
    outside = True

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark

    @property
    def exact_names(self) -> bool:
        return str(self._spark.conf.get("spark.sql.caseSensitive", "false")).lower() == "true"

    def type_of(self, expression: str, schema: pa.Schema, role: str) -> pa.DataType:
        from lowwater.backends.spark.frame import analysed

        none = self._spark.createDataFrame([], spark_schema(schema))
        df = analysed(lambda: none.select("*", F.expr(expression).alias("value")), expression)  # alone, count(n) passes
        return arrow_schema(df.schema).field(len(schema)).type

    def text_of(self, column: object, schema: pa.Schema, role: str) -> str:
        """A `Column` as Spark SQL. Spark writes it, and what it writes must mean the same when it is read again."""
        from lowwater.backends.spark.frame import analysed

        if not isinstance(column, Column):
            raise LowwaterError(f"{role} takes Spark SQL as text or a Column, not {type(column).__name__}.")
        none = self._spark.createDataFrame([], spark_schema(schema))

        def value(of: Column) -> DataFrame:
            return analysed(lambda: none.select(of.alias("value")), str(of))

        given = value(column)
        text = sql_of(column, given)
        try:
            same = text is not None and given.sameSemantics(value(F.expr(text)))
        except LowwaterError:
            same = False
        if text is None or not same:
            raise LowwaterError(
                f"{role} cannot take {column} as a Column, since it has no text in SQL; write it in SQL."
            )
        return text

    def call_of(self, column: object) -> str | None:
        """The call of an aggregate, such as sum(n), that a `Column` is; None if it is no Column."""
        return call_text(column, self._spark) if isinstance(column, Column) else None

    def to_spark(self, node: Node, shards: int | None = None, metrics: str | None = None) -> DataFrame:
        """Results as a DataFrame, streaming if the input is.

        The metrics of a streaming query are in `lastProgress.observedMetrics`, under the name `metrics`. By default the
        name begins with "lowwater:" and is one of its own, because Spark wants the names in a plan to be unique.
        """
        plan, frames = self._planned(node, late=False)
        number = _shards(shards) or _default_shards(self._spark, frames)
        streaming = any(frame.streaming for frame in frames)
        session.configure(self._spark, compile.batch_rows(plan, frames), number if streaming else None)
        return compile.answers(plan, frames, number, metrics or compile.observed_name(plan), _clock(plan, frames))

    def collect(self, node: Node, shards: int | None = None) -> Any:
        """All results of batch DataFrames, sorted by window and group; of several queries by their names."""
        plan, frames = self._planned(node, late=False)
        if any(frame.streaming for frame in frames):
            raise LowwaterError(
                "collect(), head() and show() need a finite input; for a streaming DataFrame use start() or to_spark()."
            )
        number = _shards(shards) or _default_shards(self._spark, frames)
        with session.configured(self._spark, number, compile.batch_rows(plan, frames)):
            if len(plan.roots) == 1:
                found = [_taken(compile.answers(plan, frames, number, compile.observed_name(plan)))]
            else:  # each query is an action of its own, and all of them are computed by the first
                host = compile.packed(plan, frames, number, False, compile.observed_name(plan)).persist()
                try:
                    found = [_taken(compile.results(plan, host, query)) for query in range(len(plan.roots))]
                finally:
                    host.unpersist()
        tables = [of.in_order(rows.cast(of.result_schema)) for of, rows in zip(plan.queries, found, strict=True)]
        return tables[0] if len(tables) == 1 else {root.name: of for root, of in zip(plan.roots, tables, strict=True)}

    def analyze(self, node: Node, seconds: float | None = None) -> Measured:
        """Runs a query without a sink and measures it: all rows that are there, or a stream for so many seconds."""
        plan, frames = self._planned(node, late=False)
        begun = monotonic()
        with bounds_counted(self._spark):
            if any(frame.streaming for frame in frames):
                run = streaming_run(self._spark, partial(self.start, node), seconds, [r.name for r in plan.roots])
            else:
                number = _default_shards(self._spark, frames)
                with session.configured(self._spark, number, compile.batch_rows(plan, frames)):
                    run = finite_run(plan, lambda seen: compile.packed(plan, frames, number, False, seen))
        run.seconds = monotonic() - begun
        return run

    def start(
        self,
        node: Node,
        *,
        checkpoint: str | None = None,
        results: Sink | Mapping[str, Sink] | None = None,
        late: Sink | Mapping[str, Sink] | None = None,
        progress: Sink | None = None,
        trigger: dict[str, Any] | None = None,
        shards: int | None = None,
        partitions: int | None = None,
        name: str | None = None,
        overwrite: bool = False,
    ) -> RunningQuery:
        """Starts a streaming query.

        A sink is a directory (parquet; a repeated micro-batch has the same files, so nothing is in it twice), one of
        to_delta(), to_jdbc(), to_table() and to_kafka(), or a function of (DataFrame, batch id). Several queries that
        run together have a sink each, by their names. A directory belongs to
        one checkpoint; `overwrite` empties that of another one when the query begins, and has no effect on this query's
        own. `trigger` is what DataStreamWriter.trigger takes, such as {"availableNow": True}. `shards` is the largest
        parallelism and fixed with the first start; `partitions` is how many of them run at once, and `lowwater rescale`
        changes it later.
        """
        if checkpoint is None or results is None:
            raise LowwaterError(
                "start() needs checkpoint=, a directory for the state, and results=, a directory or a function for the "
                "results; to_spark() gives a streaming DataFrame instead."
            )
        spark = self._spark
        place = Checkpoint(spark, checkpoint)
        pinned = place.pinned()
        if pinned is not None:  # only the same query can follow the choices that are pinned for it
            place.check_meaning(self._planned(node, late is not None)[0].meaning)
        plan, frames = self._planned(node, late is not None, pinned)
        if not all(frame.streaming for frame in frames):
            raise LowwaterError("start() needs streaming DataFrames; for batch DataFrames use to_spark() or collect().")
        number = _shards(shards) or place.shards() or _default_shards(spark, frames)
        at_once = min(_shards(partitions, "partitions") or _cores(spark), number)
        fingerprint = plan.fingerprint(number)
        place.check(fingerprint)
        outputs = outputs_of(spark, place, overwrite, sinks_of(plan, results, late, progress))
        place.claim(fingerprint, plan.name, _needs_clock(plan))
        direct = outlets(plan, outputs, place.run)
        observed = compile.observed_name(plan)

        def launch(again: dict[str, Any] | None = None) -> Any:
            clock = compile.heartbeats(spark) if place.clock else compile.no_heartbeats(spark, place.control)
            control = [compile.commands(spark, place.control), clock]
            sinks = Sinks(plan, outputs, direct, place)
            with session.configured(spark, at_once, compile.batch_rows(plan, frames)):
                host = compile.packed(plan, frames, number, late is not None, observed, control, direct, place.starts())
                writer = (
                    host.writeStream.outputMode("append").option("checkpointLocation", checkpoint).foreachBatch(sinks)
                )
                if name is not None:
                    writer = writer.queryName(name)
                return writer.trigger(**(again or trigger or {"processingTime": "0 seconds"})).start()

        replays = all(frame.replays for frame in frames)
        in_place = trigger is None and all(frame.pauses for frame in frames)
        return RunningQuery(plan, launch, place, observed, spark.streams, replays, in_place)

    @staticmethod
    def _planned(node: Node, late: bool, pinned: dict[str, Any] | None = None) -> tuple[Plan, Sequence[Ingested]]:
        found = planned(node, late, pinned)
        return found.plan, found.frames  # type: ignore[return-value]


def _clock(plan: Plan, frames: Sequence[Ingested]) -> list[DataFrame]:
    """The heartbeats of a stream that needs them."""
    streaming = any(frame.streaming for frame in frames)
    return [compile.heartbeats(frames[0].spark)] if streaming and _needs_clock(plan) else []


def _taken(results: DataFrame) -> pa.Table:
    """The rows of a finite result. What a worker refuses is raised as the sentence that it was refused by."""
    try:
        return results.toArrow()
    except PySparkException as error:
        sentence = sentence_in(str(error))
        if sentence is None:
            raise
        raise LowwaterError(sentence) from error


def _shards(number: int | None, option: str = "shards") -> int | None:
    if number is not None:
        refuse_number(number, option)
    return None if number is None else int(number)


def _needs_clock(plan: Plan) -> bool:
    return any(i.idle is not None for i in plan.inputs)


def _cores(spark: SparkSession) -> int:
    found = default_parallelism(spark)
    if found < 1:
        raise NeedsConfiguration("Spark reports no cores; give start() the number of shards, as in shards=8.")
    return found


def _default_shards(spark: SparkSession, frames: Sequence[Ingested]) -> int:
    """Twice the cores for a stream, so that it can grow; for a finite input as many as its size asks for."""
    cores = _cores(spark)
    if any(frame.streaming for frame in frames):
        return 2 * cores
    sizes = [frame.size() for frame in frames]
    known = sum(size for size in sizes if size is not None)
    return max(cores, -(-known // SHARD_BYTES))
