"""The monitors of streams against their definitions over whole streams (WO 2.2, 2.3)."""

from __future__ import annotations

from bisect import bisect_left

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lowwater.model.lag import Ranks, displaced, lag, synchronized
from lowwater.model.monitors import RECENT, Monitor, Recent
from lowwater.model.scrambling import EMPTY, Scrambling, multiplicity
from tests.soak import examples

VALUES = st.lists(st.integers(-20, 20), max_size=60)
RUNS = st.lists(st.lists(st.integers(-30, 30), max_size=15), max_size=8)


def factor_of(values: list[int]) -> int:
    """Definition 2.2, pair by pair."""
    pairs = [(i, j) for i, a in enumerate(values) for j, b in enumerate(values) if a <= b]
    return max((i - j for i, j in pairs), default=0)


def lateness_of(values: list[int]) -> int:
    return max((max(values[: i + 1]) - value for i, value in enumerate(values)), default=0)


def virtual_index(whole: list[int], value: int) -> set[int]:
    """Definition 2.5: the positions, from 1, that a value has in the sorted stream."""
    return {i + 1 for i, other in enumerate(sorted(whole)) if other == value}


def lag_of(one: list[int], n: int, other: list[int], m: int) -> int:
    """Definition 2.6 over whole streams, if n and m tuples have arrived. Without a next-of-kin tuple VI_max is 0."""
    mapped = next(value for value in other if m in virtual_index(other, value))
    kin = max((value for value in one if value <= mapped), default=None)
    return n - (0 if kin is None else max(virtual_index(one, kin)))


def array(values: list[int]) -> np.ndarray:
    return np.array(values, np.int64)


@examples(200)
@given(VALUES)
def test_summary_has_the_factor_and_the_lateness_of_the_definitions(values: list[int]) -> None:
    run = Scrambling.of(array(values))
    assert (run.rows, run.factor, run.late_by) == (len(values), factor_of(values), lateness_of(values))


@examples(200)
@given(RUNS)
def test_merging_summaries_equals_the_summary_of_the_whole(runs: list[list[int]]) -> None:
    whole = [value for run in runs for value in run]
    left = right = EMPTY
    for run in runs:
        left = left.then(Scrambling.of(array(run)))
    for run in reversed(runs):
        right = Scrambling.of(array(run)).then(right)
    assert left.factor == right.factor == factor_of(whole)
    assert left.late_by == right.late_by == lateness_of(whole)


@examples(100)
@given(VALUES, st.integers(1, 9))
def test_coarse_summary_is_an_upper_bound_within_two_steps(values: list[int], step: int) -> None:
    exact = Scrambling.of(array(values))
    coarse = Scrambling.coarse(array(values), step)
    assert exact.factor <= coarse.factor <= exact.factor + 2 * (step - 1)
    assert coarse.late_by >= exact.late_by


def test_summary_travels_as_tables() -> None:
    run = Scrambling.of(np.random.default_rng(1).permutation(200))
    again = Scrambling.of_tables(run.tables())
    assert again.factor == run.factor
    assert again.then(run).factor == run.then(run).factor


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("spread", [0, 40, 3000])
def test_thinned_summaries_bound_the_factor_from_above_by_a_few_percent(seed: int, spread: int) -> None:
    rng = np.random.default_rng(seed)
    whole = np.argsort(np.arange(20_000) + rng.integers(0, spread + 1, 20_000), kind="stable")
    exact = Scrambling.of(whole).factor
    monitor = Monitor()
    for run in np.array_split(whole, 37):
        summary = Scrambling.of(run).thinned()
        assert len(summary.fall_at) < 700
        monitor.learn(summary)
        assert len(monitor.rises.top) < 700
    assert exact <= monitor.factor <= exact * 1.07 + 1


@examples(100)
@given(RUNS)
def test_monitor_equals_the_definition_where_nothing_is_rounded(runs: list[list[int]]) -> None:
    monitor = Monitor()
    for run in runs:
        monitor.learn(Scrambling.of(array(run)).thinned())
    whole = [value for run in runs for value in run]
    exact = factor_of(whole)
    assert exact <= monitor.factor <= exact + exact // 16
    assert monitor.late_by == lateness_of(whole)


@examples(100)
@given(RUNS, st.data())
def test_positions_of_the_staircase_are_rounded_down(runs: list[list[int]], data: st.DataObject) -> None:
    whole = [value for run in runs for value in run]
    monitor = Monitor()
    for run in runs:
        monitor.learn(Scrambling.of(array(run)).thinned())
    value = data.draw(st.integers(-31, 31))
    first = next((i for i, other in enumerate(whole) if other > value), len(whole))
    assert monitor.first_above(value) <= first
    position = data.draw(st.integers(0, max(0, len(whole) - 1)))
    reached = monitor.reached(position)
    if reached is not None:
        assert reached <= max(whole[: position + 1])


def test_monitor_forgets_what_is_behind_the_horizon() -> None:
    monitor = Monitor(horizon=100)
    monitor.learn(Scrambling.of(array([50, *range(40)])))
    assert monitor.factor == 40
    for first in range(100, 400, 20):
        monitor.learn(Scrambling.of(np.arange(first, first + 20)))
    assert (monitor.factor, monitor.late_by) == (0, 0)


