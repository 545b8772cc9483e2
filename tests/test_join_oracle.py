"""The judge of window joins is judged: by hand examples, by what must hold between its joins, and by outside cases."""

from __future__ import annotations

import json
import math
import operator
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.compare import multiset
from tests.join_oracle import (
    HOWS,
    as_rows,
    band_join,
    count_join,
    flatten,
    grid_join,
    n_way,
    naming,
    value_punctuated,
)
from tests.join_scenarios import CONDITIONS, KEY_KINDS, JoinScenario, bands, grids, join_scenarios
from tests.oracle import Row, key

Case = dict[str, Any]
NAN = float("nan")
K = [("k", "k")]
KINDS = tuple(KEY_KINDS)


def rows_of(*times: int | None, **columns: Any) -> list[Row]:
    """Rows of these times, numbered so that each is told from the others; columns as lists."""
    return [{"ts": t, "n": n, **{name: of[n] for name, of in columns.items()}} for n, t in enumerate(times)]


def numbers(pairs: list[Any]) -> list[tuple[Any, ...]]:
    """The numbers of the rows in pairs, and what follows the rows as it is."""
    return [tuple(part["n"] if isinstance(part, dict) else part for part in pair) for pair in pairs]


def counted(pairs: list[Any]) -> list[str]:
    """Pairs without their order."""
    return sorted(map(repr, pairs))


# Hand examples


def test_pickups_with_the_dropoff_of_the_same_taxi_within_the_hour() -> None:
    pickups = rows_of(0, 10, 15, 100, taxi=["a", "b", "c", "a"])
    dropoffs = rows_of(20, 15, 160, 10, taxi=["a", "c", "a", "b"])
    on = [("taxi", "taxi")]
    assert numbers(band_join(pickups, dropoffs, on, 0, 60)) == [(0, 0), (1, 3), (2, 1), (3, 2)]
    after = band_join(pickups, dropoffs, on, 0, 60, "full", "()")
    assert numbers(after) == [(0, 0), (1, None), (2, None), (3, None), (None, 1), (None, 2), (None, 3)]
    long = band_join(pickups, dropoffs, on, 20, None, "anti")
    assert numbers(long) == [(1, None), (2, None)]


@pytest.mark.parametrize(
    ("bounds", "found"), [("[]", [8, 9, 12, 13]), ("[)", [8, 9, 12]), ("(]", [9, 12, 13]), ("()", [9, 12])]
)
def test_each_end_is_open_or_closed(bounds: str, found: list[int]) -> None:
    right = rows_of(7, 8, 9, 12, 13, 14)
    assert [b["ts"] for _, b in band_join(rows_of(10), right, [], -2, 3, bounds=bounds)] == found


def test_a_band_of_one_point_is_equality_and_with_an_open_end_empty() -> None:
    left, right = rows_of(1, 2, 2), rows_of(2, 3)
    assert numbers(band_join(left, right, [], 0, 0)) == [(1, 0), (2, 0)]
    assert band_join(left, right, [], 0, 0, bounds="[)") == []
    assert len(band_join(left, right, [], None, None, bounds="()")) == 6


def test_three_minutes_on_one_side_and_two_on_the_other_is_the_query_of_the_thesis() -> None:
    """Q5-8: main2 follows main1 within 3 minutes, main1 follows main2 within 2: r - 3 <= l <= r + 2."""
    main1 = rows_of(*range(20), ip=["x"] * 20)
    main2 = rows_of(10, 10, ip=["x", "y"])
    found = band_join(main1, main2, [("ip", "ip")], -2, 3)
    assert [a["ts"] for a, _ in found] == [7, 8, 9, 10, 11, 12]
    assert counted(found) == counted(n_way([main1, main2], [["ip"], ["ip"]], [3, 2]))


def test_null_keys_join_only_where_null_is_safe_but_are_outer_rows() -> None:
    left, right = rows_of(0, 0, k=[None, 1]), rows_of(0, 0, k=[None, 2])
    assert band_join(left, right, K, 0, 0) == []
    assert numbers(band_join(left, right, K, 0, 0, "full")) == [(0, None), (1, None), (None, 0), (None, 1)]
    assert numbers(band_join(left, right, K, 0, 0, null_safe=True)) == [(0, 0)]
    assert numbers(grid_join(left, right, K, 5, 5, how="anti", null_safe=True)) == [(1, None, 0, 5)]
    both = [("k", "k"), ("m", "m")]
    one, other = rows_of(0, k=[None], m=[1]), rows_of(0, 0, k=[None, None], m=[1, None])
    assert numbers(band_join(one, other, both, 0, 0, null_safe=True)) == [(0, 0)]


