"""Streams with chosen disorder have the disorder that was asked for."""

from __future__ import annotations

import numpy as np
import pytest

from lowwater.generate.scrambled import Spell, scrambled
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


@pytest.mark.parametrize(("rows", "factor", "copies"), [(10, 10, 1), (10, 0, 2)])
def test_factor_that_no_stream_has_is_refused(rows: int, factor: int, copies: int) -> None:
    with pytest.raises(ValueError, match="scrambling factor of"):
        scrambled(rows, 1, factor=factor, multiplicity=copies)
