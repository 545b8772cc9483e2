"""Every kind of window on Spark: stopped and restarted, and killed in the middle of a batch, it answers as locally.

The local backend answers as the definition does (tests/test_local_property.py), so it is the judge here.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow.compute as pc
import pytest
from pyspark.sql import SparkSession

import lowwater as lw
from tests.soak import sampled
from tests.spark.answers import parts, rows, streaming, write_part
from tests.spark.killed import kill
from tests.spark.kinds import KINDS, comparable, locally

pytestmark = pytest.mark.spark

ONCE = {"availableNow": True}
READ = rows(3_000, seconds=30, keys=20, seed=11)
PIECES = parts(READ.append_column("note", pc.cast(READ["key"], "string")), 4)
"""With a column that no query computes with."""
SCHEMA = "ts timestamp, key bigint, val double, note string"
SAMPLE = ("rows", "by tuple", "over rows", "landmark", "early and late")
"""The kinds that run with every test run."""
KILLED_KINDS = ["partitioned by time", "by ranks", "session", "slow flush"]


def result_of(spark: SparkSession, kind: str, out: str) -> list[str]:
    """What was written, in the types of the local answer."""
    schema = KINDS[kind](PIECES[0].slice(0, 0)).schema
    return comparable(spark.read.parquet(out).toArrow().select(schema.names).cast(schema))


@pytest.mark.parametrize("kind", sampled([kind for kind in KINDS if kind not in KILLED_KINDS], SAMPLE))
def test_a_restarted_query_answers_as_if_it_never_stopped(kind: str, spark: SparkSession, tmp_path: Path) -> None:
    source, out, checkpoint = tmp_path / "in", str(tmp_path / "out"), str(tmp_path / "checkpoint")
    for i, piece in enumerate(PIECES[:2]):
        write_part(piece, source, i)
    first = KINDS[kind](streaming(spark, source, SCHEMA)).start(checkpoint=checkpoint, results=out, trigger=ONCE)
    first.await_termination()
    assert first.metrics().state_rows > 0
    for i, piece in enumerate(PIECES[2:], start=2):
        write_part(piece, source, i)
    second = KINDS[kind](streaming(spark, source, SCHEMA)).start(checkpoint=checkpoint, results=out)
    second.finish()
    expected = comparable(locally(kind, PIECES))
    assert expected
    assert result_of(spark, kind, out) == expected
    numbers = second.metrics()
    assert (numbers.rows, numbers.late_rows, numbers.state_rows) == (3_000, 0, 0)


def asked(spark: SparkSession, kind: str, place: Path) -> lw.Query:
    return KINDS[kind](streaming(spark, place / "in", SCHEMA))


def test_queries_killed_in_the_middle_of_a_batch_lose_nothing_and_repeat_nothing(
    spark: SparkSession, tmp_path: Path
) -> None:
    for i, piece in enumerate(PIECES):
        write_part(piece, tmp_path / "in", i)
    kill(__name__, KILLED_KINDS, tmp_path)
    for kind in KILLED_KINDS:
        place = tmp_path / kind
        again = asked(spark, kind, tmp_path).start(checkpoint=str(place / "checkpoint"), results=str(place / "out"))
        again.finish()
        assert result_of(spark, kind, str(place / "out")) == comparable(locally(kind, PIECES)), kind