def test_nan_is_nan_and_zero_has_no_sign() -> None:
    left, right = rows_of(0, 0, k=[NAN, 0.0]), rows_of(0, 0, 0, k=[-0.0, float("nan"), None])
    assert numbers(band_join(left, right, K, 0, 0)) == [(0, 1), (1, 0)]
    assert numbers(n_way([left, right], [["k"], ["k"]], [0, 0])) == [(0, 1), (1, 0)]


def test_a_row_without_a_time_takes_part_in_nothing() -> None:
    left, right = rows_of(None, 3, k=[1, 2]), rows_of(None, 3, k=[1, 1])
    for how, found in zip(HOWS, ([], [(1, None)], [(None, 1)], [(1, None), (None, 1)], [], [(1, None)]), strict=True):
        assert numbers(band_join(left, right, K, None, None, how)) == found
        assert numbers(grid_join(left, right, K, 5, 5, how=how)) == [(*pair, 0, 5) for pair in found]
    assert n_way([left, right], [["k"], ["k"]], [None, None]) == []
    assert numbers(count_join(rows_of(1, None), rows_of(2), [], 1, 1)) == [(0, 0)]


def test_only_a_true_condition_joins() -> None:
    left, right = rows_of(0, 0, 0, v=[1, 5, None]), rows_of(0, v=[3])

    def less(a: Row, b: Row) -> bool | None:
        return None if a["v"] is None else a["v"] < b["v"]

    assert numbers(band_join(left, right, [], 0, 0, "left", condition=less)) == [(0, 0), (1, None), (2, None)]
    assert numbers(band_join(left, right, [], 0, 0, "semi", condition=less)) == [(0, None)]


def test_a_left_row_with_many_matches_is_once_in_a_semi_join_and_equal_rows_are_different_ones() -> None:
    row = {"ts": 0, "k": 1}
    assert band_join([row, row], [row, row], K, 0, 0, "semi") == [(row, None), (row, None)]
    assert len(band_join([row, row], [row, row], K, 0, 0)) == 4
    assert count_join([row, row], [row], K, 1, 1, how="left") == [(row, row), (row, None)]  # the first is forgotten


def test_a_pair_is_in_every_window_they_share_and_a_row_unmatched_in_the_others() -> None:
    left, right = rows_of(5), rows_of(8, 25)
    found = grid_join(left, right, [], range=9, slide=3, origin=1, how="full")
    assert numbers(found) == [
        (0, None, -2, 7),
        (0, 0, 1, 10),
        (0, 0, 4, 13),
        (None, 0, 7, 16),
        (None, 1, 19, 28),
        (None, 1, 22, 31),
        (None, 1, 25, 34),
    ]
    assert numbers(grid_join(left, right, [], 9, 3, 1, "semi")) == [(0, None, 1, 10), (0, None, 4, 13)]
    assert numbers(grid_join(left, right, [], 9, 3, 1, "anti")) == [(0, None, -2, 7)]


def test_rows_in_gaps_between_windows_are_no_outer_rows() -> None:
    assert numbers(grid_join(rows_of(1, 4), rows_of(7), [], range=2, slide=5, how="full")) == [
        (0, None, 0, 2),
    ]
    assert numbers(grid_join(rows_of(-4), rows_of(-5), [], range=2, slide=5)) == [(0, 0, -5, -3)]


def test_each_of_three_waits_for_both_others() -> None:
    a, b, c = rows_of(0), rows_of(3), rows_of(6)
    keys: list[list[str]] = [[], [], []]
    assert len(n_way([a, b, c], keys, [6, 3, 0])) == 1
    assert n_way([a, b, c], keys, [5, 3, 0]) == []
    assert n_way([a, b, c], keys, [6, 2, 0]) == []
    assert len(n_way([a, b, c], keys, [None, None, 0])) == 1
    assert n_way([c, b, a], keys, [None, 3, 5]) == []


