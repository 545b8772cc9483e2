"""Stop, crash and restart: nothing lost, nothing twice. The judge is Spark's window() over the files as a batch."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from tests.spark.answers import (
    as_answer,
    assert_same,
    batch_answer,
    child,
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


KILLED = """
import sys
from pyspark.sql import SparkSession
from tests.spark.answers import stream_of, streaming
from pathlib import Path

source, out, checkpoint = sys.argv[1:]
spark = (
    SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    .config("spark.ui.showConsoleProgress", "false").config("spark.driver.memory", "1g").getOrCreate()
)
spark.sparkContext.setLogLevel("OFF")


def sink(rows, batch):
    rows.write.mode("overwrite").parquet(f"{out}/lw_batch={batch:08d}")
    if batch == 3:  # state is computed and results are written, but the batch is not committed
        print("in the middle of batch 3", flush=True)
        sys.stdin.read()


query = stream_of(streaming(spark, Path(source))).start(
    checkpoint=checkpoint, results=sink, trigger={"availableNow": True}
)
query.await_termination()
"""


def test_a_process_killed_in_the_middle_of_a_batch_loses_nothing_and_repeats_nothing(
    spark: SparkSession, tmp_path: Path
) -> None:
    source, out, checkpoint = tmp_path / "in", str(tmp_path / "out"), str(tmp_path / "checkpoint")
    for i, piece in enumerate(parts(rows(), 6)):
        write_part(piece, source, i)
    running = child(KILLED, str(source), out, checkpoint)
    assert running.stdout is not None
    said = next((line for line in iter(running.stdout.readline, "") if line.startswith("in the middle")), None)
    os.killpg(running.pid, signal.SIGKILL)
    running.wait()
    assert said, "the child ended before batch 3"
    commits = list((tmp_path / "checkpoint" / "commits").glob("[0-9]*"))
    assert len(commits) == 3, "batches 0 to 2 were committed, batch 3 was not"

    def sink(rows: DataFrame, batch: int) -> None:
        rows.write.mode("overwrite").parquet(f"{out}/lw_batch={batch:08d}")

    again = stream_of(streaming(spark, source)).start(checkpoint=checkpoint, results=sink, trigger=ONCE)
    again.await_termination()
    again.finish()
    assert again.metrics().rows == rows().num_rows
    assert_same(as_answer(spark.read.parquet(out)), batch_answer(spark, source))
