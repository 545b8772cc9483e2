"""Results outside the plain file system: on S3 by Arrow, in the tasks; on other file systems by Spark's writer."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.fs as pafs
import pytest
from moto.server import ThreadedMotoServer
from pyspark.sql import SparkSession

from lowwater.backends.spark.arrow_files import ArrowFiles
from lowwater.backends.spark.files import SparkFiles
from lowwater.backends.spark.reach import files_of
from tests.spark import kinds
from tests.spark.answers import as_answer, assert_same, batch_answer, parts, rows, stream_of, streaming, write_part
from tests.spark.server import ROOT, environment
from tests.spark.test_directory import exercise

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def bucket() -> Iterator[str]:
    """A bucket of an S3 server on this machine. Its address and credentials are in the environment."""
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    _, port = server.get_host_and_port()
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
            "AWS_ACCESS_KEY_ID": "nobody",
            "AWS_SECRET_ACCESS_KEY": "nothing",
            "AWS_DEFAULT_REGION": "us-east-1",
        }.items():
            patch.setenv(name, value)
        pafs.FileSystem.from_uri("s3://results?allow_bucket_creation=true")[0].create_dir("results")
        yield "s3://results"
    server.stop()


def test_files_of_a_bucket_are_as_those_of_a_directory(bucket: str) -> None:
    exercise(ArrowFiles(f"{bucket}/files", f"{bucket}/files"))


PROGRAM = """
import json, sys
from pathlib import Path
from tests.spark import kinds
from tests.spark.answers import write_part
from tests.spark.small import session

place, results, late = sys.argv[1:]
spark = session(memory="1g")
query = kinds.KINDS["sliding"](kinds.streaming(spark, Path(place) / "in"))
outputs = {"checkpoint": f"{place}/checkpoint", "results": results, "late": late}
first = query.start(**outputs)
first.process_available()
first.stop()
last = max((Path(place) / "checkpoint" / "commits").glob("[0-9]*"), key=lambda path: int(path.name))
last.unlink()  # as after a kill before the commit: its results are written, and it is repeated
write_part(kinds.PIECES[2], Path(place) / "in", 2)
second = query.start(**outputs)
second.finish()
print(json.dumps({"rows": second.metrics().rows, "late": second.metrics().late_rows, "repeated": int(last.name)}))
"""


def table(directory: str, schema: pa.Schema) -> pa.Table:
    found: Any = ds.dataset(directory, format="parquet", partitioning="hive").to_table(columns=schema.names)
    return found.cast(schema)


def test_results_on_s3_are_written_by_arrow_and_a_repeated_batch_is_there_once(bucket: str, tmp_path: Path) -> None:
    """Spark has no file system for s3 here: Arrow alone writes them. Credentials come from the environment."""
    for number, piece in enumerate(kinds.PIECES[:2]):
        write_part(piece, tmp_path / "in", number)
    out, late = f"{bucket}/out", f"{bucket}/late"
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path), out, late],
        cwd=ROOT,
        env=environment(),
        capture_output=True,
        text=True,
    )
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    assert lines, done.stderr[-3000:]
    assert json.loads(lines[-1]) == {"rows": 3_000, "late": 0, "repeated": 1}
    local = kinds.locally("sliding")
    assert kinds.comparable(table(out, local.plan.result_schema)) == kinds.comparable(local.result())
    system, path = pafs.FileSystem.from_uri(out)
    names = [info.path for info in system.get_file_info(pafs.FileSelector(path, recursive=True))]
    assert any("/lw_batch=00000001/part-0-" in name for name in names)
    assert not any("/.lw_batch=" in name for name in names), "nothing hidden is left"


def test_results_on_a_file_system_of_hadoop_go_through_sparks_writer(spark: SparkSession, tmp_path: Path) -> None:
    """A mount table stands for any file system that Hadoop knows by a scheme of its own."""
    (tmp_path / "mounted").mkdir()
    hadoop: Any = spark._jsc.hadoopConfiguration()  # type: ignore[union-attr]
    hadoop.set("fs.viewfs.mounttable.lowwater.link./mounted", f"file://{tmp_path}/mounted")
    out = "viewfs://lowwater/mounted/out"
    assert isinstance(files_of(spark, out), SparkFiles)
    for i, piece in enumerate(parts(rows(), 2)):
        write_part(piece, tmp_path / "in", i)
    query = stream_of(streaming(spark, tmp_path / "in")).start(checkpoint=str(tmp_path / "checkpoint"), results=out)
    query.finish()
    assert query.metrics().rows == rows().num_rows
    assert_same(as_answer(spark.read.parquet(out)), batch_answer(spark, tmp_path / "in"))
    assert any(name.endswith(".snappy.parquet") for _, _, names in os.walk(tmp_path / "mounted") for name in names)
