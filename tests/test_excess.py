"""Bounds on state that operators state themselves: a sentence where state outlives its bound."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pytest

import lowwater as lw
from lowwater.joins.count_join import CountJoin
from lowwater.joins.oa_join import OAJoin
from lowwater.joins.ordered_join import OPOBJoin
from lowwater.joins.pwjoin import PWJoin
from lowwater.joins.side import Side
from lowwater.joins.spec import JoinSide, WindowJoin
from lowwater.model.punctuation import ALL, Punctuation
from lowwater.operators.adaptive_aggregate import AdaptivePartials
from lowwater.operators.base import Batch, Ended, Operator, ended, taken
from lowwater.operators.bins import Bins
from lowwater.operators.bucket import WindowedAggregation
from lowwater.operators.buckets import Buckets
from lowwater.operators.buffered_aggregate import RowBuffer
from lowwater.operators.distinct import Distinct, DropDuplicates
from lowwater.operators.flush import Chunks, slow_flush
from lowwater.operators.flushing import Flushing
from lowwater.operators.group_by import GroupBy, Grouping, Groups
from lowwater.operators.ordered import Merge
from lowwater.operators.over_aggregate import OverAggregate, Ranked
from lowwater.operators.paned_aggregate import LandmarkPartials, PanePartials
from lowwater.operators.partitioned_aggregate import PartitionedAggregate
from lowwater.operators.session_aggregate import SessionAggregate
from lowwater.operators.waiting import Waiting
from lowwater.operators.wid_aggregate import WindowPartials
from lowwater.operators.window_aggregate import Keeping, WindowAggregate
from lowwater.windows.context_aware import Partitioned, Session, SlideByTuple
from lowwater.windows.context_free import Landmark, Sliding
from lowwater.windows.over import Over

SCHEMA = pa.schema([("ts", pa.int64()), ("k", pa.string())])
SIDES = tuple(JoinSide(name, SCHEMA, "ts", ("k",)) for name in "ab")
Break = Callable[[pytest.MonkeyPatch], None]


def asked(window: object) -> WindowedAggregation:
    return WindowedAggregation(window, "ts", SCHEMA, ("k",), (("n", lw.count()),))  # type: ignore[arg-type]


def rows(*times: int) -> Batch:
    return Batch(pa.table({"ts": times, "k": ["x"] * len(times)}, schema=SCHEMA))


def forgetful(of: type, name: str, value: object = None) -> Break:
    """Has a method do nothing."""
    return lambda patch: patch.setattr(of, name, lambda *_, **__: value)


def windowed(window: object, keeping: type[Keeping]) -> tuple[Operator, Break]:
    return WindowAggregate(asked(window), keeping), forgetful(keeping, "expire")


def spoiled_release(patch: pytest.MonkeyPatch) -> None:
    none = SCHEMA.empty_table()
    patch.setattr(Waiting, "release", lambda *_: (none, pa.array([], pa.int64()).to_numpy()))


def within_reach_for_ever(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Ranked, "within_reach", lambda self, window, low: np.ones(len(self.source), np.bool_))


CASES: dict[str, tuple[Operator, Break]] = {
    "wid": windowed(Sliding(10), WindowPartials),
    "panes": windowed(Sliding(10, 5), PanePartials),
    "landmark": windowed(Landmark(10, 0, 20), LandmarkPartials),
    "buffer": windowed(Sliding(10), RowBuffer),
    "adaptive": windowed(Sliding(10), AdaptivePartials),
    "bins": windowed(SlideByTuple(10, 1, "rank"), Bins),
    "session": (SessionAggregate(asked(Session(5))), forgetful(Buckets, "extract")),
    "partitioned": (PartitionedAggregate(asked(Partitioned(2, 2, "time"))), spoiled_release),
    "over": (OverAggregate(asked(Over("range", 3, 0))), within_reach_for_ever),
    "group by time": (GroupBy(Grouping(SCHEMA, ("ts",), (), ("ts",))), forgetful(Groups, "close", [])),
    "distinct": (Distinct(SCHEMA, SCHEMA.names, "ts"), spoiled_release),
    "drop duplicates": (DropDuplicates(SCHEMA, ("k",), "ts", 3), spoiled_release),
    "last survivors": (DropDuplicates(SCHEMA, ("k",), "ts", 3), forgetful(Buckets, "extract")),
    "merge": (Merge(SCHEMA, "ts", 1), spoiled_release),
    "flush": (
        Flushing(WindowAggregate(asked(Sliding(10)), PanePartials), slow_flush(1, windows=1)),
        forgetful(Chunks, "pace", ()),
    ),
    "count join": (CountJoin(WindowJoin(SIDES, (3, None), rows=(None, 1))), forgetful(CountJoin, "_leave")),
    "oa-join": (OAJoin(WindowJoin(SIDES, (3, 3))), forgetful(Side, "invalidate", [])),
    "opob": (OPOBJoin(WindowJoin(SIDES, (3, 3))), spoiled_release),
}


@pytest.mark.parametrize("name", CASES)
def test_state_that_outlives_its_bound_is_reported(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The part of the operator that lets go is broken, and only then is there a sentence."""
    operator, spoil = CASES[name]
    reports = []
    for broken in (False, True):
        if broken:
            spoil(monkeypatch)
        found = []
        shift = 1000 * broken
        for low in (0, 20, 40, 60):
            for port in range(operator.ports):
                taken(operator, port, rows(*(shift + low + n for n in (1, 2, 3, 3))))
            for port in range(operator.ports):
                taken(operator, port, Punctuation.linear("ts", shift + low + 20))
                found.append(operator.excess())
            ended(operator)
            found.append(operator.excess())
        reports.append([report for report in found if report is not None])
    assert reports[0] == []
    assert reports[1]
    assert all(report.endswith(".") for report in reports[1])


def test_rows_that_are_gone_and_still_stored_are_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    join = OAJoin(WindowJoin(SIDES, (3, 3)))
    monkeypatch.setattr(Side, "tidy", lambda self: None)
    taken(join, 0, rows(1, 2, 3, 30))
    taken(join, 1, Punctuation.linear("ts", 20))
    assert join.excess() == "4 rows of a are stored, but only 1 can join."


def test_promises_that_nobody_made_are_reported() -> None:
    join = PWJoin(WindowJoin(SIDES, (3, 3)))
    taken(join, 0, Ended(pa.table({"k": ["x", "y"]})))
    assert join.excess() is None
    join._values.ended = 1
    assert join.excess() == "2 promises are kept, though only 1 values have ended."


def test_state_after_the_end_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    operator = WindowAggregate(asked(Sliding(10)), PanePartials)
    monkeypatch.setattr(PanePartials, "expire", lambda self, stop: None)
    taken(operator, 0, rows(1))
    taken(operator, 0, ALL)
    assert operator.excess() == "1 rows are kept after the end of the stream."
