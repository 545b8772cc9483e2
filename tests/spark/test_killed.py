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
from tests.spark import joins, kinds, several
from tests.spark.answers import write_part
from tests.spark.killed import JOINS, WINDOWS, kill

pytestmark = pytest.mark.spark

SEVERAL = "several"
"""Several queries as one, each with its own results."""
BY_FUNCTION = "sliding"
"""Its results go to a function, which writes them with Spark's own writer; those of the others to a directory."""


def asked(spark: SparkSession, kind: str, place: Path) -> lw.Relation | lw.Together:
    if kind == SEVERAL:
        return several.together(spark, place / "streams")
    if kind in WINDOWS:
        return kinds.KINDS[kind](kinds.streaming(spark, place / "in"))
    return joins.JOINS[kind][1](joins.streaming(spark, place))


def into(kind: str, directory: str) -> Any:
    def write(rows: DataFrame, batch: int) -> None:
        rows.write.mode("overwrite").parquet(f"{directory}/{part_of(batch)}")

    if kind == SEVERAL:
        names = several.queries(several.streams_of(several.TABLES))
        return {name: directory if name == "busy" else f"{directory}-{name}" for name in names}
    return write if kind == BY_FUNCTION else directory


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the killed queries have their checkpoints and results."""
    place = tmp_path_factory.mktemp("killed")
    for number, piece in enumerate(kinds.PIECES):
        write_part(piece, place / "in", number)
    joins.write(place, joins.STREAMS, range(joins.PARTS))
    several.write(place / "streams")
    kill(__name__, [*WINDOWS, SEVERAL, *JOINS], place)
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


def test_several_queries_killed_as_one_have_each_result_once(killed: Path, spark: SparkSession) -> None:
    sinks = into(SEVERAL, str(killed / SEVERAL / "out"))
    checkpoint = str(killed / SEVERAL / "checkpoint")
    again = asked(spark, SEVERAL, killed).start(checkpoint=checkpoint, results=sinks)
    again.finish()
    for name, out in sinks.items():
        local = several.alone(name)
        assert local.result().num_rows
        assert several.found_in(spark, out, local.plan.result_schema) == several.told(local.result()), name
    assert again.metrics().rows == sum(table.num_rows for table in several.TABLES.values())