def test_keys_of_many_streams_have_their_own_names_and_are_never_null() -> None:
    a, b = rows_of(0, 0, x=[1, None], y=["p", "p"]), rows_of(0, 0, u=[1, None], w=["p", "p"])
    c = [{"at": 0, "n": 0, "x": 1, "z": "p"}]
    found = n_way([a, b, c], [["x", "y"], ["u", "w"], ["x", "z"]], [0, 0, 0], times=["ts", "ts", "at"])
    assert numbers(found) == [(0, 0, 0)]


def test_the_last_two_tuples_of_each_key_or_of_all() -> None:
    left = rows_of(1, 2, 3, 4, k=["a", "b", "b", "b"])
    right = rows_of(5, 5, k=["a", "b"])
    assert numbers(count_join(left, right, K, 2, 2)) == [(0, 0), (2, 1), (3, 1)]
    assert numbers(count_join(left, right, K, 2, 2, per_key=False)) == [(2, 1), (3, 1)]
    assert count_join(left, right, K, 0, 5) == []
    unkeyed = rows_of(1, 2, 3, k=["a", None, None])
    assert numbers(count_join(unkeyed, right, K, 1, 1)) == [(0, 0)]
    assert count_join(unkeyed, right, K, 1, 1, per_key=False) == []  # a tuple without a key is one of the stream's last


def test_of_equal_times_left_comes_before_right_and_earlier_arrivals_before_later_ones() -> None:
    left, right = rows_of(5, 5), rows_of(5, 5)
    assert numbers(count_join(left, right, [], 1, 1)) == [(1, 0), (1, 1)]
    assert numbers(count_join(rows_of(6, 5), rows_of(6), [], 1, 1)) == [(0, 0)]  # in time order, not in that of arrival
    assert numbers(count_join(rows_of(6), rows_of(5, 5), [], 1, 1)) == [(0, 1)]


def test_one_side_counts_and_the_other_waits() -> None:
    left, right = rows_of(1, 2, 10), rows_of(3, 7)
    assert numbers(count_join(left, right, [], 1, None, right_wait=3)) == [(1, 0), (1, 1), (2, 1)]
    assert numbers(count_join(left, right, [], None, 1, left_wait=1)) == [(1, 0), (2, 1)]
    assert numbers(count_join(left, right, [], None, 1, left_wait=1, how="full")) == [(1, 0), (2, 1), (0, None)]


@pytest.mark.parametrize("pattern", [3, [7, 3], (3, 4), (None, 9), (0, None)])
def test_a_row_is_ungrammatical_if_its_own_stream_had_ended_its_key(pattern: Any) -> None:
    left, right = rows_of(0, 2, k=[3, 3]), rows_of(1, 50, k=[3, 3])
    events = [("L", left[0]), ("L", pattern), ("R", right[0]), ("L", left[1]), ("R", right[1])]
    bad, pairs = value_punctuated(events, K, -5, 5)
    assert (bad, numbers(pairs)) == ([("L", left[1])], [(0, 0)])
    assert numbers(value_punctuated(events, K)[1]) == [(0, 0), (0, 1)]
    assert numbers(value_punctuated(events, K, -5, 5, how="right")[1]) == [(0, 0), (None, 1)]


def test_ranges_leave_out_their_end_and_all_that_has_no_order() -> None:
    row = {"ts": 0, "k": 5}
    for pattern in ((3, 5), (6, None), [], [4, 6], None, "5"):
        assert value_punctuated([("R", pattern), ("R", row)], K)[0] == []
    for value in (None, NAN):
        assert value_punctuated([("L", (None, None)), ("L", row | {"k": value})], K)[0] == []
        assert len(value_punctuated([("L", value), ("L", row | {"k": value})], K)[0]) == 1


