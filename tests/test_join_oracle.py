"""The judge of window joins is judged by examples, worked out by hand."""

from __future__ import annotations

from typing import Any

import pytest

from tests.compare import counted
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
from tests.join_scenarios import KEY_KINDS
from tests.oracle import Row

NAN = float("nan")
K = [("k", "k")]
KINDS = tuple(KEY_KINDS)


def rows_of(*times: int | None, **columns: Any) -> list[Row]:
    """Rows of these times, numbered so that each is told from the others; columns as lists."""
    return [{"ts": t, "n": n, **{name: of[n] for name, of in columns.items()}} for n, t in enumerate(times)]


def numbers(pairs: list[Any]) -> list[tuple[Any, ...]]:
    """The numbers of the rows in pairs, and what follows the rows as it is."""
    return [tuple(part["n"] if isinstance(part, dict) else part for part in pair) for pair in pairs]


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
