"""`lowwater run` in a process of its own: killed, ended by signals, run again."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pytest

from lowwater.shell.running import signalled
from tests.language_runs import defined, query_of
from tests.soak import sampled
from tests.tree_oracle import unlike

pytestmark = pytest.mark.spark

STREAM = """
CREATE STREAM {name} (ts TIMESTAMP, srcIP STRING, len INT)
PROGRESS ts DISORDER 3 SECONDS
FROM packets OPTIONS (link '{name}', rows 3000, seconds 900, seed 3, hosts 12, quiet 0.2, files 8);
"""
QUERIES = (
    "SELECT srcIP, count(*) AS n, sum(len) AS bytes FROM Main1 [RANGE 2 minutes, SLIDE 1 minute, WA ts] GROUP BY srcIP",
    "SELECT max(len) AS longest FROM Main2 [RANGE 1 minute, SLIDE 1 minute, WA ts]",
    "SELECT max(len) AS longest FROM Main1 [RANGE 1 minute, SLIDE 1 minute, WA ts] WHERE srcIP <> ''",
)
"""The first and the third share a stream, so that they run together."""


def child(*arguments: str) -> subprocess.Popen[str]:
    """The command line in a process group of its own, so that its JVM and workers can be killed with it."""
    command = [sys.executable, "-c", "from lowwater.cli import app; app()", *arguments]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
    )


def until(running: subprocess.Popen[str], rows: int) -> list[str]:
    """Reads lines until a query has read so many rows and not all."""
    said: list[str] = []
    assert running.stdout is not None
    for line in iter(running.stdout.readline, ""):
        said.append(line)
        if " rows, " in line and int(line.split(": ")[1].split(" rows")[0].replace(",", "")) >= rows:
            return said
    raise AssertionError("".join(said))


def answers(directory: Path, like: pa.Table) -> pa.Table:
    found: Any = ds.dataset(directory, format="parquet", partitioning="hive").to_table(columns=like.column_names)
    return found.cast(like.schema)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    text = STREAM.format(name="Main1") + STREAM.format(name="Main2")
    for number, query in enumerate(QUERIES, start=1):
        text += f"INSERT INTO parquet OPTIONS (path '{tmp_path}/out{number}') {query};\n"
    path = tmp_path / "queries.sql"
    path.write_text(text)
    return path


def expected(tmp_path: Path, number: int) -> pa.Table:
    path = tmp_path / f"expected{number}.sql"
    path.write_text(STREAM.format(name="Main1") + STREAM.format(name="Main2") + QUERIES[number - 1])
    return defined(query_of(path))


def assert_complete_once(tmp_path: Path) -> None:
    for number in range(1, len(QUERIES) + 1):
        judge = expected(tmp_path, number)
        assert judge.num_rows > 10
        assert unlike(answers(tmp_path / f"out{number}", judge), judge) == ""


@pytest.mark.parametrize("by", sampled([signal.SIGTERM, signal.SIGINT], 1))
def test_killed_ended_by_a_signal_and_run_again_gives_the_complete_answer_once(
    by: signal.Signals, file: Path, tmp_path: Path
) -> None:
    """One checkpoint through four runs: killed, ended in good order, run to the end, and asked once more."""
    arguments = ["run", str(file), "--checkpoint", str(tmp_path / "state")]
    running = child(*arguments)
    until(running, 100)
    os.killpg(running.pid, signal.SIGKILL)
    running.wait()
    again = child(*arguments)
    until(again, 100)
    again.send_signal(by)
    said, _ = again.communicate()
    assert again.returncode == 0, said
    assert "Traceback" not in said
    for finished in (0, len(QUERIES)):
        more = child(*arguments)
        said, _ = more.communicate()
        assert (more.returncode, said.count("finished already")) == (0, finished), said
        assert_complete_once(tmp_path)
    checkpoints = {one.name for one in (tmp_path / "state").iterdir()}
    assert checkpoints == {"query1-together", "query2"}


@pytest.mark.parametrize("by", [signal.SIGTERM, signal.SIGINT])
def test_either_signal_asks_for_the_end_and_means_afterwards_what_it_meant(by: signal.Signals) -> None:
    before = signal.getsignal(by)
    with signalled() as asked:
        signal.raise_signal(by)
        assert asked.is_set()
    assert signal.getsignal(by) is before


def test_a_query_that_fails_is_one_sentence_without_a_trace(tmp_path: Path) -> None:
    path = tmp_path / "fails.sql"
    path.write_text(STREAM.format(name="Main1") + "SELECT ts, 10 / (len - len) AS broken FROM Main1;\n")
    running = child("run", str(path))
    said, _ = running.communicate()
    assert running.returncode == 2, said
    (line,) = said.strip().splitlines()
    assert line.startswith("query1 has failed: ArithmeticException: [DIVIDE_BY_ZERO] Division by zero.")