def test_columns_are_named_as_the_library_names_them() -> None:
    left = [{"id": 1, "car": 7, "ts": 0, "fare": 5}]
    right = [{"id": 1, "taxi": 7, "ts": 1, "tip": 2}, {"id": 2, "taxi": 7, "ts": 1, "tip": 3}]
    on = [("id", "id"), ("car", "taxi")]
    columns = (["id", "car", "ts", "fare"], ["id", "taxi", "ts", "tip"])
    assert flatten(band_join(left, right, on, 0, 1, "right"), on, ("ride", "pay"), columns=columns) == [
        {"id": 1, "car": 7, "ride_ts": 0, "fare": 5, "taxi": 7, "pay_ts": 1, "tip": 2},
        {"id": 2, "car": None, "ride_ts": None, "fare": None, "taxi": 7, "pay_ts": 1, "tip": 3},
    ]
    assert flatten(band_join(left, right, on, 0, 1, "semi"), on, columns=(columns[0], [])) == left
    (row,) = flatten(grid_join(left, right, on, 5, 5), on, columns=columns)
    assert (row["window_start"], row["window_end"], row["l_ts"], row["r_ts"]) == (0, 5, 0, 1)
    (row,) = as_rows(n_way([left, right, left], [["id"]] * 3, [9, 9, 9]), {"a": [(0, "fare")], "b": [(2, "fare")]})
    assert row == {"a": 5, "b": 5}
    zeros = flatten(band_join([{"k": -0.0, "ts": 0}], [{"k": 0.0, "ts": 0}], K, 0, 0), K, columns=(["k"], ["k"]))
    assert repr(zeros) == "[{'k': -0.0}]"  # of equal keys the left one is told
    crossed = naming([("k", "id")], ("l", "r"), (["k"], ["id", "k"]))
    assert crossed == {"l_k": [(0, "k")], "id": [(1, "id")], "r_k": [(1, "k")]}
    with pytest.raises(ValueError, match="'l_v'"):
        naming([], ("l", "r"), (["v", "l_v"], ["v"]))


def test_words_that_mean_nothing_are_refused() -> None:
    with pytest.raises(ValueError, match="outer"):
        band_join([], [], [], 0, 0, "outer")
    with pytest.raises(ValueError, match="bounds"):
        band_join([], [], [], 0, 0, bounds="][")
    for sides in ({"left_rows": None, "right_rows": 1}, {"left_rows": 1, "right_rows": 1, "left_wait": 1}):
        with pytest.raises(ValueError, match="either"):
            count_join([], [], [], **sides)


# What must hold between joins


@settings(max_examples=80)
@given(join_scenarios(kinds=KINDS, timeless=True), bands(), st.sampled_from([None, *CONDITIONS]), st.booleans())
def test_kinds_of_joins_agree(
    scenario: JoinScenario, band: tuple[int | None, int | None, str], condition: str | None, null_safe: bool
) -> None:
    left, right = scenario.streams
    lower, upper, bounds = band
    further = {"bounds": bounds, "condition": CONDITIONS.get(condition or ""), "null_safe": null_safe}
    of = {how: Counter(counted(band_join(left, right, scenario.on, lower, upper, how, **further))) for how in HOWS}
    assert of["left"] == of["inner"] + of["anti"]
    assert of["full"] == of["left"] + of["right"] - of["inner"]
    assert of["semi"] + of["anti"] == Counter(repr((row, None)) for row in left if row["ts"] is not None)
    assert (sum(of["semi"].values()) > 0) == (sum(of["inner"].values()) > 0)


@settings(max_examples=60)
@given(join_scenarios(kinds=KINDS), bands())
def test_a_join_from_the_right_is_the_join_from_the_left(
    scenario: JoinScenario, band: tuple[int | None, int | None, str]
) -> None:
    left, right = scenario.streams
    lower, upper, bounds = band
    back = {"[": "]", "]": "[", "(": ")", ")": "("}
    turned = band_join(
        right,
        left,
        [(b, a) for a, b in scenario.on],
        None if upper is None else -upper,
        None if lower is None else -lower,
        "right",
        back[bounds[1]] + back[bounds[0]],
    )
    straight = band_join(left, right, scenario.on, lower, upper, "left", bounds)
    assert counted([(a, b) for b, a in turned]) == counted(straight)


