"""From a plan to Spark DataFrames: ingest, and for each stage a shuffle by shard and a host.

    source ── IngestRun ──> messages ── shuffle by shard ──> Host of stage 1 ──> messages ── shuffle ──> Host of stage 2
              mapInArrow                                     (state)                                     (state)
    ... the last Host ── Unpack ──> rows

All stages are one streaming query. An input that a later stage reads enters there. Results of any stage, late rows and
numbers travel through the later stages to the end. Where only Spark can evaluate an expression between two operators,
rows leave the packed form in between (outside.py).
"""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Mapping, Sequence
from functools import reduce
from itertools import count
from typing import Any, Protocol

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lowwater.backends.spark.host import BOUNDS, ControlRun, FiniteHost, Host, StageRun, Unpack
from lowwater.backends.spark.messages import BEYOND, FACTS, LATE, METRICS, PACKED, RESULT
from lowwater.backends.spark.outside import evaluated_between, steps_on
from lowwater.backends.spark.sealed import sealed
from lowwater.backends.spark.typed import Typed
from lowwater.backends.spark.versions import applied_by_shard, spark_schema
from lowwater.backends.spark.written import Outlet
from lowwater.metrics import ADAPTING, BEYOND_ROWS, LOST, PER_OPERATOR, SUMMED, Metrics, OperatorMetrics, Sources
from lowwater.plan.plan import Plan
from lowwater.runtime.graph import of_query
from lowwater.state.segments import unpack

_numbers = count(1)


class Ingested(Protocol):
    """A frame as the compiler sees it: rows that can be ingested, where they are read, into packed messages."""

    @property
    def spark(self) -> SparkSession: ...

    @property
    def streaming(self) -> bool: ...

    @property
    def replays(self) -> bool:
        """Whether a source can be read again from where a query was: a socket forgets what it has sent."""

    @property
    def pauses(self) -> bool:
        """Whether all that a source has can be read: a rate source, or Kafka, may always have more."""

    @staticmethod
    def ingested(
        inputs: Sequence[Sequence[tuple[Any, Sequence[int]]]], plan: Plan, shards: int, late: bool
    ) -> list[DataFrame]:
        """The packed messages of inputs, whose readings are frames of this kind with the entries that read them."""

    def batch_rows(self, *others: Any) -> int:
        """Rows that may come from Spark in one Arrow batch where no number of bytes bounds it.

        `others` are of the same kind, and are read by the same scan.
        """

    def scanned(self) -> Ingested:
        """The same rows by Spark's own scan."""

    def size(self) -> int | None:
        """About how many bytes a finite input has, as far as Spark knows."""


def observed_name(plan: Plan) -> str:
    """A name for the metrics of one result. Spark wants the names in one plan to be unique."""
    return f"lowwater:{plan.name}:{next(_numbers)}"


def packed(
    plan: Plan,
    frames: Sequence[Ingested],
    shards: int,
    late: bool,
    name: Any,
    control: Sequence[DataFrame] = (),
    outlets: Mapping[str, Outlet] | None = None,
    starts: Sequence[int] = (),
    typed: Typed | None = None,
) -> DataFrame:
    """The output of the last stage: a few packed rows per shard and micro-batch, and results as far as they are typed.

    It is observed under `name`, or by an Observation.

    `starts` are the micro-batches at which the last starts of the query began, where the caller knows them.
    """
    finite = not any(frame.streaming for frame in frames)
    bounds = frames[0].spark.conf.get(BOUNDS, None)
    output: DataFrame | None = None
    for stage in range(plan.stages):
        inputs = [] if output is None else [output]
        for kind, of_kind in _entering(plan, frames, stage).items():
            inputs += kind.ingested(of_kind, plan, shards, late)
        if not stage:
            inputs += [df.mapInArrow(ControlRun(shards), PACKED) for df in control]
        messages = reduce(DataFrame.union, inputs)
        last = typed if stage + 1 == plan.stages else None
        run = StageRun(plan, stage, shards, outlets or {}, starts, bounds, last)
        columns = PACKED if last is None else last.output
        if finite:
            # Adaptive execution would put small partitions together, and packed messages are small for their work.
            spread = messages.repartition(shards, "shard")
            output = applied_by_shard(spread.groupBy("shard"), FiniteHost(run).apply, columns)
        else:
            processor = sealed(Host(run))
            output = messages.groupBy("shard").transformWithStateInPandas(processor, columns, "Append", "None")
        output = evaluated_between(output, plan, stage, shards)
    assert output is not None
    return output.observe(name, *metrics(plan))


