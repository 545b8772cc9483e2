"""Streams with chosen disorder have the disorder that was asked for."""

from __future__ import annotations

import numpy as np
import pytest

from lowwater.generate.scrambled import Scrambled, Spell, scrambled
from lowwater.model.lag import Ranks, lag
from lowwater.model.scrambling import Scrambling, multiplicity


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("factor", [1, 3, 40, 500])
@pytest.mark.parametrize("copies", [1, 2])
def test_measured_factor_and_multiplicity_are_those_asked_for(factor: int, copies: int, seed: int) -> None:
    stream = scrambled(2000, seed, factor=factor, multiplicity=copies)
    assert Scrambling.of(stream.values).factor == factor
    assert multiplicity(stream.values) == copies
    assert np.array_equal(np.sort(stream.values), np.arange(2000) // copies)


def test_stream_without_disorder_is_in_order() -> None:
    assert (np.diff(scrambled(100, 1).values) == 1).all()


def test_arrivals_have_the_mean_gap_and_the_lag() -> None:
    stream = scrambled(20_000, 1, mean_gap=0.02, lag=5)
    gaps = np.diff(stream.arrival)
    assert (gaps > 0).all()
    assert stream.arrival[0] > 5
    assert np.mean(gaps) == pytest.approx(0.02, rel=0.03)
    assert np.std(gaps) == pytest.approx(0.02, rel=0.05)


def test_spells_change_the_rate_while_they_last() -> None:
    stream = scrambled(20_000, 2, spells=[Spell(10, 30, 1 / 8), Spell(80, 10, 8)])
    counts = [np.count_nonzero((stream.arrival >= a) & (stream.arrival < b)) for a, b in ((0, 10), (10, 40), (80, 90))]
    assert counts[0] == pytest.approx(500, rel=0.2)
    assert counts[1] == pytest.approx(30 * 50 / 8, rel=0.2)
    assert counts[2] == pytest.approx(4000, rel=0.1)


def lags(one: Scrambled, other: Scrambled, moments: np.ndarray) -> list[int]:
    """The lag from one stream to another by Definition 2.6, over whole streams."""
    ranks, others = Ranks.of(one.values), Ranks.of(other.values)
    come, there = (np.searchsorted(stream.arrival, moments, "right") for stream in (one, other))
    return [lag(n, ranks, m, others) for n, m in zip(come.tolist(), there.tolist(), strict=True)]


@pytest.mark.parametrize(("factor", "copies"), [(0, 1), (40, 1), (40, 2)])
def test_measured_lag_of_evenly_spaced_streams_is_the_one_asked_for(factor: int, copies: int) -> None:
    """150 tuples of 1/50 s. The tuples of a value share their places, so copies take a part of them off the lag."""
    one, late = (
        scrambled(3000, seed, factor=factor, multiplicity=copies, lag=lag, poisson=False)
        for seed, lag in ((1, 0), (2, 3))
    )
    moments = np.arange(5, 50) + 0.01
    assert set(lags(one, late, moments)) <= {150 - behind for behind in range(copies)}
    assert set(lags(late, one, moments)) <= {-150 - behind for behind in range(copies)}


def test_measured_lag_of_poisson_streams_is_the_one_asked_for_on_average() -> None:
    found = [
        np.mean(lags(scrambled(3000, seed, factor=40), scrambled(3000, seed + 99, factor=40, lag=3), np.arange(5, 50)))
        for seed in range(20)
    ]
    assert np.mean(found) == pytest.approx(150, abs=3 * np.std(found) / np.sqrt(len(found)))
    assert np.std(found) < 60, "the difference of two Poisson counts of at most 2,500"


def test_spells_of_evenly_spaced_streams_have_exactly_their_rates() -> None:
    stream = scrambled(7000, 1, spells=[Spell(10, 30, 1 / 8), Spell(80, 10, 8)], poisson=False)
    counts = np.histogram(stream.arrival, [0, 10, 40, 80, 90])[0]
    assert counts.tolist() == pytest.approx([500, 187.5, 2000, 4000], abs=1)


def test_a_suppressed_stream_lags_by_the_tuples_that_it_has_missed() -> None:
    one, slow = (scrambled(4000, 1, spells=spells, poisson=False) for spells in ((), [Spell(10, 30, 1 / 8)]))
    assert lags(one, slow, np.array([9.99, 40.01, 60.01])) == pytest.approx([0, 1312, 1312], abs=1)


@pytest.mark.parametrize(("rows", "factor", "copies"), [(10, 10, 1), (10, 0, 2)])
def test_factor_that_no_stream_has_is_refused(rows: int, factor: int, copies: int) -> None:
    with pytest.raises(ValueError, match="scrambling factor of"):
        scrambled(rows, 1, factor=factor, multiplicity=copies)