@settings(max_examples=60)
@given(join_scenarios(kinds=KINDS), st.integers(1, 20), st.integers(-10, 10))
def test_window_conditions_are_equality_and_band_predicates(scenario: JoinScenario, size: int, origin: int) -> None:
    """TH 5.2: windows side by side are equality of the quotients; those that move by one tick are a band, in which a
    pair shares as many windows as the range is longer than the pair."""
    left, right = scenario.streams
    tumbling = grid_join(left, right, scenario.on, size, size, origin)
    quotients = band_join(
        left,
        right,
        scenario.on,
        None,
        None,
        condition=lambda a, b: (a["ts"] - origin) // size == (b["ts"] - origin) // size,
    )
    assert counted([pair[:2] for pair in tumbling]) == counted(quotients)
    moving = grid_join(left, right, scenario.on, size, 1, origin)
    band = band_join(left, right, scenario.on, -size, size, bounds="()")
    repeated = [pair for pair in band for _ in range(size - abs(pair[0]["ts"] - pair[1]["ts"]))]
    assert counted([pair[:2] for pair in moving]) == counted(repeated)


@settings(max_examples=60)
@given(join_scenarios(kinds=KINDS), grids(), st.sampled_from(HOWS))
def test_windows_are_joined_each_for_itself(scenario: JoinScenario, grid: tuple[int, int, int], how: str) -> None:
    left, right = scenario.streams
    size, slide, origin = grid
    found = grid_join(left, right, scenario.on, size, slide, origin, how)
    number = 0
    for start in range(origin - 100 * slide, origin + 100 * slide, slide):
        inside = [[row for row in stream if start <= row["ts"] < start + size] for stream in (left, right)]
        expected = band_join(*inside, scenario.on, -size, size, how)
        assert [pair[:2] for pair in found if pair[2:] == (start, start + size)] == expected
        number += len(expected)
    assert number == len(found)


@settings(max_examples=60)
@given(join_scenarios(ports=3, most=8), st.lists(st.none() | st.integers(0, 20), min_size=3, max_size=3))
def test_many_streams_are_joined_as_two_and_one_more(scenario: JoinScenario, waits: list[int | None]) -> None:
    a, b, c = scenario.streams
    ends = [None if wait is None else -wait for wait in waits]
    pairs = band_join(a, b, [on[:2] for on in scenario.on], ends[1], waits[0])
    assert counted(pairs) == counted(n_way([a, b], scenario.keys[:2], waits[:2]))
    # The first two as one row each: it waits for the third as its parts do, and so does the third for them.
    both = [{**one, "pair": (one, other)} for one, other in pairs]

    def in_time(pair: Row, last: Row) -> bool:
        gaps = [last["ts"] - row["ts"] for row in pair["pair"]]
        waited = all(waits[i] is None or gap <= waits[i] for i, gap in enumerate(gaps))
        return waited and (waits[2] is None or all(-gap <= waits[2] for gap in gaps))

    three = band_join(both, c, [(on[0], on[2]) for on in scenario.on], None, None, condition=in_time)
    expected = [(*pair["pair"], last) for pair, last in three]
    assert counted(expected) == counted(n_way([a, b, c], scenario.keys, waits))


@settings(max_examples=60)
@given(join_scenarios(kinds=KINDS), st.integers(0, 15), st.integers(0, 15), st.booleans())
def test_windows_that_wait_are_a_band_and_those_that_count_enough_forget_nothing(
    scenario: JoinScenario, left_wait: int, right_wait: int, per_key: bool
) -> None:
    left, right = scenario.streams
    waiting = count_join(
        left, right, scenario.on, None, None, per_key, left_wait=left_wait, right_wait=right_wait, how="full"
    )
    assert waiting == band_join(left, right, scenario.on, -right_wait, left_wait, "full")
    unbounded = band_join(left, right, scenario.on, None, None, "left")
    assert count_join(left, right, scenario.on, len(left), len(right), per_key, how="left") == unbounded
    for_ever = count_join(left, right, scenario.on, len(left), None, per_key, right_wait=math.inf, how="left")
    assert for_ever == unbounded


@settings(max_examples=80)
@given(join_scenarios(kinds=("number", "pair", "none")), st.integers(0, 4), st.integers(0, 4), st.booleans())
def test_counting_windows_are_buffers_that_the_merged_streams_run_through(
    scenario: JoinScenario, left_rows: int, right_rows: int, per_key: bool
) -> None:
    """As an engine would that gets both streams in order: join the buffers of the other side, then enter one's own."""
    sizes, buffers, found = (left_rows, right_rows), ({}, {}), []
    merged = [(row["ts"], side, n, row) for side in (0, 1) for n, row in enumerate(scenario.streams[side])]
    for _, side, _, row in sorted(merged, key=lambda event: event[:3]):
        own = key(row, scenario.keys[side])
        place = own if per_key else ()
        if None not in own:
            found += [(row, x)[:: 1 - 2 * side] for k, x in buffers[1 - side].get(place, []) if k == own]
        buffer = buffers[side].setdefault(place, [])
        buffer.append((own, row))
        del buffer[: max(0, len(buffer) - sizes[side])]
    assert counted(found) == counted(count_join(*scenario.streams, scenario.on, left_rows, right_rows, per_key))


