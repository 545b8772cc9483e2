"""A results directory as start() writes it: the same rows and types as to_spark() gives, also when nothing came."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import lowwater as lw
from lowwater.backends.spark.running import RunningQuery
from lowwater.backends.spark.written import written_by_arrow
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
    running = query.start(checkpoint=str(tmp_path / "checkpoint"), results=str(tmp_path / "out"))
    running.finish()
    first = spark.read.parquet(str(tmp_path / "out" / "lw_batch=00000000"))
    assert (first.columns, first.count()) == (query.schema.names, 0)
    found = spark.read.parquet(str(tmp_path / "out")).drop("lw_batch").toArrow().cast(query.schema)
    local = lw.stream(ROWS, name="rows", progress="ts", disorder="1 second").window("2 seconds")
    expected = local.group_by("k").agg(**aggregates).collect()
    assert found.sort_by([("wid", "ascending"), ("k", "ascending")]).equals(expected.cast(query.schema))


def test_types_that_spark_writes_in_its_own_way_are_left_to_it() -> None:
    for type in (pa.duration("us"), pa.time64("us"), pa.list_(pa.struct({"d": pa.duration("us")}))):
        assert not written_by_arrow(pa.schema({"n": pa.int64(), "d": type}))
    assert written_by_arrow(pa.schema({"n": pa.int64()}))


def test_outputs_have_directories_of_their_own(spark: SparkSession, tmp_path: Path) -> None:
    write_part(ROWS, tmp_path / "in", 0)
    stream = lw.stream(streaming(spark, tmp_path / "in", SCHEMA), name="rows", progress="ts", disorder="1 second")
    query = stream.window("2 seconds").agg(n=lw.count())
    same = {"results": str(tmp_path / "out"), "late": f"file:{tmp_path}/out/"}
    with pytest.raises(lw.LowwaterError, match="but results and late are both"):
        query.start(checkpoint=str(tmp_path / "checkpoint"), **same)
    with pytest.raises(lw.LowwaterError, match=r"out/late \(late\) is inside .*out \(results\), so that a reader of"):
        query.start(checkpoint=str(tmp_path / "checkpoint"), results=same["results"], late=f"{same['results']}/late")
    assert not (tmp_path / "checkpoint").exists(), "refused before anything is written"


def to_the_end(spark: SparkSession, place: Path, **outputs: Any) -> RunningQuery:
    """A count by key over all that is in `place`, finished."""
    stream = lw.stream(streaming(spark, place / "in", SCHEMA), name="rows", progress="ts", disorder="1 second")
    query = stream.window("2 seconds").group_by("k").agg(n=lw.count())
    running: RunningQuery = query.start(checkpoint=str(place / "checkpoint"), **outputs)
    running.finish()
    return running


def test_a_function_that_looks_at_a_few_rows_loses_no_state(spark: SparkSession, tmp_path: Path) -> None:
    for i in range(3):
        write_part(ROWS.slice(i, 1), tmp_path / "in", i)
    looked: list[int] = []
    running = to_the_end(
        spark, tmp_path, results=lambda rows, batch: looked.extend(row.n for row in rows.take(1) if batch > 1)
    )
    assert (sum(looked) >= 1, running.metrics().result_rows, running.metrics().state_rows) == (True, 3, 0)


def test_all_outputs_at_once(spark: SparkSession, tmp_path: Path) -> None:
    """Late rows go to a directory also where a function takes the results and looks at few of them."""
    for i, rows in enumerate((ROWS.slice(2, 1), ROWS.slice(0, 2))):
        write_part(rows, tmp_path / "in", i)
    looked: list[int] = []
    to_the_end(
        spark,
        tmp_path,
        results=lambda rows, batch: looked.append(len(rows.take(1))),
        late=str(tmp_path / "late"),
        progress=str(tmp_path / "progress"),
    )
    assert sum(looked) == 1
    late = spark.read.parquet(str(tmp_path / "late")).toArrow()
    assert sorted(str(k) for k in late.column("k").to_pylist()) == ["None", "a"]
    assert spark.read.parquet(str(tmp_path / "progress")).where("source = 'rows'").count() > 0
