"""Types and time zones as Spark hands them over, and expressions after a select."""

from __future__ import annotations

import random
from collections.abc import Iterator
from decimal import Decimal

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


def decimals(precision: int, scale: int, rng: random.Random) -> pa.Array:
    """Numbers with room for a total and for the four digits of a mean, some null."""
    most = 10 ** rng.randint(0, precision - 6)
    drawn = [None if rng.random() < 0.2 else Decimal(rng.randint(-most, most)).scaleb(-scale) for _ in range(60)]
    return pa.array(drawn, pa.decimal128(precision, scale))


def test_totals_of_decimals_of_up_to_38_digits_are_those_of_spark(spark: SparkSession) -> None:
    rng = random.Random(15)
    columns = {f"d{p}_{s}": decimals(p, s, rng) for p, s in [(18, 4), (19, 0), (28, 9), (38, 6), (38, 35), (38, 38)]}
    rows = pa.table({"ts": list(range(60)), "k": [n % 7 for n in range(60)], **columns})
    table = spark.createDataFrame(rows)
    table.createOrReplaceTempView("decimals")
    asked = [(f"{name}_{column}", name, column) for column in columns for name in ("sum", "avg", "min", "max")]
    spelled = ", ".join(f"{name}({column}) AS {label}" for label, name, column in asked)
    expected = spark.sql(f"SELECT k, {spelled} FROM decimals GROUP BY k ORDER BY k").toArrow()
    aggregates = {label: getattr(lw, name)(column) for label, name, column in asked}
    for source in (rows, table):
        query = lw.stream(source, name="d", progress="ts", disorder=60).window(range=60).group_by("k").agg(**aggregates)
        found = query.collect().select(expected.column_names).sort_by("k")
        assert found.to_pylist() == expected.to_pylist()
        assert [field.type for field in found.schema][1:] == [field.type for field in expected.schema][1:]


@pytest.mark.parametrize("name", ["sum", "avg"])
def test_a_total_of_more_than_38_digits_is_an_error_as_in_spark(spark: SparkSession, name: str) -> None:
    largest = Decimal("9" * 38)
    rows = pa.table({"ts": [1, 2], "d": pa.array([largest, largest], pa.decimal128(38, 0))})
    query = lw.stream(rows, progress="ts", disorder=0).window(range=10).agg(s=getattr(lw, name)("d"))
    with pytest.raises(lw.LowwaterError, match=r"exceeds decimal\(38, 0\)"):
        query.collect()
    spark.createDataFrame(rows).createOrReplaceTempView("largest")
    with pytest.raises(Exception, match=r"(?i)overflow|NUMERIC_VALUE_OUT_OF_RANGE"):
        spark.sql(f"SELECT {name}(d) FROM largest").collect()
