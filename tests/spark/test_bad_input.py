"""A user's aggregate that fails in the middle of a stream: told by name, and mended without loss."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

import lowwater as lw
from tests.spark.answers import parts, rows, streaming, write_part
from tests.spark.kinds import comparable

pytestmark = pytest.mark.spark

ONCE = {"availableNow": True}
PIECES = parts(rows(2_000, seconds=20, keys=5, seed=3), 4)
POISON = float(PIECES[2].column("val")[100].as_py())
"""A value of the third batch that the definition was not made for."""


class largest_gap(lw.UserAggregate):
    """The largest value less the smallest."""

    state, result = (pa.float64(), pa.float64()), pa.float64()

    def __init__(self, poison: float | None = None) -> None:
        self._poison = poison

    def __repr__(self) -> str:
        return "largest_gap()"  # mending the code does not make it another aggregate

    def lift(self, values: Any) -> Any:
        numbers = values.to_numpy()
        if self._poison is not None and (numbers == self._poison).any():
            raise ZeroDivisionError("not made for this")
        return numbers, numbers

    def combine(self, a: Any, b: Any) -> Any:
        return np.maximum(a[0], b[0]), np.minimum(a[1], b[1])

    def lower(self, partial: Any) -> Any:
        return partial[0] - partial[1]


def query(data: DataFrame | pa.Table, poison: float | None) -> lw.Query:
    stream = lw.stream(data, name="keyed", progress="ts", disorder="3 seconds")
    return stream.window("4 seconds", "1 second").group_by("key").agg(gap=lw.udaf("val", largest_gap(poison)))


def test_a_failing_aggregate_is_named_and_the_query_goes_on_once_it_is_mended(
    spark: SparkSession, tmp_path: Path
) -> None:
    source, out, checkpoint = tmp_path / "in", str(tmp_path / "out"), str(tmp_path / "checkpoint")
    for i, piece in enumerate(PIECES):
        write_part(piece, source, i)
    broken = query(streaming(spark, source), POISON).start(checkpoint=checkpoint, results=out, trigger=ONCE)
    with pytest.raises(Exception, match=r"Query over 'keyed': largest_gap\(val\) failed in lift\(\)") as failure:
        broken.await_termination()
    assert "ZeroDivisionError: not made for this." in str(failure.value)
    mended = query(streaming(spark, source), None).start(checkpoint=checkpoint, results=out, trigger=ONCE)
    mended.await_termination()
    mended.finish()
    local = query(pa.concat_tables(PIECES), None).collect()
    assert comparable(spark.read.parquet(out).toArrow().select(local.schema.names).cast(local.schema)) == comparable(
        local
    )
    assert mended.metrics().rows == 2_000


def test_a_failing_function_is_named_where_windows_close() -> None:
    def fails(values: pa.Array) -> float:
        raise KeyError("nothing here")

    stream = lw.stream(PIECES[0], name="keyed", progress="ts", disorder="3 seconds")
    broken = stream.window("4 seconds").group_by("key").agg(f=lw.holistic("val", fails, pa.float64()))
    with pytest.raises(lw.LowwaterError, match=r"Query over 'keyed': fails\(val\) failed"):
        broken.collect()
