"""Windows behind a join hold no more than EXPLAIN says: they stay open for as long as results can come."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import lowwater as lw

SCHEMA = pa.schema([("ts", pa.int64()), ("k", pa.string())])


def plain(name: str, disorder: int) -> lw.Stream:
    return lw.stream(SCHEMA.empty_table(), name=name, progress="ts", disorder=disorder)


@pytest.mark.parametrize("over", ["l_ts", "r_ts"])
@pytest.mark.parametrize(
    "window",
    [
        {"within": 30},
        {"within": (0, 30)},
        {"within": (-50, -10)},
        {"window": 40},
        {"window": 40, "slide": 10},
    ],
    ids=str,
)
def test_windows_behind_a_join_hold_what_is_told(window: dict[str, Any], over: str) -> None:
    joined = plain("l", 5).join(plain("r", 12), "k", **window)
    query = joined.window(20, 10, over=over).group_by("k").agg(n=lw.count())
    told = int(query.explain().split("at most ")[1].split()[0])
    running, held = query.start(), 0
    for t in range(120):  # in step: what is kept while one stream waits for the other is not in the number
        for port in (0, 1):
            running.push([{"ts": t, "k": "a"}], port)
        held = max(held, running.graph(0, 0).operators[1].held().rows)
    assert 0 < held <= told <= held + 2
