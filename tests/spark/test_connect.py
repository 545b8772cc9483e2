"""Spark Connect: tests of the classic session, run on a real server; a client that is killed; topics and outputs.

Tests of every window kind, every join kind, restart, late rows, metrics and outputs are the same as on a classic
session, with the same judges. `make connect` runs all of them, this file the core.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from pyspark.sql import SparkSession

from benchmarks import jars
from benchmarks.broker import create_topic
from tests.soak import SOAKING, only_soaking
from tests.spark import kinds, topics
from tests.spark.answers import parts, write_part
from tests.spark.destinations import COLUMNS, KINDS, ROWS, destinations, prepare, query, read
from tests.spark.server import client, connect_server, run_tests
from tests.spark.small import with_jars
from tests.spark.test_destinations import NEEDED, counted

pytestmark = pytest.mark.spark

CORE = [
    "tests/spark/test_kinds.py::test_a_restarted_query_answers_as_if_it_never_stopped[rows]",
    "tests/spark/test_joins.py::test_a_restarted_join_answers_as_if_it_never_stopped[counted]",
    "tests/spark/test_outputs.py::test_late_and_null_rows_come_out_with_their_reason_and_are_counted",
    "tests/spark/test_outputs.py::test_progress_output_names_the_source_that_holds_back",
    "tests/spark/test_outputs.py::test_a_batch_dataframe_takes_the_same_path_and_closes_every_window",
    "tests/spark/test_columns.py::test_a_filter_on_an_aggregate_counts_what_spark_counts",
    "tests/spark/test_connected.py",
]
ALL = [
    "tests/spark/test_kinds.py",
    "tests/spark/test_joins.py",
    "tests/spark/test_outputs.py",
    "tests/spark/test_restart.py",
    "tests/spark/test_parquet.py",
    "tests/spark/test_analyze.py",
    "tests/spark/test_columns.py",
    "tests/spark/test_composed.py",
    "tests/spark/test_connected.py",
    "tests/spark/test_watching.py",
]
NOT = [
    "a_silent_source_is_advanced",  # its function sets an event of the test's own process
    "is_moved_to_other_numbers_of_partitions",  # Spark Connect cannot repartition a checkpoint, and rescale() says so
    "what_cannot_be_rescaled",
]
"""Tests that cannot run there, with the reason."""


@pytest.fixture(scope="module")
def remote(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with connect_server(tmp_path_factory.mktemp("connect"), **with_jars()) as address:
        yield address


def test_the_core_of_the_spark_tests_passes_on_a_connect_server(remote: str) -> None:
    said = run_tests(remote, CORE)
    assert "skipped" not in said, said


@pytest.mark.soak
@pytest.mark.skipif(not SOAKING, reason="runs under `make soak` and `make connect`")
@pytest.mark.parametrize("file", ALL)
def test_the_spark_tests_pass_on_a_connect_server(file: str, remote: str) -> None:
    run_tests(remote, [file], "-k", " and ".join(f"not {name}" for name in NOT))


KILLED = """
import sys
from pathlib import Path
from tests.spark import kinds
from tests.spark.small import session

place, kind, reached = sys.argv[1:]


def stand(rows, batch):
    if batch == 1:
        open(reached, "w").close()  # waits until the test reads it


query = kinds.KINDS[kind](kinds.streaming(session(), Path(place) / "in")).start(
    checkpoint=f"{place}/checkpoint", results=f"{place}/out", progress=stand
)
query.await_termination()
"""

AGAIN = """
import sys
from pathlib import Path
from tests.spark import kinds
from tests.spark.small import session

place, kind = sys.argv[1:]
query = kinds.KINDS[kind](kinds.streaming(session(), Path(place) / "in")).start(
    checkpoint=f"{place}/checkpoint", results=f"{place}/out"
)
query.finish()
metrics = query.metrics()
print(metrics.rows, metrics.late_rows, metrics.state_rows)
"""


def answers(directory: Path, schema: pa.Schema) -> pa.Table:
    found = ds.dataset(directory, format="parquet", partitioning="hive").to_table(columns=schema.names)
    return found.cast(schema)


def release(process: subprocess.Popen[str], waiting: Path) -> None:
    """Lets a reader of a named pipe go when the process has ended that was to write to it."""
    process.wait()
    with suppress(OSError):  # nobody reads
        os.close(os.open(waiting, os.O_WRONLY | os.O_NONBLOCK))


@pytest.mark.parametrize("kind", ["sliding"])
def test_a_client_killed_in_the_middle_of_a_batch_loses_nothing_and_repeats_nothing(
    kind: str, remote: str, tmp_path: Path
) -> None:
    """The server goes on with the query of the dead client; another client takes it over by its checkpoint."""
    for number, piece in enumerate(kinds.PIECES):
        write_part(piece, tmp_path / "in", number)
    reached = tmp_path / "reached"
    os.mkfifo(reached)
    first = client(remote, KILLED, str(tmp_path), kind, str(reached))
    threading.Thread(target=lambda: release(first, reached), daemon=True).start()
    with reached.open():
        assert first.poll() is None, "the client must live until it is killed"
        os.killpg(first.pid, signal.SIGKILL)
    first.wait()
    said, errors = client(remote, AGAIN, str(tmp_path), kind).communicate()
    assert said.split() == ["3000", "0", "0"], errors[-3000:]
    local = kinds.locally(kind)
    found = answers(tmp_path / "out", local.plan.result_schema)
    assert found.num_rows
    assert kinds.comparable(found) == kinds.comparable(local.result())


TOPIC = """
import json, sys
import lowwater as lw
from tests.spark.small import session

