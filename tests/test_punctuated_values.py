"""Queries over streams that end values (PW): the same results with less state, and rows that break a promise told."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lowwater as lw
from lowwater.joins import keyed
from lowwater.joins.pwjoin import UNGRAMMATICAL
from tests.compare import multiset
from tests.join_oracle import HOWS, value_punctuated
from tests.join_queries import few, held
from tests.punctuated_queries import Judge, K, Row, ending, punctuated
from tests.soak import examples

IN_NO_WINDOW = {"windows_missed": None, "windows_kept": 0}


@pytest.mark.parametrize("windowed", [True, False], ids=["window", "no window"])
@pytest.mark.parametrize("how", HOWS)
@examples(12)
@given(data=st.data())
def test_results_are_those_of_the_grammatical_rows_and_the_others_are_told(
    how: str, windowed: bool, data: st.DataObject
) -> None:
    case = data.draw(punctuated(how, windowed))
    query = case.joined().start(shards=case.shards)
    judge = Judge(case.window, case.disorder, case.null_safe)

    def state() -> None:
        if how in ("semi", "anti"):  # these keep no left row that has met one
            return
        kept = held(query)
        for n, (least, most) in zip(kept, judge.needed(), strict=True):
            assert least <= n <= most
        assert query.metrics().state_rows == sum(kept)

    case.run_through(query, judge, state)
    query.finish()
    results = case.window.join(*judge.rows, K, how, null_safe=case.null_safe)
    assert multiset(query.result().to_pylist()) == multiset(case.told(results))
    expected = [
        {"input": "lr"[side], "operator": "PWJoin", **row} | {"late_reason": UNGRAMMATICAL} | IN_NO_WINDOW
        for side, row in judge.late
    ]
    assert multiset(query.late_output().to_pylist()) == multiset(expected)
    numbers = query.metrics()
    assert (numbers.late_rows, numbers.state_rows, numbers.state_bytes) == (len(expected), 0, 0)


@examples(20)
@given(data=st.data())
def test_the_judge_here_is_the_judge_of_punctuated_values(data: st.DataObject) -> None:
    case = data.draw(punctuated("inner", windowed=False))
    judge = Judge(case.window, case.disorder, case.null_safe)
    events = []
    for push in case.pushes:
        if push is None:
            continue
        side, what = push
        ending(judge, side, what, case.forms[side])
        for one in what:
            events.append(("LR"[side], one))
            if case.forms[side] == "unique" and (one["k"] is not None or case.null_safe):
                events.append(("LR"[side], [one["k"]]))
    broken, results = value_punctuated(events, K, null_safe=case.null_safe)
    assert broken == [("LR"[side], row) for side, row in judge.late]
    assert results == case.window.join(*judge.rows, K, "inner", null_safe=case.null_safe)


@examples(15)
@given(data=st.data())
def test_values_that_share_a_hash_are_still_told_apart(data: st.DataObject) -> None:
    how, windowed = data.draw(st.sampled_from(HOWS)), data.draw(st.booleans())
    case = data.draw(punctuated(how, windowed, ["text", "double"], shards=1))
    judge = Judge(case.window, case.disorder, case.null_safe)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(keyed, "hashed", few)
        query = case.joined().start()
        case.run_through(query, judge)
        query.finish()
    results = case.window.join(*judge.rows, K, how, null_safe=case.null_safe)
    assert multiset(query.result().to_pylist()) == multiset(case.told(results))
    assert query.metrics().late_rows == len(judge.late)


@examples(20)
@given(data=st.data())
def test_groups_behind_a_punctuated_join_are_those_of_its_results_each_once(data: st.DataObject) -> None:
    """By the key, so that values that are over answer groups; whichever side's rows stay alone."""
    how, windowed = data.draw(st.sampled_from(HOWS)), data.draw(st.booleans())
    case = data.draw(punctuated(how, windowed, ["number", "text"]))
    query = case.joined().group_by("k").agg(n=lw.count()).start(shards=case.shards)
    judge = Judge(case.window, case.disorder, case.null_safe)
    case.run_through(query, judge)
    query.finish()
    rows = case.told(case.window.join(*judge.rows, K, how, null_safe=case.null_safe))
    groups = {row["k"]: sum(one["k"] == row["k"] for one in rows) for row in rows}
    assert multiset(query.result().to_pylist()) == multiset({"k": k, "n": n} for k, n in groups.items())
    assert query.metrics().state_rows == 0


