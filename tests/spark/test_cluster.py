"""Executors that are other processes: the package ships itself to them, and the loss of one changes nothing."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.spark.answers import as_answer, assert_same, batch_answer, parts, rows, write_part

pytestmark = pytest.mark.spark

CLUSTER = """
import json, os, signal, sys
from pathlib import Path
import pyarrow as pa
from lowwater.backends.spark.directory import OutputDirectory
from tests.spark.answers import stream_of, streaming
from tests.spark.small import session

source, out, checkpoint = sys.argv[1:]
spark = session("local-cluster[2,1,2048]", "1g", killed=True)
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
        killed.append(executors()[0])
        os.kill(killed[0], signal.SIGKILL)


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


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="finds executors through /proc")
def test_an_executor_killed_in_the_middle_changes_nothing(spark: SparkSession, tmp_path: Path) -> None:
    source, out = tmp_path / "in", str(tmp_path / "out")
    for i, piece in enumerate(parts(rows(), 4)):
        write_part(piece, source, i)
    child = subprocess.Popen(
        [sys.executable, "-c", CLUSTER, str(source), out, str(tmp_path / "checkpoint")],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=Path(__file__).parents[2],
        env=os.environ | {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"},
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
    report = json.loads(lines[-1])
    assert len(report["killed"]) == 1
    assert report["rows"] == rows().num_rows
    assert all(".zip" in file for file in report["shipped"]), "executors must run the shipped package"
    assert_same(as_answer(spark.read.parquet(out)), batch_answer(spark, source))
