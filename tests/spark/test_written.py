"""A results directory as start() writes it: the same rows and types as to_spark() gives, also when nothing came."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet
import pytest
from pyspark.sql import SparkSession

import lowwater as lw
from lowwater.backends.spark.written import Outlet
from lowwater.generate import TIMESTAMP
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


def test_a_part_that_is_written_again_leaves_one_file(tmp_path: Path) -> None:
    rows = pa.table({"n": [1, 2, 3]})
    outlet = Outlet(str(tmp_path), rows.schema)
    place = tmp_path / "lw_batch=00000007"
    for _ in range(2):
        outlet.begin(7)
        outlet.put(7, 3, [rows.slice(0, 1), rows.slice(1)])
        outlet.put(7, 3, [rows])
        assert [path.name for path in place.iterdir()] == ["part-00003.parquet"]
        outlet.complete(7)
    assert sorted(path.name for path in place.iterdir()) == ["_SUCCESS", "part-00003.parquet"]
    assert pa.parquet.read_table(place / "part-00003.parquet").equals(rows)


def test_a_part_without_rows_has_a_schema(tmp_path: Path) -> None:
    outlet = Outlet(str(tmp_path), pa.schema({"n": pa.int64()}))
    outlet.begin(0)
    outlet.put(0, 1, [outlet.schema.empty_table()])
    outlet.complete(0)
    assert pa.parquet.read_table(tmp_path / "lw_batch=00000000").equals(outlet.schema.empty_table())


def test_all_outputs_at_once(spark: SparkSession, tmp_path: Path) -> None:
    """Late rows go to a directory also where a function takes the results and looks at few of them."""
    for i, rows in enumerate((ROWS.slice(2, 1), ROWS.slice(0, 2))):
        write_part(rows, tmp_path / "in", i)
    stream = lw.stream(streaming(spark, tmp_path / "in", SCHEMA), name="rows", progress="ts", disorder="1 second")
    looked: list[int] = []
    running = (
        stream.window("2 seconds")
        .group_by("k")
        .agg(n=lw.count())
        .start(
            checkpoint=str(tmp_path / "checkpoint"),
            results=lambda rows, batch: looked.append(len(rows.take(1))),
            late=str(tmp_path / "late"),
            progress=str(tmp_path / "progress"),
            trigger={"availableNow": True},
        )
    )
    running.await_termination()
    running.finish()
    assert sum(looked) == 1
    late = spark.read.parquet(str(tmp_path / "late")).toArrow()
    assert sorted(str(k) for k in late.column("k").to_pylist()) == ["None", "a"]
    assert spark.read.parquet(str(tmp_path / "progress")).where("source = 'rows'").count() > 0
