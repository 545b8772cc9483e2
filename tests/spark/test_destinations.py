"""Outputs other than directories, killed by SIGKILL and started again: nothing lost, nothing twice.

Every query stands at a point of its own when the process is killed: between the writing of a micro-batch and its
commit, and under `make soak` also at ten random ones of the calls that its driver makes to Spark.
"""

from __future__ import annotations

import os
import signal
import sqlite3
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

import lowwater as lw
from benchmarks import jars
from tests.soak import SOAKING
from tests.spark.answers import child, parts, write_part
from tests.spark.destinations import COLUMNS, KINDS, ROWS, destinations, query, read
from tests.spark.small import WITH_DELTA

pytestmark = pytest.mark.spark

NEEDED = {"jdbc": jars.SQLITE, "kafka": jars.CONNECTOR}
WRITTEN = "written"
"""The point behind all writing of micro-batch 2, before its commit."""

PROGRAM = """
import random, sys, threading
from pathlib import Path
from py4j.java_gateway import GatewayClient
from lowwater.backends.spark.sinks import Sinks
from tests.spark.destinations import destinations, prepare, query
from tests.spark.small import session

place, servers, seed, number, *kinds = sys.argv[1:]
spark = session(memory="1g", killed=True)
calls, point, reached = 0, None, threading.Event()
writing = threading.local()


def stand():
    reached.set()
    threading.Event().wait()


def send_command(self, *arguments, act=GatewayClient.send_command, **more):
    global calls
    if getattr(writing, "now", False):
        calls += 1
        if calls == point:
            stand()
    return act(self, *arguments, **more)


def call(self, host, batch, act=Sinks.__call__):
    writing.now = True
    try:
        act(self, host, batch)
    finally:
        writing.now = False


def written(rows, batch):
    if batch == 2 and point == "written":
        stand()


GatewayClient.send_command, Sinks.__call__ = send_command, call


def start(kind, own):
    prepare(spark, kind, own, servers)
    return query(spark, Path(place)).start(
        checkpoint=str(own / "checkpoint"), **destinations(spark, kind, own, servers), progress=written,
        trigger={"availableNow": True}, shards=2,
    )


for kind in kinds:
    points, calls = ["written"], 0
    if int(number):
        start(kind, Path(place) / f"{kind}-counted").await_termination()
        points += random.Random(int(seed)).sample(range(1, calls * 9 // 10), int(number))
    for at in points:  # the next one starts when this one stands
        calls, point, reached = 0, at, threading.Event()
        running = start(kind, Path(place) / f"{kind}-{at}")
        while not reached.wait(0.1):
            if not running.active:
                print("the query ended before its point:", running.spark.exception(), flush=True)
                sys.exit(1)
        print("stands", kind, at, flush=True)
        point = None
print("all stand", flush=True)
sys.stdin.read()
"""


def kill(place: Path, kinds: Sequence[str], servers: str) -> list[tuple[str, str]]:
    """Kills queries at their points, and returns the points with their kinds."""
    running = child(PROGRAM, str(place), servers, "14", "10" if SOAKING else "0", *kinds)
    assert running.stdout is not None
    said = []
    for line in iter(running.stdout.readline, ""):
        said.append(line.strip())
        if said[-1] == "all stand":
            break
    os.killpg(running.pid, signal.SIGKILL)
    running.wait()
    assert said[-1:] == ["all stand"], said[-1:]
    return [(kind, point) for kind, point in (line.split()[1:] for line in said if line.startswith("stands "))]


def counted(df: Any) -> Counter[tuple[Any, ...]]:
    return Counter(tuple(row) for row in df.collect())


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("destinations")
    for number, piece in enumerate(parts(ROWS, 4)):
        write_part(piece, made / "in", number)
    return made


@pytest.fixture(scope="module")
def expected(spark: SparkSession, place: Path) -> dict[str, Counter[tuple[Any, ...]]]:
    """What a query that nobody disturbs writes to directories."""
    outputs = {output: str(place / f"plain-{output}") for output in COLUMNS}
    query(spark, place).start(checkpoint=str(place / "plain"), **outputs, shards=2).finish()
    names = {output: [one.split()[0] for one in columns.split(", ")] for output, columns in COLUMNS.items()}
    found = {output: counted(spark.read.parquet(path).select(*names[output])) for output, path in outputs.items()}
    assert all(found.values()), "there are results and late rows"
    return found


