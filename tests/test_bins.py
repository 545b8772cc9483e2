"""Slide-by-tuple windows against the algorithm of TH Fig. 6-7, tuple by tuple, and the state that they hold."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lowwater as lw
from tests.soak import examples

SCHEMA = pa.schema([("ts", pa.int64()), ("k", pa.string()), ("v", pa.int64())])
DELAY = 6


class Figure67:
    """Start bins and end bins of one group, as printed: [bid, aggregate], the aggregate being (count, sum).

    A start bin that is already there is not added twice: tuples of one time define one window. Variations 6.1.4.2: a
    start bin keeps the arrival numbers of its tuples; only those that are wanted are put out.
    """

    def __init__(self, range: int) -> None:
        self.range = range
        self.start: dict[int, list[int]] = {}
        self.end: dict[float, list[int]] = {-math.inf: [0, 0]}
        self.arrived: dict[int, list[int]] = {}
        self.number = 0

    def tuple(self, t: int, v: int) -> None:
        self.number += 1
        self.arrived.setdefault(t, []).append(self.number)
        if t not in self.start:
            self.start[t] = list(self._before(t))
        if t + self.range not in self.end:
            self.end[t + self.range] = list(self._before(t + self.range))
        for bid, aggregate in [*self.start.items(), *self.end.items()]:
            if t <= bid < t + self.range:
                aggregate[0] += 1
                aggregate[1] += v

    def _before(self, bid: float) -> list[int]:
        """The aggregate of the largest bin at or below; the figure says below, but an end bin may be there already."""
        both = self.start | self.end
        return both[max(at for at in both if at <= bid)]

    def answers(self) -> list[tuple[int, list[int], list[int]]]:
        """What a punctuation beyond all tuples puts out: start bins, their aggregates and their tuples' numbers."""
        return [(bid, self.start[bid], self.arrived[bid]) for bid in sorted(self.start)]


times = st.lists(
    st.tuples(st.integers(0, 40), st.integers(-5, 5), st.sampled_from(["a", "b"])), min_size=1, max_size=30
)


def delayed(drawn: list[tuple[int, int, str]], shifts: list[int]) -> list[tuple[int, int, str]]:
    keyed = [(row[0] + shifts[i % len(shifts)], i, row) for i, row in enumerate(drawn)]
    return [row for _, _, row in sorted(keyed)]


@examples(40)
@given(
    drawn=times,
    shifts=st.lists(st.integers(0, DELAY), min_size=1, max_size=7),
    range=st.integers(1, 15),
    every=st.integers(1, 3),
    order=st.sampled_from(["arrival", "time"]),
    step=st.integers(1, 9),
)
def test_bins_are_those_of_the_figure(
    drawn: Any, shifts: list[int], range: int, every: int, order: str, step: int
) -> None:
    rows = delayed(drawn, shifts)
    stream = lw.stream(SCHEMA.empty_table(), name="rows", progress="ts", disorder=DELAY)
    asked = stream.window(range, f"{every} rows", partition_by="k", order=order)
    query = asked.agg(n=lw.count(), s=lw.sum("v")).start(shards=2)
    for at in np.arange(0, len(rows), step).tolist():
        query.push([{"ts": t, "v": v, "k": k} for t, v, k in rows[at : at + step]])
    query.finish()
    got = {(r["k"], r["wid"], r["n"], r["s"]) for r in query.result().to_pylist()}
    expected = set()
    for k in ("a", "b"):
        figure = Figure67(range)
        for t, v, group in rows:
            if group == k:
                figure.tuple(t, v)
        ranked = 0
        for bid, (n, s), numbers in figure.answers():
            before, ranked = ranked, ranked + len(numbers)
            by_rank = ranked // every > before // every
            if by_rank if order == "time" else any(number % every == 0 for number in numbers):
                expected.add((k, bid, n, s))
    assert got == expected


@pytest.mark.parametrize("order", ["time", "arrival"])
@pytest.mark.parametrize("every", [1, 4])
def test_two_bins_for_each_tuple_of_the_open_range_and_no_tuple(order: str, every: int) -> None:
    """One row stands for the two bins of a tuple; with n-th tuples a count a group is kept beside them."""
    rng = np.random.default_rng(5)
    ts = np.sort(rng.integers(0, 4_000, 6_000)) + rng.integers(0, DELAY, 6_000)
    ts = ts[np.argsort(ts + rng.integers(0, DELAY, len(ts)), kind="stable")]
    keys = rng.integers(0, 5, len(ts)).astype(str)
    stream = lw.stream(SCHEMA.empty_table(), name="rows", progress="ts", disorder=2 * DELAY)
    asked = stream.window(200, f"{every} rows", partition_by="k", order=order).agg(n=lw.count(), m=lw.max("v"))
    query, most = asked.start(), 0
    for at in np.arange(0, len(ts), 300).tolist():
        now = slice(at, at + 300)
        query.push(pa.table({"ts": ts[now], "k": keys[now], "v": np.zeros(len(ts[now]), np.int64)}, schema=SCHEMA))
        low = ts[: at + 300].max() - 2 * DELAY
        open_tuples = int((ts[: at + 300] > low - 200).sum())
        held = query.metrics().state_rows
        assert held <= open_tuples + 5, (
            "a row for each tuple of the open range, for its two bins, and a count per group"
        )
        most = max(most, held)
    assert most > 200
    query.finish()
    assert query.metrics().state_rows == 0


def test_a_late_tuple_moves_the_ranks_above_it() -> None:
    stream = lw.stream(SCHEMA.empty_table(), name="rows", progress="ts", disorder=10)
    query = stream.window(100, "2 rows", order="time").agg(n=lw.count()).start()
    query.push([{"ts": t, "k": "a", "v": 0} for t in (10, 20, 30, 40)])  # low-watermark 30: 10 and 20 are ranked
    assert query.result().column("wid").to_pylist() == [20]
    query.push([{"ts": 31, "k": "a", "v": 0}])  # in time: now 30 and 31 are a pair, and 40 begins the next
    query.finish()
    assert query.result().column("wid").to_pylist() == [20, 31]


def test_a_row_below_final_ranks_counts_in_open_windows_and_in_the_ranks_above() -> None:
    stream = lw.stream(SCHEMA.empty_table(), name="rows", progress="ts", disorder=10)
    query = stream.window(100, "2 rows", order="time").agg(n=lw.count()).start()
    query.push([{"ts": t, "k": "a", "v": 0} for t in (10, 20, 40)])
    query.push([{"ts": 5, "k": "a", "v": 0}])  # late: the window of 20 is closed
    query.finish()
    assert [(r["wid"], r["n"]) for r in query.result().to_pylist()] == [(20, 2), (40, 4)]
    late = query.late_output().to_pylist()
    assert [(r["ts"], r["late_reason"], r["windows_missed"], r["windows_kept"]) for r in late] == [
        (5, "some of its windows are closed", None, None)
    ]