@settings(max_examples=60)
@given(join_scenarios(kinds=("number", "text", "double")), bands(), st.data())
def test_punctuation_takes_out_what_came_after_it_and_nothing_else(
    scenario: JoinScenario, band: tuple[int | None, int | None, str], data: st.DataObject
) -> None:
    rows = [("LR"[port], row) for port, table in scenario.pushes for row in table.to_pylist()]
    lower, upper, bounds = band
    columns = dict(zip("LR", scenario.on[0], strict=True))
    values = [row[columns[side]] for side, row in rows]
    ended, at = data.draw(st.sampled_from([*values, "absent"])), data.draw(st.integers(0, len(rows)))
    sides = data.draw(st.sampled_from(["L", "R", "LR"]))
    events = [*rows[:at], *((side, ended) for side in sides), *rows[at:]]
    # Grouped as Spark groups: NaN is one value and so is zero.
    equal = [key({"k": value}, ["k"]) == key({"k": ended}, ["k"]) for value in values]
    late = [n for n, (side, _) in enumerate(rows) if n >= at and side in sides and equal[n]]
    left, right = ([row for n, (of, row) in enumerate(rows) if of == side and n not in late] for side in "LR")
    bad, pairs = value_punctuated(events, scenario.on, lower, upper, bounds=bounds)
    assert bad == [rows[n] for n in late]
    assert pairs == band_join(left, right, scenario.on, lower, upper, bounds=bounds)


# Scenarios


@settings(max_examples=80)
@given(join_scenarios(kinds=KINDS, timeless=True) | join_scenarios(ports=3))
def test_scenarios_keep_what_they_promise(scenario: JoinScenario) -> None:
    ports = range(len(scenario.schemas))
    assert all(table.schema == scenario.schemas[port] for port, table in scenario.pushes)
    assert sum(table.num_rows for _, table in scenario.pushes) == sum(map(len, scenario.streams))
    for port in ports:
        assert {*scenario.keys[port], "ts", "v", f"own{port}"} == set(scenario.columns[port])
        times = [row["ts"] for row in scenario.streams[port] if row["ts"] is not None]
        assert all(time >= max(times[: at + 1]) - scenario.disorder[port] for at, time in enumerate(times))
    assert {len(on) for on in scenario.on} <= {len(ports)}


@settings(max_examples=60)
@given(join_scenarios(kinds=KINDS), bands(bounded=True), st.sampled_from(HOWS))
def test_results_do_not_depend_on_the_arrival(scenario: JoinScenario, band: tuple[int, int, str], how: str) -> None:
    lower, upper, bounds = band
    by_time = [sorted(stream, key=lambda row: row["ts"]) for stream in scenario.streams]
    columns = scenario.columns if how not in ("semi", "anti") else [scenario.columns[0], []]
    one, other = (
        flatten(band_join(*streams, scenario.on, lower, upper, how, bounds), scenario.on, columns=columns)
        for streams in (scenario.streams, by_time)
    )
    assert multiset(one) == multiset(other)


# Outside cases

OPERATORS = {
    "=": operator.eq,
    "<>": operator.ne,
    "!=": operator.ne,
    "<": operator.lt,
    ">": operator.gt,
    "<=": operator.le,
    ">=": operator.ge,
}
TIME = "time of the event"  # no column of a case is called so
JOIN_CASES = {
    "arroyo-sql-testing/offset_impulse_join",
    "risingwave-e2e/time_window_join/full_join",
    "risingwave-e2e/q8/nexmark_q8",
}


def conditions(where: list[Row], a: Row, b: Row) -> bool:
    def value(of: Row) -> Any:
        return of["const"] if "const" in of else (a if of["col"][0] == "left" else b)[of["col"][1]]

    sides = [(value(one["left"]), one["op"], value(one["right"])) for one in where]
    return all(x is not None and y is not None and OPERATORS[op](x, y) for x, op, y in sides)


