"""Plans of several operators against their definitions: random trees, and one test per claim.

`LOWWATER_SOAK=2000 pytest tests/test_trees.py` draws so many trees instead of a few.
"""

from __future__ import annotations

import datetime as dt
import inspect
import json
import os
import random
from typing import Any

import pyarrow as pa
import pytest

import lowwater as lw
from lowwater.errors import LowwaterError
from lowwater.query.logical import Aggregate, Join, Mark, Node, Roots
from lowwater.query.planner import plan
from lowwater.windows.context_aware import Partitioned
from lowwater.windows.context_free import Landmark, TupleBased
from lowwater.windows.over import Over
from tests.compare import EPOCH
from tests.judge import judged
from tests.tree_oracle import Arrived, evaluate, in_order, less, unlike
from tests.trees import Case, Clock, Data, Refusals, case, drawn_data, run, shown

SEEDS = int(os.environ.get("LOWWATER_SOAK", "60"))
BLOCK = 10


@pytest.mark.parametrize("block", range(-(-SEEDS // BLOCK)))
def test_random_trees_give_what_their_definitions_say_hold_nothing_at_the_end_and_have_no_late_row(block: int) -> None:
    refusals = Refusals()
    for seed in range(block * BLOCK, min(SEEDS, (block + 1) * BLOCK)):
        assert judged(case(seed, refusals)) == ""
    assert refusals.refused <= refusals.drawn / 2, refusals.reasons


def waits_for_rows(node: Node) -> bool:
    """Whether answers may wait for rows to come, however far time is. Windows from the first row on promise nothing
    before they have one."""
    if isinstance(node, Join):
        return node.rows is not None
    if not isinstance(node, Aggregate):
        return False
    following = isinstance(node.window, Over) and node.window.frame == "rows" and bool(node.window.following)
    return (
        following
        or not node.anchored
        or isinstance(node.window, Partitioned | TupleBased | Landmark)
        or node.flush.name != "eager"
    )


@pytest.mark.parametrize("block", range(4))
def test_what_time_has_decided_does_not_wait_for_the_end(block: int) -> None:
    """Rows far ahead decide everything that does not depend on them."""
    decided = 0
    for seed in range(block * 10, block * 10 + 10):
        one = case(seed)
        if any(waits_for_rows(node) for node in one.node.walk()):
            continue
        far = one.data.far()
        got = in_order(run(one.relation, far, one.shards, one.late, end=False).result())
        before, after = (in_order(evaluate(one.node, data.arrived())) for data in (one.data, far))
        final = less(before, less(before, after))
        assert less(final, got) == [], f"seed {seed}\n{shown(one.node)}"
        decided += len(final)
    assert decided > 20


@pytest.mark.parametrize("seed", range(20))
def test_a_tree_that_is_planned_by_the_choices_of_its_plan_has_the_same_plan(seed: int) -> None:
    one = case(seed)
    first = plan(one.node, one.late).plan
    again = plan(one.node, one.late, json.loads(first.pinned())).plan
    assert again.choices() == first.choices()
    assert again.entries == first.entries
    assert [(e.route, e.crosses) for e in again.edges] == [(e.route, e.crosses) for e in first.edges]


def concrete(base: type[Node]) -> set[type[Node]]:
    """The kinds of nodes that lowwater has."""
    below = {kind for one in base.__subclasses__() for kind in concrete(one)}
    ours = base.__module__.startswith("lowwater.") and not inspect.isabstract(base)
    return below | {base} if ours else below


def test_trees_that_are_drawn_have_all_kinds_of_nodes_and_several_stages() -> None:
    drawn = [case(seed) for seed in range(60)]
    kinds = {type(node) for one in drawn for node in one.node.walk()}
    assert kinds == concrete(Node) - {Mark, Roots}  # a rule makes marks of filters, and roots are several trees
    assert {one.relation.plan.stages for one in drawn} >= {1, 2, 3}


# -- claims ---------------------------------------------------------------------------------------------------------

ROWS = pa.schema([("ts", pa.int64()), ("k", pa.string()), ("g", pa.int64()), ("v", pa.int64())])


def stream(name: str, disorder: Any = 0, schema: pa.Schema = ROWS) -> lw.Relation:
    return lw.stream(schema.empty_table(), name=name, progress="ts", disorder=disorder)


def rows(*values: tuple[Any, ...]) -> pa.Table:
    return pa.table([list(column) for column in zip(*values, strict=True)], schema=ROWS)


A = rows(
    (1, "a", 1, 5), (3, "b", 1, 2), (8, "a", 2, 7), (12, "a", 1, 1), (15, "b", 2, 9), (27, "c", 1, 4), (33, "a", 1, 8)
)
B = rows((2, "a", 1, 3), (4, "a", 2, 6), (9, "b", 2, 1), (13, "b", 1, 2), (22, "a", 1, 4), (31, "c", 2, 0))
C = rows((0, "c", 2, 1), (6, "b", 1, 1), (14, "a", 2, 3), (30, "a", 1, 5))
TABLES = {"a": A, "b": B, "c": C}


def results(relation: lw.Relation, shards: int = 1, batch: int = 2) -> tuple[pa.Table, Any]:
    """The results over the tables above, judged: equal to the definition, nothing late, nothing held."""
    query = relation.start(shards=shards)
    for at in range(0, 7, batch):
        for port, i in enumerate(query.plan.inputs):
            if at < TABLES[i.name].num_rows:
                query.push(TABLES[i.name].slice(at, batch), port)
    query.finish()
    got = query.result()
    inputs = {name: Arrived(table, list(range(table.num_rows))) for name, table in TABLES.items()}
    assert unlike(got, evaluate(relation.node, inputs)) == ""
    numbers = query.metrics()
    assert numbers.late_rows == 0
    assert [operator.state_rows for operator in numbers.operators] == [0] * len(numbers.operators)
    return got, query


def told(relation: lw.Relation, *columns: str, shards: int = 2) -> list[tuple[Any, ...]]:
    got, _ = results(relation, shards)
    return [tuple(row[name] for name in columns) for row in got.to_pylist()]


def test_the_average_of_the_maxima_of_each_window() -> None:
    maxima = stream("a").window(5).agg(most=lw.max("v"))
    assert told(maxima.window(20).agg(mean=lw.avg("most")), "window_start", "mean") == [(0, 5.5), (20, 6.0)]


def test_windows_count_to_the_longer_window_that_holds_their_last_tick() -> None:
    """[15, 20) counts to [0, 20), which it ends with."""
    counts = stream("a").window(5).agg(n=lw.count())
    assert told(counts.window(20).agg(windows=lw.count()), "window_end", "windows") == [(20, 4), (40, 2)]


def sliding() -> lw.Relation:
    return stream("a").window(10, 5).group_by("k").agg(n=lw.count())


def test_the_maximum_over_keys_of_a_sliding_count_is_two_stages_routed_by_window() -> None:
    busiest = sliding().window(5).agg(most=lw.max("n"))
    assert busiest.plan.stages == 2
    assert "routed by window" in busiest.explain()
    assert told(busiest, "window_end", "most", shards=3)[:4] == [(5, 1), (10, 2), (15, 2), (20, 1)]


def test_the_maximum_over_keys_by_the_window_itself_is_the_same() -> None:
    by_window = sliding().group_by("window_start", "window_end").agg(most=lw.max("n"))
    assert by_window.plan.stages == 2
    behind = told(sliding().window(5).agg(most=lw.max("n")), "window_end", "most")
    assert sorted(told(by_window, "window_end", "most", shards=3)) == behind


def test_a_group_of_one_window_is_answered_when_that_window_closes() -> None:
    query = sliding().group_by("window_start", "window_end").agg(most=lw.max("n")).start(shards=2)
    assert query.push(A.slice(0, 3)).to_pylist() == [{"window_start": -5, "window_end": 5, "most": 1}]


def test_a_count_over_a_union_of_three_is_one_stage() -> None:
    counts = stream("a").union(stream("b"), stream("c")).window(10).agg(n=lw.count())
    assert counts.plan.stages == 1
    assert told(counts, "window_start", "n") == [(0, 8), (10, 4), (20, 2), (30, 3)]


def per_window(name: str) -> lw.Relation:
    return stream(name).window(10).group_by("k").agg(n=lw.count()).named(f"per_{name}")


def test_two_aggregations_join_on_their_window_and_key_in_one_stage_without_within() -> None:
    both = per_window("a").join(per_window("b"), on=["window_start", "k"])
    assert both.plan.stages == 1
    expected = [(0, "a", 2, 2), (0, "b", 1, 1), (10, "b", 1, 1)]
    assert told(both, "window_start", "k", "per_a_n", "per_b_n") == expected


def test_the_order_of_the_key_does_not_matter_to_a_join_of_aggregations() -> None:
    both = per_window("a").join(per_window("b"), on=["k", "window_start"])
    assert both.plan.stages == 1
    assert len(told(both, "k", shards=4)) == 3


def test_a_join_compares_the_times_that_it_is_told() -> None:
    """NEXMark q7: rows of the largest value of a window, up to its end."""
    rows = stream("a")
    best = rows.window(10).agg(best=lw.max("v")).named("w")
    by_end = best.join(rows, on=[("best", "v")], within=(-10, 0), over=("window_end", None))
    assert told(by_end, "window_end", "ts", "v", shards=3) == [(10, 8, 7), (20, 15, 9), (30, 27, 4), (40, 33, 8)]
    third = joined().named("two").join(stream("c"), on="k", within=(-20, 20), over=("b_ts", None))
    assert {row[0] for row in told(third, "b_ts", shards=3)} == {2, 4, 13}
    shifted = stream("a").with_column("later", "ts + 10").named("a")
    pairs = told(shifted.join(stream("b"), on="k", within=1, over=("later", "ts")), "a_ts", "b_ts", shards=3)
    assert sorted(pairs) == [(3, 13), (12, 22)]


def test_a_stream_in_a_union_with_itself_is_read_once_and_counted_twice() -> None:
    rows = stream("a")
    either = rows.where("v > 5").union(rows.where("v < 8")).window(20).group_by("k").agg(n=lw.count())
    got, query = results(either, shards=3)
    assert sum(got.column("n").to_pylist()) == 8  # (8, 'a', 2, 7) is in both
    assert query.metrics().rows == A.num_rows


def test_a_join_over_a_union() -> None:
    united = stream("a").union(stream("c")).named("either")
    got = told(united.join(stream("b"), on="k", within=(0, 3)), "either_ts", "b_ts", "k", shards=3)
    assert sorted(got) == [(1, 2, "a"), (1, 4, "a"), (6, 9, "b")]


def joined() -> lw.Relation:
    return stream("a").join(stream("b"), on="k", within=(-2, 5))


def test_a_join_over_a_join_by_the_same_key_is_one_stage() -> None:
    three = joined().named("two").join(stream("c"), on="k", within=(-20, 20))
    assert three.plan.stages == 1
    assert {row[0] for row in told(three, "k", shards=3)} == {"a", "b"}


def test_a_join_over_a_join_by_another_key_is_two_stages() -> None:
    three = joined().named("two").join(stream("c"), on=[("a_g", "g")], within=(-10, 10))
    assert three.plan.stages == 2
    assert len(told(three, "a_g", shards=3)) > 0


def test_a_count_behind_a_join_by_its_key_is_one_stage() -> None:
    counts = joined().window(10, over="a_ts").group_by("k").agg(n=lw.count())
    assert counts.plan.stages == 1
    assert told(counts, "window_start", "k", "n", shards=3) == [(0, "a", 2), (10, "b", 1), (20, "c", 1)]


def test_a_count_behind_a_join_by_another_key_is_two_stages() -> None:
    counts = joined().window(10, over="a_ts").group_by("b_g").agg(n=lw.count())
    assert counts.plan.stages == 2
    assert told(counts, "window_start", "b_g", "n", shards=3) == [(0, 1, 1), (0, 2, 1), (10, 1, 1), (20, 2, 1)]


def test_having_keeps_groups_and_their_order() -> None:
    many = stream("a").window(10).group_by("k").agg(n=lw.count()).where("n > 1")
    assert told(many, "window_start", "k", "n") == [(0, "a", 2)]
    ratio = stream("a").window(10).agg(n=lw.count(), s=lw.sum("v")).with_column("mean", "s / n").where("mean > 4")
    assert told(ratio, "window_start", "mean") == [(0, 14 / 3), (10, 5.0), (30, 8.0)]


def by_stream(data: Data) -> list[pa.Table]:
    return [data.arrived()[name].table for name in "ab"]


@pytest.mark.parametrize("shards", [1, 2, 4])
def test_a_landmark_behind_a_join_is_the_same_on_any_number_of_shards(shards: int) -> None:
    data = next(d for n in range(99) if min(map(len, by_stream(d := drawn_data(random.Random(n))))) == 20)
    a, b = data.stream("a"), data.stream("b")
    growing = a.join(b, on="g", within=(data.clock.length(-20), data.clock.length(20)))
    growing = growing.window("all", data.clock.length(4), over="a_ts").group_by("g").agg(n=lw.count())
    first = run(growing, data, 1).result()
    assert first.num_rows > 10
    assert unlike(run(growing, data, shards).result(), first) == ""
    assert judged(Case(0, growing, data, shards, True)) == ""


def test_an_aggregation_behind_an_aggregation_behind_a_join_is_computed_from_it() -> None:
    counts = joined().window(5, over="a_ts").group_by("k").agg(n=lw.count())
    both = counts.window(20).agg(windows=lw.count(), pairs=lw.sum("n"))
    assert told(both, "window_start", "windows", "pairs", shards=3) == [(0, 2, 3), (20, 1, 1)]


def test_a_result_used_twice_is_the_same_result() -> None:
    counts = stream("a").window(10).group_by("k").agg(n=lw.count())
    totals = counts.group_by("window_start", "window_end").agg(total=lw.sum("n"))
    share = counts.named("c").join(totals.named("t"), on=["window_end"]).with_column("share", "n / total")
    got = told(share, "window_end", "k", "share", shards=3)
    assert sorted(got)[:2] == [(10, "a", 2 / 3), (10, "b", 1 / 3)]


def test_distinct_over_a_union_drops_what_both_have() -> None:
    either = stream("a").union(stream("b"), stream("c"))
    by_window = either.window(10).distinct("k")
    assert told(by_window, "window_start", "k", shards=3)[:3] == [(0, "a"), (0, "b"), (0, "c")]
    counted = either.with_column("ten", "v - v % 10").distinct("ts", "k").window(40).agg(n=lw.count())
    assert told(counted, "n", shards=3) == [(17,)]
    twice = stream("a").where("g = 1").named("x").union(stream("b")).distinct()
    assert len(told(twice, "ts", shards=3)) == 11


def test_the_first_row_of_each_key_within_a_length_survives_whatever_its_input() -> None:
    first = stream("a").union(stream("b")).drop_duplicates("k", within=10)
    assert sorted(told(first, "ts", "k", shards=3)) == [(1, "a"), (3, "b"), (12, "a"), (15, "b"), (27, "c"), (33, "a")]
    counts = first.window(20).group_by("k").agg(n=lw.count())
    assert counts.plan.stages == 1
    assert told(counts, "window_start", "k", "n", shards=3)[:2] == [(0, "a", 2), (0, "b", 2)]


def in_windows(how: str = "inner") -> lw.Relation:
    return stream("a").join(stream("b"), on="k", window=10, slide=5, how=how)


@pytest.mark.parametrize("how", ["inner", "left", "full", "semi", "anti"])
def test_what_follows_a_join_in_windows_is_answered_when_the_window_closes(how: str) -> None:
    """NEXMark q8: each key once per window. Windows up to 15 are closed by rows at 33 and 13, whoever stays alone."""
    for follow in (
        in_windows(how).distinct("window_start", "k"),
        in_windows(how).group_by("window_start", "window_end").agg(n=lw.count()),
        in_windows(how).window(20, over="window_start").agg(n=lw.count()),
    ):
        whole, _ = results(follow, shards=3)
        query = follow.start(shards=2)
        query.push(A, 0)
        query.push(B.slice(0, 4), 1)
        closed = query.result()
        assert 0 < closed.num_rows < whole.num_rows or "wid" in closed.column_names
        assert less(in_order(closed), in_order(whole)) == []
    assert sorted(told(in_windows().distinct("window_start", "k"), "window_start", "k"))[:3] == [
        (-5, "a"),
        (0, "a"),
        (0, "b"),
    ]


@pytest.mark.parametrize("again", [{"early": True}, {"allowed_lateness": 5}])
def test_revised_answers_inside_a_tree_are_refused(again: dict[str, Any]) -> None:
    revised = stream("a").window(10).emit(**again).group_by("k").agg(n=lw.count())
    for follow in (
        lambda: revised.window(20).agg(m=lw.max("n")),
        lambda: revised.session(20).agg(m=lw.max("n")),
        lambda: revised.over("k", range=(20, 0)).agg(m=lw.max("n")),
        lambda: revised.group_by("window_end").agg(m=lw.max("n")),
        lambda: revised.join(stream("b"), on="k", within=5),
        lambda: revised.where("n > 0").window(20).agg(m=lw.max("n")),
    ):
        with pytest.raises(LowwaterError, match="counted twice"):
            follow()
    with pytest.raises(LowwaterError, match="a revision counts the answers of one query only"):
        revised.union(revised)


def test_metrics_of_operators_add_up() -> None:
    counts = joined().window(10, over="a_ts").group_by("b_g").agg(n=lw.count()).where("n > 0")
    _, query = results(counts, shards=3)
    numbers = query.metrics()
    by_name = {operator.name: operator for operator in numbers.operators}
    assert numbers.rows == A.num_rows + B.num_rows
    assert [operator.number for operator in numbers.operators] == list(range(len(numbers.operators)))
    assert by_name["OA-Join"].result_rows == 4
    assert by_name["WID aggregate"].result_rows == by_name["Select"].result_rows == numbers.result_rows == 4
    assert numbers.late_rows == sum(operator.late_rows for operator in numbers.operators) == 0


def test_late_rows_are_those_of_inputs_and_counted_where_they_came_too_late() -> None:
    counts = joined().window(10, over="a_ts").group_by("b_g").agg(n=lw.count())
    query = counts.start(shards=2)
    query.push(A, 0)
    query.push(B, 1)
    query.push(rows((2, "a", 1, 1), (32, "a", 1, 1)), 1)
    query.finish()
    (late,) = query.late_output().to_pylist()
    assert (late["input"], late["operator"], late["ts"]) == ("b", "OA-Join", 2)
    assert {o.name: o.late_rows for o in query.metrics().operators} == {"OA-Join": 1, "WID aggregate": 0}


def test_late_rows_are_counted_where_nobody_asks_for_them() -> None:
    """Then inputs are read without the columns that no operator needs."""
    query = joined().window(10, over="a_ts").agg(n=lw.count()).start(late=False)
    query.push(B, 1)
    query.push(rows((2, "a", 1, 1)), 1)
    query.finish()
    assert query.metrics().late_rows == 1


# -- times ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("how", "function"),
    [("inner", "greatest"), ("inner", "least"), ("left", "greatest"), ("right", "greatest"), ("full", "greatest")],
)
@pytest.mark.parametrize("shards", [1, 3])
def test_windows_over_the_later_or_the_earlier_time_behind_a_join_close_and_are_right(
    how: str, function: str, shards: int
) -> None:
    both = stream("a", 2).join(stream("b", 2), on="k", within=(-2, 5), how=how)
    counts = both.with_column("t", f"{function}(a_ts, b_ts)").window(10, over="t").group_by("k").agg(n=lw.count())
    got, _ = results(counts, shards)
    assert got.num_rows > 1
    query = counts.start(shards=shards)
    query.push(A, 0)
    closed = query.push(B, 1)
    assert 0 < closed.num_rows < got.num_rows + 1
    assert (0, "a") in {(row["window_start"], row["k"]) for row in closed.to_pylist()}


@pytest.mark.parametrize("shards", [1, 3])
def test_a_time_moved_by_a_constant_carries_windows(shards: int) -> None:
    moved = stream("a").with_column("n", "ts + 5").window(10, over="n").group_by("k").agg(c=lw.count())
    assert told(moved, "window_start", "k", "c", shards=shards)[:2] == [(0, "a", 1), (0, "b", 1)]
    query = moved.start(shards=shards)
    assert query.push(A.slice(0, 4)).column("window_start").to_pylist() == [0, 0]  # 12 + 5 has passed 10


@pytest.mark.parametrize("shards", [1, 3])
def test_a_time_moved_by_a_constant_behind_an_operator_carries_windows(shards: int) -> None:
    moved = sliding().with_column("n2", "window_end + 7").window(20, over="n2").agg(c=lw.count())
    assert sum(c for (c,) in told(moved, "c", shards=shards)) == len(told(sliding(), "n"))
    query = moved.start(shards=shards)
    assert query.push(A.slice(0, 6)).column("window_end").to_pylist() == [20]  # windows up to 25 are closed: 25 + 7


@pytest.mark.parametrize("behind", [False, True])
def test_a_timestamp_moved_by_an_interval_carries_windows(behind: bool) -> None:
    clock = Clock(True)
    schema = pa.schema([("ts", clock.type), ("k", pa.string())])
    read = lw.stream(schema.empty_table(), name="a", progress="ts", disorder="1 minute")
    if behind:
        read = read.window("1 minute").group_by("k").agg(n=lw.count())
    time = "window_end" if behind else "ts"
    moved = read.with_column("t2", f"{time} + INTERVAL 10 MINUTES")
    counts = moved.window("10 minutes", over="t2").group_by("k").agg(c=lw.count())
    table = pa.table({"ts": [EPOCH + dt.timedelta(minutes=m) for m in (0, 3, 9, 12, 25)], "k": list("abaab")}, schema)
    query = counts.start(shards=2)
    early = query.push(table)
    minutes = {(start - EPOCH) // dt.timedelta(minutes=1) for start in early.column("window_start").to_pylist()}
    assert minutes == {10, 20}  # the newest row but a minute of disorder is at 24, and 24 + 10 has passed both
    query.finish()
    inputs = {"a": Arrived(table, list(range(5)))}
    assert unlike(query.result(), evaluate(counts.node, inputs)) == ""


def test_what_is_joined_must_have_its_time() -> None:
    lonely = stream("a").join(stream("b"), on="k", within=5, how="full").named("both")
    with pytest.raises(LowwaterError, match="stayed alone in a join have no 'a_ts'"):
        lonely.join(stream("c"), on="k", within=5)
    timed = lonely.with_column("t", "greatest(a_ts, b_ts)").named("both")
    assert len(told(timed.join(stream("c"), on="k", within=5), "t", shards=3)) > 0


# -- what a step may change ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shards", [1, 2, 4])
def test_a_function_that_changes_the_key_moves_rows(shards: int) -> None:
    counts = stream("a").window(10).group_by("k").agg(n=lw.count())

    def one_key(rows: pa.Table) -> pa.Table:
        at = rows.schema.get_field_index("k")
        return rows.set_column(at, "k", pa.array(["z"] * rows.num_rows, pa.string()))

    totals = counts.apply(one_key, counts.schema).window(10).group_by("k").agg(total=lw.sum("n"))
    assert told(totals, "window_start", "total", shards=shards) == [(0, 3), (10, 2), (20, 1), (30, 1)]


def test_a_changed_column_tells_results_apart_no_more() -> None:
    counts = stream("a").window(10).group_by("k").agg(n=lw.count())
    assert counts.over("k", rows=(1, 0)).agg(s=lw.sum("n"))
    changed = counts.with_column("k", "coalesce(k, 'a')")
    for follow in (
        lambda: changed.over("k", rows=(1, 0)).agg(s=lw.sum("n")),
        lambda: changed.named("c").join(stream("b"), on="k", rows=(2, None), within=5),
    ):
        with pytest.raises(LowwaterError, match="nothing orders them"):
            follow()


def test_columns_that_nobody_reads_are_not_needed_by_a_join_that_counts_rows() -> None:
    newest = stream("a").named("l").join(stream("b").named("r"), on="k", rows=(1, 1))
    counts = newest.window(10, over="l_ts").agg(n=lw.count())
    query = counts.start(late=False)
    query.push(A, 0)
    query.push(B, 1)
    query.finish()
    inputs = {name: Arrived(TABLES[name], list(range(TABLES[name].num_rows))) for name in "ab"}
    assert unlike(query.result(), evaluate(counts.node, inputs)) == ""
