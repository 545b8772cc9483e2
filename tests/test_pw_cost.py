"""The cost model of the punctuated join (PW 5.2): near the state where its assumptions hold, and where it is not."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest

from lowwater.experiments.punctuated import state
from lowwater.experiments.punctuated.feed import SCHEMA, arrivals, give, run, spec
from lowwater.generate import SECOND
from lowwater.generate.punctuated import Punctuated, punctuated, unpunctuated
from lowwater.joins.cost import ended_part, punctuated_state, window_state
from lowwater.joins.pwjoin import PWJoin
from lowwater.model.punctuation import Punctuation
from lowwater.operators.base import Batch, Ended

Counts = npt.NDArray[np.float64]


def states_of_b(windows: tuple[float, float], seconds: int) -> tuple[Counts, Counts]:
    """(held, Equation 1) every 2 s, where B draws its values evenly and A ends one in 0.3 s."""
    values = round(1.2 * seconds / 0.3)
    streams: list[Punctuated] = [
        punctuated("punct-random-30-40", values, 5),
        unpunctuated(150 * seconds, values, 6),
    ]
    join = PWJoin(spec(*windows))
    held, expected = [], []
    for until, messages in arrivals(streams, seconds, SECOND // 2):
        for port, message in messages:
            give(join, port, message)
        if until % (2 * SECOND) == 0 and until >= windows[1] * SECOND:
            held.append(join.sides[1].live_rows)
            expected.append(state.equation(streams[1], streams[0], windows[1], until / SECOND))
    return np.array(held, np.float64), np.array(expected)


@pytest.mark.parametrize("window", [2, 5])
def test_the_state_is_as_the_equation_says_where_values_are_even(window: int) -> None:
    """Mean distance below a twentieth of a window. Single samples stray as counts of some hundred tuples do."""
    held, expected = states_of_b((100, window), 30)
    full = window_state(100, window)
    assert np.abs(held - expected).mean() < full / 20
    assert np.abs(held - expected).max() < 4 * np.sqrt(full)
    assert held[0] > 0.75 * full
    assert held[-1] < 0.4 * full, "most values are ended by then, or the test shows little"


def test_the_equation_is_too_low_once_ended_values_are_forgotten() -> None:
    held, expected = states_of_b((1, 2), 30)
    assert held[-1] > 1.5 * expected[-1]


def test_the_equation_does_not_hold_where_values_go_on_with_time() -> None:
    """Too high while few values have occurred, too low when many have; the state itself stays the same."""
    streams = [punctuated("punct-asc-100-40", 60, seed) for seed in (1, 2)]
    ran = run(PWJoin(spec(15, 15)), streams, 44, 4, SECOND)
    found = {sample.at: sample.rows for sample in ran.samples}
    expected = {at: sum(state.equation(streams[i], streams[1 - i], 15, at) for i in (0, 1)) for at in found}
    assert expected[16.0] > 1.3 * found[16.0]
    assert expected[44.0] < 0.9 * found[44.0]
    assert found[44.0] == pytest.approx(found[16.0], rel=0.25)


def test_in_the_best_case_no_tuple_of_b_is_ever_kept() -> None:
    """Fig. 7: clusters of A and B by turns, those of B after the punctuation of A with their value."""
    join = PWJoin(spec(5, 5))
    rng = np.random.default_rng(7)
    sizes = 1 + rng.poisson(9, 40)
    at = 0
    for value, size in enumerate(sizes.tolist()):
        for port in (0, 1):
            ts = np.arange(at, at + size) * SECOND // 100
            keys = np.full(size, value)
            give(join, port, Batch(pa.table([pa.array(ts, SCHEMA.field("ts").type), keys, ts], schema=SCHEMA)))
            assert join.sides[1].live_rows == 0
            assert join.sides[0].live_rows <= sizes.max()
            give(join, port, Ended(pa.table({"key": [value]})))
            at += size
            for side in (0, 1):
                give(join, side, Punctuation.linear("ts", at * SECOND // 100))
        assert join.sides[0].live_rows == 0
    assert punctuated_state(100, 5, 5, 8, 40) == 0
    assert join.counts.results == int((sizes**2).sum())


def test_more_ended_than_occurred_is_no_state_and_never_less() -> None:
    assert punctuated_state(100, 5, 2, 10, 10) == 0
    assert ended_part(1, 10, 0) == 1
    assert ended_part(0, 10, 0) == 0
    assert punctuated_state(100, 5, 0, 10, 0) == window_state(100, 5)
