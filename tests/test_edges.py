"""Edges of the stream model: selects before windows, ends, types at their limits, names of sources, restarts."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import lowwater as lw
from lowwater.aggregates.base import Aggregate
from lowwater.backends.local import LocalQuery
from lowwater.errors import CheckpointMismatch
from lowwater.query.planner import plan

SECOND = 1_000_000


def table(ts: list[int | None], **columns: list[Any]) -> pa.Table:
    return pa.table({"ts": pa.array(ts, pa.int64()), **columns})


def counted(stream: lw.Stream, **window: Any) -> list[tuple[Any, ...]]:
    found = stream.window(**window).agg(n=lw.count()).collect().to_pylist()
    return [(row["window_start"], row["window_end"], row["n"]) for row in found]


# -- a select before a window ---------------------------------------------------------------------------------------


def test_the_first_row_is_the_first_that_a_select_lets_through() -> None:
    stream = lw.stream(table([1, 5, 14, 30], k=[0, 1, 1, 1]), progress="ts", disorder=100).where("k = 1")
    assert counted(stream, range=10, origin="first") == [(5, 15, 2), (25, 35, 1)]


def test_a_landmark_ends_with_the_last_row_that_a_select_lets_through() -> None:
    stream = lw.stream(table([1, 5, 95], k=[1, 1, 0]), progress="ts", disorder=100).where("k = 1")
    assert counted(stream, range="all", slide=10) == [(None, 10, 2)]


def test_functions_after_a_select_do_not_see_what_it_took_out() -> None:
    seen: list[int] = []

    def look(rows: pa.Table) -> pa.Table:
        seen.extend(rows.column("k").to_pylist())
        return rows

    data = table([1, 2, 3], k=[0, 1, 2])
    stream = lw.stream(data, progress="ts", disorder=lw.ordered()).where("k > 0").apply(look, data.schema)
    assert counted(stream, range=10) == [(0, 10, 2)]
    assert sorted(seen) == [1, 2]


def test_rows_that_a_select_took_out_still_carry_progress() -> None:
    data = table([1, 50], k=[1, 0])
    query = (
        lw.stream(data, progress="ts", disorder=lw.ordered()).where("k = 1").window(range=10).agg(n=lw.count()).start()
    )
    assert query.push(data).num_rows == 1


def test_null_rows_that_a_select_took_out_are_not_late() -> None:
    data = table([1, None, None], k=["a", "a", "b"])
    query = lw.stream(data, progress="ts", disorder=1).where("k = 'a'").window(range=10).agg(n=lw.count()).start()
    query.push(data)
    assert query.metrics().null_rows == query.late_output().num_rows == 1


def test_expressions_without_a_column_hold_for_every_row() -> None:
    stream = lw.stream(table([1, 2]), progress="ts", disorder=1).where("true").with_column("one", "1")
    assert stream.window(range=10).agg(s=lw.sum("one")).collect().column("s").to_pylist() == [2]


# -- the end --------------------------------------------------------------------------------------------------------


def test_rows_after_the_end_of_a_landmark_miss_an_open_number_of_windows() -> None:
    query = lw.stream(table([7]), progress="ts", disorder=1).window(range="all", slide=10).agg(n=lw.count()).start()
    query.finish()
    query.push(table([7, -50]))
    assert query.late_output().column("windows_missed").to_pylist() == [None, None]
    assert query.metrics().dropped_rows == 2


def test_rows_after_the_end_of_an_empty_stream_are_late_though_its_origin_was_never_known() -> None:
    query = lw.stream(table([7]), progress="ts", disorder=1).window(range=10, origin="first").agg(n=lw.count()).start()
    query.finish()
    query.push(table([7, 8]))
    assert (query.metrics().dropped_rows, query.metrics().state_rows) == (2, 0)


def test_a_promise_of_all_values_ends_the_source() -> None:
    data = table([5, 2**63 - 1], end=[False, True])
    stream = lw.stream(data, progress="ts", disorder=lw.punctuated(when="end", upto="ts"))
    query = stream.window(range=10).agg(n=lw.count()).start()
    query.push(data)
    assert query.metrics().low_watermark == "end"
    assert query.result().num_rows == 1


# -- types at their limits ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("type", "value", "end"),
    [(pa.int8(), 100, 200), (pa.decimal128(3, 0), Decimal(999), Decimal(1000)), (pa.uint8(), 250, 300)],
)
def test_bounds_of_windows_may_lie_outside_the_type_of_the_attribute(type: pa.DataType, value: Any, end: Any) -> None:
    stream = lw.stream(pa.table({"ts": pa.array([value], type)}), progress="ts", disorder=1)
    found = stream.window(range=100).agg(n=lw.count()).collect()
    found.validate(full=True)
    assert found.column("window_end").to_pylist() == [end]


def test_melded_inputs_may_differ_in_the_order_and_nullability_of_their_columns() -> None:
    strict = pa.table(
        {"ts": [1], "k": ["a"]}, schema=pa.schema([pa.field("ts", pa.int64()), pa.field("k", pa.string(), False)])
    )
    loose = pa.table({"k": ["a"], "ts": [2]})
    one, two = (lw.stream(t, name=n, progress="ts", disorder=1) for t, n in ((strict, "one"), (loose, "two")))
    query = one.union(two).window(range=10).group_by("k").agg(n=lw.count())
    assert query.collect().column("n").to_pylist() == [2]


# -- sources --------------------------------------------------------------------------------------------------------


def sourced(rows: pa.Table, **options: Any) -> LocalQuery:
    stream = lw.stream(rows, name="rows", progress="ts", disorder=lw.ordered(), source="s", **options)
    query = stream.window(range=10).agg(n=lw.count()).start()
    query.push(rows)
    return query


def test_declared_sources_may_be_numbers() -> None:
    query = sourced(table([30, 40], s=[1, 2]), sources=[1, 2])
    assert [source.source for source in query.metrics().sources] == ["1", "2"]
    assert query.metrics().low_watermark == "30"


def test_null_is_a_source_of_its_own() -> None:
    query = sourced(table([1, 50, 3], s=["None", None, "None"]))
    assert {(s.source, s.rows, s.largest_seen) for s in query.metrics().sources} == {
        ("None", 2, "3"),
        ("<null>", 1, "50"),
    }


def test_a_source_is_not_silent_while_the_query_is_down() -> None:
    rows = pa.table({"ts": pa.array([0, 0], pa.int64()).cast(pa.timestamp("us", "UTC")), "s": ["a", "b"]})
    stream = lw.stream(rows, progress="ts", disorder=lw.ordered(), source="s", idle=lw.idle("30 seconds", "5 seconds"))
    query = stream.window(range="1 second").agg(n=lw.count()).start()
    query.push(rows, clock=10 * SECOND)
    query.restart()
    hour = 3600 * SECOND
    after = pa.array([hour, hour + SECOND], pa.int64()).cast(pa.timestamp("us", "UTC"))
    query.push(pa.table({"ts": after, "s": ["a", "a"]}), clock=hour)
    query.push(pa.table({"ts": after, "s": ["b", "b"]}), clock=hour + 2 * SECOND)
    assert query.metrics().late_rows == 0
    query.tick(hour + 40 * SECOND)
    assert query.metrics().low_watermark is not None, "but silence after that counts again"


def test_a_decoded_segment_depends_on_the_query_it_belongs_to() -> None:
    """Two queries may have segments of the same bytes, so a worker's cache is by query too."""

    def named(aggregate: Aggregate) -> object:
        stream = lw.stream(table([1, 1], x=[1, 1]), progress="ts", disorder=1)
        return stream.window(range=10).agg(a=aggregate).plan.fingerprint(1)["query"]

    assert named(lw.max("x")) != named(lw.count("x"))


