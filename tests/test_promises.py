"""Promises of operators say as much as they can: what lies just at the bound may still come, and comes."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import lowwater as lw
from lowwater.joins.count_join import CountJoin
from lowwater.joins.oa_join import OAJoin
from lowwater.joins.pwjoin import PWJoin
from lowwater.joins.spec import JoinSide, WindowJoin
from lowwater.model.punctuation import ALL, Punctuation
from lowwater.operators.base import Batch, Message, Operator, taken
from lowwater.operators.bucket import WindowedAggregation
from lowwater.operators.paned_aggregate import LandmarkPartials, PanePartials
from lowwater.operators.session_aggregate import SessionAggregate
from lowwater.operators.window_aggregate import WindowAggregate
from lowwater.windows.context_aware import Session
from lowwater.windows.context_free import Landmark, Sliding
from tests.stored import committed, reopened

SCHEMA = pa.schema([("ts", pa.int64()), ("k", pa.string())])
SIDES = tuple(JoinSide(name, SCHEMA, "ts", ("k",)) for name in "lr")
GREATEST, LEAST = OAJoin.GREATEST, OAJoin.LEAST


def asked(window: Any) -> WindowedAggregation:
    return WindowedAggregation(window, "ts", SCHEMA, ("k",), (("n", lw.count()),))


def rows(*times: int, key: str = "a") -> Batch:
    return Batch(pa.table({"ts": times, "k": [key] * len(times)}, schema=SCHEMA))


def low(operator: Operator, bound: int, port: int = 0) -> dict[str, int]:
    """The bounds that follow from a low-watermark, by attribute."""
    found = {}
    for message in taken(operator, port, Punctuation.linear("ts", bound)):
        if isinstance(message, Punctuation):
            ((name, _),) = message.patterns
            found[name] = message.low_watermark(name) or 0
    return found


def results(messages: list[Message]) -> list[dict[str, Any]]:
    return [row for message in messages if isinstance(message, Batch) for row in message.rows.to_pylist()]


@pytest.mark.parametrize(
    ("window", "bound", "promised"),
    [
        (Sliding(10), 25, {"wid": 2, "window_start": 20, "window_end": 30, "window_time": 29}),
        (Sliding(10, 5), 24, {"wid": 4, "window_start": 15, "window_end": 25, "window_time": 24}),
        (Sliding(3, 10, 4), 25, {"wid": 2, "window_start": 31, "window_end": 34, "window_time": 33}),
        (Landmark(10), 25, {"wid": 2, "window_end": 30, "window_time": 29}),
        (Landmark(5, 0, 20), 34, {"wid": 6, "window_start": 20, "window_end": 35, "window_time": 34}),
    ],
    ids=str,
)
def test_windows_promise_where_the_first_open_one_starts_and_ends(
    window: Any, bound: int, promised: dict[str, int]
) -> None:
    operator = WindowAggregate(asked(window), LandmarkPartials if isinstance(window, Landmark) else PanePartials)
    assert low(operator, bound) == promised
    assert low(operator, bound + 0) == {}, "nothing that is new"
    taken(operator, 0, rows(promised["window_time"]))
    (first, *_) = results(taken(operator, 0, ALL))
    assert {name: first[name] for name in promised if name != "window_time"} == {
        name: value for name, value in promised.items() if name != "window_time"
    }


def test_a_landmark_that_starts_anew_promises_a_start_only_when_it_moves() -> None:
    operator = WindowAggregate(asked(Landmark(5, 0, 20)), LandmarkPartials)
    assert "window_start" in low(operator, 20)
    assert low(operator, 25) == {"wid": 5, "window_end": 30, "window_time": 29}


def test_a_session_may_still_end_a_tick_after_the_low_watermark() -> None:
    operator = SessionAggregate(asked(Session(5)))
    assert low(operator, 20) == {"window_end": 21, "window_time": 20}
    taken(operator, 0, rows(16))
    (session,) = results(taken(operator, 0, ALL))
    assert session["window_end"] == 21


@pytest.mark.parametrize("kind", [OAJoin, PWJoin])
def test_extremes_of_a_join_are_as_far_as_they_can_be(kind: type[OAJoin]) -> None:
    """A pair is as late as the input that is behind; its rows are as early as the windows reach back."""
    join = kind(WindowJoin(SIDES, (4, 7)), extremes=True)
    low(join, 50)
    promised = low(join, 40, port=1)
    assert (promised[GREATEST], promised[LEAST]) == (40, 36)
    join = kind(WindowJoin(SIDES, (4, 7)), extremes=True)
    taken(join, 0, rows(36))
    low(join, 50)
    low(join, 40, port=1)
    (pair,) = results(taken(join, 1, rows(40)))
    assert (pair["l_ts"], pair["r_ts"]) == (36, 40)


@pytest.mark.parametrize("kind", [OAJoin, PWJoin])
def test_a_join_over_a_grid_promises_the_first_window_that_the_slower_input_has_reached(kind: type[OAJoin]) -> None:
    """Windows of 10 every 5: the first that holds 43 is [35, 45), and a row that waits there may still come out."""
    join = kind(WindowJoin(SIDES, (0, 0), "full", Sliding(10, 5)))
    taken(join, 0, rows(44))
    low(join, 60)
    promised = low(join, 43, port=1)
    assert (promised["window_start"], promised["window_end"]) == (35, 45)
    first, *_ = results(taken(join, 1, rows(43)))
    assert (first["window_start"], first["window_end"], first["l_ts"], first["r_ts"]) == (35, 45, 44, 43)
    promised = low(join, 45, port=1)
    assert (promised["window_start"], promised["window_end"]) == (40, 50)


def test_rows_that_stay_alone_hold_back_the_greatest_time() -> None:
    join = OAJoin(WindowJoin(SIDES, (4, 7), "left"), extremes=True)
    taken(join, 0, rows(36))
    low(join, 50)
    assert low(join, 40, port=1)[GREATEST] == 36
    (lonely,) = results(taken(join, 1, Punctuation.linear("ts", 41)))
    assert (lonely["l_ts"], lonely["r_ts"]) == (36, None)


def test_extremes_of_a_count_join_are_as_far_as_they_can_be() -> None:
    join = CountJoin(WindowJoin(SIDES, (None, None), rows=(1, 1)), extremes=True)
    taken(join, 0, rows(3))
    low(join, 10)
    promised = low(join, 8, port=1)
    assert (promised[GREATEST], promised[LEAST]) == (8, 3)
    taken(join, 1, rows(8))
    (pair,) = results(taken(join, 1, ALL))
    assert (pair["l_ts"], pair["r_ts"]) == (3, 8)


def test_times_of_different_types_have_no_extremes() -> None:
    other = JoinSide("r", pa.schema([("ts", pa.timestamp("us")), ("k", pa.string())]), "ts", ("k",))
    assert not OAJoin(WindowJoin((SIDES[0], other), (4, 7)), extremes=True).extremes


def test_rows_that_have_left_stay_gone_when_the_state_is_opened_again() -> None:
    """A few of many leave: the rows are not written again, only how far time has passed, and who was crossed out."""
    what = WindowJoin(SIDES, (0, 0), "anti")
    join = OAJoin(what)
    taken(join, 0, rows(*range(20)))
    taken(join, 0, rows(100, key="b"))
    before = dict(committed(join).segments)
    taken(join, 1, Punctuation.linear("ts", 3))
    taken(join, 1, rows(5, 7))
    assert join.rows == 18, "16, and two of the right"
    other = OAJoin(what, store=reopened(join))
    assert other.rows == 18
    assert before.keys() <= committed(join).segments.keys()
    for each in (join, other):
        assert sorted(row["ts"] for row in results(taken(each, 1, ALL))) == [3, 4, 6, *range(8, 20), 100]


def test_equal_rows_on_both_sides_do_not_share_a_life() -> None:
    """The same bytes are kept twice; when those of one side are dropped, those of the other are still there."""
    what = WindowJoin(SIDES, (0, 100))
    join = OAJoin(what)
    for port in (0, 1):
        taken(join, port, rows(5))
    paths, ids = zip(*committed(join).segments, strict=True)
    assert (len(set(paths)), len(set(ids))) == (2, 1)
    taken(join, 1, Punctuation.linear("ts", 50))
    assert [path for path, _ in committed(join).segments] == ["side1/parts/0"]
    other = OAJoin(what, store=reopened(join))
    (pair,) = results(taken(other, 0, rows(5)))
    assert (pair["l_ts"], pair["r_ts"]) == (5, 5)