Reading = tuple[Ingested, list[int]]
"""A frame and the entries of one stage that read it."""


def _entering(plan: Plan, frames: Sequence[Ingested], stage: int) -> dict[type[Ingested], list[list[Reading]]]:
    """What is read at a stage, by kind: scans, each for one reading or more.

    An input of several queries is read where the first of them reads it. Its messages for later stages pass.
    """
    found: dict[type[Ingested], list[list[Reading]]] = {}
    for numbers, of_kind in _scans(plan, frames):
        readings = [
            (at, frame, entries)
            for number, frame in zip(numbers, of_kind, strict=True)
            for at in range(plan.stages)
            if (entries := [e for e, entry in enumerate(plan.entries) if (entry.frame, entry.stage) == (number, at)])
        ]
        first = min(at for at, _, _ in readings)
        if len(plan.roots) > 1:
            chosen = readings if stage == first else []
        else:
            chosen = [one for one in readings if one[0] == stage]
        if chosen:
            found.setdefault(type(of_kind[0]), []).append([(frame, entries) for _, frame, entries in chosen])
    return found


def _scans(plan: Plan, frames: Sequence[Ingested]) -> list[tuple[list[int], list[Ingested]]]:
    """The frames that are read at once, with their numbers: those of one input, if the plan has several queries.

    Checkpoints of a single query know each of its frames as a source.
    """
    if len(plan.roots) == 1:
        return [([number], [frame]) for number, frame in enumerate(frames)]
    found = []
    for of in range(len(plan.inputs)):
        numbers = sorted({entry.frame for entry in plan.entries if entry.input == of})
        own = [frames[number] for number in numbers]
        found.append((numbers, own if len({type(one) for one in own}) == 1 else [one.scanned() for one in own]))
    return found


def batch_rows(plan: Plan, frames: Sequence[Ingested]) -> int:
    """How many rows Spark may hand over at once, where no number of bytes bounds a batch."""
    return min(own[0].batch_rows(*own[1:]) for _, own in _scans(plan, frames))


def metrics(plan: Plan) -> list[Any]:
    """What is observed: totals, the same for each operator, and for each stage what every shard knows."""
    roots = [root.operator for root in plan.roots]
    totals = [
        _summed(METRICS, PER_OPERATOR.index(name), roots if name == "result_rows" else None).alias(name)
        for name in SUMMED
    ]
    of_operator = [
        _summed(METRICS, PER_OPERATOR.index(name), [i]).alias(f"{name}_{i}")
        for i, placed in enumerate(plan.operators)
        for name in PER_OPERATOR
        if (placed.spec.loses or name not in LOST) and (placed.spec.adapts or name not in ADAPTING)
    ]
    of_input = [
        _summed(BEYOND, port, [i]).alias(f"{BEYOND_ROWS}_{i}_{port}")
        for i, placed in enumerate(plan.operators)
        for port in range(len(placed.spec.counted))
    ]
    facts = [
        F.base64(F.max(F.when((F.col("kind") == FACTS) & (F.col("operator") == s), F.col("blob")))).alias(f"facts_{s}")
        for s in range(plan.stages)
    ]
    return [*totals, *of_operator, *of_input, *facts]


def _summed(kind: str, part: int, operators: Sequence[int] | None) -> Any:
    """The sum of one number over shards, and over these operators, or all."""
    own = (F.col("kind") == kind) & (F.col("part") == part)
    if operators is not None:
        own &= F.col("operator").isin(*operators)
    return F.sum(F.when(own, F.col("value")).otherwise(0))