def selected(query: Row, a: Row | None, b: Row | None, *window: int) -> Row:
    row = {}
    for place, column, name in query["select"]:
        if place == "window":
            row[name] = window[("start", "end").index(column)]
        elif place == "coalesce":
            of, side = (a, 0) if a is not None else (b, 1)
            row[name] = of[column if column in of else query["on"][0][side]]
        else:
            of = a if place == "left" else b
            row[name] = None if of is None else of[column]
    return row


def computed(case: Case, folder: Path) -> list[Row]:
    query = case["query"]
    assert case["lateness"]["rule"] == "none"
    arrival = case.get("arrival") or [json.loads(line) for line in (folder / case["arrival_ref"]).open()]
    left, right = ([{TIME: a["t"], **a["r"]} for a in arrival if a["s"] == query[side]] for side in ("left", "right"))
    further = {
        "how": query["join_type"],
        "condition": lambda a, b: conditions(query["where"], a, b),
        "null_safe": query.get("null_safe_equality", False),
        "left_time": TIME,
        "right_time": TIME,
    }
    if query["kind"] == "interval_join":
        pairs = band_join(left, right, query["on"], query["lower"], query["upper"], bounds=query["bounds"], **further)
    else:
        window = query["window"]
        assert window["type"] in ("tumble", "hop")
        pairs = grid_join(left, right, query["on"], window["size"], window["slide"], window["origin"], **further)
    rows = [selected(query, *pair) for pair in pairs]
    return [json.loads(row) for row in {json.dumps(row) for row in rows}] if query.get("distinct") else rows


def assert_expected(case: Case, folder: Path) -> None:
    expected = case["expected"]["rows"]
    columns = sorted(expected[0])
    assert multiset({name: row[name] for name in columns} for row in computed(case, folder)) == multiset(expected)


def test_the_outside_cases_of_joins_are_reproduced(shared: Path) -> None:
    folder = shared / "cases"
    cases = [json.loads(line) for suite in sorted(folder.glob("*.jsonl")) for line in suite.open()]
    joins = {case["id"]: case for case in cases if case["query"]["kind"] in ("window_join", "interval_join")}
    if not joins:
        pytest.skip("the outside cases are not in the folder `shared`")
    assert set(joins) >= JOIN_CASES
    for case in joins.values():
        assert_expected(case, folder)


def test_a_case_of_an_interval_join_is_read_as_the_format_says(tmp_path: Path) -> None:
    """The suites at hand have none: an order and its payments within 10 ticks, the last one excluded."""
    arrival = [
        {"s": "orders", "t": 0, "r": {"id": 1, "price": 5}},
        {"s": "paid", "t": 10, "r": {"order": 1, "sum": 5}},
        {"s": "paid", "t": 9, "r": {"order": 1, "sum": 4}},
        {"s": "paid", "t": 3, "r": {"order": 1, "sum": 6}},
        {"s": "orders", "t": 2, "r": {"id": None, "price": 1}},
        {"s": "paid", "t": 2, "r": {"order": None, "sum": 1}},
    ]
    query = {
        "kind": "interval_join",
        "left": "orders",
        "right": "paid",
        "join_type": "full",
        "on": [["id", "order"]],
        "lower": 0,
        "upper": 10,
        "bounds": "[)",
        "where": [{"left": {"col": ["right", "sum"]}, "op": ">=", "right": {"col": ["left", "price"]}}],
        "select": [["coalesce", "id", "id"], ["left", "price", "price"], ["right", "sum", "sum"]],
    }
    expected = [(1, 5, 6), (None, 1, None), (1, None, 5), (1, None, 4), (None, None, 1)]
    rows = [{"id": i, "price": price, "sum": paid} for i, price, paid in expected]
    case = {"arrival": arrival, "query": query, "lateness": {"rule": "none"}, "expected": {"rows": rows}}
    assert_expected(case, tmp_path)
    safe = query | {"null_safe_equality": True, "join_type": "inner"}
    matched = {"rows": [rows[0], {"id": None, "price": 1, "sum": 1}]}
    assert_expected(case | {"query": safe, "expected": matched}, tmp_path)