def test_monitor_goes_on_from_its_tables() -> None:
    runs = np.array_split(np.random.default_rng(3).permutation(500), 10)
    one, other = Monitor(), Monitor()
    for run in runs[:5]:
        one.learn(Scrambling.of(run))
    other.restore(one.tables())
    for run in runs[5:]:
        one.learn(Scrambling.of(run))
        other.learn(Scrambling.of(run))
    assert (one.rows, one.factor, one.late_by) == (other.rows, other.factor, other.late_by)


def test_recent_maxima_are_bounded_and_never_too_small() -> None:
    recent = Recent()
    for position in range(1000):
        recent.learn(position, 2000 - position, position - 300)
        assert len(recent.at) <= RECENT + 1
        assert recent.largest >= 2000 - position + min(position, 300)


def test_figure_1_has_the_lags_and_factors_of_the_paper() -> None:
    one, two = [63, 63, 66, 62, 64, 68, 67], [63, 65, 68, 62]
    assert lag_of(one, 3, two, 2) == lag(3, Ranks.of(array(one)), 2, Ranks.of(array(two))) == 0
    assert lag_of(one, 7, two, 3) == lag(7, Ranks.of(array(one)), 3, Ranks.of(array(two))) == 3
    assert [synchronized(lag_of(one, n, two, m)) for n, m in ((3, 2), (7, 3))] == [True, False]
    assert Scrambling.of(array(one)).factor == Scrambling.of(array(two)).factor == 3
    assert Scrambling.of(array([1, 2, 2, 2, 3])).factor == 2
    assert multiplicity(array([1, 2, 2, 2, 3])) == 3


@examples(100)
@given(VALUES)
def test_no_tuple_is_further_from_its_virtual_index_than_the_factor(values: list[int]) -> None:
    """Theorem 2.1."""
    at = [(i + 1, virtual_index(values, value)) for i, value in enumerate(values)]
    behind = max((place - min(index) for place, index in at), default=0)
    ahead = max((max(index) - place for place, index in at), default=0)
    assert displaced(array(values)) == (max(0, behind), max(0, ahead))
    assert max(displaced(array(values))) <= factor_of(values)


@examples(150)
@given(
    st.lists(st.integers(0, 30), min_size=1, max_size=30),
    st.lists(st.integers(0, 30), min_size=1, max_size=30),
    st.data(),
)
def test_ranks_over_whole_streams_give_the_lag_of_the_definition(
    one: list[int], other: list[int], data: st.DataObject
) -> None:
    n, m = data.draw(st.integers(0, len(one))), data.draw(st.integers(1, len(other)))
    assert lag(n, Ranks.of(array(one)), m, Ranks.of(array(other))) == lag_of(one, n, other, m)


@examples(150)
@given(
    st.lists(st.integers(0, 30), min_size=1, max_size=30),
    st.lists(st.integers(0, 30), min_size=1, max_size=30),
    st.data(),
)
def test_lag_of_what_has_arrived_is_an_upper_bound_if_the_other_stream_is_in_order(
    one: list[int], other: list[int], data: st.DataObject
) -> None:
    other = sorted(set(other))
    n, m = data.draw(st.integers(0, len(one))), data.draw(st.integers(1, len(other)))
    estimate = lag(n, Ranks.of(array(one[:n])), m, Ranks.of(array(other[:m])))
    assert estimate >= lag_of(one, n, other, m)
    assert estimate >= 0


@examples(100)
@given(RUNS, st.integers(2, 9), st.data())
def test_merged_and_thinned_ranks_bound_the_rank_from_below(
    runs: list[list[int]], points: int, data: st.DataObject
) -> None:
    whole = sorted(value for run in runs for value in run)
    merged = Ranks.merged([EMPTY_RANKS, *(Ranks.of(array(run)) for run in runs)])
    value = data.draw(st.integers(-31, 31))
    exact = bisect_left(whole, value + 1)
    assert merged.rank(value) == exact
    thin = merged.thinned(points)
    assert len(thin.values) <= points
    assert thin.rank(value) <= exact
    assert thin.rows == len(whole)
    if whole:
        n = data.draw(st.integers(1, len(whole)))
        assert merged.value(n) == whole[n - 1]
        assert thin.value(n) >= whole[n - 1]


EMPTY_RANKS = Ranks.of(array([]))


def test_multiplicity_of_nothing_is_zero() -> None:
    assert multiplicity(array([])) == 0


@pytest.mark.parametrize("copies", [1, 3, 40])
@pytest.mark.parametrize("n", [0, 500, 20_000])
def test_ranks_can_be_made_thin_at_once(n: int, copies: int) -> None:
    values = np.random.default_rng(n).integers(0, n // copies + 1, n)
    one, other = Ranks.of(values).thinned(), Ranks.thinned_of(values)
    for name in ("values", "upto", "most"):
        assert np.array_equal(getattr(one, name), getattr(other, name))