@pytest.fixture(scope="module")
def killed(place: Path, request: pytest.FixtureRequest) -> list[tuple[str, str]]:
    """Kinds and points of the queries that were killed, all in one process."""
    kinds = [kind for kind in KINDS if kind not in NEEDED or NEEDED[kind].there]
    return kill(place, kinds, request.getfixturevalue("kafka") if "kafka" in kinds else "")


@pytest.mark.parametrize("kind", ["jdbc", "table", "kafka", "delta"])
def test_a_killed_query_writes_everything_once(
    kind: str, spark: SparkSession, place: Path, request: pytest.FixtureRequest
) -> None:
    if kind not in KINDS:
        pytest.skip("`make delta` runs the tests of Delta in an environment of its own, and the others run here")
    if kind in NEEDED and not NEEDED[kind].there:
        pytest.skip(jars.missing(NEEDED[kind]))
    servers = request.getfixturevalue("kafka") if kind == "kafka" else ""
    expected = request.getfixturevalue("expected")
    points = [point for of, point in request.getfixturevalue("killed") if of == kind]
    assert points[0] == WRITTEN
    for point in points:
        own = place / f"{kind}-{point}"
        commits = len(list((own / "checkpoint" / "commits").glob("[0-9]*")))
        assert commits == 2 or point != WRITTEN, "batches 0 and 1, and not batch 2"
        into = destinations(spark, kind, own, servers)
        query(spark, place).start(checkpoint=str(own / "checkpoint"), **into).finish()
        for output in COLUMNS:
            found = counted(read(spark, kind, own, servers, output))
            assert found == expected[output], (kind, point, output)


def rows_of(spark: SparkSession, *rows: tuple[Any, ...]) -> DataFrame:
    return spark.createDataFrame(rows, "k bigint, n bigint")


def test_rows_of_a_database_are_replaced_by_key_and_never_added_twice(spark: SparkSession, tmp_path: Path) -> None:
    if not jars.SQLITE.there:
        pytest.skip(jars.missing(jars.SQLITE))
    url = f"jdbc:sqlite:{tmp_path / 'database'}"
    counts = lw.to_jdbc(url, "counts", key="k", driver="org.sqlite.JDBC")
    counts.check(spark)
    output = counts.opened("run", "results")

    def found() -> list[tuple[Any, ...]]:
        with sqlite3.connect(tmp_path / "database") as database:
            return sorted(database.execute("SELECT k, n FROM counts"))

    output.write(rows_of(spark, (1, 1), (2, 1)), 0)
    output.write(rows_of(spark, (1, 2), (3, 1)), 1)
    assert found() == [(1, 2), (2, 1), (3, 1)]
    output.write(rows_of(spark, (1, 9)), 1)
    assert found() == [(1, 2), (2, 1), (3, 1)], "the micro-batch is there already"
    for wrong, sentence in (
        ([(None, 1)], r"The key \(k\) of counts is null in 1 cases"),
        ([(4, 1), (4, 2)], "occurs twice in a micro-batch in 1 cases"),
    ):
        with pytest.raises(lw.LowwaterError, match=sentence):
            output.write(rows_of(spark, *wrong), 2)
    assert found() == [(1, 2), (2, 1), (3, 1)], "nothing of a micro-batch that was refused"
    other = lw.to_jdbc(url, "counts", driver="org.sqlite.JDBC").opened("other", "results")
    other.write(rows_of(spark, (5, 5)), 0)
    assert found()[-1] == (5, 5)


