"""The benchmark `oblivious`: the location query of WO 1 over four sensors, compared with three joins of Spark.

    SELECT * FROM Sensor1 S1, Sensor2 S2, Sensor3 S3, Sensor4 S4
    WHERE S1.epoch = S2.epoch AND S2.epoch = S3.epoch AND S3.epoch = S4.epoch

Each sensor has sent 1,000,000 tuples when the last micro-batch is read: 200,000 in the history and 200,000 in each of
four timed micro-batches. Sensors are scrambled by factors of 500 to 5,000. They run ahead of the first one by 0 to
60,000 tuples, so that most of the state waits for the slowest sensor.

    lowwater        oblivious_join() on the epoch, with the scrambling factors as expected; start() writes the results
    spark-memory    three stream-stream joins on the epoch, each sensor with a watermark; state in the JVM's heap
    spark-rocksdb   the same, with state in RocksDB with changelog checkpoints

Spark's watermark is wide enough to lose nothing: the largest scrambling factor, as a time. Spark itself waits for the
slowest sensor. Its joins are slow and read two of the timed micro-batches, or one with RocksDB; the times per row are
compared. Ratios are only reported if the engines agree: the same results in each micro-batch, by a digest of all
columns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

import lowwater as lw
from benchmarks import agreement
from benchmarks.engine import Engine, on_frame, started
from benchmarks.rounds import FILES, WARM_BATCHES, WARM_ROWS, BenchReport, Entry, Race, Say, take_turns
from benchmarks.sliding_engines import MEMORY_STATE
from lowwater import generate
from lowwater.backends.spark.launch import Session
from lowwater.generate.scrambled import scrambled

NAME = "oblivious"
SENSORS = ("s1", "s2", "s3", "s4")
OWN = ("x", "y", "z", "val", "id")
"""The columns of a sensor beside the epoch. `id` is the position at which a tuple arrives."""
COLUMNS = ("epoch", *(f"{sensor}_{name}" for sensor in SENSORS for name in OWN))
GAP = 20_000
"""Microseconds between two epochs."""
FEWER = {"spark-memory": 2, "spark-rocksdb": 1}
"""The number of timed micro-batches that slow engines read per round."""


@dataclass(frozen=True)
class Workload:
    """Four sensors that send `rows` tuples per micro-batch together: one micro-batch of history, then `batches`."""

    name: str
    rows: int
    batches: int = 4
    factors: tuple[int, ...] = (5000, 500, 2000, 1000)
    """The scrambling factor of each sensor."""
    ahead: tuple[int, ...] = (0, 60_000, 20_000, 5_000)
    """The number of tuples by which each sensor is ahead of the first."""

    @property
    def each(self) -> int:
        """Tuples per sensor and micro-batch."""
        return self.rows // len(SENSORS)

    def capped(self, rows: int | None) -> Workload:
        """The workload with fewer rows, less scrambling and less lag, in proportion."""
        if rows is None or rows >= self.rows:
            return self
        part = rows / self.rows
        factors, ahead = (tuple(int(part * n) for n in of) for of in (self.factors, self.ahead))
        return replace(self, rows=rows // len(SENSORS) * len(SENSORS), factors=factors, ahead=ahead)

    def write(self, directory: Path) -> None:
        """Writes one file per core, sensor and micro-batch."""
        for number, (sensor, factor, ahead) in enumerate(zip(SENSORS, self.factors, self.ahead, strict=True)):
            rows = self.each * (self.batches + 1)
            epoch = scrambled(rows, number, factor=factor).values + ahead
            rng = np.random.default_rng(number)
            table = pa.table(
                {
                    "epoch": pa.array(generate.START * generate.SECOND + epoch * GAP).cast(pa.timestamp("us", "UTC")),
                    **{name: np.full(rows, value) for name, value in zip("xyz", rng.normal(size=3), strict=True)},
                    "val": rng.normal(size=rows),
                    "id": np.arange(rows),
                }
            )
            for batch in range(self.batches + 1):
                piece = table.slice(batch * self.each, self.each)
                generate.write_files(piece, directory / sensor, FILES, first=FILES * batch)

    def engines(self) -> tuple[Engine, ...]:
        spark = on_frame("spark-rocksdb", self.spark_results, SENSORS)
        return started("lowwater", self.query, SENSORS), Engine("spark-memory", spark.answer, MEMORY_STATE), spark

    def query(self, *sensors: Any) -> lw.Relation:
        """The location query in lowwater."""
        streams = [
            lw.stream(rows, name=name, progress="epoch", disorder=lw.measured())
            for name, rows in zip(SENSORS, sensors, strict=True)
        ]
        known = {name: lw.expect(scrambling=k) for name, k in zip(SENSORS, self.factors, strict=True)}
        return lw.oblivious_join(streams, on="epoch", expect=known)

    def spark_results(self, *sensors: DataFrame) -> DataFrame:
        """The location query as three joins of Spark."""
        late = f"{max(self.factors) * GAP} microseconds"
        named = [
            rows.withWatermark("epoch", late).select("epoch", *(F.col(name).alias(f"{sensor}_{name}") for name in OWN))
            for sensor, rows in zip(SENSORS, sensors, strict=True)
        ]
        # joined by name, so that each join has one epoch: Spark refuses a join whose input has two watermarks
        return reduce(lambda left, right: left.join(right, "epoch"), named).select(*COLUMNS)

    def race(self, fewer: Mapping[str, int] = FEWER) -> Race:
        entries = tuple(Entry(self.name, engine, fewer.get(engine.name)) for engine in self.engines())
        return Race(entries, self.rows, self.write, self.read, agreement.unlike_digests)

    def read(self, directory: Path, entry: Entry) -> pa.Table:
        blocks = 1 + min(entry.batches or self.batches, self.batches)
        return agreement.digest(directory, COLUMNS, [f"{sensor}_id" for sensor in SENSORS], self.each, blocks)


WORKLOADS = (Workload("four-sensors", 800_000),)


def run(
    spark: Session,
    rounds: int = 2,
    rows: int | None = None,
    say: Say = lambda text: None,
    workloads: Sequence[Workload] = WORKLOADS,
    warm: bool = True,
) -> BenchReport:
    """Runs all engines. `rows` caps the rows per micro-batch, for a quick look."""
    first = [replace(w.capped(WARM_ROWS), batches=WARM_BATCHES).race(fewer={}) for w in workloads] if warm else []
    return BenchReport(NAME, *take_turns(spark, [w.capped(rows).race() for w in workloads], first, rounds, say))