def observed(row: Mapping[str, Any], plan: Plan) -> Metrics | None:
    """The metrics of a micro-batch out of what was observed; None where nothing ran."""
    known = [text for s in range(plan.stages) if (text := row[f"facts_{s}"])]
    if not known:
        return None
    operators = [
        OperatorMetrics(
            i,
            placed.label,
            beyond_rows={n: row.get(f"{BEYOND_ROWS}_{i}_{port}") or 0 for port, n in enumerate(placed.spec.counted)},
            **{name: row.get(f"{name}_{i}") or 0 for name in PER_OPERATOR},
        )
        for i, placed in enumerate(plan.operators)
    ]
    stages = [_facts(b64decode(text)) for text in known]
    inputs: dict[str, pa.Table] = {}
    for _, known_here in stages:
        for name, table in known_here.by_name.items():
            inputs.setdefault(name, table)
    closed = next((numbers["closed_below"] for numbers, _ in stages if numbers["closed_below"] is not None), None)
    return Metrics.of_operators(
        operators,
        [root.operator for root in plan.roots],
        closed_below=closed,
        closed_by={int(root): wid for numbers, _ in stages for root, wid in numbers.get("closed_by", {}).items()},
        by_source=Sources(tuple(inputs.values())),
    )


def _facts(blob: bytes) -> tuple[dict[str, Any], Sources]:
    tables = unpack(blob)
    numbers = json.loads(tables.pop("numbers").column(0)[0].as_py())
    return numbers, Sources.of_tables(tables)


def sources(host: DataFrame) -> Sources:
    """The progress of every source at the end of a micro-batch, out of the packed output."""
    rows = host.where(F.col("kind") == FACTS).select("blob").collect()
    found = [_facts(bytes(row.blob))[1] for row in rows]
    return Sources(tuple({name: table for one in found for name, table in one.by_name.items()}.values()))


def answers(
    plan: Plan, frames: Sequence[Ingested], shards: int, name: str, control: Sequence[DataFrame] = ()
) -> DataFrame:
    """The results of the only query of a plan."""
    typed = Typed.of(plan)
    host = packed(plan, frames, shards, False, name, control, typed=typed)
    return results(plan, host) if typed is None else steps_on(typed.rows(host), plan.queries[0].outside)


def results(plan: Plan, host: DataFrame, query: int = 0) -> DataFrame:
    """The results of a query out of the packed output."""
    of = plan.queries[query]
    rows = _unpacked(host, of_query(RESULT, query), of.shown_schema)
    return steps_on(rows, of.outside)


def late_rows(plan: Plan, host: DataFrame, query: int = 0) -> DataFrame:
    return _unpacked(host, of_query(LATE, query), plan.queries[query].late_schema)


def _unpacked(host: DataFrame, kind: str, schema: pa.Schema) -> DataFrame:
    return host.mapInArrow(Unpack(kind, schema), spark_schema(schema))


def heartbeats(spark: SparkSession) -> DataFrame:
    """A clock as a stream: replayed after a restart with the same values, so that a repeated batch decides the same."""
    rate = spark.readStream.format("rate").option("rowsPerSecond", 1).load()
    return rate.select(F.unix_micros("timestamp").alias("clock"), F.lit(False).alias("end"))


def no_heartbeats(spark: SparkSession, control: str) -> DataFrame:
    """A stream without rows in the place of `heartbeats`: no file of this name is ever written.

    Spark knows the sources of a checkpoint by their places. With this one, a query can get a heartbeat later.
    """
    none = spark.readStream.schema("value string").option("pathGlobFilter", "*.heartbeat").text(control)
    return none.select(F.lit(None).cast("long").alias("clock"), F.lit(False).alias("end"))


def commands(spark: SparkSession, directory: str) -> DataFrame:
    """The control directory as a stream: each file is one command, taken exactly once. `end` ends all inputs."""
    lines = spark.readStream.schema("value string").text(directory)
    return lines.select(F.lit(None).cast("long").alias("clock"), (F.col("value") == "end").alias("end"))
