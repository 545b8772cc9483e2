"""Progress on the greatest or the least of the times of a join: of exactly those times, or else none is claimed."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pytest

import lowwater as lw
from lowwater.errors import BadWindow
from tests.tree_oracle import Arrived, evaluate, unlike

SCHEMA = pa.schema([("ts", pa.int64()), ("k", pa.string())])
ARRIVING = [("a", 5), ("c", 5), ("a", 40), ("c", 40), ("b", 15), ("b", 20), ("c", 8), ("b", 45), ("a", 41)]


def stream(name: str) -> lw.Relation:
    return lw.stream(SCHEMA.empty_table(), name=name, progress="ts", disorder=0)


def pairs() -> lw.Relation:
    return stream("a").join(stream("b"), on="k", within=(0, 20))


def triples() -> lw.Relation:
    return lw.join([stream(name) for name in "abc"], on="k", within=60)


def judged(relation: lw.Relation) -> None:
    """The results are those of the definition, however early the windows close."""
    query = relation.start(shards=2)
    names = [one.name for one in query.plan.inputs]
    arriving = [(name, ts) for name, ts in ARRIVING if name in names]
    tables = {}
    last = dict.fromkeys(names, 0)
    for name, ts in arriving:
        if ts >= last[name]:  # none is late
            query.push([{"ts": ts, "k": "x"}], name)
            tables.setdefault(name, []).append(ts)
            last[name] = ts
    query.finish()
    inputs = {
        name: Arrived(pa.table({"ts": times, "k": ["x"] * len(times)}, schema=SCHEMA), list(range(len(times))))
        for name, times in tables.items()
    }
    assert unlike(query.result(), evaluate(relation.node, inputs)) == ""
    assert query.metrics().late_rows == 0


def counted(joined: lw.Relation, extreme: str) -> lw.Relation:
    return joined.with_column("t", extreme).window(2, over="t").agg(n=lw.count())


@pytest.mark.parametrize("function", ["greatest", "least"])
def test_windows_over_the_extreme_of_all_times_close_by_it(function: str) -> None:
    judged(counted(pairs(), f"{function}(a_ts, b_ts)"))
    judged(counted(pairs(), f"{function}(b_ts, a_ts)"))
    judged(counted(triples(), f"{function}(a_ts, b_ts, c_ts)"))


MOVED: list[Callable[[lw.Relation], lw.Relation]] = [
    lambda joined: joined.with_column("b_ts", "a_ts - 15"),
    lambda joined: joined.with_column("a_ts", "a_ts - 15").with_column("b_ts", "b_ts - 30"),
    lambda joined: joined.select("k", "a_ts").with_column("b_ts", "a_ts - 15"),
]


@pytest.mark.parametrize("function", ["greatest", "least"])
@pytest.mark.parametrize("moved", MOVED)
def test_nothing_is_known_of_the_extreme_of_times_that_were_replaced(
    function: str, moved: Callable[[lw.Relation], lw.Relation]
) -> None:
    with pytest.raises(BadWindow, match="not on 't'"):
        counted(moved(pairs()), f"{function}(a_ts, b_ts)")


@pytest.mark.parametrize("function", ["greatest", "least"])
def test_nothing_is_known_of_the_extreme_of_a_time_that_was_moved_under_another_name(function: str) -> None:
    with pytest.raises(BadWindow, match="not on 't'"):
        counted(pairs().with_column("u", "a_ts - 15"), f"{function}(u, b_ts)")


def test_the_greatest_of_some_times_is_behind_that_of_all_and_the_least_of_some_is_not() -> None:
    with pytest.raises(BadWindow, match="not on 't'"):
        counted(triples(), "greatest(a_ts, c_ts)")
    judged(counted(triples(), "least(a_ts, c_ts)"))
