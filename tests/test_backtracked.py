"""The optimal buffers by backtracking, compared with loops over tuples that follow the text of the paper."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from lowwater.experiments.oblivious.backtracked import Arrived, backtracked, least
from lowwater.generate.scrambled import scrambled


def streams(seed: int, n: int, rows: int = 30, factor: int = 6) -> list[Arrived]:
    made = [scrambled(rows, seed * 10 + i, factor=factor, multiplicity=2, mean_gap=0.2, lag=i) for i in range(n)]
    return [Arrived(one.values, one.arrival) for one in made]


def by_hand(each: list[Arrived]) -> list[tuple[float, int, tuple[int, ...]]]:
    """(when, value, buffer of each stream) of all results: a tuple that comes finds the others in their buffers."""
    found = []
    for places in product(*(range(len(one.values)) for one in each)):
        values = {int(one.values[at]) for one, at in zip(each, places, strict=True)}
        if len(values) == 1:
            when = [one.at[at] for one, at in zip(each, places, strict=True)]
            come = [int(np.count_nonzero(one.at <= max(when))) for one in each]
            need = [0 if w == max(when) else n - at for n, at, w in zip(come, places, when, strict=True)]
            found.append((float(max(when)), values.pop(), tuple(need)))
    return sorted(found)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("n", [2, 3])
def test_needs_are_those_of_single_tuples(n: int, seed: int) -> None:
    each = streams(seed, n)
    found = backtracked(each)
    assert sorted(zip(found.at, found.values, map(tuple, found.need), strict=True)) == by_hand(each)
    assert (np.diff(found.at) >= 0).all()


def fifo(each: list[Arrived], sizes: list[int]) -> int:
    """The results of FIFO buffers of fixed sizes, tuple by tuple."""
    buffers: list[list[int]] = [[] for _ in each]
    found = 0
    for _, i, value in sorted(
        (at, i, v) for i, one in enumerate(each) for at, v in zip(one.at, one.values, strict=True)
    ):
        found += int(np.prod([own.count(value) for j, own in enumerate(buffers) if j != i]))
        buffers[i] = [*buffers[i], value][-sizes[i] :]
    return found


@pytest.mark.parametrize("sizes", [[1, 1, 1], [4, 9, 2], [10, 3, 7], [30, 30, 30]])
def test_windows_give_the_results_whose_needs_they_meet(sizes: list[int]) -> None:
    each = streams(5, 3)
    assert len(backtracked(each).within(sizes)) == fifo(each, sizes)


@pytest.mark.parametrize("seed", range(3))
def test_least_buffer_is_what_later_results_need(seed: int) -> None:
    """A smaller buffer at a moment loses a result. It is never below the need of a result that comes next."""
    each = streams(seed, 3)
    found = backtracked(each)
    moments = np.linspace(0, max(one.at[-1] for one in each) + 1, 60)
    for moment, sizes in zip(moments, least(found, moments), strict=True):
        for i, one in enumerate(each):
            come = int(np.count_nonzero(one.at <= moment))
            later = [
                p for p, at, n in zip(found.place[:, i], found.at, found.need[:, i], strict=True) if at > moment and n
            ]
            assert sizes[i] == max([come - p for p in later if p < come], default=0)


def test_optimal_is_the_largest_need_of_each_second() -> None:
    found = backtracked(streams(1, 2))
    seconds = int(found.at[-1]) + 3
    for second, most in enumerate(found.optimal(seconds).tolist()):
        needs = found.need[(found.at >= second) & (found.at < second + 1)]
        assert most == (needs.max(axis=0).tolist() if len(needs) else [0, 0])


def test_results_are_streams_of_a_join_above() -> None:
    left, right = backtracked(streams(1, 2)), backtracked(streams(2, 2))
    both = backtracked([left, right])
    assert len(both) == len(backtracked([*left.streams, *right.streams]))
    assert both.need.min() >= 0
