"""One query for each kind of join, over the same small streams, for tests that run all of them on both backends."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

import lowwater as lw
from lowwater.backends.local import LocalQuery
from lowwater.generate import keyed
from lowwater.generate.auctions import auctions
from lowwater.generate.scrambled import scrambled
from tests.spark.answers import write_part

PARTS = 3
BEYOND = "oblivious, more rows than expected"


def _noted(seed: int, rows: int) -> pa.Table:
    """Measurements with a text of the key that is missing now and then."""
    table = keyed(rows, 30, 40, seed=seed, max_delay=3)
    missing = np.random.default_rng(seed).random(rows) < 0.05
    note = pa.array([f"n{key}" for key in table["key"].to_pylist()], mask=missing)
    return table.append_column("note", note).append_column("id", pa.array(np.arange(rows)))


def _ranged(table: pa.Table) -> pa.Table:
    """In the last third of the rows no key in [10, 20) comes any more, and a row in front of it says so."""
    cut = table.num_rows * 2 // 3
    rest = table.slice(cut)
    rest = rest.filter(pa.array(~np.isin(rest["key"].to_numpy(), np.arange(10, 20))))
    mark = rest.slice(0, 1)
    body = pa.concat_tables([table.slice(0, cut), mark, rest])
    is_mark = np.arange(body.num_rows) == cut
    body = body.append_column("over", pa.array(is_mark))
    for name, bound in (("low", 10), ("high", 20)):
        body = body.append_column(name, pa.array(np.where(is_mark, bound, 0)))
    return body


def _sensor(seed: int, rows: int, factor: int) -> pa.Table:
    """Epochs, each twice, and values."""
    epochs = scrambled(rows, seed, factor=factor, multiplicity=2).values
    return pa.table({"epoch": epochs, "val": np.random.default_rng(seed).integers(0, 100, rows)})


def _again(epochs: int, more: int) -> pa.Table:
    """Epochs, each once, in little disorder; the first ones come again at the end."""
    once = scrambled(epochs, 9, factor=20, multiplicity=1).values
    return pa.table({"epoch": np.append(once, np.arange(more)), "val": np.arange(epochs + more)})


SCRAMBLED = {"s1": 40, "s2": 25, "s3": 10}
"""The scrambling factors of the sensors."""
FOUR = SCRAMBLED | {"s4": 30}
"""Those of the location query in the introduction of WO."""
_sold = auctions(60, seed=5, seconds=36 * 3600, bids=8.0, disorder=60.0)
STREAMS: dict[str, pa.Table] = {
    "l": _noted(1, 700),
    "r": _noted(2, 800),
    "s": _noted(3, 600),
    "t": _noted(4, 300),
    "ranged": _ranged(_noted(6, 600)),
    "once": _again(450, 0),
    "again": _again(410, 40),
    "auctions": _sold.auctions,
    "bids": _sold.bids,
    **{name: _sensor(seed, 600, factor) for seed, (name, factor) in enumerate(FOUR.items())},
}

Given = Callable[[str], Any]
"""The rows of a stream, as a backend takes them."""


def _stream(given: Given, name: str, disorder: str = "3 seconds") -> lw.Stream:
    return lw.stream(given(name), name=name, progress="ts", disorder=disorder)


def _two(given: Given, **options: Any) -> lw.Joined:
    options = {"on": "key", "within": "1 second"} | options
    return _stream(given, "l").join(_stream(given, "r"), **options)


def _oblivious(given: Given, expect: Any = None, **options: Any) -> lw.Joined:
    sensors = [lw.stream(given(name), name=name, progress="epoch", disorder=lw.measured()) for name in SCRAMBLED]
    return lw.oblivious_join(sensors, on="epoch", expect=expect, **options)


def _located(given: Given) -> lw.Joined:
    """The location query of four sensors, with their factors as expected."""
    sensors = [lw.stream(given(name), name=name, progress="epoch", disorder=lw.measured()) for name in FOUR]
    return lw.oblivious_join(sensors, on="epoch", expect={name: lw.expect(scrambling=k) for name, k in FOUR.items()})


def _once(given: Given) -> lw.Joined:
    """Each epoch is expected once, so that its rows leave when both have come."""
    sides = [lw.stream(given(name), name=name, progress="epoch", disorder=lw.measured()) for name in ("once", "again")]
    return lw.oblivious_join(sides, on="epoch", expect=lw.expect(scrambling=1000, multiplicity=1))


def _later(pairs: pa.Table) -> pa.Array:
    return pa.array(pairs["r_val"].to_numpy() > pairs["l_val"].to_numpy())


def _auction(given: Given) -> lw.Joined:
    opened = _stream(given, "auctions", "0 seconds").unique("item_id")
    bids = _stream(given, "bids", "60 seconds").ends("item_id", when="closed")
    return opened.join(bids, on="item_id", within=("0 seconds", "12 hours"))


JOINS: dict[str, tuple[tuple[str, ...], Callable[[Given], lw.Joined]]] = {
    "inner": (("l", "r"), lambda given: _two(given, condition="l_val + r_val > 0")),
    "left": (("l", "r"), lambda given: _two(given, how="left", within=("-200 milliseconds", "1 second"), bounds="[)")),
    "full": (("l", "r"), lambda given: _two(given, how="full", on="note", within="300 milliseconds")),
    "null safe": (("l", "r"), lambda given: _two(given, on=["note", "key"], null_safe=True, condition=_later)),
    "semi": (("l", "r"), lambda given: _two(given, how="semi", within="200 milliseconds")),
    "anti": (("l", "r"), lambda given: _two(given, how="anti", within="200 milliseconds")),
    "tumbling": (("l", "r"), lambda given: _two(given, how="full", within=None, window="2 seconds")),
    "hopping": (("l", "r"), lambda given: _two(given, within=None, window="2 seconds", slide="1 second")),
    "n-way": (
        ("l", "r", "s"),
        lambda given: lw.join(
            [_stream(given, name) for name in ("l", "r", "s")], "key", ["1 second", "500 milliseconds", "2 seconds"]
        ),
    ),
    "counted": (("l", "r"), lambda given: _two(given, within=("-1 second", None), rows=(3, None))),
    "melded": (
        ("l", "t", "r"),
        lambda given: (
            _stream(given, "l").union(_stream(given, "t")).join(_stream(given, "r"), on="key", within="1 second")
        ),
    ),
    "windowed": (
        ("l", "r"),
        lambda given: _two(given).window("5 seconds", "1 second", over="r_ts").group_by("key").agg(n=lw.count()),
    ),
    "by both times": (
        ("l", "r"),
        lambda given: (
            _two(given, within="100 milliseconds").group_by("key", "l_ts", "r_ts").agg(n=lw.count(), s=lw.sum("r_id"))
        ),
    ),
    "of one shard": (("l", "r"), lambda given: _two(given).window("5 seconds").agg(n=lw.count(), m=lw.max("l_id"))),
    "auction": (
        ("auctions", "bids"),
        lambda given: _auction(given).group_by("item_id").agg(n=lw.count(), top=lw.max("price")),
    ),
    "auction rows": (("auctions", "bids"), _auction),
    "oblivious": (tuple(FOUR), _located),
    "oblivious, sorted and aside": (
        tuple(SCRAMBLED),
        lambda given: _oblivious(
            given, {name: lw.expect(scrambling=k) for name, k in SCRAMBLED.items()}, strategy="Hybrid", ahead=20
        ),
    ),
    BEYOND: (("once", "again"), _once),
    "oblivious monitored": (tuple(SCRAMBLED), _oblivious),
    "oblivious within a limit": (
        tuple(SCRAMBLED),
        lambda given: _oblivious(
            given, {name: lw.expect(scrambling=k) for name, k in SCRAMBLED.items()}, memory="15 kB"
        ),
    ),
    "ranges": (
        ("ranged", "r"),
        lambda given: (
            _stream(given, "ranged")
            .ends("key", when="over", range=("low", "high"))
            .join(_stream(given, "r"), on="key", within="2 seconds", how="left")
        ),
    ),
}
"""The streams that a join reads, and the join."""


def pieces(name: str) -> list[pa.Table]:
    table = STREAMS[name]
    step = -(-table.num_rows // PARTS)
    return [table.slice(at, step) for at in range(0, table.num_rows, step)]


def write(place: Path, names: Iterable[str], batches: range) -> None:
    """Files of streams for some micro-batches, each stream in a directory of its name."""
    for name in names:
        for i in batches:
            write_part(pieces(name)[i], place / name, i)


def streaming(spark: SparkSession, place: Path) -> Given:
    def read(name: str) -> Any:
        schema = from_arrow_schema(STREAMS[name].schema)
        return spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(place / name))

    return read


def locally(kind: str) -> LocalQuery:
    """The same rows in the same micro-batches on the local backend."""
    names, query = JOINS[kind]
    running: LocalQuery = query(lambda name: STREAMS[name].slice(0, 0)).start(shards=3)
    cut: Sequence[list[pa.Table]] = [pieces(name) for name in names]
    for batch in range(PARTS):
        for port, of_stream in enumerate(cut):
            running.push(of_stream[batch], port)
    running.finish()
    return running


def comparable(table: pa.Table) -> list[str]:
    """Rows without their order."""
    return sorted(repr(sorted(row.items())) for row in table.to_pylist())
