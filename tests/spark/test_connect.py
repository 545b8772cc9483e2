"""Spark Connect: tests of the classic session, run on a real server; and a client that is killed.

Tests of every window kind, every join kind, restart, late rows, metrics and outputs are the same as on a classic
session, with the same judges. `make connect` runs all of them, this file the core.
"""

from __future__ import annotations

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

from tests.soak import SOAKING
from tests.spark import kinds
from tests.spark.answers import write_part
from tests.spark.server import client, connect_server, run_tests

pytestmark = pytest.mark.spark

CORE = [
    "tests/spark/test_kinds.py::test_a_restarted_query_answers_as_if_it_never_stopped[rows]",
    "tests/spark/test_joins.py::test_a_restarted_join_answers_as_if_it_never_stopped[counted]",
    "tests/spark/test_outputs.py::test_late_and_null_rows_come_out_with_their_reason_and_are_counted",
    "tests/spark/test_outputs.py::test_progress_output_names_the_source_that_holds_back",
    "tests/spark/test_outputs.py::test_a_batch_dataframe_takes_the_same_path_and_closes_every_window",
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
]
NOT = [
    "a_silent_source_is_advanced",  # its function sets an event of the test's own process
]
"""Tests that cannot run there, with the reason."""


@pytest.fixture(scope="module")
def remote(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with connect_server(tmp_path_factory.mktemp("connect")) as address:
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
