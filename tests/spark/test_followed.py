"""A stream that reads a results directory while it is written sees each row once, also when micro-batches repeat."""

from __future__ import annotations

import os
import random
import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lowwater.backends.spark import sinks
from tests.soak import SOAKING
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
COLUMNS = "window_end timestamp, key bigint, n bigint, s double, m double"


class Follower:
    """Reads directories as a stream, the whole time, and counts every row with the directory that it is from."""

    def __init__(self, spark: SparkSession, directories: str, checkpoint: Path) -> None:
        self.seen: Counter[tuple[Any, ...]] = Counter()
        self._spark = spark
        reader = spark.readStream.schema(COLUMNS).option("recursiveFileLookup", True).parquet(directories)
        found = reader.select(F.element_at(F.split("_metadata.file_path", "/"), -4).alias("of"), "*")
        self._stream = found.writeStream.foreachBatch(self._take).option("checkpointLocation", str(checkpoint)).start()

    def _take(self, rows: DataFrame, batch: int) -> None:
        self.seen.update(tuple(row) for row in rows.collect())

    def catch_up(self) -> None:
        self._stream.processAllAvailable()

    def stop(self) -> None:
        self._stream.stop()

    def assert_once(self, of: str, directory: Path) -> None:
        """Each row of the directory was seen, and once."""
        self.catch_up()
        names = [column.split()[0] for column in COLUMNS.split(", ")]
        expected = self._spark.read.parquet(str(directory)).select(*names)
        own = Counter({row[1:]: n for row, n in self.seen.items() if row[0] == of})
        assert own == Counter(tuple(row) for row in expected.collect())
        assert set(own.values()) == {1}


@pytest.fixture
def follower(spark: SparkSession, tmp_path: Path) -> Iterator[Follower]:
    """Follows the directories `out` of everything in `tmp_path / "runs"`."""
    (tmp_path / "runs").mkdir()
    found = Follower(spark, str(tmp_path / "runs" / "*" / "out"), tmp_path / "follower")
    yield found
    found.stop()


@pytest.mark.parametrize("writer", ["arrow", "spark"])
def test_a_batch_repeated_by_hand_is_seen_once(
    spark: SparkSession, tmp_path: Path, follower: Follower, writer: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if writer == "spark":
        monkeypatch.setattr(sinks, "written_by_arrow", lambda schema: False)
    source, place = tmp_path / "in", tmp_path / "runs" / writer
    for i, piece in enumerate(parts(rows(600, keys=5), 2)):
        write_part(piece, source, i)
    options = {"checkpoint": str(place / "checkpoint"), "results": str(place / "out"), "trigger": ONCE, "shards": 2}
    stream_of(streaming(spark, source)).start(**options).await_termination()
    follower.catch_up()
    before = sum(follower.seen.values())
    for file in ("1", ".1.crc"):  # as after a crash between the results and the commit
        (place / "checkpoint" / "commits" / file).unlink()
    again = stream_of(streaming(spark, source)).start(**options)
    again.await_termination()
    assert [progress.batchId for progress in again.spark.recentProgress] == [1], "repeated"
    follower.assert_once(writer, place / "out")
    assert sum(follower.seen.values()) == before > 0


KILLED = """
import sys, threading
from pathlib import Path
from pyspark.sql import SparkSession
from lowwater.backends.spark.files import PlainFiles
from tests.spark.answers import stream_of, streaming

place, *points = sys.argv[1:]
spark = (
    SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    .config("spark.ui.showConsoleProgress", "false").config("spark.driver.memory", "1g").getOrCreate()
)
spark.sparkContext.setLogLevel("OFF")
count, point, reached = 0, 0, threading.Event()


def counting(name):
    act = getattr(PlainFiles, name)

    def counted(self, *arguments):
        global count
        count += 1
        if count == point:
            reached.set()
            threading.Event().wait()
        return act(self, *arguments)

    return counted


for name in ("replace", "write", "delete"):
    setattr(PlainFiles, name, counting(name))
for text in points:  # the next one starts when this one stands
    count, point, reached = 0, int(text), threading.Event()
    own = Path(place) / "runs" / text
    query = stream_of(streaming(spark, Path(place) / "in")).start(
        checkpoint=str(own / "checkpoint"), results=str(own / "out"), trigger={"availableNow": True}, shards=2
    )
    while not reached.wait(0.1):
        if not query.active:
            sys.exit("the query ended before its point")
print("all stand", flush=True)
sys.stdin.read()
"""
"""Queries that stop for ever before a given one of the renames, writes and deletes that their driver makes."""


def test_queries_killed_at_random_points_are_seen_once(spark: SparkSession, tmp_path: Path, follower: Follower) -> None:
    """A start makes 6 changes to files, and a micro-batch 7 or 8: the points are in micro-batches 0 to 5."""
    points = random.Random(15).sample(range(8, 46), 10)
    if not SOAKING:  # one that is drawn first, and one between the renames of a micro-batch
        points = [points[0], next(point for point in points[1:] if (point - 7) % 8 in (2, 3))]
    for i, piece in enumerate(parts(rows(600, keys=5), 6)):
        write_part(piece, tmp_path / "in", i)
    running = child(KILLED, str(tmp_path), *map(str, points))
    assert running.stdout is not None
    line = next((line for line in iter(running.stdout.readline, "") if line.startswith("all stand")), None)
    os.killpg(running.pid, signal.SIGKILL)
    running.wait()
    assert line, "the child ended before all queries stood"
    follower.catch_up()
    expected = batch_answer(spark, tmp_path / "in")
    for point in points:
        own = tmp_path / "runs" / str(point)
        again = stream_of(streaming(spark, tmp_path / "in")).start(
            checkpoint=str(own / "checkpoint"), results=str(own / "out"), trigger=ONCE
        )
        again.await_termination()
        follower.assert_once(str(point), own / "out")
        got = as_answer(spark.read.parquet(str(own / "out")))
        closed = max(end for end, _ in got)
        assert_same(got, {key: value for key, value in expected.items() if key[0] <= closed})
