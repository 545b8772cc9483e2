"""The judge of window joins is judged by what must hold between its joins."""

from __future__ import annotations

import math
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from tests.compare import counted, multiset
from tests.join_oracle import (
    HOWS,
    band_join,
    count_join,
    flatten,
    grid_join,
    n_way,
    value_punctuated,
)
from tests.join_scenarios import CONDITIONS, KEY_KINDS, JoinScenario, bands, grids, join_scenarios
from tests.oracle import Row, key
from tests.soak import examples

NAN = float("nan")
K = [("k", "k")]
KINDS = tuple(KEY_KINDS)


@examples(40)
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


@examples(30)
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


@examples(30)
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


@examples(30)
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


@examples(30)
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


@examples(30)
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


@examples(40)
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


@examples(30)
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


@examples(40)
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


@examples(30)
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
