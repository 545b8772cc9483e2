"""Zero needs no unit: it is the same length in every unit."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pyarrow as pa
import pytest

import lowwater as lw

ROWS = pa.table({"ts": [dt.datetime(2026, 1, 1, 12, 0, s) for s in (1, 1, 9)], "k": ["a", "b", "a"]})


def stream(name: str = "s", zero: Any = 0, **options: Any) -> lw.Relation:
    return lw.stream(ROWS, name=name, progress="ts", disorder=zero, **options)


@pytest.mark.parametrize("zero", [0, "0", 0.0])
def test_zero_is_zero_seconds(zero: Any) -> None:
    queries = [
        lambda z: stream(zero=z).window("5 seconds").agg(n=lw.count()),
        lambda z: stream().join(stream("t"), on="k", within=z),
        lambda z: stream().join(stream("t"), on="k", within=(z, "5 seconds")),
        lambda z: stream().over("k", range=("1 minute", z)).agg(n=lw.count()),
        lambda z: stream().window("1 minute").emit(allowed_lateness=z).agg(n=lw.count()),
        lambda z: stream().drop_duplicates("k", within=z),
        lambda z: stream(source="k", idle=lw.idle(after="1 minute", lag=z)).window("5 seconds").agg(n=lw.count()),
    ]
    for query in queries:
        assert query(zero).explain() == query("0 seconds").explain()
        assert query(zero).collect() == query("0 seconds").collect()


def test_other_numbers_need_a_unit_and_a_window_has_a_length() -> None:
    with pytest.raises(lw.LowwaterError, match="has no unit"):
        stream(zero=5)
    with pytest.raises(lw.LowwaterError, match="RANGE must be greater than zero, but is 0"):
        stream().window(0)
