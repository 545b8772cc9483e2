"""finish() on sources that never pause, its time-out, and what a query knows of itself after a restart."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

import lowwater as lw
from lowwater.backends.spark.checkpoint import Checkpoint
from lowwater.backends.spark.running import RunningQuery
from tests.spark.answers import as_answer, assert_same, batch_answer, parts, rows, stream_of, streaming, write_part

pytestmark = pytest.mark.spark

ONCE = {"availableNow": True}


def counted(df: DataFrame, place: Path, time: str, length: Any) -> RunningQuery:
    stream = lw.stream(df, name="never pauses", progress=time, disorder=lw.ordered())
    query = stream.window(range=length).agg(n=lw.count())
    outputs = {"results": str(place / "out"), "late": str(place / "late")}
    running: RunningQuery = query.start(checkpoint=str(place / "checkpoint"), shards=2, **outputs)
    while running.metrics().rows == 0:
        running.await_termination(0.1)
    return running


def assert_complete(running: RunningQuery, spark: SparkSession, place: Path) -> None:
    """Every row that was read is in a result, or came behind the end."""
    metrics = running.metrics()
    total = sum(row.n for row in spark.read.parquet(str(place / "out")).collect())
    assert not running.active
    assert (metrics.low_watermark, metrics.state_rows) == ("end", 0)
    assert total + metrics.late_rows == metrics.rows
    assert total > 0
    assert {row.late_reason for row in spark.read.parquet(str(place / "late")).collect()} <= {"the stream has ended"}


def test_a_rate_source_is_finished(spark: SparkSession, tmp_path: Path) -> None:
    rate = spark.readStream.format("rate").option("rowsPerSecond", 50).load()
    running = counted(rate, tmp_path, "timestamp", "1 second")
    running.finish(timeout=600)
    assert_complete(running, spark, tmp_path)
    assert running.metrics().late_rows == 0


@contextmanager
def numbers() -> Iterator[int]:
    """The port of a server that sends the numbers from 0 on, one per line, to each client."""
    ended = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve(to: socket.socket) -> None:
            with to:
                for start in range(0, 1 << 30, 10):
                    if ended.wait(0.01):
                        return
                    try:
                        to.sendall("".join(f"{n}\n" for n in range(start, start + 10)).encode())
                    except OSError:
                        return

        def accept() -> None:
            while not ended.is_set():
                try:
                    threading.Thread(target=serve, args=(server.accept()[0],), daemon=True).start()
                except OSError:
                    return

        threading.Thread(target=accept, daemon=True).start()
        try:
            yield server.getsockname()[1]
        finally:
            ended.set()
            server.shutdown(socket.SHUT_RDWR)


def test_a_socket_is_finished_while_it_is_read(spark: SparkSession, tmp_path: Path) -> None:
    with numbers() as port:
        lines = spark.readStream.format("socket").option("host", "127.0.0.1").option("port", port).load()
        running = counted(lines.selectExpr("CAST(value AS BIGINT) AS at"), tmp_path, "at", 10)
        with pytest.raises(lw.LowwaterError, match=r"has not come to the end within its time-out.* The query goes on"):
            running.finish(timeout=0)
        running.finish(timeout=600)
        assert_complete(running, spark, tmp_path)
        with pytest.raises(lw.LowwaterError, match="reads a socket, which cannot be read again, and has stopped"):
            running.finish()


def test_after_a_timeout_finish_goes_on(spark: SparkSession, tmp_path: Path) -> None:
    for i, piece in enumerate(parts(rows(3_000), 3)):
        write_part(piece, tmp_path / "in", i)
    running = stream_of(streaming(spark, tmp_path / "in")).start(
        checkpoint=str(tmp_path / "checkpoint"), results=str(tmp_path / "out"), shards=2
    )
    for _ in range(2):
        with pytest.raises(lw.LowwaterError, match=r"within its time-out, after \d+ rows in all. The query is stopped"):
            running.finish(timeout=0)
    running.finish(timeout=600)
    assert running.metrics().rows == 3_000
    assert_same(as_answer(spark.read.parquet(str(tmp_path / "out"))), batch_answer(spark, tmp_path / "in"))


def test_metrics_are_remembered_by_the_checkpoint(spark: SparkSession, tmp_path: Path) -> None:
    for i, piece in enumerate(parts(rows(3_000), 3)):
        write_part(piece, tmp_path / "in", i)
    options = {"checkpoint": str(tmp_path / "checkpoint"), "results": str(tmp_path / "out"), "trigger": ONCE}
    first = stream_of(streaming(spark, tmp_path / "in")).start(**options, shards=2)
    first.await_termination()
    again = stream_of(streaming(spark, tmp_path / "in")).start(**options)
    again.await_termination()
    assert not again.spark.recentProgress or not again.spark.lastProgress.numInputRows, "nothing new"
    assert again.metrics() == first.metrics()
    assert again.metrics().rows == 3_000
    again.finish()
    assert again.metrics().low_watermark == "end"


def test_metrics_of_a_batch_that_was_not_committed_do_not_count(spark: SparkSession, tmp_path: Path) -> None:
    place = Checkpoint(spark, str(tmp_path))
    assert place.remembered() is None
    (tmp_path / "commits").mkdir()
    for batch in range(4):
        place.remember(batch, f'{{"rows": {batch}}}')
        assert place.remembered() == (None if batch == 0 else {"rows": batch - 1}), "those of the one before"
        (tmp_path / "commits" / str(batch)).touch()
        assert place.remembered() == {"rows": batch}
    (tmp_path / "commits" / "4").touch()  # by a rescale
    assert place.remembered() == {"rows": 3}


def links(spark: SparkSession, place: Path, sources: tuple[str, ...], **more: Any) -> lw.Query:
    rows = streaming(spark, place / "in")
    stream = lw.stream(rows, name="links", progress="ts", disorder="3 seconds", source="key", sources=sources, **more)
    return stream.window(range="10 seconds").agg(n=lw.count())


def test_sources_and_idle_may_change_on_a_checkpoint(spark: SparkSession, tmp_path: Path) -> None:
    pieces = parts(rows(900, keys=3), 3)
    write_part(pieces[0], tmp_path / "in", 0)
    options = {"checkpoint": str(tmp_path / "checkpoint"), "results": str(tmp_path / "out")}
    first = links(spark, tmp_path, ("0", "1", "2", "misspelt")).start(**options, trigger=ONCE, shards=2)
    first.await_termination()
    assert (first.metrics().held_back_by, first.metrics().result_rows) == ("links/misspelt", 0)

    write_part(pieces[1], tmp_path / "in", 1)
    second = links(spark, tmp_path, ("0", "1", "2")).start(**options, trigger=ONCE)
    second.await_termination()
    assert second.metrics().result_rows > 0
    assert [source.source for source in second.metrics().sources] == ["0", "1", "2"]

    third = links(spark, tmp_path, ("0", "1", "2", "3"), idle=lw.idle(after="1 second", lag="1 second"))
    advanced = third.start(**options)
    while advanced.metrics().state_rows > 0:  # until the clock, decades ahead of the data, has closed all windows
        assert not advanced.await_termination(0.1)
    advanced.stop()

    write_part(pieces[2], tmp_path / "in", 2)
    fourth = links(spark, tmp_path, ("0", "1", "2")).start(**options)
    fourth.finish(timeout=600)
    assert fourth.metrics().rows == 900
    total = sum(row.n for row in spark.read.parquet(options["results"]).collect())
    assert total + fourth.metrics().dropped_rows == 900


def test_a_repeated_batch_belongs_to_the_start_that_planned_it(spark: SparkSession, tmp_path: Path) -> None:
    place = Checkpoint(spark, str(tmp_path))
    assert place.starts() == (0,)
    assert place.starts() == (0,), "killed before a micro-batch was planned"
    for batch in range(8):
        (tmp_path / "offsets").mkdir(exist_ok=True)
        (tmp_path / "offsets" / str(batch)).touch()
    assert place.starts() == (0, 8), "7 is repeated as a micro-batch of the first start, 8 is the first of this one"
    assert place.starts() == (0, 8)
    (tmp_path / "offsets" / "8").touch()
    assert place.starts() == (8, 9)
