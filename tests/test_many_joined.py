"""Joins of more than two streams, and sides of more than one."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lowwater as lw
from lowwater.joins.oa_join import OAJoin
from lowwater.joins.spec import JoinSide, WindowJoin
from lowwater.operators.base import Batch, taken
from tests.compare import multiset
from tests.join_oracle import HOWS, flatten, n_way
from tests.join_queries import Case, Grid, Row, held, low_watermark, plain_streams, restarts, windows
from tests.join_scenarios import KEY_KINDS, grids, join_scenarios
from tests.soak import examples

PLAIN = pa.schema({"ts": pa.int64(), "k": pa.string()})


@pytest.mark.parametrize(("ports", "most"), [(3, 12), (4, 6)])
@examples(8)
@given(data=st.data())
def test_a_join_of_several_streams_is_the_definition(ports: int, most: int, data: st.DataObject) -> None:
    scenario = data.draw(join_scenarios(ports=ports, kinds=tuple(KEY_KINDS), least=most // 2, most=most, timeless=True))
    waits = data.draw(st.lists(st.integers(0, 25), min_size=ports, max_size=ports))
    streams = plain_streams(scenario)
    again = data.draw(restarts(len(scenario.pushes)))
    query = lw.join(streams, scenario.on, waits).start(shards=data.draw(st.integers(1, 3)))
    arrived: list[list[Row]] = [[] for _ in range(ports)]
    lows: list[int | None] = [None] * ports
    for at, (port, rows) in enumerate(scenario.pushes):
        if at in again:
            query.restart()
        query.push(rows, port)
        arrived[port] += rows.to_pylist()
        lows[port] = low_watermark(arrived[port], scenario.disorder[port])
        needed = []
        for side, wait in enumerate(waits):
            others = [low for of, low in enumerate(lows) if of != side]
            least = None if None in others else min(low for low in others if low is not None)
            needed.append(sum(least is None or t + wait >= least for t in times(arrived[side], scenario.keys[side])))
        assert held(query) == needed
    results = n_way(scenario.streams, scenario.keys, waits)
    told = flatten(results, scenario.on, "abcd"[:ports], columns=scenario.columns)
    assert multiset(query.result().to_pylist()) == multiset(told), "all of it is found before the end"
    query.finish()
    assert multiset(query.result().to_pylist()) == multiset(told)
    assert (query.metrics().late_rows, query.metrics().state_rows, query.metrics().state_bytes) == (0, 0, 0)


def times(rows: list[Row], keys: list[str]) -> list[int]:
    """Of the rows that can join."""
    return [row["ts"] for row in rows if row["ts"] is not None and all(row[name] is not None for name in keys)]


@examples(6)
@given(data=st.data())
def test_a_join_of_several_streams_over_a_grid_is_the_definition(data: st.DataObject) -> None:
    """A window is joined for itself: its rows are combined with nothing to keep them apart but the key."""
    scenario = data.draw(join_scenarios(ports=3, kinds=("number", "text", "none"), most=10))
    grid = Grid(*data.draw(grids()))
    query = lw.join(plain_streams(scenario), scenario.on, **grid.options(False)).start()
    for port, rows in scenario.pushes:
        query.push(rows, port)
    query.finish()
    expected = []
    for end in sorted({end for rows in scenario.streams for row in rows for end in grid.ends(row["ts"])}):
        inside = [[row for row in rows if end - grid.range <= row["ts"] < end] for rows in scenario.streams]
        found = n_way(inside, scenario.keys, [None, None, None])
        expected += [(*rows, end - grid.range, end) for rows in found]
    told = flatten(expected, scenario.on, "abc", columns=scenario.columns)
    assert multiset(query.result().to_pylist()) == multiset(told)
    assert query.metrics().state_rows == 0


@pytest.mark.parametrize("how", HOWS)
@examples(5)
@given(data=st.data())
def test_sides_of_several_streams_progress_with_their_slowest(how: str, data: st.DataObject) -> None:
    """(a union b) join (c union d): four streams, each with its own disorder and lag."""
    scenario = data.draw(join_scenarios(ports=4, most=8))
    keys = scenario.keys[0]
    common = ["ts", *keys, "v"]
    schema = pa.schema([scenario.schemas[0].field(name) for name in common])
    a, b, c, d = (
        lw.stream(schema.empty_table(), name=name, progress="ts", disorder=scenario.disorder[port])
        for port, name in enumerate("abcd")
    )
    window = data.draw(st.sampled_from(["band", "grid"]).flatmap(windows))
    on = [(name, name) for name in keys]
    merged = replace(scenario, keys=[keys, keys], schemas=[schema, schema])
    case = Case(merged, window, how, None, False, False, False, data.draw(st.integers(1, 3)), frozenset())
    query = a.union(b).join(c.union(d), on, how=how, **window.options(False)).start(shards=case.shards)
    again = data.draw(restarts(len(scenario.pushes)))
    arrived: list[list[Row]] = [[] for _ in range(4)]
    names = ("a_b", "c_d")
    columns = (common, [] if how in ("semi", "anti") else common)
    for at, (port, table) in enumerate(scenario.pushes):
        if at in again:
            query.restart()
        rows = table.rename_columns([*["ts"], *keys, "v", "own"]).select(common)
        query.push(rows, port)
        arrived[port] += rows.to_pylist()
        lows = [low_watermark(own, delay) for own, delay in zip(arrived, scenario.disorder, strict=True)]
        slowest = [None if None in two else min(low for low in two if low is not None) for two in (lows[:2], lows[2:])]
        sides = [arrived[0] + arrived[1], arrived[2] + arrived[3]]
        told = flatten(case.known(sides, slowest), on, names, columns=columns)
        assert multiset(query.result().to_pylist()) == multiset(told)
        assert held(query) == case.needed(sides, slowest)
    query.finish()
    assert multiset(query.result().to_pylist()) == multiset(
        flatten(case.results(sides_of(arrived)), on, names, columns=columns)
    )
    assert (query.metrics().late_rows, query.metrics().state_rows) == (0, 0)


def sides_of(arrived: list[list[Row]]) -> list[list[Row]]:
    return [arrived[0] + arrived[1], arrived[2] + arrived[3]]


def test_combinations_are_not_made_in_vain() -> None:
    """Of a key that one of three streams never has, no pairs of the other two are looked at."""
    join = OAJoin(WindowJoin(tuple(JoinSide(name, PLAIN, "ts", ("k",)) for name in "abc"), (10, 10, 10)))
    for port in (0, 1):
        taken(join, port, Batch(pa.table({"ts": [0] * 200, "k": ["x"] * 200})))
    taken(join, 2, Batch(pa.table({"ts": [0], "k": ["y"]})))
    assert sum(side.operations.visited for side in join.sides) == 0
    (found,) = taken(join, 2, Batch(pa.table({"ts": [0], "k": ["x"]})))
    assert isinstance(found, Batch)
    assert found.rows.num_rows == 200 * 200
