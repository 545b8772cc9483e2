"""A running query on Spark is watched: metrics over HTTP on loopback, and one line in the log per micro-batch."""

from __future__ import annotations

import logging
import threading
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.request import urlopen

import pytest

import lowwater as lw
from lowwater import generate

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


class Lines(logging.Handler):
    """Keeps the lines, and can wait for one: Spark tells its listeners in a thread of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []
        self.came = threading.Condition()

    def emit(self, record: logging.LogRecord) -> None:
        with self.came:
            self.lines.append(record.getMessage())
            self.came.notify_all()

    def wait_for(self, part: str) -> str:
        with self.came:
            assert self.came.wait_for(lambda: any(part in line for line in self.lines), timeout=120), self.lines
        return next(line for line in self.lines if part in line)


def test_metrics_are_served_and_each_micro_batch_is_logged(spark: SparkSession, tmp_path: Path) -> None:
    generate.write_files(generate.keyed(400, 60, keys=5, seed=3), tmp_path / "in", files=2)
    reader = spark.readStream.schema("ts timestamp, key bigint, val double").option("maxFilesPerTrigger", 1)
    stream = lw.stream(reader.parquet(str(tmp_path / "in")), name="readings", progress="ts", disorder="1 second")
    places = {"checkpoint": str(tmp_path / "checkpoint"), "results": str(tmp_path / "out")}
    logger, lines = logging.getLogger("lowwater.tests.watched"), Lines()
    logger.setLevel(logging.INFO)
    logger.propagate = False
    logger.addHandler(lines)
    query = stream.window("10 seconds").group_by("key").agg(n=lw.count()).start(**places, name="watched", shards=2)
    log = query.log_batches(logger)
    try:
        query.process_available()
        with query.serve_metrics(0) as server:
            page = urlopen(f"http://127.0.0.1:{server.port}/metrics", timeout=60).read().decode()
        assert 'lowwater_rows_total{query="watched"} 400.0' in page
        held = query.metrics()
        query.write_metrics(tmp_path / "lowwater.prom")
        assert f'query="watched"}} {float(held.state_bytes)}\n' in (tmp_path / "lowwater.prom").read_text()
        query.finish()
        line = lines.wait_for("low_watermark=end")
    finally:
        query.stop()
        spark.streams.removeListener(log)
        logger.removeHandler(lines)
    ended = query.metrics()
    assert line.startswith("query=watched batch=")
    assert f" rows=400 late_rows={ended.late_rows} dropped_rows={ended.dropped_rows} " in line
    assert f" result_rows={ended.result_rows} state_rows=0 " in line
    batches = [part for one in lines.lines for part in one.split() if part.startswith("batch=")]
    assert len(batches) == len(set(batches)), "one line per micro-batch"
