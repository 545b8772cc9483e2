"""Killed by SIGKILL in the middle of a batch and started again: nothing lost, nothing twice.

Windows and joins of several kinds stand in one process, which is killed once. The local backend, which answers as the
definitions do, is the judge.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

import lowwater as lw
from lowwater.backends.spark.written import part_of
from tests.spark import joins, kinds
from tests.spark.answers import write_part
from tests.spark.killed import JOINS, WINDOWS, kill

pytestmark = pytest.mark.spark

BY_FUNCTION = "sliding"
"""Its results go to a function, which writes them with Spark's own writer; those of the others to a directory."""


def asked(spark: SparkSession, kind: str, place: Path) -> lw.Relation:
    if kind in WINDOWS:
        return kinds.KINDS[kind](kinds.streaming(spark, place / "in"))
    return joins.JOINS[kind][1](joins.streaming(spark, place))


def into(kind: str, directory: str) -> Any:
    def write(rows: DataFrame, batch: int) -> None:
        rows.write.mode("overwrite").parquet(f"{directory}/{part_of(batch)}")

    return write if kind == BY_FUNCTION else directory


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the killed queries have their checkpoints and results."""
    place = tmp_path_factory.mktemp("killed")
    for number, piece in enumerate(kinds.PIECES):
        write_part(piece, place / "in", number)
    joins.write(place, joins.STREAMS, range(joins.PARTS))
    kill(__name__, [*WINDOWS, *JOINS], place)
    return place


@pytest.mark.parametrize("kind", [*WINDOWS, *JOINS])
def test_a_query_killed_in_the_middle_of_a_batch_loses_nothing_and_repeats_nothing(
    kind: str, killed: Path, spark: SparkSession
) -> None:
    out = str(killed / kind / "out")
    again = asked(spark, kind, killed).start(checkpoint=str(killed / kind / "checkpoint"), results=into(kind, out))
    again.finish()
    of = kinds if kind in WINDOWS else joins
    local = of.locally(kind)
    found = spark.read.parquet(out).toArrow().select(local.plan.result_schema.names).cast(local.plan.result_schema)
    assert found.num_rows
    assert of.comparable(found) == of.comparable(local.result())
    metrics, judge = again.metrics(), local.metrics()
    assert (metrics.rows, metrics.late_rows, metrics.state_rows) == (judge.rows, judge.late_rows, 0)
    if kind != joins.BEYOND:
        assert metrics.late_rows == 0
        return
    (own,) = metrics.operators  # the keys were complete, and remembered, before the kill
    assert (own.late_rows, own.lost_to_multiplicity, own.beyond_rows) == (40, 40, {"once": 0, "again": 40})
