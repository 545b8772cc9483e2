"""Executors that are other processes: the package ships itself to them, and the loss of one changes nothing.

A standalone cluster has a master and two workers as processes of their own; one worker is killed in a micro-batch.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import pyspark
import pytest
from pyspark.sql import SparkSession

from tests.soak import only_soaking
from tests.spark.answers import as_answer, assert_same, batch_answer, parts, rows, write_part
from tests.spark.server import ROOT, environment, free_port

pytestmark = pytest.mark.spark

CLUSTER = """
import json, os, signal, sys
from pathlib import Path
import pyarrow as pa
from lowwater.backends.spark.directory import OutputDirectory
from tests.spark.answers import stream_of, streaming
from tests.spark.small import session

source, out, checkpoint, master, victim = sys.argv[1:]
both = {"spark.scheduler.minRegisteredResourcesRatio": "1", "spark.cores.max": "2", "spark.executor.cores": "1"}
spark = session(master, "1g", killed=True, **both)
killed = []


def executors():
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and os.getpgid(int(entry.name)) == os.getpgid(0):
            line = (entry / "cmdline").read_bytes().split(b"\\0")
            if line[0].endswith(b"java") and any(b"CoarseGrainedExecutorBackend" in word for word in line):
                found.append(int(entry.name))
    return sorted(found)


def begin(directory, batch, begin=OutputDirectory.begin):
    begin(directory, batch)
    if batch == 2 and not killed:  # tasks of this batch are lost and run again
        killed.append(int(victim or executors()[0]))
        (os.killpg if victim else os.kill)(killed[0], signal.SIGKILL)


OutputDirectory.begin = begin


query = stream_of(streaming(spark, Path(source))).start(checkpoint=checkpoint, results=out, shards=2)
query.finish()


def where(batches):
    import lowwater
    for batch in batches:
        yield pa.RecordBatch.from_pydict({"file": [lowwater.__file__]})


shipped = {row.file for row in spark.range(4).repartition(4).mapInArrow(where, "file string").collect()}
print(json.dumps({"killed": killed, "rows": query.metrics().rows, "shipped": sorted(shipped)}), flush=True)
spark.stop()
"""


def run(tmp_path: Path, master: str, victim: str = "") -> dict[str, Any]:
    """Runs the query over four files in a process of its own, with an executor or a worker killed in batch 2."""
    for i, piece in enumerate(parts(rows(), 4)):
        write_part(piece, tmp_path / "in", i)
    places = [str(tmp_path / name) for name in ("in", "out", "checkpoint")]
    child = subprocess.Popen(
        [sys.executable, "-c", CLUSTER, *places, master, victim],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=ROOT,
        env=environment(),
        start_new_session=True,
        text=True,
    )
    try:
        told, errors = child.communicate()
    finally:
        if child.poll() is None:
            os.killpg(child.pid, signal.SIGKILL)
    lines = [line for line in told.splitlines() if line.startswith("{")]
    assert lines, errors[-3000:]
    report: dict[str, Any] = json.loads(lines[-1])
    assert len(report["killed"]) == 1
    assert report["rows"] == rows().num_rows
    assert all(".zip" in file for file in report["shipped"]), "executors must run the shipped package"
    return report


@only_soaking
@pytest.mark.skipif(not Path("/proc").is_dir(), reason="finds executors through /proc")
def test_an_executor_killed_in_the_middle_changes_nothing(spark: SparkSession, tmp_path: Path) -> None:
    run(tmp_path, "local-cluster[2,1,2048]")
    assert_same(as_answer(spark.read.parquet(str(tmp_path / "out"))), batch_answer(spark, tmp_path / "in"))


@contextmanager
def daemon(log: Path, name: str, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """A master or a worker, in a process group of its own with all that it starts."""
    home = os.environ.get("SPARK_HOME") or str(Path(pyspark.__file__).parent)
    command = [f"{home}/bin/spark-class", f"org.apache.spark.deploy.{name}", "--webui-port", "0", *arguments]
    with log.open("w") as said:
        process = subprocess.Popen(
            command, cwd=ROOT, env=environment(), stdout=said, stderr=said, start_new_session=True
        )
        try:
            yield process
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def test_a_worker_of_a_standalone_cluster_killed_in_the_middle_changes_nothing(
    spark: SparkSession, tmp_path: Path
) -> None:
    """The worker dies with its executor, its Python workers and the state that they had in memory and on disk."""
    port = free_port()
    master = f"spark://127.0.0.1:{port}"
    limits = ("--cores", "1", "--memory", "1g", "--host", "127.0.0.1")
    with ExitStack() as cluster:
        cluster.enter_context(
            daemon(tmp_path / "master.log", "master.Master", "--host", "127.0.0.1", "--port", str(port))
        )
        workers = [
            cluster.enter_context(
                daemon(
                    tmp_path / f"{n}.log",
                    "worker.Worker",
                    *limits,
                    "--work-dir",
                    str(tmp_path / f"w{n}"),
                    master,
                )
            )
            for n in range(2)
        ]
        report = run(tmp_path, master, str(workers[0].pid))
        assert report["killed"] == [workers[0].pid]
        assert workers[0].wait() == -signal.SIGKILL
        assert workers[1].poll() is None
    assert_same(as_answer(spark.read.parquet(str(tmp_path / "out"))), batch_answer(spark, tmp_path / "in"))
