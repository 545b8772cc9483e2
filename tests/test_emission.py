"""When results leave: early answers, revisions within the allowed lateness, consistent slack, and flushing.

A judge keeps the rows of every (window, group) in plain lists and does, push by push, what the definition says: rows
first, then progress. After every push the query must have said exactly what the judge says.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lowwater as lw
from lowwater.windows.context_free import Landmark, Sliding
from lowwater.windows.spec import Tuples
from tests.oracle import aggregate_windows
from tests.soak import examples
from tests.stored import move

Row = dict[str, Any]
SCHEMA = pa.schema([("ts", pa.int64()), ("k", pa.string()), ("v", pa.int64())])
DELAY = 5
OPEN = 2**63 - 1

rows_drawn = st.lists(st.tuples(st.integers(0, 60), st.sampled_from(["a", "b", None]), st.integers(-9, 9)), max_size=40)
cuts_drawn = st.lists(st.integers(1, 6), min_size=1, max_size=12)
slides = st.sampled_from([(10, 10), (12, 4), (9, 4), (4, 6)])


def pushes(rows: list[tuple[int, str | None, int]], cuts: list[int]) -> list[list[Row]]:
    out, at, turn = [], 0, 0
    while at < len(rows):
        size = cuts[turn % len(cuts)]
        out.append([dict(zip(SCHEMA.names, row, strict=True)) for row in rows[at : at + size]])
        at, turn = at + size, turn + 1
    return out


def stream() -> lw.Stream:
    return lw.stream(SCHEMA.empty_table(), name="rows", progress="ts", disorder=DELAY)


class Judge:
    """Rows by (window, group); `opened` and `kept` as ids below which windows are answered and forgotten."""

    def __init__(self, window: Sliding, lateness: int, late: str = "include") -> None:
        self.window, self.lateness, self.late = window, lateness, late
        self.inside: dict[tuple[int, Any], list[Row]] = defaultdict(list)
        self.newest: int | None = None
        self.opened = self.kept = -OPEN
        self.late_rows = self.dropped = 0

    def push(self, rows: list[Row], end: bool = False) -> list[tuple[str, int, Any, int, int]]:
        """(emitted, wid, k, n, total) of all that is said after these rows."""
        touched = set()
        for row in rows:
            first, last = (int(ids[0]) for ids in self.window.wids(Tuples(_times(row))))
            alive = [w for w in range(first, last + 1) if w >= self.kept]
            self.late_rows += first <= last and first < self.kept
            if self.late == "drop" and len(alive) < last - first + 1:
                alive = []
            self.dropped += first <= last and not alive
            for w in alive:
                self.inside[w, row["k"]].append(row)
                touched.add((w, row["k"]))
            self.newest = row["ts"] if self.newest is None else max(self.newest, row["ts"])
        low = None if self.newest is None else self.newest - DELAY
        stop = OPEN if end else self.opened if low is None else self.window.closed_below(low)
        keep = OPEN if end else self.kept if low is None else self.window.closed_below(low - self.lateness)
        said = [self._say("revised", *pair) for pair in touched if pair[0] < self.opened]
        said += [self._say("final", *pair) for pair in self.inside if self.opened <= pair[0] < stop]
        self.opened = max(self.opened, stop)
        said += [self._say("early", *pair) for pair in touched if pair[0] >= self.opened]
        self.kept = max(self.kept, keep)
        return said

    def _say(self, emitted: str, wid: int, k: Any) -> tuple[str, int, Any, int, int]:
        rows = self.inside[wid, k]
        return emitted, wid, k, len(rows), sum(row["v"] for row in rows)


def _times(row: Row) -> Any:
    import numpy as np

    return np.array([row["ts"]])


def said(table: pa.Table) -> list[tuple[str, int, Any, int, int]]:
    return [(r["emitted"], r["wid"], r["k"], r["n"], r["total"]) for r in table.to_pylist()]


@pytest.mark.parametrize("strategy", ["wid", "panes"])
@examples(20)
@given(rows=rows_drawn, cuts=cuts_drawn, shape=slides, lateness=st.sampled_from([0, 3, 20]), early=st.booleans())
def test_each_push_says_what_it_must(
    strategy: str, rows: Any, cuts: Any, shape: tuple[int, int], lateness: int, early: bool
) -> None:
    if not early and not lateness:
        early = True
    asked = stream().window(*shape).emit(early=early, allowed_lateness=lateness).group_by("k")
    plan = asked.agg(strategy, n=lw.count(), total=lw.sum("v"))
    query = plan.start(shards=2)
    window = plan.plan.spec.what.window
    assert isinstance(window, Sliding)
    judge = Judge(window, lateness)
    newest: dict[tuple[int, Any], int] = {}
    for number, push in enumerate(pushes(rows, cuts)):
        if number % 3 == 2:
            query.restart()
        got = query.push(push)
        expected = [line for line in judge.push(push) if early or line[0] != "early"]
        assert sorted(said(got), key=repr) == sorted(expected, key=repr)
        for row in got.to_pylist():  # of two answers about one pair the later has the larger revision
            assert newest.get((row["wid"], row["k"]), -1) <= row["revision"]
            newest[row["wid"], row["k"]] = row["revision"]
    assert sorted(said(query.finish()), key=repr) == sorted(judge.push([], end=True), key=repr)
    numbers = query.metrics()
    assert (numbers.late_rows, numbers.dropped_rows, numbers.state_rows) == (judge.late_rows, judge.dropped, 0)
    assert query.late_output().num_rows == judge.late_rows


def test_the_last_word_on_each_window_is_the_definition() -> None:
    """Rows within delay + allowed lateness are never lost: the newest revisions are the answers over all rows."""
    rows = [{"ts": t, "k": "a", "v": t} for t in (3, 14, 27, 9, 31, 12, 40, 24)]
    asked = stream().window(10).emit(allowed_lateness=30).group_by("k").agg(n=lw.count(), total=lw.sum("v"))
    query = asked.start()
    for row in rows:
        query.push([row])
    query.finish()
    last = {r["wid"]: r for r in query.result().sort_by("revision").to_pylist()}
    expected = aggregate_windows(rows, "ts", Sliding(10), ["k"], {"n": ("count", None), "total": ("sum", "v")})
    assert [(last[w]["n"], last[w]["total"]) for w in sorted(last)] == [(r["n"], r["total"]) for r in expected]
    assert {r["emitted"] for r in query.result().to_pylist()} == {"final", "revised"}
    assert query.metrics().late_rows == 0


def test_early_answers_of_a_landmark_grow() -> None:
    asked = stream().window("all", 10).emit(early=True).group_by("k").agg(n=lw.count())
    assert isinstance(asked.plan.spec.what.window, Landmark)
    query = asked.start()
    told = [query.push([{"ts": t, "k": "a", "v": 0}]).to_pylist() for t in (1, 2, 11)]
    lines = [[(r["emitted"], r["wid"], r["n"]) for r in push] for push in told]
    assert lines == [[("early", 0, 1)], [("early", 0, 2)], [("early", 1, 3)]]
    assert [(r["emitted"], r["wid"], r["n"]) for r in query.push([{"ts": 30, "k": "a", "v": 0}]).to_pylist()] == [
        ("final", 0, 2),
        ("final", 1, 3),
        ("early", 3, 4),
    ]


def test_late_rows_of_a_landmark_revise_all_windows_after_them() -> None:
    query = stream().window("all", 10).emit(allowed_lateness=1000).agg(n=lw.count()).start()
    query.push([{"ts": t, "k": "a", "v": 0} for t in (5, 60)])
    told = query.push([{"ts": 15, "k": "a", "v": 0}]).to_pylist()
    assert [(r["emitted"], r["wid"], r["n"]) for r in told] == [("revised", wid, 2) for wid in (1, 2, 3, 4)]
    assert [(r["emitted"], r["wid"], r["n"]) for r in query.finish().to_pylist()] == [("final", 5, 2), ("final", 6, 3)]


def test_early_answers_of_a_landmark_reach_to_the_newest_row_of_all() -> None:
    late_by_1000 = lw.stream(SCHEMA.empty_table(), name="rows", progress="ts", disorder=1000)
    query = late_by_1000.window("all", 10).emit(early=True).group_by("k").agg(n=lw.count()).start()
    query.push([{"ts": 5, "k": "a", "v": 0}, {"ts": 35, "k": "b", "v": 0}])
    query.restart()
    told = query.push([{"ts": 6, "k": "a", "v": 0}]).to_pylist()
    assert [(r["wid"], r["n"]) for r in told] == [(0, 2), (1, 2), (2, 2), (3, 2)]


def test_early_answers_leave_nothing_behind() -> None:
    query = stream().window(10).emit(early=True).group_by("k").agg(n=lw.count()).start()
    for t in range(0, 300, 3):
        query.push([{"ts": t, "k": str(t % 7), "v": 0}])
    operator = query.graph(0, 0).operators[0]
    assert operator._unsaid.span(-OPEN, OPEN) is None  # type: ignore[attr-defined]
    assert operator._fresh.span(-OPEN, OPEN) is None  # type: ignore[attr-defined]


def test_options_of_emission_add_up() -> None:
    asked = stream().window(10).emit(early=True).emit(allowed_lateness=3).agg(n=lw.count())
    assert (asked.plan.spec.what.early, asked.plan.spec.what.lateness) == (True, 3)


@pytest.mark.parametrize("strategy", ["wid", "panes", "buffer", "adaptive"])
@examples(12)
@given(rows=rows_drawn, cuts=cuts_drawn, shape=slides)
def test_consistent_slack_drops_a_late_row_from_all_its_windows(
    strategy: str, rows: Any, cuts: Any, shape: tuple[int, int]
) -> None:
    plan = stream().window(*shape).group_by("k").agg(strategy, late="drop", n=lw.count(), total=lw.sum("v"))
    query = plan.start(shards=2)
    window = plan.plan.spec.what.window
    assert isinstance(window, Sliding)
    judge = Judge(window, 0, late="drop")
    for push in pushes(rows, cuts):
        got = query.push(push)
        final = [line[1:] for line in judge.push(push) if line[0] == "final"]
        assert sorted([(r["wid"], r["k"], r["n"], r["total"]) for r in got.to_pylist()], key=repr) == sorted(
            final, key=repr
        )
    numbers = query.metrics()
    assert (numbers.late_rows, numbers.dropped_rows) == (judge.late_rows, judge.dropped)
    assert judge.late_rows == judge.dropped


# -- flushing ---------------------------------------------------------------------------------------------------------

FLUSHES = [lw.slow_flush(3, windows=1), lw.slow_flush(1, windows=3), lw.lazy_flush(1), lw.lazy_flush(3, entries=2)]


@pytest.mark.parametrize("flush", FLUSHES, ids=str)
@examples(20)
@given(rows=rows_drawn, cuts=cuts_drawn, shape=slides)
def test_flushing_changes_when_answers_leave_and_nothing_else(
    flush: Any, rows: Any, cuts: Any, shape: tuple[int, int]
) -> None:
    def asked(how: Any) -> Any:
        return stream().window(*shape).emit(flush=how).group_by("k").agg(n=lw.count(), total=lw.sum("v"))

    eager, slow = asked(None).start(shards=2), asked(flush).start(shards=2)
    out: list[Row] = []
    for number, push in enumerate(pushes(rows, cuts)):
        if number % 3 == 2:
            slow.restart()
        closed = eager.push(push)
        out += slow.push(push).to_pylist()
        assert slow.metrics().closed_below == eager.metrics().closed_below
        due = (eager.metrics().closed_below or 0) - flush.windows
        said_wids = sorted([(r["wid"], r["k"], r["n"]) for r in out if r["wid"] < due], key=repr)
        must = sorted([(r["wid"], r["k"], r["n"]) for r in eager.result().to_pylist() if r["wid"] < due], key=repr)
        assert said_wids == must, "nothing is later than so many windows"
        assert closed.num_rows >= 0
    out += slow.finish().to_pylist()
    eager.finish()
    assert sorted(map(repr, out)) == sorted(map(repr, eager.result().to_pylist()))
    assert slow.metrics().state_rows == 0


def test_slow_flush_keeps_its_pace() -> None:
    query = stream().window(10).emit(flush=lw.slow_flush(2, windows=50)).group_by("k").agg(n=lw.count()).start()
    query.push([{"ts": 1, "k": name, "v": 0} for name in "abcdefg"])
    counts = [query.push([{"ts": 20 + i, "k": "z", "v": 0}]).num_rows for i in range(5)]
    assert counts == [2, 2, 2, 1, 0]
    assert query.metrics().state_rows == 1


def test_lazy_flush_lets_answers_go_when_their_groups_come_again() -> None:
    asked = stream().window(10).emit(flush=lw.lazy_flush(windows=50, entries=1 << 20)).group_by("k").agg(n=lw.count())
    query = asked.start()
    query.push([{"ts": 1, "k": name, "v": 0} for name in "abc"])
    assert query.push([{"ts": 20, "k": "z", "v": 0}]).num_rows == 0
    assert query.push([{"ts": 21, "k": "b", "v": 0}]).column("k").to_pylist() == ["b"]
    query.restart()
    assert sorted(query.push([{"ts": 22, "k": name, "v": 0} for name in "ab"]).column("k").to_pylist()) == ["a"]
    assert [row["k"] for row in query.finish().to_pylist() if row["wid"] == 0] == ["c"]


@pytest.mark.parametrize("after", [None, lw.slow_flush(2), lw.lazy_flush(entries=2)], ids=str)
@pytest.mark.parametrize("before", [lw.slow_flush(1), lw.lazy_flush(entries=1000)], ids=str)
def test_another_flush_after_a_restart_loses_no_answer(before: Any, after: Any) -> None:
    def asked(how: Any) -> Any:
        return stream().window(10).emit(flush=how).group_by("k").agg(n=lw.count()).start(shards=2)

    first, second = asked(before), asked(after)
    out = first.push([{"ts": 1, "k": name, "v": 0} for name in "abcdef"]).to_pylist()
    out += first.push([{"ts": 20, "k": "a", "v": 0}]).to_pylist()
    move(first, second)
    out += second.push([{"ts": 21, "k": "b", "v": 0}]).to_pylist()
    out += second.finish().to_pylist()
    assert sorted((r["wid"], r["k"], r["n"]) for r in out) == sorted(
        [*((0, name, 1) for name in "abcdef"), (2, "a", 1), (2, "b", 1)]
    )


def test_results_are_counted_when_they_leave() -> None:
    query = stream().window(10).emit(flush=lw.slow_flush(2, windows=50)).group_by("k").agg(n=lw.count()).start()
    query.push([{"ts": 1, "k": name, "v": 0} for name in "abcdefg"])
    query.push([{"ts": 20, "k": "z", "v": 0}])
    assert query.metrics().result_rows == query.result().num_rows == 2
