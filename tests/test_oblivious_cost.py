"""The cost model of the join without windows against worked examples, and Theorem 3.1 against joins of streams."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lowwater.joins.oblivious_cost import Characteristics, buffer, joined, memory, pair_buffer, synchronized_buffer
from lowwater.model.scrambling import Scrambling, multiplicity
from tests.soak import examples

ONE, OTHER = Characteristics(100, 50), Characteristics(40, 25)


def test_worked_examples_of_equations_6_and_7() -> None:
    assert synchronized_buffer(ONE, OTHER) == 180
    assert [pair_buffer(ONE, OTHER, lag) for lag in (0, 30, -500)] == [180, 210, 1]


def test_buffer_is_the_largest_of_all_pairs() -> None:
    streams = [ONE, OTHER, Characteristics(70, 10)]
    assert buffer(streams, 0, [0, 0, 0]) == 100 + 50 * 70 / 10
    assert buffer(streams, 2, [0, 0, 0]) == 70 + 10 * 100 / 50


def test_worked_example_of_theorem_3_1() -> None:
    found = joined([Characteristics(500, 50, 2)] * 3)
    assert (found.rate, found.scrambling, found.multiplicity) == (600, 6000, 8)


@pytest.mark.parametrize(
    ("strategy", "joining", "sorting"),
    [("plain", 100 + 80 + 500, 0), ("MSF", 2 + 6 + 500, 100), ("DBF", 100 + 7 + 80, 0), ("Hybrid", 2 + 7 + 6, 100)],
)
def test_strategies_change_the_terms_of_the_buffer(strategy: str, joining: float, sorting: float) -> None:
    streams = [Characteristics(100, 50, 2), Characteristics(40, 25, 3)]
    found = memory(strategy, streams, 0, [0, 500], ahead=7)
    assert (found.joined, found.sorted) == (joining, sorting)


@examples(150)
@given(st.lists(st.lists(st.integers(0, 6), min_size=1, max_size=8), min_size=2, max_size=3), st.randoms())
def test_theorem_3_1_bounds_the_factor_and_the_multiplicity_of_results(
    streams: list[list[int]], random: object
) -> None:
    results, known = joined_in_order(streams, random)
    bound = joined(known)
    assert Scrambling.of(results).factor <= bound.scrambling
    assert multiplicity(results) <= bound.multiplicity


def joined_in_order(streams: list[list[int]], random: object) -> tuple[np.ndarray, list[Characteristics]]:
    """The values of the results in the order in which they come out, if the streams arrive in a random interleaving."""
    order = [i for i, stream in enumerate(streams) for _ in stream]
    random.shuffle(order)  # type: ignore[attr-defined]
    seen: list[list[int]] = [[] for _ in streams]
    results = []
    for i in order:
        value = streams[i][len(seen[i])]
        seen[i].append(value)
        results += [value] * int(np.prod([s.count(value) for j, s in enumerate(seen) if j != i]))
    known = [Characteristics(Scrambling.of(np.array(s)).factor, 1, multiplicity(np.array(s))) for s in streams]
    return np.array(results, np.int64), known