def test_which_windows_are_complete_is_told() -> None:
    query = lw.stream(table([1]), progress="ts", disorder=lw.ordered()).window(range=10).agg(n=lw.count()).start()
    assert query.metrics().closed_below is None
    query.push(table([1, 35]))
    assert query.metrics().closed_below == 3


def test_over_reads_all_columns_since_it_gives_its_rows_back() -> None:
    table = pa.table({"ts": [1, 2, 3], "k": ["a", "b", "a"], "v": [1, 2, 3], "note": ["x", "y", "z"]})
    query = lw.stream(table, name="rows", progress="ts", disorder=0).over("k", rows=(1, 0)).agg(s=lw.sum("v"))
    assert query.plan.entries[0].schema.names == ["ts", "k", "v", "note"]


def test_over_all_time_holds_nothing_after_the_end() -> None:
    table = pa.table({"ts": [1], "k": ["a"]})
    stream = lw.stream(table.slice(0, 0), name="rows", progress="ts", disorder=0)
    query = stream.over("k", range=(None, 0)).agg(n=lw.count()).start()
    query.push([{"ts": 1, "k": "a"}, {"ts": 2, "k": "a"}])
    query.push([{"ts": 50, "k": "b"}])
    query.finish()
    assert query.metrics().state_rows == 0


