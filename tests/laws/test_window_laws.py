"""Laws of every window kind: `wids` is the exact inverse of `extent`, and both are the papers' sets (TH 5.1).

Each kind has a second definition here, in plain Python from the set notation, that shares no code with the package.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from lowwater.errors import BadWindow
from lowwater.windows.context_aware import Partitioned, Session, SlideByTuple
from lowwater.windows.context_free import ContextFree, Landmark, Sliding, tumbling
from lowwater.windows.over import Over
from lowwater.windows.spec import OPEN_END, Tuples, Window

length = st.integers(1, 12)
origin = st.integers(-30, 30)
time = st.integers(-60, 60)


@st.composite
def streams(draw: st.DrawFn) -> Tuples:
    rows = draw(st.lists(st.tuples(time, st.integers(-1, 2)), max_size=25))
    times, partitions = (np.array([row[i] for row in rows], np.int64) for i in (0, 1))
    return Tuples(times, partitions)


sliding = st.builds(Sliding, length, length, origin) | st.builds(tumbling, length, origin)
landmark = st.builds(Landmark, length, origin) | st.builds(
    lambda slide, origin, periods: Landmark(slide, origin, slide * periods), length, origin, st.integers(1, 5)
)
context_free = sliding | landmark
partitioned = st.builds(Partitioned, length, length, st.sampled_from(["arrival", "time"]))
slide_by_tuple = st.builds(SlideByTuple, length, st.integers(1, 5), st.sampled_from(["row-num", "rank"]))
session = st.builds(Session, length)
context_aware = partitioned | slide_by_tuple | session
over = st.builds(Over, st.sampled_from(["rows", "range"]), st.none() | st.integers(0, 12), st.integers(0, 6))


def members(window: Window, wid: int, tuples: Tuples) -> list[int]:
    """Row numbers of an extent."""
    return [int(row) for row in np.flatnonzero(window.extent(wid, tuples))]


def tagged(window: Window, wid: int, tuples: Tuples) -> list[int]:
    """Row numbers that `wids` puts into a window."""
    first, last = window.wids(tuples)
    return [int(row) for row in np.flatnonzero((first <= wid) & (wid <= last))]


def ids_around(window: Sliding | Landmark, tuples: Tuples) -> list[int]:
    """Any integer is an id of a context-free kind: those of windows(T), some before and some after."""
    found = window.windows(tuples).tolist() or [0]
    return list(range(found[0] - 3, found[-1] + 4))


# wids is the inverse of extent.


@given(context_free, streams())
def test_tuple_is_in_extent_iff_window_is_in_wids(window: Sliding | Landmark, tuples: Tuples) -> None:
    for wid in ids_around(window, tuples):
        assert members(window, wid, tuples) == tagged(window, wid, tuples)


@given(context_aware | over, streams())
def test_tuple_is_in_extent_iff_position_is_in_wids(window: Window, tuples: Tuples) -> None:
    for position in range(len(window.windows(tuples))):
        assert members(window, position, tuples) == tagged(window, position, tuples)


@given(context_free | context_aware | over, streams())
def test_windows_hold_every_id_of_a_tuple(window: Window, tuples: Tuples) -> None:
    """Nothing that wids gives is missing in windows(T), the open end of landmark windows apart."""
    found = window.windows(tuples)
    known = set(found.tolist()) if isinstance(window, ContextFree) else set(range(len(found)))
    for first, last in zip(*window.wids(tuples), strict=True):
        assert first in known if last == OPEN_END else known.issuperset(range(first, last + 1))


@given(context_aware, streams())
def test_context_aware_descriptors_are_distinct_and_ascending(window: Window, tuples: Tuples) -> None:
    found = window.windows(tuples).tolist()
    assert found == sorted(set(found))


@given(context_free | context_aware | over)
def test_no_tuples_no_windows(window: Window) -> None:
    nothing = Tuples(np.empty(0, np.int64))
    assert len(window.windows(nothing)) == 0
    assert [len(side) for side in window.wids(nothing)] == [0, 0]


# Each kind against its set, written down once more.


@given(sliding, streams())
def test_sliding_extent_is_its_set(window: Sliding, tuples: Tuples) -> None:
    """Eq. 5.2 with origin for min(T)."""
    for w in ids_around(window, tuples):
        end = window.origin + (w + 1) * window.slide
        assert members(window, w, tuples) == [n for n, t in enumerate(tuples.time) if end - window.range <= t < end]


@given(landmark, streams())
def test_landmark_extent_is_its_set(window: Landmark, tuples: Tuples) -> None:
    """Eq. 5.8; with a period, of the tuples before the end only those in the same period as the last instant."""

    def period(t: int) -> int:
        return 0 if window.period is None else (t - window.origin) // window.period

    for w in ids_around(window, tuples):
        end = window.origin + (w + 1) * window.slide
        expected = [n for n, t in enumerate(tuples.time) if t < end and period(int(t)) == period(end - 1)]
        assert members(window, w, tuples) == expected


@given(partitioned, streams())
def test_partitioned_windows_are_their_sets(window: Partitioned, tuples: Tuples) -> None:
    """Eq. 5.5: all (index, partition) up to the last that holds a tuple."""
    time, partition = tuples.time.tolist(), tuples.partitions.tolist()
    found: dict[tuple[int, int], list[int]] = {}
    for p in sorted(set(partition)):
        rows = [n for n in range(len(time)) if partition[n] == p]
        if window.order == "time":
            rows.sort(key=lambda n: (time[n], n))
        extents = []
        for index in range(len(rows) + window.range + 1):
            end = (index + 1) * window.slide
            extents.append(sorted(n for rank, n in enumerate(rows) if end - window.range <= rank < end))
        while extents and not extents[-1]:
            extents.pop()
        found |= {(p, index): extent for index, extent in enumerate(extents)}
    assert window.windows(tuples).tolist() == list(found)
    assert [members(window, position, tuples) for position in range(len(found))] == list(found.values())


@given(slide_by_tuple, streams())
def test_slide_by_tuple_windows_are_their_sets(window: SlideByTuple, tuples: Tuples) -> None:
    """Eq. 5.13, 5.16 with row-num and rank from 1; 5.14."""
    time = tuples.time.tolist()
    order = list(range(len(time)))
    if window.order == "rank":
        order.sort(key=lambda n: (time[n], n))
    ends = sorted({time[n] for number, n in enumerate(order, start=1) if number % window.every == 0})
    assert window.windows(tuples).tolist() == ends
    for position, w in enumerate(ends):
        assert members(window, position, tuples) == [n for n, t in enumerate(time) if w - window.range < t <= w]


@given(session, streams())
def test_sessions_are_the_closure_of_neighbours(window: Session, tuples: Tuples) -> None:
    """Two tuples of one partition closer than the gap are together, and so is what is together with either."""
    rows = list(zip(tuples.time.tolist(), tuples.partitions.tolist(), strict=True))
    together = [{n} for n in range(len(rows))]
    for n, (t, p) in enumerate(rows):
        for m, (u, q) in enumerate(rows):
            if p == q and abs(t - u) < window.gap and together[n] is not together[m]:
                joined = together[n] | together[m]
                for member in joined:
                    together[member] = joined
    expected = {}
    for extent in together:
        times = [rows[n][0] for n in extent]
        expected[rows[min(extent)][1], min(times), max(times) + window.gap] = sorted(extent)
    found = window.windows(tuples).tolist()
    assert found == sorted(expected)
    assert [members(window, position, tuples) for position in range(len(found))] == [expected[w] for w in found]


@given(over, streams())
def test_over_windows_are_a_frame_around_every_tuple(window: Over, tuples: Tuples) -> None:
    """Partition by partition, in it by time, ties by arrival; peers are in a RANGE frame on both sides."""
    time, partition = tuples.time.tolist(), tuples.partitions.tolist()
    expected = []
    for p in sorted(set(partition)):
        rows = sorted((n for n in range(len(time)) if partition[n] == p), key=lambda n: (time[n], n))
        for place, n in enumerate(rows):
            extent = []
            for other, m in enumerate(rows):
                since = other - place if window.frame == "rows" else time[m] - time[n]
                if (window.preceding is None or since >= -window.preceding) and since <= (window.following or 0):
                    extent.append(m)
            expected.append((n, sorted(extent)))
    assert window.windows(tuples).tolist() == [n for n, _ in expected]
    assert [members(window, position, tuples) for position in range(len(expected))] == [e for _, e in expected]


# Intervals, progress and panes.


@given(context_free, streams())
def test_interval_bounds_the_extent(window: Sliding | Landmark, tuples: Tuples) -> None:
    for w in ids_around(window, tuples):
        starts, ends = window.interval(np.array([w]))
        inside = tuples.time < ends[0]
        if starts is not None:
            inside &= tuples.time >= starts[0]
        assert inside.tolist() == window.extent(w, tuples).tolist()
        assert window.ends(np.array([w])).tolist() == ends.tolist()


@given(context_free, time, st.integers(0, 60))
def test_no_tuple_at_or_above_the_low_watermark_reaches_a_closed_window(
    window: Sliding | Landmark, lwm: int, ahead: int
) -> None:
    closed = window.closed_below(lwm)
    first, last = window.bounds(np.array([lwm + ahead]))
    assert first[0] >= closed or first[0] > last[0]
    for wid in range(closed - 5, closed):
        assert not window.extent(wid, Tuples(np.array([lwm + ahead]))).any()


@given(context_free, time)
def test_first_open_window_can_still_get_a_tuple(window: Sliding | Landmark, lwm: int) -> None:
    wid = window.closed_below(lwm)
    possible = np.arange(lwm, int(window.ends(np.array([wid]))[0]))
    assert window.extent(wid, Tuples(possible)).any()


@given(sliding, st.integers(-60, 60))
def test_all_tuples_of_a_pane_share_their_ids(window: Sliding, pane: int) -> None:
    """A pane is the largest piece with this property; `pane_wids` gives the shared ids without a tuple."""
    start = window.origin + pane * window.pane
    times = np.arange(start, start + window.pane)
    assert set(window.pane_of(times).tolist()) == {pane}
    first, last = window.pane_wids(np.array([pane]))
    for side, shared in zip(window.bounds(times), (first, last), strict=True):
        assert set(side.tolist()) == set(shared.tolist())


@given(sliding, st.integers(-30, 30))
def test_panes_of_a_window_are_its_extent(window: Sliding, w: int) -> None:
    first, stop = (int(side[0]) for side in window.window_panes(np.array([w])))
    start, end = (int(side[0]) for side in window.interval(np.array([w])))
    assert (window.origin + first * window.pane, window.origin + stop * window.pane) == (start, end)
    assert stop - first == window.panes_per_window
    for pane in range(first - 2, stop + 2):
        low, high = (int(side[0]) for side in window.pane_wids(np.array([pane])))
        assert (low <= w <= high) == (first <= pane < stop)


@given(length, origin, time)
def test_tumbling_puts_every_tuple_into_one_window(range: int, origin: int, t: int) -> None:
    first, last = tumbling(range, origin).bounds(np.array([t]))
    assert first == last


@given(landmark, time)
def test_landmark_ids_end_with_the_period_or_never(window: Landmark, t: int) -> None:
    last = window.bounds(np.array([t]))[1]
    if window.period is None:
        assert last[0] == OPEN_END
    else:
        assert (window.ends(last)[0] - window.origin) % window.period == 0


@given(slide_by_tuple, streams())
def test_slide_by_rank_does_not_see_arrival_order(window: SlideByTuple, tuples: Tuples) -> None:
    assume(window.order == "rank")
    assert window.windows(tuples).tolist() == window.windows(Tuples(tuples.time[::-1])).tolist()


# The thesis' own numbers, and refusals.


def test_worked_example_of_the_thesis() -> None:
    """t = min + 5 s, RANGE 10 minutes, SLIDE 1 minute: windows 0..9, not 1..10 as Eq. 5.3 is printed."""
    for start in (0, -7, 1_000_003):
        window = Sliding(600, 60, origin=start)
        assert [side.tolist() for side in window.bounds(np.array([start + 5]))] == [[0], [9]]


def test_tuple_between_windows_has_an_empty_id_range() -> None:
    """slide 10, range 4: windows [6, 10), [16, 20), ... and 3 lies in the gap before the first."""
    first, last = Sliding(4, 10).bounds(np.array([3, 6, 9, 10]))
    assert (first <= last).tolist() == [False, True, True, False]


def test_rank_changes_when_a_late_tuple_arrives() -> None:
    window = SlideByTuple(10, every=2, order="rank")
    assert window.windows(Tuples(np.array([1, 2, 4, 5]))).tolist() == [2, 5]
    assert window.windows(Tuples(np.array([1, 2, 4, 5, 0]))).tolist() == [1, 4]


def test_partitions_progress_independently() -> None:
    """Q5-2 in small: RANGE 2 rows, SLIDE 1 row, PA p."""
    tuples = Tuples(np.arange(4), np.array([7, 3, 7, 7]))
    window = Partitioned(2, 1)
    assert window.windows(tuples).tolist() == [(3, 0), (3, 1), (7, 0), (7, 1), (7, 2), (7, 3)]
    assert [members(window, position, tuples) for position in range(6)] == [[1], [1], [0], [0, 2], [2, 3], [3]]


def test_pause_of_exactly_the_gap_separates_sessions() -> None:
    assert Session(5).windows(Tuples(np.array([0, 9, 4]))).tolist() == [(0, 0, 9), (0, 9, 14)]


REFUSED: list[Callable[[int], Any]] = [
    lambda n: Sliding(n, 1),
    lambda n: Sliding(1, n),
    lambda n: tumbling(n),
    lambda n: Landmark(n),
    lambda n: Landmark(1, period=n),
    lambda n: Partitioned(n, 1),
    lambda n: Partitioned(1, n),
    lambda n: SlideByTuple(n),
    lambda n: SlideByTuple(1, every=n),
    lambda n: Session(n),
]


@pytest.mark.parametrize("build", REFUSED)
@pytest.mark.parametrize("value", [0, -1])
def test_lengths_must_be_greater_than_zero(build: Callable[[int], Any], value: int) -> None:
    with pytest.raises(BadWindow, match="must be greater than zero"):
        build(value)


@pytest.mark.parametrize(("preceding", "following"), [(-1, 0), (0, -1), (1 << 61, 0), (0, None)])
def test_frames_need_a_bound_that_can_be_reached(preceding: int, following: int | None) -> None:
    with pytest.raises(BadWindow, match=r"PRECEDING|FOLLOWING"):
        Over("rows", preceding, following)


def test_period_must_be_a_multiple_of_slide() -> None:
    with pytest.raises(BadWindow, match="PERIOD 7 must be a multiple of SLIDE 2"):
        Landmark(2, period=7)


def test_unknown_order_of_rows_is_refused() -> None:
    with pytest.raises(BadWindow, match="row-num, rank"):
        SlideByTuple(1, order="arrival")  # type: ignore[arg-type]
    with pytest.raises(BadWindow, match="arrival, time"):
        Partitioned(1, 1, order="rank")  # type: ignore[arg-type]
