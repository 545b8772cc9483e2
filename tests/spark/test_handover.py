"""The handover from Spark to Python: every type comes through exactly, and settings hold where they are needed."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from datetime import timedelta

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import lowwater as lw
from lowwater.backends.spark import session
from lowwater.backends.spark.frame import frame
from lowwater.backends.spark.handover import Restored, gathered

pytestmark = pytest.mark.spark

TIMES = (
    "TIMESTAMP '0001-01-03 00:00:00.000001 UTC', TIMESTAMP '1969-12-31 23:59:59.999999 UTC', "
    "TIMESTAMP '2024-11-03 05:30:00.123456 UTC', TIMESTAMP '2024-11-03 06:30:00 UTC', CAST(NULL AS TIMESTAMP), "
    "TIMESTAMP '9999-12-30 23:59:59.999999 UTC'"
)
"""Before the epoch and the year 1900, twice the same hour of a clock in New York, null, and far ahead."""
CONFS = (session.ARROW_ROWS, session.ARROW_BYTES, session.LIFTED)


@pytest.fixture
def in_new_york(spark: SparkSession) -> Iterator[SparkSession]:
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    yield spark
    spark.conf.set("spark.sql.session.timeZone", before)


@pytest.fixture
def clean(spark: SparkSession) -> Iterator[SparkSession]:
    """A session on which nobody has chosen how rows are handed over."""
    before = {name: spark.conf.getAll.get(name) for name in CONFS}
    for name in CONFS:
        spark.conf.unset(name)
    yield spark
    for name, value in before.items():
        spark.conf.unset(name) if value is None else spark.conf.set(name, value)


def test_times_of_every_kind_come_through_to_the_microsecond(in_new_york: SparkSession) -> None:
    rows = in_new_york.sql(f"SELECT 1 AS ts, explode(array({TIMES})) AS at")
    rows = rows.withColumn("local", F.to_timestamp_ntz(F.col("at"))).withColumn("day", F.to_date("local"))
    stream = lw.stream(rows, progress="ts", disorder=0, source="at")
    query = stream.window(range=10).group_by("at", "local", "day").agg(n=lw.count(), most=lw.max("at"))
    found = query.collect()
    assert found.schema.field("at").type == pa.timestamp("us", "UTC")
    assert found.schema.field("local").type == pa.timestamp("us")
    micros = rows.select(
        F.unix_micros("at").alias("t"),
        F.expr("CAST(local - TIMESTAMP_NTZ '1970-01-01 00:00:00' AS INTERVAL DAY TO SECOND)").alias("l"),
    )
    expected = {(r.t, None if r.l is None else r.l // timedelta(microseconds=1)) for r in micros.collect()}
    columns = [found.column(name).cast(pa.int64()).to_pylist() for name in ("at", "local")]
    assert set(zip(*columns, strict=True)) == expected
    assert found.column("most").equals(found.column("at"))
    assert found.column("n").to_pylist() == [1] * 6


def test_a_users_function_sees_timestamps(spark: SparkSession) -> None:
    rows = spark.sql("SELECT TIMESTAMP '2024-01-01 00:00:07 UTC' AS ts, 'x' AS s")

    def later(batch: pa.Table) -> pa.Table:
        assert pa.types.is_timestamp(batch.column("ts").type), batch.schema
        return batch

    schema = pa.schema([("ts", pa.timestamp("us", "UTC")), ("s", pa.string())])
    query = lw.stream(rows, progress="ts", disorder="0 seconds").apply(later, schema).window(range="5 seconds")
    found = query.group_by("s").agg(n=lw.count()).collect().to_pylist()
    assert [(str(row["window_start"]), row["s"], row["n"]) for row in found] == [("2024-01-01 00:00:05+00:00", "x", 1)]


def test_batches_are_gathered_in_order_and_times_restored_without_a_copy() -> None:
    batches = [pa.record_batch({"t": pa.array([n, None], pa.int64()), "v": ["a", "b"]}) for n in range(5)]
    seen: list[pa.RecordBatch] = []

    def run(arrived: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        seen.extend(arrived)
        return iter(())

    list(Restored(run, ("t", "v"), ("t",))(iter(batches)))
    (one,) = seen
    assert one.schema == pa.schema([("t", pa.timestamp("us", "UTC")), ("v", pa.string())])
    assert one.column("t").cast(pa.int64()).to_pylist() == [0, None, 1, None, 2, None, 3, None, 4, None]
    assert list(gathered(iter(batches[:1]), 10)) == batches[:1]
    whole = pa.array([1, 2, 3])
    seen.clear()
    list(Restored(run, ("t",), ("t",))(iter([pa.record_batch({"t": whole})])))
    assert seen[0].column("t").buffers()[1].address == whole.buffers()[1].address


def test_a_worker_leaves_its_modules_out_of_garbage_collections(spark: SparkSession) -> None:
    rows = spark.sql("SELECT explode(sequence(1, 40)) AS ts, 1 AS v")
    here = gc.get_freeze_count()
    frozen = lw.holistic("v", lambda values: gc.get_freeze_count(), pa.int64(), name="frozen")
    counts = lw.stream(rows, progress="ts", disorder=0).window(range=10).agg(n=frozen).collect().column("n").to_pylist()
    assert min(counts) > 10_000
    assert gc.get_freeze_count() == here  # this process is no worker


# -- settings -------------------------------------------------------------------------------------------------------


def set_inside(spark: SparkSession, rows: int) -> dict[str, str]:
    with session.configured(spark, 2, rows):
        return {name: value for name, value in spark.conf.getAll.items() if name in CONFS[:2]}


def test_the_byte_limit_is_lifted_for_our_query_and_back_afterwards(clean: SparkSession) -> None:
    before = clean.conf.getAll
    assert set_inside(clean, 20_000) == {session.ARROW_ROWS: "20000", session.ARROW_BYTES: "2147483647"}
    assert set_inside(clean, 5_000) == {session.ARROW_ROWS: "5000", session.ARROW_BYTES: "2147483647"}
    assert clean.conf.getAll == before


def test_what_the_user_has_chosen_stays(clean: SparkSession) -> None:
    clean.conf.set(session.ARROW_ROWS, "15000")
    assert set_inside(clean, 20_000) == {session.ARROW_ROWS: "15000", session.ARROW_BYTES: "2147483647"}
    assert set_inside(clean, 10_000) == {session.ARROW_ROWS: "15000"}  # more rows than are safe
    session.configure(clean, 20_000, None)
    assert session.ARROW_BYTES not in clean.conf.getAll  # on the session no more rows than Spark's default are safe
    clean.conf.set(session.ARROW_BYTES, "1000000")
    assert set_inside(clean, 20_000) == {session.ARROW_ROWS: "15000", session.ARROW_BYTES: "1000000"}
    session.configure(clean, 20_000, None)
    assert clean.conf.get(session.ARROW_BYTES) == "1000000"


def test_a_limit_lifted_on_the_session_is_back_for_a_query_with_wider_rows(clean: SparkSession) -> None:
    session.configure(clean, 20_000, None)
    assert clean.conf.get(session.ARROW_BYTES) == "2147483647"
    assert session.ARROW_ROWS not in clean.conf.getAll
    session.configure(clean, 5_000, None)
    assert session.ARROW_BYTES not in clean.conf.getAll


def test_rows_of_a_batch_follow_the_columns(spark: SparkSession) -> None:
    rows = spark.sql("SELECT 1 AS ts, 'x' AS s, array('y') AS l, 2 AS v")
    assert frame(rows).batch_rows() == 10_000
    assert frame(rows.select("ts", "v")).batch_rows() == 20_000
    wide = rows.select("*", *(F.col("s").alias(f"s{i}") for i in range(6)))
    assert frame(wide).batch_rows() == 5_000
    narrow = pa.schema([("ts", pa.int32()), ("v", pa.int32())])
    assert frame(wide).apply(lambda table: table, narrow).batch_rows() == 5_000  # the function reads the wide rows
