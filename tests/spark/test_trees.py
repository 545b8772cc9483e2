"""Random plans of several operators through Spark, judged by their definitions (tests/tree_oracle.py).

A few run with the other tests; `make soak` runs them all: finite inputs, streams that are stopped and restarted, and
streams that are killed in the middle of a micro-batch.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

import lowwater as lw
from lowwater.backends.spark.frame import frame as spark_frame
from lowwater.query.logical import Aggregate, Join, Node, Scan
from lowwater.windows.context_free import Landmark, TupleBased
from tests.soak import SOAKING, sampled
from tests.spark.answers import write_part
from tests.spark.killed import kill
from tests.tree_oracle import evaluate, unlike
from tests.trees import Case, case

pytestmark = pytest.mark.spark

PARTS = 3


def runs_here(found: Case) -> bool:
    """Whether the answer does not depend on an order of arrival over several streams, or on how far a batch went."""
    for node in found.node.walk():
        window = node.window if isinstance(node, Aggregate) else None
        if isinstance(window, TupleBased | Landmark) or getattr(window, "order", None) in ("arrival", "row-num"):
            return False
        if isinstance(node, Join) and node.rows is not None:
            return False
    read = {node.input.name for node in found.node.walk() if isinstance(node, Scan)}
    return all(found.data.arrived()[name].table.num_rows >= PARTS for name in read)


@cache
def drawn(seeds: int) -> list[int]:
    """The first seeds whose trees can be compared here."""
    found: list[int] = []
    seed = 0
    while len(found) < seeds:
        if runs_here(case(seed)):
            found.append(seed)
        seed += 1
    return found


SEEDS = drawn(53 if SOAKING else 16)
RESTARTED, KILLED, FINITE = SEEDS[:10], SEEDS[10:13], SEEDS[13:]


def planted(node: Node, given: Any) -> Node:
    """The same tree over other rows: `given(name)` are those of a stream."""
    if isinstance(node, Scan):
        return Scan(node.input, node.time, spark_frame(given(node.input.name)))
    inputs = [planted(one, given) for one in node.inputs]
    return node.over(*inputs)


def on_spark(found: Case, given: Any) -> lw.Relation:
    frames: dict[str, Any] = {}

    def once(name: str) -> Any:
        return frames.setdefault(name, given(name))

    return lw.Relation(planted(found.node, once), found.relation.name)


def judged(found: Case, got: pa.Table) -> str:
    """What is wrong with the results; the empty string if nothing is."""
    schema = found.relation.schema
    return unlike(got.select(schema.names).cast(schema), evaluate(found.node, found.data.arrived()))


@pytest.mark.parametrize("seed", sampled(FINITE, 3))
def test_a_random_tree_over_batch_dataframes(seed: int, spark: SparkSession) -> None:
    found = case(seed)
    tables = {name: arrived.table for name, arrived in found.data.arrived().items()}
    relation = on_spark(found, lambda name: spark.createDataFrame(tables[name]))
    assert not judged(found, relation.collect(shards=found.shards))


def written(found: Case, place: Path, batches: range) -> None:
    for name, arrived in found.data.arrived().items():
        step = -(-arrived.table.num_rows // PARTS)
        for i in batches:
            write_part(arrived.table.slice(i * step, step), place / name, i)


def streaming(spark: SparkSession, found: Case, place: Path) -> lw.Relation:
    schema = from_arrow_schema(found.data.schema)
    reader = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1)
    return on_spark(found, lambda name: reader.parquet(str(place / name)))


@pytest.mark.parametrize("seed", sampled(RESTARTED, 2))
def test_a_random_tree_that_is_stopped_and_restarted(seed: int, spark: SparkSession, tmp_path: Path) -> None:
    found, out, checkpoint = case(seed), str(tmp_path / "out"), str(tmp_path / "checkpoint")
    written(found, tmp_path, range(PARTS - 1))
    first = streaming(spark, found, tmp_path).start(checkpoint=checkpoint, results=out)
    first.process_available()
    first.stop()
    written(found, tmp_path, range(PARTS - 1, PARTS))
    second = streaming(spark, found, tmp_path).start(checkpoint=checkpoint, results=out)
    second.finish()
    assert not judged(found, spark.read.parquet(out).toArrow())
    assert (second.metrics().late_rows, second.metrics().state_rows) == (0, 0)


def asked(spark: SparkSession, kind: str, place: Path) -> lw.Relation:
    return streaming(spark, case(int(kind)), place / kind)


@pytest.mark.parametrize("seeds", sampled([tuple(KILLED)], 0))
def test_random_trees_killed_in_the_middle_of_a_batch(
    seeds: tuple[int, ...], spark: SparkSession, tmp_path: Path
) -> None:
    kinds = [str(seed) for seed in seeds]
    for kind in kinds:
        written(case(int(kind)), tmp_path / kind, range(PARTS))
    kill(__name__, kinds, tmp_path)
    for kind in kinds:
        place = tmp_path / kind
        again = asked(spark, kind, tmp_path).start(checkpoint=str(place / "checkpoint"), results=str(place / "out"))
        again.finish()
        assert not judged(case(int(kind)), spark.read.parquet(str(place / "out")).toArrow()), kind
        assert again.metrics().state_rows == 0
