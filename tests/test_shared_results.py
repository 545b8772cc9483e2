"""A result that several others read is computed once: one operator, one state, however often it is used."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest

import lowwater as lw
from lowwater.query.planner import plan
from lowwater.query.rules import copied
from tests.tree_oracle import Arrived, evaluate, unlike

ROWS = pa.table(
    {
        "ts": [1, 3, 8, 12, 15, 27, 33, 34],
        "k": ["a", "b", "a", "a", "b", "c", "a", "b"],
        "g": [1, 1, 2, 1, 2, 1, 1, 2],
        "v": [5, 2, 7, 1, 9, 4, 8, 3],
    }
)
OTHERS = pa.table({"ts": [2, 4, 9, 13, 22, 31], "k": list("aabbac"), "g": [1, 2, 2, 1, 1, 2], "v": [3, 6, 1, 2, 4, 0]})
TABLES = {"a": ROWS, "b": OTHERS}


def stream(name: str) -> lw.Relation:
    return lw.stream(TABLES[name].slice(0, 0), name=name, progress="ts", disorder=0)


def counts() -> lw.Relation:
    return stream("a").window(10).group_by("k").agg(n=lw.count(), most=lw.max("v"))


def share() -> lw.Relation:
    """Counts beside the total of their window."""
    each = counts()
    totals = each.group_by("window_start", "window_end").agg(total=lw.sum("n"))
    return each.named("each").join(totals.named("totals"), on="window_end").with_column("share", "n / total")


def with_itself() -> lw.Relation:
    each = counts()
    return each.named("x").join(each.named("y"), on="k", within=10)


def either() -> lw.Relation:
    each = counts()
    return each.where("n > 1").union(each.where("most > 4")).window(20).agg(n=lw.sum("n"))


def at_two_depths() -> lw.Relation:
    """The counts are read in their own stage and, two stages later, beside what came of them."""
    each = counts()
    busiest = each.window(10).agg(n=lw.max("n")).window(20).agg(n=lw.max("n"))
    return each.select("window_end", "n").named("each").join(busiest.named("b"), on="n", within=20)


def other_columns() -> lw.Relation:
    """The readers of a join read different columns of it, and one reads the later of its times."""
    pairs = stream("a").join(stream("b"), on="k", within=5)
    later = pairs.with_column("t", "greatest(a_ts, b_ts)").window(10, over="t").agg(n=lw.count("b_v"))
    sums = pairs.window(10, over="a_ts").agg(n=lw.sum("a_v"))
    return later.named("later").join(sums.named("sums"), on="window_end")


def both_times() -> lw.Relation:
    """One reader asks a join for promises on both times together, the other for promises on one."""
    pairs = stream("a").join(stream("b"), on="k", within=5)
    together = pairs.group_by("a_ts", "b_ts", "k").agg(n=lw.count())
    sums = pairs.window(10, over="a_ts").group_by("k").agg(s=lw.sum("a_v"))
    return together.named("t").join(sums.named("s"), on="k", within=40, over=("a_ts", "window_end"))


QUERIES = {of.__name__: of for of in (share, with_itself, either, at_two_depths, other_columns, both_times)}
LABELS = {
    "share": ["WID aggregate", "Group-by", "OA-Join", "Apply"],
    "with_itself": ["WID aggregate", "OA-Join"],
    "either": ["WID aggregate", "Select", "Select 2", "Meld", "WID aggregate 2"],
    "at_two_depths": ["WID aggregate", "Project", "WID aggregate 2", "WID aggregate 3", "OA-Join"],
    "other_columns": ["OA-Join", "Apply", "WID aggregate", "WID aggregate 2", "OA-Join 2"],
    "both_times": ["OA-Join", "Group-by", "OA-Join 2", "WID aggregate", "OA-Join 3"],
}
"""The operators of each query. The last has two joins of the streams, because one join cannot promise both."""


def run(relation: lw.Relation, shards: int, late: bool = True) -> Any:
    query = relation.start(shards=shards, late=late)
    for at in range(0, 8, 3):
        for port, read in enumerate(query.plan.inputs):
            query.push(TABLES[read.name].slice(at, 3), port)
        query.restart()
    query.finish()
    return query


@pytest.mark.parametrize("late", [True, False])
@pytest.mark.parametrize("shards", [1, 3])
@pytest.mark.parametrize("name", QUERIES)
def test_what_reads_one_result_twice_gives_what_its_definition_says(name: str, shards: int, late: bool) -> None:
    relation = QUERIES[name]()
    query = run(relation, shards, late)
    inputs = {of: Arrived(table, list(range(table.num_rows))) for of, table in TABLES.items()}
    assert unlike(query.result(), evaluate(relation.node, inputs)) == ""
    assert query.result().num_rows
    numbers = query.metrics()
    assert [one.state_rows for one in numbers.operators] == [0] * len(numbers.operators)
    assert numbers.late_rows == 0


@pytest.mark.parametrize("name", QUERIES)
def test_a_result_that_is_read_twice_has_one_operator(name: str) -> None:
    assert [placed.label for placed in QUERIES[name]().plan.operators] == LABELS[name]


def test_the_size_of_a_plan_grows_with_the_query_and_not_with_the_paths_through_it() -> None:
    relation = counts()
    for _ in range(6):
        relation = relation.union(relation.where("n > 0"))
    counted = [placed.label for placed in relation.plan.operators]
    assert counted.count("WID aggregate") == 1
    whole = relation.window(20).agg(n=lw.count())
    assert whole.plan.operators[0].label == "WID aggregate"
    assert len([1 for placed in whole.plan.operators if "aggregate" in placed.label]) == 2


def test_rows_that_are_read_in_two_ways_are_read_once_per_set_of_columns() -> None:
    rows = stream("a")
    sums = rows.window(10).agg(n=lw.sum("v")).named("sums")
    for column, frames in (("v", 1), ("g", 2)):
        most = rows.window(20).agg(n=lw.max(column)).named("most")
        assert len(plan(sums.join(most, on="window_end").node, late=False).frames) == frames


def test_explain_describes_a_result_once() -> None:
    text = share().explain()
    assert text.count("WID aggregate  n = count(*)") == 1
    assert text.count("WID aggregate, as above") == 1
    assert text.index("WID aggregate  n = count(*)") < text.index("WID aggregate, as above")
    for format in ("json", "dot", "svg"):
        assert "as above" in share().explain(format=format)


def test_explain_analyze_counts_a_result_once() -> None:
    each = lw.stream(ROWS, name="a", progress="ts", disorder=0).window(10).group_by("k").agg(n=lw.count())
    twice = each.named("x").join(each.named("y"), on="k", within=10)
    text = twice.explain(analyze=True)
    assert text.count("8 rows in, 7 rows out") == 1
    assert "14 rows in" in text


@pytest.mark.parametrize("name", [name for name in QUERIES if name != "both_times"])
def test_a_checkpoint_with_an_operator_per_use_keeps_them(name: str) -> None:
    """As earlier versions made it: its choices do not name shared results."""
    relation = QUERIES[name]()
    now = relation.plan
    assert json.loads(now.pinned())["shared"] is True
    before = plan(copied(relation.node)).plan
    choices = json.loads(before.pinned())
    assert "shared" not in choices
    assert len(before.operators) > len(now.operators)
    assert plan(relation.node, pinned=choices).plan.choices() == before.choices()
    assert plan(relation.node, pinned=json.loads(now.pinned())).plan.choices() == now.choices()
