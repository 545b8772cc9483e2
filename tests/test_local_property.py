"""The local backend gives what the definition gives, whatever arrives in whatever order and pieces.

A scenario is a query and the arrival of its rows: disordered as far as its progress policy allows and no further, on
one input or two, cut into batches anywhere, on one shard or several, with restarts in between. Then no row is late, and
the results are those of tests/oracle.py.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lowwater as lw
from tests.compare import difference, ticks
from tests.scenarios import AGGREGATES, GRID, HOLISTIC, KINDS, scenarios
from tests.soak import examples, sampled

Row = dict[str, Any]


def test_every_aggregate_of_the_api_takes_part() -> None:
    returned = {name: getattr(getattr(lw, name), "__annotations__", {}).get("return") for name in lw.__all__}
    public = {name for name, kind in returned.items() if kind == "Aggregate"}
    named = {aggregate.name for aggregate, _ in AGGREGATES.values()}
    assert named - {"widest"} | {"holistic"} == public


@pytest.mark.parametrize("kind", KINDS)
@examples(15)
@given(data=st.data())
def test_local_backend_is_the_definition(kind: str, data: st.DataObject) -> None:
    scenario = data.draw(scenarios(kind))
    query = scenario.run()
    assert difference(query.result(), scenario.expected(), scenario.group_by) == ""
    numbers = query.metrics()
    assert (numbers.late_rows, query.late_output().num_rows) == (0, 0)
    assert (numbers.rows, numbers.result_rows, numbers.state_rows) == (len(scenario.rows), query.result().num_rows, 0)


PAIRS = [(kind, name) for kind in KINDS for name in AGGREGATES if kind != "landmark" or name not in HOLISTIC]


OFTEN = [
    pair for pair in PAIRS if (KINDS.index(pair[0]) + list(AGGREGATES).index(pair[1])) % 4 == 0 or pair[0] == "session"
]
"""Every aggregate with sessions and with about three other kinds; every kind with a quarter of them."""


@pytest.mark.parametrize("pair", sampled(PAIRS, OFTEN), ids="-".join)
@examples(2)
@given(data=st.data())
def test_every_aggregate_over_every_kind_of_window(pair: tuple[str, str], data: st.DataObject) -> None:
    """Few examples a pair, but each with rows enough for several windows and groups."""
    kind, aggregate = pair
    scenario = data.draw(scenarios(kind, aggregate, least=12))
    query = scenario.run()
    assert difference(query.result(), scenario.expected(), scenario.group_by) == ""
    assert query.metrics().state_rows == 0


@pytest.mark.parametrize("kind", GRID)
@examples(8)
@given(data=st.data())
def test_results_come_before_the_end_as_soon_as_progress_allows(kind: str, data: st.DataObject) -> None:
    """One input in order: every window that ends at or before the newest row is out, and no other."""
    scenario = data.draw(scenarios(kind).filter(lambda s: s.arrival.name == "ordered" and not s.sources))
    if any(push and push[0] for push in scenario.pushes):
        return
    query = scenario.query()
    newest: int | None = None
    for push in scenario.pushes:
        if push is None:
            continue
        rows = [row | {"ts": scenario.clock.value(row["ts"] // scenario.clock.unit)} for row in push[1]]
        query.push(rows)
        newest = max(row["ts"] for row in push[1])
    ends = [ticks(end) for end in query.result().column("window_end").to_pylist()]
    due = [row["window_end"] for row in scenario.expected() if newest is not None and row["window_end"] <= newest]
    anchored = scenario.window.origin != "first" or newest != min((row["ts"] for row in scenario.rows), default=None)
    assert sorted(ends) == (sorted(due) if anchored else [])


@pytest.mark.parametrize("shards", [1, 3])
def test_a_silent_group_is_answered_to_the_last_window_though_the_end_fixes_the_origin(shards: int) -> None:
    rows = pa.table({"ts": [0, 2], "k": ["a", "b"]})
    stream = lw.stream(rows, name="rows", progress="ts", disorder=lw.delay_rows(3))
    query = stream.window(range="all", slide=2, origin="first").group_by("k").agg(n=lw.count())
    got = query.collect(shards=shards).select(["wid", "k", "n"]).to_pylist()
    assert [tuple(row.values()) for row in got] == [(0, "a", 1), (1, "a", 1), (1, "b", 1)]


def test_the_comparison_sees_what_is_wrong() -> None:
    """A missing row, one too many, one twice and one of another value are each told."""
    right = [{"wid": 0, "window_start": 0, "window_end": 5, "k": None, "n": 1}]
    other = [right[0] | {"n": 2}]
    assert difference(right, right, ["k"]) == ""
    assert "missing" in difference([], right, ["k"])
    assert "too much" in difference(right, [], ["k"])
    assert "twice" in difference(right + right, right, ["k"])
    assert "differ" in difference(other, right, ["k"])