def test_a_side_of_several_streams_has_ended_what_any_of_them_says_of_the_whole() -> None:
    """ends() behind union() is said of the union."""
    schema = pa.schema([("ts", pa.int64()), ("k", pa.int64()), ("closed", pa.bool_())])
    a, b = (lw.stream(schema.empty_table(), name=name, progress="ts", disorder=0) for name in "ab")
    c = lw.stream(schema.empty_table().drop_columns(["closed"]), name="c", progress="ts", disorder=0)
    query = a.union(b).ends("k", when="closed").join(c, "k", within=10).start()
    query.push([{"ts": 0, "k": 7}], port=2)
    query.push([{"ts": 0, "k": 7, "closed": True}], port=0)
    assert held(query) == [0, 0]
    query.push([{"ts": 1, "k": 7, "closed": False}], port=1)
    (late,) = query.late_output().to_pylist()
    assert (late["input"], late["k"], late["late_reason"]) == ("b", 7, UNGRAMMATICAL)
    with pytest.raises(lw.LowwaterError, match="hold for all rows of the union"):
        a.ends("k", when="closed").union(b).join(c, "k", within=10)


@pytest.mark.parametrize("pushes", [[[None, None, 7]], [[None], [None], [7]], [[None, 7], [None]]])
def test_where_nulls_match_null_is_a_value_that_ends(pushes: list[list[int | None]]) -> None:
    """However rows are cut into batches, the second null breaks the promise of the first."""
    schema = pa.schema([("ts", pa.int64()), ("k", pa.int64())])
    left, right = (lw.stream(schema.empty_table(), name=name, progress="ts", disorder=0) for name in "lr")
    query = left.unique("k").join(right, "k", within=10, null_safe=True).start(shards=2)
    query.push([{"ts": 0, "k": None}], port=1)
    for push in pushes:
        query.push([{"ts": 0, "k": k} for k in push])
    assert query.result().to_pylist() == [{"k": None, "l_ts": 0, "r_ts": 0}]
    assert [(row["input"], row["k"]) for row in query.late_output().to_pylist()] == [("l", None)]
    assert held(query) == [2, 0], "the right need not be kept"


@pytest.mark.parametrize("before", [[], [{"ts": 200, "k": 1, "closed": False}]])
@pytest.mark.parametrize("alone", [True, False])
def test_a_promise_holds_from_the_time_of_the_row_that_makes_it(before: list[Row], alone: bool) -> None:
    """However far that is ahead of all rows, and whether it comes with rows of its time or in a batch of its own."""
    schema = pa.schema([("ts", pa.int64()), ("k", pa.int64()), ("closed", pa.bool_())])
    left = lw.stream(schema.empty_table(), name="l", progress="ts", disorder=0).ends("k", when="closed")
    right = lw.stream(schema.empty_table().drop_columns(["closed"]), name="r", progress="ts", disorder=0)
    query = left.join(right, "k", within=10).start()
    for push in ([*before], [{"ts": 1000, "k": 7, "closed": True}]):
        query.push(push)
    for port in (1, 0):
        row = {"ts": 1000, "k": 1} | ({"closed": False} if port == 0 else {})
        query.push([row] if alone else [row, row], port)
    query.push([{"ts": 1001, "k": 7}], port=1)
    query.push([{"ts": 1001, "k": 7, "closed": False}])
    (late,) = query.late_output().to_pylist()
    assert (late["k"], late["late_reason"]) == (7, UNGRAMMATICAL)
