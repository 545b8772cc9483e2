"""Types and time zones as Spark hands them over, and expressions after a select."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import lowwater as lw

pytestmark = pytest.mark.spark


@pytest.fixture
def in_new_york(spark: SparkSession) -> Iterator[SparkSession]:
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    yield spark
    spark.conf.set("spark.sql.session.timeZone", before)


@pytest.mark.parametrize(
    ("values", "range", "ends"),
    [
        ("TIMESTAMP '2024-03-10 06:59:00 UTC', TIMESTAMP '2024-03-10 07:01:00 UTC'", "1 hour", ["07:00", "08:00"]),
        ("TIMESTAMP_NTZ '2024-03-10 01:59:00', TIMESTAMP_NTZ '2024-03-10 02:01:00'", "1 hour", ["02:00", "03:00"]),
        ("DATE '2024-01-01', DATE '2024-01-20'", "10 days", ["2024-01-08", "2024-01-28"]),
        ("1.50BD, 12.25BD", 10, ["10.00", "20.00"]),
        ("3Y, 12Y", 10, ["10", "20"]),
    ],
)
def test_windows_over_every_type_of_progress(
    in_new_york: SparkSession, values: str, range: object, ends: list[str]
) -> None:
    rows = in_new_york.sql(f"SELECT explode(array({values})) AS ts")
    stream = lw.stream(rows, progress="ts", disorder=lw.delay_rows(5))
    query = stream.window(range=range).agg(n=lw.count())  # type: ignore[arg-type]
    found = query.collect()
    told = [str(end) for end in found.column("window_end").to_pylist()]
    assert len(told) == len(ends)
    assert all(expected in end for expected, end in zip(ends, told, strict=True)), told
    assert found.schema == query.schema


def test_keys_of_many_types_come_back_as_they_were(spark: SparkSession) -> None:
    keys = "true AS a, 'x' AS b, CAST(NULL AS STRING) AS c, DATE '2024-01-01' AS d, 1.5BD AS e, X'00ff' AS f"
    rows = spark.sql(f"SELECT 1 AS ts, {keys}, double('NaN') AS g FROM range(3)")
    query = lw.stream(rows, progress="ts", disorder=0).window(range=10).group_by(*"abcdefg")
    found = query.agg(n=lw.count(), m=lw.median("ts"), l=lw.last("b")).collect().to_pylist()
    assert len(found) == 1
    assert (found[0]["n"], found[0]["m"], found[0]["l"], found[0]["c"], found[0]["f"]) == (
        3,
        1.0,
        "x",
        None,
        b"\x00\xff",
    )


def test_expressions_after_a_select_do_not_fail_on_rows_that_it_took_out(spark: SparkSession) -> None:
    rows = spark.sql("SELECT id AS ts, id AS d FROM range(4)")
    stream = lw.stream(rows, progress="ts", disorder=0).where("d <> 0").with_column("r", "12 / d").where("r < 12")

    def doubled(batch: pa.Table) -> pa.Table:
        return batch.set_column(2, "r", pa.array([2.0 * r for r in batch.column("r").to_pylist()]))

    schema = pa.schema([("ts", pa.int64()), ("d", pa.int64()), ("r", pa.float64())])
    total = stream.apply(doubled, schema).window(range=10).agg(s=lw.sum("r"))
    assert total.collect().column("s").to_pylist() == [20.0]