class Weighted(lw.UserAggregate):
    state, result = (pa.float64(),), pa.float64()

    def __init__(self, weights: Any) -> None:
        self.weights = weights

    def lift(self, values: Any) -> Any:
        return (values.to_numpy() * float(self.weights[1000]),)

    def combine(self, a: Any, b: Any) -> Any:
        return (a[0] + b[0],)

    def lower(self, partial: Any) -> Any:
        return partial[0]


def test_two_definitions_that_differ_in_the_middle_of_an_array_are_two() -> None:
    ones = np.ones(2001)
    other = ones.copy()
    other[1000] = 7.0
    stream = lw.stream(pa.table({"ts": [1, 2], "v": [1, 1]}), name="rows", progress="ts", disorder=0)

    def asked(first: Any, second: Any) -> lw.Query:
        return stream.window(10).agg(a=lw.udaf("v", Weighted(first)), b=lw.udaf("v", Weighted(second)))

    (row,) = asked(ones, other).collect().to_pylist()
    assert (row["a"], row["b"]) == (2.0, 14.0)
    assert asked(ones, other).plan.fingerprint(1) != asked(ones, ones).plan.fingerprint(1)
    assert asked(ones, other).plan.fingerprint(1) == asked(ones.copy(), other.copy()).plan.fingerprint(1)


def test_a_local_query_that_failed_goes_no_further() -> None:
    def fails(values: pa.Array) -> float:
        raise KeyError("nothing here")

    stream = lw.stream(pa.table({"ts": [1], "v": [1]}), name="rows", progress="ts", disorder=0)
    query = stream.window(10).agg(f=lw.holistic("v", fails, pa.float64())).start()
    with pytest.raises(lw.LowwaterError, match="fails"):
        query.push([{"ts": 1, "v": 1}, {"ts": 20, "v": 1}])
    for go_on in (query.restart, query.finish):
        with pytest.raises(lw.LowwaterError, match="has failed in the middle of a batch; start it anew"):
            go_on()


@pytest.mark.parametrize("more", [{"early": True}, {"table": 4}])
def test_a_hint_at_skewed_groups_gives_way(more: dict[str, Any]) -> None:
    stream = lw.stream(pa.table({"ts": [1], "k": ["a"]}), name="rows", progress="ts", disorder=0, groups="skewed")
    window = stream.window(10).emit(early=more.get("early"))
    assert window.group_by("k").agg(table=more.get("table"), n=lw.count()).plan.spec.tactic == "wid"


def test_punctuation_and_the_columns_of_over_belong_to_the_checkpoint() -> None:
    table = pa.table({"ts": [1], "e": [True], "e2": [True], "u": [1]})

    def marked(when: str) -> lw.Query:
        return lw.stream(table, progress="ts", disorder=lw.punctuated(when, "u")).window(10).agg(n=lw.count())

    assert marked("e").plan.fingerprint(1) != marked("e2").plan.fingerprint(1)

    def over(columns: list[str]) -> lw.Query:
        return lw.stream(table.select(columns), progress="ts", disorder=0).over(rows=(1, 0)).agg(n=lw.count())

    assert over(["ts", "u"]).plan.fingerprint(1) != over(["ts", "u", "e"]).plan.fingerprint(1)


class TooLarge(Weighted):
    def lower(self, partial: Any) -> Any:
        return [2**70 for _ in partial[0]]

    result = pa.int64()


def test_a_result_that_does_not_fit_is_told_by_name() -> None:
    stream = lw.stream(pa.table({"ts": [1], "v": [1]}), name="rows", progress="ts", disorder=0)
    asked = stream.window(10).agg(a=lw.udaf("v", TooLarge(np.ones(1001))))
    with pytest.raises(lw.LowwaterError, match=r"Query over 'rows': TooLarge\(v\) failed in lower\(\)"):
        asked.collect()


def test_a_join_goes_on_only_from_a_state_that_has_the_columns_it_reads() -> None:
    """A filter behind a join may be mended on a running checkpoint, unless the join has never kept its column."""
    rows = pa.table({"ts": [1], "k": ["a"], "v": [1], "w": [1]})
    left, right = (lw.stream(rows, name=name, progress="ts", disorder=0) for name in "lr")

    def asked(condition: str) -> Any:
        return left.join(right, "k", within=5).where(condition).window(10, over="l_ts").agg(n=lw.count()).node

    for late in (True, False):
        first = plan(asked("l_v > 0"), late).plan.choices()
        again = plan(asked("l_v > 1 AND l_v < 9"), late, first).plan
        assert again.choices() == first
    assert plan(asked("l_w > 0"), True, plan(asked("l_v > 0"), True).plan.choices()).plan.choices()["whole"]
    with pytest.raises(CheckpointMismatch, match="keeps the columns ts, k and v of 'l', but the query now reads"):
        plan(asked("l_w > 0"), False, first)
