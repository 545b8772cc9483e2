"""A results directory as start() writes it: the same rows and types as to_spark() gives, also when nothing came."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet
import pytest
from pyspark.sql import SparkSession

import lowwater as lw
from lowwater.backends.spark import written
from lowwater.generate import TIMESTAMP
from lowwater.state.segments import pack
from tests.spark.answers import streaming, write_part

pytestmark = pytest.mark.spark

ROWS = pa.table(
    {
        "ts": pa.array([1_000_000, 2_000_000, 9_000_000], TIMESTAMP),
        "k": ["a", None, "a"],
        "d": pa.array([Decimal("1.25"), None, Decimal("-3.50")], pa.decimal128(12, 2)),
        "wall": pa.array([5, None, 7], pa.timestamp("us")),
        "day": pa.array([1, 2, None], pa.date32()),
    }
)
SCHEMA = "ts timestamp, k string, d decimal(12,2), wall timestamp_ntz, day date"


def test_types_and_empty_micro_batches(spark: SparkSession, tmp_path: Path) -> None:
    """The first micro-batch closes no window: its part of the directory has a schema and no rows."""
    for i in range(3):
        write_part(ROWS.slice(i, 1), tmp_path / "in", i)
    stream = lw.stream(streaming(spark, tmp_path / "in", SCHEMA), name="rows", progress="ts", disorder="1 second")
    aggregates = {"all": lw.collect_list("d"), "wall": lw.max("wall"), "day": lw.first("day"), "n": lw.count()}
    query = stream.window("2 seconds").group_by("k").agg(**aggregates)
    running = query.start(
        checkpoint=str(tmp_path / "checkpoint"), results=str(tmp_path / "out"), trigger={"availableNow": True}
    )
    running.await_termination()
    running.finish()
    first = spark.read.parquet(str(tmp_path / "out" / "lw_batch=00000000"))
    assert (first.columns, first.count()) == (query.schema.names, 0)
    found = spark.read.parquet(str(tmp_path / "out")).drop("lw_batch").toArrow().cast(query.schema)
    local = lw.stream(ROWS, name="rows", progress="ts", disorder="1 second").window("2 seconds")
    expected = local.group_by("k").agg(**aggregates).collect()
    assert found.sort_by([("wid", "ascending"), ("k", "ascending")]).equals(expected.cast(query.schema))


def test_a_task_that_runs_again_leaves_one_file(tmp_path: Path) -> None:
    rows = pa.table({"n": [1, 2, 3]})
    batch = pa.RecordBatch.from_pydict({"kind": ["result", "late"], "blob": [pack({"rows": rows}), b""]})
    for _ in range(2):
        told = list(written.WriteRun("result", rows.schema, str(tmp_path))(iter([batch])))
        assert told[0].to_pylist() == [{"file": str(tmp_path / "part-00000.parquet"), "rows": 3}]
    assert [path.name for path in tmp_path.iterdir()] == ["part-00000.parquet"]
    assert pa.parquet.read_table(tmp_path / "part-00000.parquet").equals(rows)
