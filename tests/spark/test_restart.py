"""Stop and restart: nothing lost, nothing twice. The judge is Spark's window() over the files as a batch."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.spark.answers import (
    as_answer,
    assert_same,
    batch_answer,
    parts,
    rows,
    stream_of,
    streaming,
    write_part,
)

pytestmark = pytest.mark.spark

ONCE = {"availableNow": True}


def test_a_query_stopped_and_restarted_between_batches_answers_as_if_it_never_stopped(
    spark: SparkSession, tmp_path: Path
) -> None:
    source, out, checkpoint = tmp_path / "in", str(tmp_path / "out"), str(tmp_path / "checkpoint")
    pieces = parts(rows(), 6)
    for i, piece in enumerate(pieces[:3]):
        write_part(piece, source, i)
    first = stream_of(streaming(spark, source)).start(checkpoint=checkpoint, results=out, trigger=ONCE)
    first.await_termination()
    before = first.metrics()
    for i, piece in enumerate(pieces[3:], start=3):
        write_part(piece, source, i)
    second = stream_of(streaming(spark, source)).start(checkpoint=checkpoint, results=out, trigger=ONCE)
    second.await_termination()
    second.finish()
    assert before.state_rows > 0
    assert second.metrics().rows == rows().num_rows
    assert second.metrics().state_rows == 0
    assert_same(as_answer(spark.read.parquet(out)), batch_answer(spark, source))


def test_a_query_whose_next_micro_batch_is_far_away_is_finished_without_waiting_for_it(
    spark: SparkSession, tmp_path: Path
) -> None:
    """What came after its last micro-batch is processed, too, and before the end."""
    source, out = tmp_path / "in", str(tmp_path / "out")
    pieces = parts(rows(), 3)
    write_part(pieces[0], source, 0)
    query = stream_of(streaming(spark, source)).start(
        checkpoint=str(tmp_path / "checkpoint"), results=out, trigger={"processingTime": "1 day"}
    )
    for i, piece in enumerate(pieces[1:], start=1):
        write_part(piece, source, i)
    query.finish()
    assert (query.metrics().rows, query.metrics().late_rows) == (rows().num_rows, 0)
    assert_same(as_answer(spark.read.parquet(out)), batch_answer(spark, source))
