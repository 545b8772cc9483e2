"""Several GiB of results from one shard in one micro-batch, through `to_spark()`: the time, and the worker's memory.

    python -m benchmarks.large_results [GiB]

A join on one key in one shard: `LEFT` rows with `TEXT` bytes of text each join with as many rows of the other side as
the size requires. All rows arrive in one micro-batch. The sink counts rows and bytes and keeps nothing.
"""

from __future__ import annotations

import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import lowwater as lw
from benchmarks.footprint import PROC, resident
from lowwater import generate
from lowwater.backends.spark import launch
from lowwater.backends.spark.parquet import parquet_files

LEFT = 1024
TEXT = 4096


@dataclass
class Counted:
    """A sink that counts the rows of each micro-batch and the bytes of their texts."""

    batches: list[tuple[int, int]] = field(default_factory=list)

    def __call__(self, results: DataFrame, batch: int) -> None:
        (row,) = results.agg(F.count("*").alias("n"), F.sum(F.length("text")).alias("bytes")).collect()
        self.batches.append((row.n, row.bytes or 0))


def write(place: Path, left: int, right: int, text: int) -> None:
    """Writes both sides: one key, all times within a second."""
    for side, rows in (("l", left), ("r", right)):
        ts = pa.array(
            range(generate.START * generate.SECOND, generate.START * generate.SECOND + rows), generate.TIMESTAMP
        )
        columns = {"ts": ts, "key": pa.array([1] * rows)}
        if side == "l":
            columns["text"] = pa.array([f"{number:0{text}}" for number in range(rows)])
        generate.write_files(pa.table(columns), place / side, 1)


def run(spark: SparkSession, place: Path) -> list[tuple[int, int]]:
    """Joins the files of `write` on one shard. Returns the rows and bytes of each micro-batch."""
    left, right = (
        lw.stream(parquet_files(spark, str(place / side)), name=side, progress="ts", disorder="1 second")
        for side in ("l", "r")
    )
    results = left.join(right, on="key", within="1 minute").to_spark(shards=1)
    counted = Counted()
    writer = results.writeStream.outputMode("append").option("checkpointLocation", str(place / "checkpoint"))
    writer.foreachBatch(counted).trigger(availableNow=True).start().awaitTermination()
    return counted.batches


class Workers:
    """A context manager that samples the largest resident memory of any Python worker."""

    def __init__(self) -> None:
        self.peak_mb = 0.0
        self._left = threading.Event()
        self._thread = threading.Thread(target=self._sample, daemon=True)

    def __enter__(self) -> Workers:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._left.set()
        self._thread.join()

    def _sample(self) -> None:
        while not self._left.wait(0.1):
            for entry in PROC.iterdir():
                if entry.name.isdigit() and b"pyspark.daemon" in _command(entry):
                    self.peak_mb = max(self.peak_mb, resident(entry) / 1024)


def _command(entry: Path) -> bytes:
    try:
        return (entry / "cmdline").read_bytes()
    except OSError:  # the process has ended in the meantime
        return b""


def main(gib: float = 3.0) -> None:
    right = round(gib * (1 << 30) / (LEFT * TEXT))
    with tempfile.TemporaryDirectory(prefix="lowwater-large-") as place, launch.session(name="lowwater-large") as spark:
        write(Path(place), LEFT, right, TEXT)
        began = time.monotonic()
        with Workers() as workers:
            batches = run(spark, Path(place))
        seconds = time.monotonic() - began
    for number, (rows, size) in enumerate(batches):
        print(f"micro-batch {number}: {rows:,} rows, {size / (1 << 30):.2f} GiB of text")
    print(f"{seconds:.1f} s; the largest Python worker had {workers.peak_mb:,.0f} MB resident")


if __name__ == "__main__":
    main(*(float(argument) for argument in sys.argv[1:]))