place, servers = sys.argv[1:]
options = {"topics": "asked", "value": "json", "progress": "ts", "startingOffsets": "earliest"}
stream = lw.kafka(session(), servers=servers, disorder="1 second", **options)
places = {name: f"{place}/{name}" for name in ("checkpoint", "results", "late")}
running = stream.window("5 seconds").agg(n=lw.count()).start(**places, shards=2)
while running.metrics().rows < 21:
    assert not running.await_termination(0.1)
before = running.metrics()
running.finish(timeout=600)
numbers = [running.metrics().rows, running.metrics().null_rows, running.metrics().late_rows]
sources = [source.source for source in before.sources]
print(json.dumps({"held_back_by": before.held_back_by, "sources": sources, "numbers": numbers}))
"""


@only_soaking
def test_partitions_of_a_topic_are_sources_on_connect_too(
    remote: str, spark: SparkSession, kafka: str, tmp_path: Path
) -> None:
    """Columns are inferred, and the partition that has no message is known: both without a JVM."""
    create_topic(spark, kafka, "asked", 3)
    good = "to_json(struct(timestamp_seconds(id) AS ts, id AS key)) AS value"
    topics.send(spark.range(20).coalesce(1).selectExpr(good, "cast(id % 2 AS int) AS partition"), kafka, "asked")
    topics.send(spark.createDataFrame([("no JSON", 0)], "value string, partition int"), kafka, "asked")
    said, errors = client(remote, TOPIC, str(tmp_path), kafka).communicate()
    assert said, errors[-3000:]
    assert json.loads(said.splitlines()[-1]) == {
        "held_back_by": "asked/asked-2",
        "sources": ["asked-0", "asked-1", "asked-2"],
        "numbers": [21, 1, 0],
    }
    assert sorted(row.n for row in spark.read.parquet(str(tmp_path / "results")).collect()) == [5, 5, 5, 5]
    (late,) = spark.read.parquet(str(tmp_path / "late")).collect()
    assert bytes(late.kafka_unread) == b"no JSON"


OUTPUTS = """
import sys
from pathlib import Path
import lowwater as lw
from tests.spark.destinations import destinations, query
from tests.spark.small import session

place, servers, *kinds = sys.argv[1:]
spark = session()
for kind in kinds:
    own = Path(place) / kind
    outputs = {"checkpoint": str(own / "checkpoint"), **destinations(spark, kind, own, servers)}
    first = query(spark, Path(place)).start(**outputs)
    first.process_available()
    first.stop()
    last = max((own / "checkpoint" / "commits").glob("[0-9]*"), key=lambda path: int(path.name))
    last.unlink()  # as after a kill before the commit: its rows are written, and it is repeated
    query(spark, Path(place)).start(**outputs).finish()
try:
    query(spark, Path(place)).start(checkpoint=f"{place}/refused", results=lw.to_jdbc("jdbc:sqlite:x", "t"))
except lw.LowwaterError as error:
    print(error)
"""


@only_soaking
def test_outputs_that_do_not_repeat_themselves_on_connect(
    remote: str, spark: SparkSession, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """A micro-batch whose commit is lost is written again by the server: nothing lost, nothing twice."""
    for number, piece in enumerate(parts(ROWS, 2)):
        write_part(piece, tmp_path / "in", number)
    plain = {output: str(tmp_path / f"plain-{output}") for output in COLUMNS}
    query(spark, tmp_path).start(checkpoint=str(tmp_path / "plain"), **plain, shards=2).finish()
    tried = [kind for kind in KINDS if kind != "jdbc" and (kind not in NEEDED or NEEDED[kind].there)]
    servers = request.getfixturevalue("kafka") if "kafka" in tried and jars.BROKER.there else ""
    for kind in tried:
        prepare(spark, kind, tmp_path / kind, servers)
    said, errors = client(remote, OUTPUTS, str(tmp_path), servers, *tried).communicate()
    assert "to_jdbc(), whose rows the driver moves in a transaction, needs a classic session" in said, errors[-3000:]
    for kind in tried:
        destinations(spark, kind, tmp_path / kind, servers)  # the catalog here learns what that of the server has
        for output, columns in COLUMNS.items():
            names = [one.split()[0] for one in columns.split(", ")]
            expected = counted(spark.read.parquet(plain[output]).select(*names))
            assert expected
            assert counted(read(spark, kind, tmp_path / kind, servers, output)) == expected, (kind, output)
