"""Every kind of window on Spark: stopped and restarted, it answers as locally (test_killed.py has more kinds).

The local backend answers as the definition does (tests/test_local_property.py), so it is the judge here.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.soak import sampled
from tests.spark.answers import write_part
from tests.spark.killed import WINDOWS
from tests.spark.kinds import KINDS, PIECES, comparable, locally, streaming
from tests.spark.server import REMOTE

pytestmark = pytest.mark.spark

SAMPLE = ("each source alone", "rows", "by tuple", "over rows", "landmark", "early and late")
"""The kinds that run with every test run."""
STOPPED = [kind for kind in KINDS if REMOTE in os.environ or kind not in WINDOWS]
"""Those that are killed elsewhere need not be stopped here; on Spark Connect all are."""


@pytest.mark.parametrize("kind", sampled(STOPPED, SAMPLE))
def test_a_restarted_query_answers_as_if_it_never_stopped(kind: str, spark: SparkSession, tmp_path: Path) -> None:
    source, out, checkpoint = tmp_path / "in", str(tmp_path / "out"), str(tmp_path / "checkpoint")
    for i, piece in enumerate(PIECES[:2]):
        write_part(piece, source, i)
    first = KINDS[kind](streaming(spark, source)).start(checkpoint=checkpoint, results=out)
    first.process_available()
    first.stop()
    assert first.metrics().state_rows > 0
    write_part(PIECES[2], source, 2)
    second = KINDS[kind](streaming(spark, source)).start(checkpoint=checkpoint, results=out)
    second.finish()
    local = locally(kind)
    expected = comparable(local.result())
    assert expected
    schema = local.plan.result_schema
    assert comparable(spark.read.parquet(out).toArrow().select(schema.names).cast(schema)) == expected
    numbers = second.metrics()
    assert (numbers.rows, numbers.late_rows, numbers.state_rows) == (3_000, 0, 0)
