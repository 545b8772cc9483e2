"""Joins without a window beyond the paper: outer rows, and keys whose rows have all come."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa
import pytest

import lowwater as lw
from lowwater.generate.scrambled import scrambled
from lowwater.joins.strategy import STRATEGIES
from lowwater.model.scrambling import Scrambling
from tests.test_oblivious import counted, equijoin, named, operators, streams


def outer(a: pa.Table, b: pa.Table, how: str) -> Counter:
    """The definition: the inner join, and each kept row whose key is not on the other side."""
    found = equijoin(a, b)
    for one, other, kept in ((a, b, how in ("left", "full")), (b, a, how in ("right", "full"))):
        missing = dict.fromkeys(set(other.column_names) - {"t"})
        keys = set(other["t"].to_pylist())
        if kept:
            found += Counter(tuple(sorted((row | missing).items())) for row in one.to_pylist() if row["t"] not in keys)
    return found


def tables_of(seed: int) -> dict[str, pa.Table]:
    rng = np.random.default_rng(seed)
    return {
        n: named(n, np.sort(rng.integers(0, 40, 30))[np.argsort(np.arange(30) + rng.integers(0, 5, 30))].tolist())
        for n in "ab"
    }


@pytest.mark.parametrize("how", ["left", "right", "full"])
@pytest.mark.parametrize("strategy", list(STRATEGIES))
def test_outer_rows_come_out_once_when_the_buffer_rule_proves_them_alone(how: str, strategy: str) -> None:
    for seed in range(4):
        tables = tables_of(seed)
        expect = {n: lw.expect(scrambling=Scrambling.of(t["t"].to_numpy()).factor) for n, t in tables.items()}
        join = lw.oblivious_join(streams(tables), on="t", how=how, expect=expect, strategy=strategy, ahead=2)
        query = join.start(shards=1 + seed % 3)
        for at in range(0, 30, 5):
            for name, table in tables.items():
                query.push(table.slice(at, 5), name)
            if seed % 2:
                query.restart()
        alone = sum(None in row.values() for row in query.result().to_pylist())
        query.finish()
        assert counted(query.result()) == outer(tables["a"], tables["b"], how)
        assert alone > 0, "rows alone do not wait for the end"
        assert query.metrics().late_rows == 0


def test_row_with_a_null_key_is_alone_at_once() -> None:
    a = pa.table({"t": [1, 2], "s": ["x", None], "a": [1, 2]})
    b = pa.table({"t": [1, 2], "s": ["x", None], "b": [1, 2]})
    join = lw.oblivious_join(streams({"a": a, "b": b}), on=["t", "s"], how="left", expect=lw.expect(scrambling=1))
    query = join.start(shards=2)
    assert [row["a"] for row in query.push(a, "a").to_pylist()] == [2]
    query.push(b, "b")
    query.finish()
    assert sorted((row["a"], row["b"]) for row in query.result().to_pylist()) == [(1, 1), (2, None)]


def test_measured_streams_have_outer_joins_without_a_window() -> None:
    a, b = streams({"a": named("a", [1, 2]), "b": named("b", [2, 3])})
    joined = a.join(b, on="t", how="left")
    assert "MJoin  left, without a window, of a and b" in joined.explain()
    assert [(row["t"], row["b"]) for row in joined.collect().to_pylist()] == [(1, None), (2, 0)]


@pytest.mark.parametrize("copies", [1, 2])
@pytest.mark.parametrize("shards", [1, 3])
def test_rows_of_a_key_leave_when_all_of_them_have_come(copies: int, shards: int) -> None:
    values = np.repeat(np.arange(60), copies).tolist()
    tables = {n: named(n, values) for n in "abc"}
    expect = lw.expect(scrambling=10**6, multiplicity=copies)
    query = lw.oblivious_join(streams(tables), on="t", expect=expect).start(shards=shards)
    for at in range(0, len(values), 6):
        for name, table in tables.items():
            query.push(table.slice(at, 6), name)
        assert query.metrics().state_rows == 0, "a scrambling factor of a million would keep them all"
        query.restart()
    query.finish()
    assert counted(query.result()) == equijoin(*tables.values())


def test_rows_stay_if_the_multiplicity_of_one_stream_is_not_known() -> None:
    tables = {"a": named("a", [1, 1]), "b": named("b", [1, 1])}
    expect = {"a": lw.expect(scrambling=9, multiplicity=2), "b": lw.expect(scrambling=9)}
    query = lw.oblivious_join(streams(tables), on="t", expect=expect).start()
    query.push(tables["a"], "a")
    query.push(tables["b"], "b")
    assert sum(join.rows for join in operators(query)) == 4


def with_own_names(how: str) -> lw.Relation:
    """A join whose inputs name their key columns differently, so that rows alone lack those of the other side."""
    a = pa.table({"t": [1, 2, 3, 4], "k": ["a", "b", "c", "d"]})
    b = pa.table({"u": [1, 2, 5, 6, 7, 8, 9], "k2": ["a", "x", "y", "z", "w", "v", "q"]})
    sides = [lw.stream(a, name="a", progress="t", disorder=0), lw.stream(b, name="b", progress="u", disorder=0)]
    return lw.oblivious_join(sides, on=[("t", "u"), ("k", "k2")], how=how)


@pytest.mark.parametrize(("how", "lacked"), [("left", "u"), ("right", "t"), ("full", "t"), ("full", "u")])
def test_windows_over_a_time_that_rows_alone_lack_are_refused(how: str, lacked: str) -> None:
    with pytest.raises(lw.LowwaterError, match=f"have no '{lacked}' for windows to be over"):
        with_own_names(how).window(100, over=lacked).agg(n=lw.count())


@pytest.mark.parametrize("shards", [1, 4])
def test_rows_alone_of_all_shards_meet_in_one_group(shards: int) -> None:
    """They are in the shards of their own keys, and the key of the other side is null in all of them."""
    counts = with_own_names("right").window(100, over="u").group_by("k").agg(n=lw.count())
    assert sorted(counts.collect(shards=shards)["n"].to_pylist()) == [1, 6]


def measured_outer(how: str) -> lw.Relation:
    """An outer join of measured streams on t = u, whose rows alone lack the column of the other side."""
    a = pa.table({"t": [1, 2, 3], "a": [1, 2, 3]})
    b = pa.table({"u": [2, 3, 4], "b": [2, 3, 4]})
    sides = [lw.stream(a, name="a", progress="t", disorder=lw.measured())]
    sides.append(lw.stream(b, name="b", progress="u", disorder=lw.measured()))
    return lw.oblivious_join(sides, on=[("t", "u")], how=how, expect=lw.expect(scrambling=0)).named("both")


def third(column: str) -> lw.Relation:
    rows = pa.table({column: [1, 2, 3, 4], "c": [1, 2, 3, 4]})
    return lw.stream(rows, name="c", progress=column, disorder=lw.measured())


@pytest.mark.parametrize(
    ("how", "lacked", "sentence"),
    [
        ("right", "t", "t does not progress, but 'u' does"),
        ("left", "u", "u does not progress, but 't' does"),
        ("full", "t", "t does not progress, and neither does another column"),
        ("full", "u", "u does not progress, and neither does another column"),
    ],
)
def test_joins_on_a_time_that_rows_alone_lack_are_refused(how: str, lacked: str, sentence: str) -> None:
    with pytest.raises(lw.LowwaterError, match=sentence):
        lw.oblivious_join([measured_outer(how), third(lacked)], on=lacked)


def test_declared_streams_have_no_join_on_a_time_that_rows_alone_lack() -> None:
    with pytest.raises(lw.LowwaterError, match="t does not progress, and neither does another column"):
        lw.oblivious_join([with_own_names("full"), third("t")], on="t")


@pytest.mark.parametrize(("how", "whole", "found"), [("left", "t", [1, 2, 3]), ("right", "u", [2, 3, 4])])
def test_joins_on_a_time_that_all_rows_of_an_outer_join_have(how: str, whole: str, found: list[int]) -> None:
    joined = lw.oblivious_join([measured_outer(how), third(whole)], on=whole, expect={"c": lw.expect(scrambling=0)})
    assert sorted(joined.collect(shards=2)["c"].to_pylist()) == found


def paired(table: pa.Table) -> int:
    return sum(None not in row.values() for row in table.to_pylist())


@pytest.mark.parametrize("how", ["left", "right", "full"])
@pytest.mark.parametrize("shards", [1, 2])
def test_lost_results_of_outer_joins_are_estimated_without_the_rows_alone(how: str, shards: int) -> None:
    """Twice the expected factor, and most rows alone. The judge is the batch answer over what has come so far."""
    made = {n: scrambled(6000, i, factor=300, multiplicity=2).values for i, n in enumerate("ab")}
    kept = {"a": made["a"][made["a"] % 8 < 5], "b": made["b"][made["b"] % 8 > 3]}
    tables, pace = {n: named(n, own.tolist()) for n, own in kept.items()}, {"a": 25, "b": 20}
    query = lw.oblivious_join(streams(tables), on="t", how=how, expect=lw.expect(scrambling=75)).start(shards=shards)
    for step in range(1, 101):
        query.push(**{n: t.slice((step - 1) * pace[n], pace[n]) for n, t in tables.items()})
        if step == 60:
            query.restart()
        if step in (60, 100):
            so_far = streams({n: t.slice(0, step * pace[n]) for n, t in tables.items()})
            lost = lw.oblivious_join(so_far, on="t").collect().num_rows - paired(query.result())
            assert lost > 50
            assert 0.5 * lost <= query.metrics().operators[0].lost_results <= 2 * lost
    (metrics,) = query.metrics().operators
    assert metrics.result_rows > 2 * paired(query.result()), "most results are rows alone"
