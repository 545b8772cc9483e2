"""Joins and bad input: a condition that fails is told by name and mended without loss; broken promises are late."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute
import pytest
from pyspark.sql import SparkSession

import lowwater as lw
from tests.spark.answers import write_part
from tests.spark.joins import JOINS, PARTS, STREAMS, comparable, pieces, streaming, write

pytestmark = pytest.mark.spark

ONCE = {"availableNow": True}

POISON = int(STREAMS["r"]["id"][STREAMS["r"].num_rows // 2].as_py())


def query(read: Any, fails: bool = False) -> lw.Joined:
    def condition(pairs: pa.Table) -> pa.Array:
        right = pairs["r_id"].to_numpy()
        if fails and (right == POISON).any():
            raise ZeroDivisionError("not made for this")
        return pa.array(right % 2 == 0)

    left, right = (lw.stream(read(name), name=name, progress="ts", disorder="3 seconds") for name in ("l", "r"))
    return left.join(right, on="key", within="2 seconds", condition=condition)


def test_a_condition_that_fails_names_the_query_which_goes_on_once_it_is_mended(
    spark: SparkSession, tmp_path: Path
) -> None:
    out, checkpoint = str(tmp_path / "out"), str(tmp_path / "checkpoint")
    write(tmp_path, JOINS["inner"][0], range(PARTS))
    broken = query(streaming(spark, tmp_path), True).start(checkpoint=checkpoint, results=out, trigger=ONCE)
    with pytest.raises(Exception, match=r"Query over 'l \+ r': The condition condition failed") as failure:
        broken.await_termination()
    assert "ZeroDivisionError: not made for this." in str(failure.value)
    mended = query(streaming(spark, tmp_path)).start(checkpoint=checkpoint, results=out)
    mended.finish()
    local = query(lambda name: STREAMS[name]).collect()
    written = spark.read.parquet(out).toArrow().select(local.schema.names).cast(local.schema)
    assert local.num_rows
    assert comparable(written) == comparable(local)


def test_rows_that_break_a_promise_are_in_the_late_output_of_both_sides(spark: SparkSession, tmp_path: Path) -> None:
    """The auctions of the first batch come again in the last; bids come again behind the closing of their auction."""
    names = ("auctions", "bids")
    broken = {name: pieces(name)[0].slice(0, 5) for name in names}
    moved = {}
    for name in names:  # on time, but of values that have ended
        newest = STREAMS[name]["ts"][-1]
        moved[name] = broken[name].set_column(0, "ts", pa.array([newest.as_py()] * 5, broken[name]["ts"].type))
    ended = STREAMS["bids"].filter(pa.compute.field("closed"))["item_id"].to_pylist()
    again = moved["bids"].set_column(1, "item_id", pa.array(ended[-5:]))
    again = again.set_column(4, "closed", pa.array([False] * 5))
    tables = {
        "auctions": pa.concat_tables([STREAMS["auctions"], moved["auctions"]]),
        "bids": pa.concat_tables([STREAMS["bids"], again]),
    }

    def asked(read: Any) -> lw.Joined:
        opened = lw.stream(read("auctions"), name="auctions", progress="ts", disorder=lw.ordered()).unique("item_id")
        bids = lw.stream(read("bids"), name="bids", progress="ts", disorder="60 seconds").ends("item_id", when="closed")
        return opened.join(bids, on="item_id", within=("0 seconds", "9 days"))  # none is forgotten

    local = asked(lambda name: tables[name].slice(0, 0)).start(shards=2)
    for name, table in tables.items():
        half = table.num_rows // 2
        for i, piece in enumerate((table.slice(0, half), table.slice(half))):
            local.push(piece, names.index(name))
            write_part(piece, tmp_path / name, i)
    local.finish()
    told = local.late_output()
    assert sorted(row["input"] for row in told.to_pylist()) == ["auctions"] * 5 + ["bids"] * 5
    assert set(told["late_reason"].to_pylist()) == {"its input has ended this value"}
    assert local.metrics().late_rows == 10

    late = str(tmp_path / "late")
    running = asked(streaming(spark, tmp_path)).start(
        checkpoint=str(tmp_path / "checkpoint"), results=str(tmp_path / "out"), late=late
    )
    running.finish()
    assert running.metrics().late_rows == 10
    found = spark.read.parquet(late).select("input", "item_id", "late_reason").toArrow()
    assert comparable(found) == comparable(told.select(["input", "item_id", "late_reason"]))
