"""Every kind of join on Spark: stopped and restarted, it answers as locally (test_killed.py has more kinds).

The local backend answers as the definition does (tests/test_join_property.py and the files beside it): it is the judge.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.soak import sampled
from tests.spark import killed
from tests.spark.joins import BEYOND, JOINS, PARTS, STREAMS, comparable, locally, streaming, write
from tests.spark.server import REMOTE

pytestmark = pytest.mark.spark

SAMPLE = ("counted", "melded", "by both times", "oblivious monitored", "oblivious within a limit")
"""The kinds that run with every test run."""
STOPPED = [kind for kind in JOINS if REMOTE in os.environ or kind not in killed.JOINS]
"""Those that are killed elsewhere need not be stopped here; on Spark Connect all are."""


@pytest.mark.parametrize("kind", sampled(STOPPED, SAMPLE))
def test_a_restarted_join_answers_as_if_it_never_stopped(kind: str, spark: SparkSession, tmp_path: Path) -> None:
    out, checkpoint = str(tmp_path / "out"), str(tmp_path / "checkpoint")
    names, query = JOINS[kind]
    write(tmp_path, names, range(PARTS - 1))
    first = query(streaming(spark, tmp_path)).start(checkpoint=checkpoint, results=out)
    first.process_available()
    first.stop()
    held = first.metrics()
    assert held.state_rows + held.ended_values > 0  # rows, or keys whose rows have left
    write(tmp_path, names, range(PARTS - 1, PARTS))
    second = query(streaming(spark, tmp_path)).start(checkpoint=checkpoint, results=out)
    second.finish()
    local = locally(kind)
    expected = comparable(local.result())
    assert expected
    schema = local.plan.result_schema
    assert comparable(spark.read.parquet(out).toArrow().select(schema.names).cast(schema)) == expected
    numbers = second.metrics()
    assert numbers.rows == sum(STREAMS[name].num_rows for name in names)
    assert (numbers.late_rows, numbers.state_rows) == (local.metrics().late_rows, 0)
    assert (numbers.late_rows > 0) == (kind == BEYOND)
    assert [one.beyond_rows for one in numbers.operators] == [one.beyond_rows for one in local.metrics().operators]