def test_a_micro_batch_of_a_table_replaces_itself(spark: SparkSession, tmp_path: Path) -> None:
    spark.sql(f"CREATE DATABASE IF NOT EXISTS named LOCATION '{tmp_path}'")
    counts = lw.to_table("named.counts")
    counts.check(spark)
    output = counts.opened("run", "results")
    for batch, rows in ((0, [(1, 1)]), (1, [(2, 1), (2, 1)]), (1, [(2, 1), (2, 1)])):
        output.write(rows_of(spark, *rows), batch)
    counts.check(spark)
    assert counted(spark.table("named.counts").select("k", "n")) == {(1, 1): 1, (2, 1): 2}
    with pytest.raises(lw.LowwaterError, match="has the columns k, n, but the rows have k, other"):
        output.write(rows_of(spark, (1, 1)).withColumnRenamed("n", "other"), 2)
    rows_of(spark, (1, 1)).write.saveAsTable("named.foreign")
    with pytest.raises(lw.LowwaterError, match=r"must be partitioned by \(lw_run, lw_batch\)"):
        lw.to_table("named.foreign").check(spark)
    spark.sql("DROP DATABASE named CASCADE")


def test_a_repeated_message_has_the_same_id_and_no_other_one_has_it(spark: SparkSession) -> None:
    def ids(topic: Any, batch: int, *rows: tuple[Any, ...]) -> list[str]:
        messages = topic.opened("0123456789", "results").messages(rows_of(spark, *rows), batch)
        return sorted(bytes(row.headers[0].value).decode() for row in messages.collect())

    plain, keyed = lw.to_kafka("127.0.0.1:1", "topic"), lw.to_kafka("127.0.0.1:1", "topic", key=["k"])
    first = ids(plain, 7, (1, 1), (1, 1), (None, 2))
    assert len(set(first)) == 3
    assert first == ids(plain, 7, (None, 2), (1, 1), (1, 1)) == ids(keyed, 7, (1, 1), (1, 1), (None, 2))
    assert not set(first) & set(ids(plain, 8, (1, 1), (1, 1), (None, 2)))
    assert all(id.startswith("01234567-results-00000007-") for id in first)
    (message,) = keyed.opened("run", "results").messages(rows_of(spark, (None, 2)), 0).collect()
    assert (message.key, message.value) == ('{"k":null}', '{"k":null,"n":2}')


def test_secrets_of_outputs_are_not_shown(spark: SparkSession, tmp_path: Path) -> None:
    hidden = {
        "jdbc:postgresql://h/d?user=u&password=s3cret&ssl=true": {},
        "jdbc:sqlserver://h;user=u;password=s3cret;encrypt=true": {},
        "jdbc:oracle:thin:u/s3cret@//h:1521/d": {},
        "jdbc:mysql://u:s3cret@h/d": {},
        "jdbc:postgresql://h/d": {"user": "u", "password": "s3cret"},
        f"jdbc:sqlite:{tmp_path}/absent/s3cret.db?password=s3cret": {"driver": "org.sqlite.JDBC"},
    }
    for url, options in hidden.items():
        output = lw.to_jdbc(url, "counts", **options)
        assert "s3cret" not in repr(output)
        with pytest.raises(lw.LowwaterError, match=r"The database of to_jdbc\(\) cannot be reached") as refused:
            output.check(spark)
        assert "s3cret" not in str(refused.value)
    assert "s3cret" not in repr(lw.to_delta("abfss://c@a.net/t", **{"fs.azure.account.key.a.net": "s3cret"}))
    assert "s3cret" not in repr(lw.to_kafka("h:9092", "t", **{"kafka.sasl.jaas.config": "s3cret"}))


def test_refusals(spark: SparkSession, place: Path, tmp_path: Path) -> None:
    def start(results: Any) -> None:
        query(spark, place).start(checkpoint=str(tmp_path / "checkpoint"), results=results)

    refused: list[tuple[Any, str]] = [
        (lambda: start(5), r"results= of start\(\) is a directory, one of lw.to_delta\(\).* not int"),
        (lambda: start(lw.to_jdbc("jdbc:none:", "t")), r"The database of to_jdbc\(\) cannot be reached"),
        (lambda: lw.to_jdbc("jdbc:sqlite:x", "t; DROP"), "needs the plain name of a table"),
        (lambda: lw.to_delta(), "needs either a path or table="),
        (lambda: lw.to_table("t", format="delta"), r"use to_delta\(table=...\) for Delta"),
    ]
    if not WITH_DELTA:
        refused.append((lambda: start(lw.to_delta(str(tmp_path / "t"))), "install delta-spark"))
    for act, sentence in refused:
        with pytest.raises(lw.LowwaterError, match=sentence):
            act()
