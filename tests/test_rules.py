"""The rules that rewrite logical trees: what each does to a tree, kept as text, and that none changes an answer.

`LOWWATER_REFRESH=1 pytest tests/test_rules.py` writes the files anew; look at the difference before it is committed.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

import lowwater as lw
from lowwater.query import rules
from lowwater.query.logical import Aggregate, Derive, Join, Node
from lowwater.query.rules import RULES, rewritten
from tests.tree_oracle import evaluate, unlike
from tests.trees import case, shown

FOLDER = Path(__file__).parent / "rules"
ROWS = pa.schema([("ts", pa.int64()), ("k", pa.string()), ("v", pa.int64()), ("note", pa.string())])


def stream(name: str) -> lw.Relation:
    return lw.stream(ROWS.empty_table(), name=name, progress="ts", disorder=5)


def counts(name: str) -> lw.Relation:
    return stream(name).window(10).group_by("k").agg(n=lw.count(), most=lw.max("v")).named(name)


def joined() -> lw.Relation:
    return stream("a").join(stream("b"), on="k", within=5)


def as_they_are(rows: pa.Table) -> pa.Table:
    return rows


def joined_rows() -> lw.Relation:
    return joined().apply(as_they_are, joined().schema)


TREES: dict[str, dict[str, lw.Relation]] = {
    "flatten_unions": {
        "a union of unions is one union": stream("a").union(stream("b")).union(stream("c").union(stream("d"))),
        "also below other nodes": counts("a").union(counts("b")).union(counts("c")).window(20).agg(n=lw.sum("n")),
        "but not through a filter": stream("a").union(stream("b")).where("v > 1").union(stream("c")),
    },
    "push_below_union": {
        "steps over a union of inputs run where rows are read": stream("a")
        .union(stream("b"))
        .where("v > 1")
        .with_column("w", "v + 1")
        .select("ts", "k", "w"),
        "and those over a union of results": counts("a").union(counts("b")).where("n > 1"),
        "windows over a union stay": stream("a").union(stream("b")).window(10).agg(n=lw.count()).where("n > 1"),
    },
    "mark_filters": {
        "a filter where rows are read marks them, and guards what follows": stream("a")
        .with_column("u", "v - 1")
        .where("v > 1")
        .with_column("w", "10 / v")
        .where("w > 2"),
        "a filter behind an operator drops rows": counts("a").where("n > 1").with_column("r", "most / n"),
    },
    "prune_columns": {
        "an input is read without what nobody reads": stream("a").window(10).agg(most=lw.max("v")),
        "a filter reads its columns": stream("a").where("note = 'x'").window(10).agg(n=lw.count()),
        "a join emits what follows reads": joined().window(10, over="a_ts").group_by("k").agg(s=lw.sum("b_v")),
        "a condition is read, too": stream("a")
        .join(stream("b"), on="k", within=5, condition="a_v < b_v")
        .group_by("a_ts")
        .agg(n=lw.count()),
        "a derived column that nobody reads is not computed": counts("a").with_column("r", "most / n").select("k", "n"),
        "the later time of a join asks for its punctuation": joined()
        .with_column("t", "greatest(a_ts, b_ts)")
        .window(10, over="t")
        .agg(n=lw.count()),
        "window_time is carried only where something goes by it": counts("a").window(20).agg(m=lw.max("n")),
        "duplicates are decided by all columns": stream("a").drop_duplicates("k", within=5).select("ts", "k"),
        "OVER hands all columns back": stream("a").over("k", range=(5, 0)).agg(n=lw.count()),
        "a function may read every column": joined_rows().window(10, over="a_ts").agg(n=lw.count()),
    },
}
"""Trees before a rule, by what it does to them."""


def printed(node: Node, depth: int = 0) -> str:
    """A tree with the columns of each node, and what rules note on it."""
    notes = []
    if isinstance(node, Derive) and node.guarded:
        notes.append("guarded")
    if isinstance(node, Aggregate) and not node.timed:
        notes.append("untimed")
    if isinstance(node, Join) and node.extremes:
        notes.append("extremes")
    if type(node).__name__ == "Mark":
        notes.append("marks")
    line = f"{'   ' * depth}{node.line()}  [{', '.join(node.schema.names)}]{' ' if notes else ''}{', '.join(notes)}"
    return "\n".join([line, *(printed(one, depth + 1) for one in node.inputs)])


@pytest.mark.parametrize("name", TREES)
def test_rule(name: str) -> None:
    rule: Callable[[Node], Node] = getattr(rules, name)
    told = []
    for what, relation in TREES[name].items():
        before = prepared(name, relation.node)
        told.append(f"# {what}\n\n{printed(before)}\n\nbecomes\n\n{printed(rule(before))}\n")
    text = "\n".join(told)
    file = FOLDER / f"{name}.txt"
    if os.environ.get("LOWWATER_REFRESH"):
        FOLDER.mkdir(exist_ok=True)
        file.write_text(text)
    assert text == file.read_text()


def prepared(name: str, node: Node) -> Node:
    """The tree as the rule gets it, behind those that are applied before it."""
    if name == "prune_columns":
        for rule in RULES:
            node = rule(node)
    return node


def test_every_rule_has_a_fixture() -> None:
    named = {rule.__name__ for rule in RULES} | {"prune_columns"}
    assert named == set(TREES) == {file.stem for file in FOLDER.glob("*.txt")}


@pytest.mark.parametrize("name", TREES)
def test_a_rule_that_is_applied_twice_does_no_more(name: str) -> None:
    rule: Callable[[Node], Node] = getattr(rules, name)
    for relation in TREES[name].values():
        once = rule(prepared(name, relation.node))
        assert printed(rule(once)) == printed(once)


@pytest.mark.parametrize("block", range(5))
def test_no_rule_changes_an_answer(block: int) -> None:
    for seed in range(block * 6, block * 6 + 6):
        one = case(seed)
        inputs = one.data.arrived()
        expected = evaluate(one.node, inputs)
        node = one.node
        for rule in RULES:
            node = rule(node)
            assert unlike(evaluate(node, inputs).select(expected.column_names), expected) == "", shown(one.node)
        for whole in (False, True):
            last = evaluate(rewritten(one.node, whole), inputs).select(expected.column_names)
            assert unlike(last, expected) == "", shown(one.node)


def test_a_function_over_a_union_sees_its_columns_in_one_order() -> None:
    seen: list[list[str]] = []

    def noting(rows: pa.Table) -> pa.Table:
        seen.append(rows.column_names)
        return rows

    a = lw.stream(pa.table({"ts": [1], "k": ["x"]}), name="a", progress="ts", disorder=0)
    b = lw.stream(pa.table({"k": ["y"], "ts": [2]}), name="b", progress="ts", disorder=0)
    both = a.union(b).apply(noting, pa.schema([("ts", pa.int64()), ("k", pa.string())]))
    assert both.window(range=10).agg(n=lw.count()).collect()["n"].to_pylist() == [2]
    assert {tuple(names) for names in seen} == {("ts", "k")}
