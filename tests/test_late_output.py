"""The late output: a late row names its own input and operator, and every column has a name of its own."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import lowwater as lw
from lowwater.model.punctuation import Punctuation
from lowwater.operators.base import Promises

ROWS = pa.table({"ts": [1, 2, 3, 31, 32], "x": [1, 2, 3, 4, 5], "k": ["a", "a", "a", "b", "b"]})
LATE = [{"ts": 5, "x": 1, "k": "a"}]


def stream(name: str, rows: pa.Table = ROWS) -> lw.Relation:
    return lw.stream(rows, name=name, progress="ts", disorder=0)


def late(relation: lw.Relation, pushes: list[tuple[str, Any]]) -> list[dict[str, Any]]:
    query = relation.start(shards=2)
    for port, rows in pushes:
        query.push(rows, port)
    query.finish()
    found = query.late_output()
    assert len(set(found.column_names)) == len(found.column_names)
    assert found.num_rows == query.metrics().late_rows
    return found.to_pylist()


def sessions(of: lw.Relation, name: str) -> lw.Relation:
    return of.session(3).group_by("k").agg(n=lw.count()).named(name)


def test_a_late_row_of_a_session_names_only_the_input_that_the_session_reads() -> None:
    """The session decides at the next punctuation, when no input is being read."""
    a, b = stream("a"), stream("b")
    both = sessions(a, "A").join(sessions(b, "B"), on="k", within=100)
    found = late(both, [("a", ROWS), ("b", ROWS), ("a", LATE), ("b", LATE)])
    assert [(row["input"], row["operator"]) for row in found] == [
        ("a", "Session aggregate"),
        ("b", "Session aggregate 2"),
    ]
    beside = sessions(a, "A").join(b.named("B"), on="k", within=100, over=("window_end", "ts"))
    found = late(beside, [("a", ROWS), ("b", ROWS), ("a", LATE)])
    assert [(row["input"], row["operator"]) for row in found] == [("a", "Session aggregate")]


def test_columns_named_as_those_that_the_late_output_adds_get_the_name_of_their_input() -> None:
    calls = pa.table({"ts": [1, 31], "operator": ["x", "y"], "Input": [1, 2]})
    (row,) = late(
        stream("calls", calls).window(10).group_by("operator").agg(n=lw.count()),
        [("calls", calls), ("calls", [{"ts": 5, "operator": "z", "Input": 7}])],
    )
    assert (row["input"], row["operator"]) == ("calls", "WID aggregate")
    assert (row["calls_operator"], row["calls_Input"]) == ("z", 7)


def test_columns_that_differ_in_case_or_meet_a_prefixed_name_have_names_of_their_own() -> None:
    one = pa.table({"ts": [1, 31], "x": ["p", "q"], "b_x": [1.5, 2.5]})
    other = pa.table({"ts": [1, 31], "X": [1, 2]})
    a, b = (stream(name, rows).window(10).agg(n=lw.count()).named(name) for name, rows in (("a", one), ("b", other)))
    pushes = [("a", one), ("b", other), ("a", [{"ts": 2, "x": "z", "b_x": 7.5}]), ("b", [{"ts": 2, "X": 3}])]
    first, second = late(a.join(b, on="window_start"), pushes)
    assert (first["a_x"], first["b_x"]) == ("z", 7.5)
    assert [value for name, value in second.items() if value == 3 and name not in ("a_x", "b_x")] == [3]


@pytest.mark.parametrize("restart", [False, True])
def test_a_late_row_of_a_session_over_a_union_names_the_input_that_it_came_from(restart: bool) -> None:
    both = stream("a").union(stream("b")).union(stream("c")).session(3).group_by("k").agg(n=lw.count())
    query = both.start(shards=2)
    for port in "abc":
        query.push(ROWS, port)
    query.push(a=LATE, b=[{"ts": 6, "x": 2, "k": "a"}, {"ts": 15, "x": 3, "k": "b"}])
    if restart:
        query.restart()
    query.finish()
    query.push([{"ts": 99, "x": 4, "k": "a"}], "c")
    found = query.late_output()
    assert sorted((row["x"], row["input"]) for row in found.to_pylist()) == [(1, "a"), (2, "b"), (3, "b"), (4, "c")]
    assert not [name for name in found.column_names if name.startswith("__lw_")]
    assert query.metrics().late_rows == 4


def test_results_that_come_late_to_an_operator_are_an_error_also_if_late_rows_are_not_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An operator that promises too much, as none of ours does."""

    def early(self: Promises, lows: dict[str, int], emit: Any) -> None:
        emit(Punctuation.linear("window_time", 1000))

    monkeypatch.setattr(Promises, "emit", early)
    counts = stream("a").window(5).agg(n=lw.count())
    query = counts.window(10).agg(n=lw.count()).start(late=False)
    query.push(ROWS)
    with pytest.raises(AssertionError, match="results of other operators came late to WID aggregate 2"):
        query.push([{"ts": 90, "x": 1, "k": "a"}])


def test_a_join_takes_columns_named_as_those_of_the_late_output() -> None:
    one = pa.table({"ts": [1, 31], "input": [1, 2], "k": ["a", "a"]})
    other = pa.table({"ts": [1, 31], "operator": [1, 2], "k": ["a", "a"]})
    both = stream("a", one).join(stream("b", other), on="k", within=3)
    pushes = [("a", one), ("b", other), ("a", [{"ts": 2, "input": 7, "k": "a"}])]
    (row,) = late(both, pushes)
    assert (row["input"], row["a_input"], row["b_operator"]) == ("a", 7, None)


def test_a_row_without_a_time_is_reported_once_though_operators_of_two_stages_read_its_input() -> None:
    rows = stream("a")
    totals = rows.window(5).group_by("k").agg(n=lw.count()).window(10).agg(m=lw.sum("n")).named("totals")
    query = totals.join(rows.named("again"), on=[], within=(-20, 20), over=("window_end", "ts")).start(shards=2)
    assert len({entry.stage for entry in query.plan.entries}) == 2
    query.push([{"ts": None, "x": 1, "k": "a"}, {"ts": 1, "x": 2, "k": "a"}])
    query.finish()
    assert [(row["operator"], row["x"]) for row in query.late_output().to_pylist()] == [("Input", 1)]
    assert query.metrics().null_rows == 1
