"""Groups and windows behind a join: those of its results, each once, and as soon as progress allows."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lowwater as lw
from lowwater.windows.context_free import Sliding
from tests.compare import difference
from tests.join_oracle import HOWS
from tests.join_queries import Grid, Row, cases, plain
from tests.join_scenarios import grids
from tests.oracle import aggregate, aggregate_windows, key
from tests.soak import examples


def chosen(how: str) -> tuple[str, str]:
    """The time and the value of a result that are there whichever side is missing."""
    if how in ("semi", "anti"):
        return "ts", "v"
    return ("r_ts", "r_v") if how == "right" else ("l_ts", "l_v")


def aggregates(value: str) -> tuple[dict[str, Any], dict[str, tuple[Any, ...]]]:
    asked = {"n": lw.count(), "s": lw.sum(value), "m": lw.max(value)}
    return asked, {"n": ("count", None), "s": ("sum", value), "m": ("max", value)}


@pytest.mark.parametrize("how", HOWS)
@examples(5)
@given(data=st.data())
def test_groups_behind_a_join_are_those_of_its_results_each_once(how: str, data: st.DataObject) -> None:
    case = data.draw(st.sampled_from(["band", "grid"]).flatmap(lambda kind: cases(how, kind)))
    time, value = chosen(how)
    keys = [name for name in case.scenario.keys[0] if data.draw(st.booleans())]
    stamps = data.draw(st.lists(st.sampled_from([time, "r_ts" if "_" in time else time]), unique=True))
    by = [*keys, *stamps] or [time]
    asked, meant = aggregates(value)
    query = case.run(case.joined().group_by(*by).agg(**asked))
    rows = case.told(case.results(case.scenario.streams))
    groups: dict[Any, list[Row]] = {}
    for row in rows:
        groups.setdefault(key(row, by), []).append(row)
    expected = [
        {"wid": 0, **{name: group[0][name] for name in by}}
        | {name: aggregate(group, time, agg) for name, agg in meant.items()}
        for group in groups.values()
    ]
    got = [{"wid": 0, **row} for row in case.got(query.result())]
    assert difference(got, expected, by) == ""
    numbers = query.metrics()
    assert (numbers.result_rows, numbers.dropped_rows, numbers.state_rows) == (len(expected), 0, 0)


@pytest.mark.parametrize("how", ["inner", "left", "right", "semi", "anti"])
@examples(5)
@given(data=st.data())
def test_windows_behind_a_join_are_those_of_its_results_each_once(how: str, data: st.DataObject) -> None:
    case = data.draw(st.sampled_from(["band", "grid"]).flatmap(lambda kind: cases(how, kind)))
    time, value = chosen(how)
    by = data.draw(st.sampled_from([[], case.scenario.keys[0], case.scenario.keys[0][:1]]))
    grid = Grid(*data.draw(grids()))
    asked, meant = aggregates(value)
    options = grid.options(case.stamps)
    behind = case.joined().window(options["window"], options["slide"], over=time, origin=options["origin"])
    strategy = data.draw(st.sampled_from(["auto", "wid", "panes", "buffer", "adaptive"]))
    query = case.run(behind.group_by(*by).agg(strategy, **asked))
    sliding = Sliding(grid.range, grid.slide, grid.origin + grid.range % grid.slide)
    rows = case.told(case.results(case.scenario.streams))
    expected = aggregate_windows(rows, time, sliding, by, meant)
    assert difference(case.got(query.result()), expected, by) == ""
    numbers = query.metrics()
    assert (numbers.result_rows, numbers.dropped_rows, numbers.state_rows) == (len(expected), 0, 0)


def test_windows_behind_a_join_close_as_soon_as_both_sides_have_passed_them() -> None:
    joined = plain("l").join(plain("r"), on="k", within=(0, 5)).window(10).group_by("k").agg(n=lw.count())
    query = joined.start()
    query.push([{"ts": t, "k": "a"} for t in (1, 8, 12)])
    assert query.push([{"ts": t, "k": "a"} for t in (3, 13, 14)], port=1).num_rows == 0
    # A pair of the window has l_ts <= 9, so r_ts <= 14.
    closed = query.push([{"ts": 15, "k": "b"}], port=1)
    assert closed.select(["window_start", "k", "n"]).to_pylist() == [{"window_start": 0, "k": "a", "n": 2}]


def test_windows_behind_groups_by_both_times_close_before_the_end_and_keep_to_their_bound() -> None:
    """The join promises both times together, which closes the groups, and each time, which closes the windows."""
    rows = [{"ts": t, "k": "a", "v": 1} for t in range(0, 100, 7)]
    schema = pa.schema([("ts", pa.int64()), ("k", pa.string()), ("v", pa.int64())])
    a, b = (lw.stream(schema.empty_table(), name=name, progress="ts", disorder=0) for name in "ab")
    groups = a.join(b, on="k", within=(-4, 6)).group_by("a_ts", "b_ts").agg(n=lw.count())
    query = groups.window(10, over="a_ts").agg(n=lw.sum("n")).start()
    for row in rows:
        query.push([row], "b")
    for row in rows:  # far behind the other
        query.push([row], "a")
        assert query.metrics().operators[-1].state_rows <= 2
    assert query.result()["window_start"].to_pylist() == list(range(0, 90, 10))
    assert query.finish()["n"].to_pylist() == [2]
    assert sum(query.result()["n"].to_pylist()) == len(rows)


def test_windows_behind_a_join_whose_inputs_end_values_close_by_its_times() -> None:
    """Ended values purge the join; a window has no use of them, and lets them pass."""
    schema = pa.schema([("ts", pa.int64()), ("k", pa.string()), ("over", pa.bool_())])
    a, b = (lw.stream(schema.empty_table(), name=name, progress="ts", disorder=2).ends("k", "over") for name in "ab")
    query = a.join(b, on="k", within=5).window(10, over="a_ts").group_by("k").agg(n=lw.count()).start(shards=2)
    for ts in range(0, 40, 3):
        for name in "ab":
            query.push([{"ts": ts, "k": k, "over": False} for k in ("x", "y") if k == "y" or ts < 20], name)
    query.push([{"ts": 39, "k": "x", "over": True}], "a")
    assert query.result().num_rows >= 4, "windows close while the stream goes on"
    query.finish()
    times = {k: [t for t in range(0, 40, 3) if k == "y" or t < 20] for k in "xy"}
    expected = {
        (k, w): sum(abs(one - other) <= 5 for one in own if w <= one < w + 10 for other in own)
        for k, own in times.items()
        for w in range(0, 40, 10)
    }
    got = {(row["k"], row["window_start"]): row["n"] for row in query.result().to_pylist()}
    assert got == {key: n for key, n in expected.items() if n}
    assert (query.metrics().state_rows, query.metrics().ended_values, query.metrics().late_rows) == (0, 0, 0)
