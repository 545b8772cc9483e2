"""Results leave the last stage as typed rows: every value of every type passes as it is, streaming and finite."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

import lowwater as lw
from lowwater import generate
from lowwater.backends.spark.typed import Typed

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("compiled")]

SIMPLE = {
    "bool": pa.array([True, False, None, True]),
    "tiny": pa.array([-128, 127, None, 0], pa.int8()),
    "short": pa.array([-(2**15), 2**15 - 1, None, 0], pa.int16()),
    "int": pa.array([-(2**31), 2**31 - 1, None, 0], pa.int32()),
    "long": pa.array([-(2**63), 2**63 - 1, None, 2**53 + 1]),
    "float": pa.array([1.5, math.inf, None, -0.0], pa.float32()),
    "double": pa.array([0.1, -math.inf, None, -0.0]),
    "text": pa.array(["", "a\0b", None, "日本"]),
    "bytes": pa.array([b"", b"\0\xff", None, b"x"]),
    "day": pa.array([date(1, 1, 1), date(9999, 12, 31), None, date(1970, 1, 1)]),
    "money": pa.array([Decimal("-" + "9" * 37 + ".9"), Decimal("0.1"), None, Decimal(0)], pa.decimal128(38, 1)),
    "time": pa.array(
        [
            datetime(1, 1, 1, tzinfo=UTC),
            datetime(9999, 12, 31, 23, 59, 59, 999_999, UTC),
            None,
            datetime(1969, 12, 31, tzinfo=UTC),
        ],
        pa.timestamp("us", "UTC"),
    ),
    "clock": pa.array([datetime(1, 1, 1), datetime(9999, 12, 31), None, datetime(1970, 1, 1)], pa.timestamp("us")),
    "a.b `c`": pa.array([1, 2, 3, 4]),
}
NESTED = {
    "list": pa.array([[1, 2], [], None, [None]], pa.list_(pa.int64())),
    "struct": pa.array([{"a": 1}, {"a": None}, None, {"a": 2}], pa.struct([("a", pa.int64())])),
}


def streamed(results: DataFrame, checkpoint: Path) -> pa.Table:
    """All rows of a streaming result."""
    taken: list[pa.Table] = []
    writer = results.writeStream.foreachBatch(lambda df, batch: taken.append(df.toArrow()))
    writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start().awaitTermination()
    return pa.concat_tables(taken)


def rows(columns: dict[str, pa.Array]) -> pa.Table:
    return pa.table({"at": pa.array(range(4)), **columns})


@pytest.mark.parametrize(("columns", "typed"), [(SIMPLE, True), ({**SIMPLE, **NESTED}, False)])
def test_values_of_every_type_pass(
    spark: SparkSession, tmp_path: Path, columns: dict[str, pa.Array], typed: bool
) -> None:
    """Through an operator that passes whole rows."""
    table = rows(columns)
    generate.write_files(table, tmp_path / "in", 1)

    def query(data: object) -> lw.Relation:
        return lw.stream(data, name="rows", progress="at", disorder=0).drop_duplicates(on="long", within=100)

    stored = spark.read.parquet(str(tmp_path / "in"))
    arriving = spark.readStream.schema(stored.schema).parquet(str(tmp_path / "in"))
    assert (Typed.of(query(stored).plan) is not None) == typed
    found = {
        "finite": query(stored).to_spark(shards=2).toArrow(),
        "streaming": streamed(query(arriving).to_spark(shards=2), tmp_path / "checkpoint"),
    }
    expected = query(table).collect().sort_by("at")
    for how, result in found.items():
        given = result.cast(expected.schema).sort_by("at")
        assert given.equals(expected.slice(0, len(given))), how
        assert len(given) >= 3, how  # of a stream that does not end, the last row waits
