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
POISON = float(pa.concat_tables(PIECES[1:3]).column("val").to_numpy().max())
"""A value in the middle that the definition was not made for: the largest, so that it is in the answers too."""


class largest_gap(lw.UserAggregate):
    """The largest value less the smallest."""

    state, result = (pa.float64(), pa.float64()), pa.float64()

    def __init__(self, method: str = "", poison: float | None = None) -> None:
        self._method, self._poison = method, poison

    def __repr__(self) -> str:
        return "largest_gap()"  # mending the code does not make it another aggregate

    def _taste(self, method: str, numbers: Any) -> None:
        if method == self._method and (numbers == self._poison).any():
            raise ZeroDivisionError("not made for this")

    def lift(self, values: Any) -> Any:
        numbers = values.to_numpy()
        self._taste("lift", numbers)
        return numbers, numbers

    def combine(self, a: Any, b: Any) -> Any:
        return np.maximum(a[0], b[0]), np.minimum(a[1], b[1])

    def lower(self, partial: Any) -> Any:
        self._taste("lower", partial[0])
        return partial[0] - partial[1]


def query(data: DataFrame | pa.Table, fails: str = "") -> lw.Query:
    stream = lw.stream(data, name="keyed", progress="ts", disorder="3 seconds")
    return stream.window("4 seconds", "1 second").group_by("key").agg(gap=lw.udaf("val", largest_gap(fails, POISON)))


@pytest.mark.parametrize("method", ["lift", "lower"])
def test_a_failing_aggregate_is_named_and_the_query_goes_on_once_it_is_mended(
    method: str, spark: SparkSession, tmp_path: Path
) -> None:
    """`lift` fails where rows are read, `lower` where windows close."""
    source, out, checkpoint = tmp_path / "in", str(tmp_path / "out"), str(tmp_path / "checkpoint")
    for i, piece in enumerate(PIECES):
        write_part(piece, source, i)
    broken = query(streaming(spark, source), method).start(checkpoint=checkpoint, results=out, trigger=ONCE)
    with pytest.raises(Exception, match=rf"Query over 'keyed': largest_gap\(val\) failed in {method}\(\)") as failure:
        broken.await_termination()
    assert "ZeroDivisionError: not made for this." in str(failure.value)
    mended = query(streaming(spark, source)).start(checkpoint=checkpoint, results=out)
    mended.finish()
    local = query(pa.concat_tables(PIECES)).collect()
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
