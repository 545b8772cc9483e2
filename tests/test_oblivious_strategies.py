"""Strategies of the join without a window under a memory limit: the same results, and never more bytes than allowed."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lowwater as lw
from lowwater.generate.scrambled import Spell, scrambled
from lowwater.joins.mjoin import MJoin
from lowwater.joins.strategy import STRATEGIES
from lowwater.model.scrambling import Scrambling
from tests.soak import examples, sampled
from tests.test_oblivious import counted, equijoin, feed, named, operators, paper, streams

every = pytest.mark.parametrize("strategy", list(STRATEGIES))


def factors(tables: dict[str, pa.Table]) -> dict[str, object]:
    return {n: lw.expect(scrambling=Scrambling.of(t["t"].to_numpy()).factor) for n, t in tables.items()}


@every
@examples(10)
@given(st.lists(st.lists(st.integers(0, 25), max_size=25), min_size=2, max_size=3), st.integers(1, 4), st.data())
def test_every_strategy_gives_all_results(strategy: str, lists: list[list[int]], shards: int, data) -> None:
    tables = {name: named(name, values) for name, values in zip("abc", lists, strict=False)}
    query = lw.oblivious_join(
        streams(tables), on="t", expect=factors(tables), strategy=strategy, ahead=data.draw(st.integers(1, 4))
    ).start(shards=shards)
    at = dict.fromkeys(tables, 0)
    while any(at[n] < t.num_rows for n, t in tables.items()):
        name = data.draw(st.sampled_from([n for n, t in tables.items() if at[n] < t.num_rows]))
        rows = data.draw(st.integers(1, 6))
        query.push(tables[name].slice(at[name], rows), name)
        at[name] += rows
        if data.draw(st.booleans()):
            query.restart()
    query.finish()
    assert counted(query.result()) == equijoin(*tables.values())
    assert (query.metrics().late_rows, query.metrics().state_rows) == (0, 0)


@examples(15)
@given(st.lists(st.lists(st.integers(0, 25), max_size=25), min_size=2, max_size=3), st.integers(1, 2), st.data())
def test_strategies_can_change_in_any_micro_batch(lists: list[list[int]], shards: int, data) -> None:
    tables = {name: named(name, values) for name, values in zip("abc", lists, strict=False)}
    query = lw.oblivious_join(streams(tables), on="t", expect=factors(tables), ahead=1).start(shards=shards)
    at = dict.fromkeys(tables, 0)
    while any(at[n] < t.num_rows for n, t in tables.items()):
        name = data.draw(st.sampled_from([n for n, t in tables.items() if at[n] < t.num_rows]))
        query.push(tables[name].slice(at[name], 4), name)
        at[name] += 4
        strategy = STRATEGIES[data.draw(st.sampled_from(list(STRATEGIES)))]
        for join in operators(query):
            join.change(strategy)
        if data.draw(st.booleans()):
            query.restart()
    query.finish()
    assert counted(query.result()) == equijoin(*tables.values())


def disordered(seed: int, names: str) -> dict[str, pa.Table]:
    """Streams of up to 60 rows that progress through 40 values, in a little disorder."""
    rng = np.random.default_rng(seed)
    tables = {}
    for name in names:
        n = int(rng.integers(0, 60))
        values, order = np.sort(rng.integers(0, 40, n)), np.argsort(np.arange(n) + rng.integers(0, 8, n), kind="stable")
        tables[name] = named(name, values[order].tolist())
    return tables


@examples(15)
@given(st.integers(0, 10**6), st.sampled_from(["ab", "abc"]), st.integers(300, 9000), st.integers(1, 2), st.data())
def test_memory_and_strategies_change_no_result_that_is_not_counted(
    seed: int, names: str, memory: int, shards: int, data
) -> None:
    """Where a bound of the operator fails, the run fails."""
    tables = disordered(seed, names)
    ahead = data.draw(st.none() | st.integers(1, 4))
    joined = lw.oblivious_join(streams(tables), on="t", expect=factors(tables), memory=memory * shards, ahead=ahead)
    query = joined.start(shards=shards)
    at = dict.fromkeys(tables, 0)
    while any(at[n] < t.num_rows for n, t in tables.items()):
        name = data.draw(st.sampled_from([n for n, t in tables.items() if at[n] < t.num_rows]))
        rows = data.draw(st.integers(1, 11))
        query.push(tables[name].slice(at[name], rows), name)
        at[name] += rows
        change = data.draw(st.none() | st.sampled_from(list(STRATEGIES)))
        for join in operators(query):
            assert join.memory <= memory
            if change is not None:
                join.change(STRATEGIES[change])
            assert join.excess() is None
        if data.draw(st.booleans()):
            query.restart()
    query.finish()
    found, wanted = counted(query.result()), equijoin(*tables.values())
    assert not found - wanted
    (metrics,) = query.metrics().operators
    assert found == wanted or metrics.lost_to_memory > 0


def test_change_of_strategy_cuts_the_buffer_where_the_new_order_has_it() -> None:
    """Sorted rows lie at their values. Their cut at a value is no position among the rows that arrived."""
    tables = {"a": named("a", [1000, 1001, 1002]), "b": named("b", [1000, 1001])}
    query = lw.oblivious_join(streams(tables), on="t", expect=lw.expect(scrambling=0), strategy="MSF").start()
    query.push(tables["a"], "a")
    query.push(tables["b"].slice(0, 1), "b")
    (join,) = operators(query)
    join.change(STRATEGIES["plain"])
    query.push(tables["b"].slice(1), "b")
    assert (join.sides[0].live_rows, join.buffer(0), join.excess()) == (1, 1, None)
    query.finish()
    assert query.result().num_rows == 2


def lagging(rows: int = 2000) -> tuple[dict[str, pa.Table], dict[str, np.ndarray]]:
    """Three streams in little disorder, the second of which is slow for most of the time."""
    tables, arrival = {}, {}
    for i, (name, k) in enumerate({"a": 60, "b": 40, "c": 20}.items()):
        spells = [Spell(5, rows / 50 - 10, 1 / 8)] if name == "b" else []
        made = scrambled(rows, 7 + i, factor=k, multiplicity=2, spells=spells)
        tables[name], arrival[name] = named(name, made.values.tolist()), made.arrival
    return tables, arrival


def most_memory(query, tables, arrival, every: float = 2.0) -> tuple[int, Counter]:
    """The largest number of bytes in memory after a micro-batch, over all shards, and the strategies that were used."""
    most, used = 0, Counter()

    def seen() -> None:
        nonlocal most
        most = max(most, sum(join.memory for join in operators(query)))
        used.update(join.strategy.name for join in operators(query))

    feed(tables, arrival, query, every, seen)
    return most, used


@pytest.mark.parametrize("shards", [1, 2])
def test_half_of_the_memory_loses_nothing_if_lag_is_the_cause(shards: int) -> None:
    tables, arrival = lagging()
    expect = {n: lw.expect(scrambling=k) for n, k in {"a": 60, "b": 40, "c": 20}.items()}
    free = lw.oblivious_join(streams(tables), on="t", expect=expect).start(shards=shards)
    need, _ = most_memory(free, tables, arrival)
    query = lw.oblivious_join(streams(tables), on="t", expect=expect, memory=need // 2).start(shards=shards)
    most, used = most_memory(query, tables, arrival)
    (metrics,) = query.metrics().operators
    query.finish()
    assert most <= need // 2
    assert query.result().num_rows == tables["a"].num_rows // 2 * 8
    assert used["plain"] > 0, "in step, rows join when they come"
    assert used["DBF"] + used["Hybrid"] > 0, "while it lags, rows wait on disk"
    assert (metrics.evicted_rows, metrics.lost_results, query.metrics().late_rows) == (0, 0, 0)


@every
@pytest.mark.parametrize(("shards", "seconds"), [(1, 60), (3, 30)])
def test_paper_workload_is_complete_under_every_strategy(strategy: str, shards: int, seconds: int) -> None:
    tables, arrival = paper(3, seconds)
    expect = {n: lw.expect(scrambling=k, multiplicity=2) for n, k in {"a": 500, "b": 200, "c": 50}.items()}
    query = lw.oblivious_join(streams(tables), on="t", expect=expect, strategy=strategy, ahead=50).start(shards=shards)
    feed(tables, arrival, query, 1.0, lambda: None)
    query.finish()
    assert query.result().num_rows == seconds * 50 // 2 * 8
    assert query.metrics().late_rows == 0


def test_strategies_that_put_rows_aside_keep_memory_flat_under_lag() -> None:
    tables, arrival = lagging()
    expect = {n: lw.expect(scrambling=k, multiplicity=2) for n, k in {"a": 60, "b": 40, "c": 20}.items()}
    most = {}
    for strategy in STRATEGIES:
        query = lw.oblivious_join(streams(tables), on="t", expect=expect, strategy=strategy, ahead=40).start()
        most[strategy], _ = most_memory(query, tables, arrival)
    assert most["DBF"] < most["plain"] / 3
    assert most["Hybrid"] < most["MSF"] / 3


def test_results_of_a_join_that_sorts_first_come_in_order() -> None:
    tables, arrival = paper(4, 30)
    expect = {n: lw.expect(scrambling=k) for n, k in {"a": 500, "b": 200, "c": 50}.items()}
    query = lw.oblivious_join(streams(tables), on="t", expect=expect, strategy="MSF").start()
    feed(tables, arrival, query, 1.0, lambda: None)
    query.finish()
    values = [value for batch in query.results for value in batch["t"].to_pylist()]
    assert len(values) == 30 * 50 // 2 * 8
    assert all(one <= other for one, other in pairwise(values))


@pytest.mark.parametrize("seed", sampled(range(3), 1))
@pytest.mark.parametrize("shards", [1, 2])
def test_too_little_memory_loses_rows_that_are_counted_and_estimated(seed: int, shards: int) -> None:
    tables, arrival = paper(seed, 60)
    expect = {n: lw.expect(scrambling=k) for n, k in {"a": 500, "b": 200, "c": 50}.items()}
    query = lw.oblivious_join(streams(tables), on="t", expect=expect, memory=40_000).start(shards=shards)
    most, _ = most_memory(query, tables, arrival)
    query.finish()
    (metrics,) = query.metrics().operators
    lost = 60 * 50 // 2 * 8 - query.result().num_rows
    assert most <= 40_000
    assert lost > 0
    assert metrics.evicted_rows > 0
    assert metrics.lost_to_memory > 0
    assert metrics.lost_to_disorder == 0
    assert 0.5 * lost <= metrics.lost_results <= 2 * lost
    reasons = Counter(query.late_output()["late_reason"].to_pylist())
    assert sum(reasons.values()) == metrics.evicted_rows + metrics.lost_to_memory


def test_rows_aside_are_decoded_only_when_they_are_read_back(monkeypatch: pytest.MonkeyPatch) -> None:
    from lowwater.joins.part import KeyedRows

    decoded = []
    decode = KeyedRows.decode
    monkeypatch.setattr(KeyedRows, "decode", lambda self, tables: decoded.append(1) or decode(self, tables))
    tables = {"a": named("a", list(range(1000))), "b": named("b", list(range(1000)))}
    expect = lw.expect(scrambling=0)
    query = lw.oblivious_join(streams(tables), on="t", expect=expect, strategy="DBF", ahead=50).start()
    query.push(tables["a"], "a")
    (join,) = operators(query)
    assert isinstance(join, MJoin)
    assert (join.aside[0].rows, join.aside[0].pieces, join.in_memory(0)) == (950, 19, 50)
    query.push(tables["b"].slice(0, 120), "b")
    assert len(decoded) == 3, "rows up to 120 + 50 are read back"
    assert query.result().num_rows == 120
    query.finish()


def test_strategy_goes_back_when_the_lag_is_over() -> None:
    """The second stream comes late and then catches up."""
    tables = {n: named(n, list(range(3000))) for n in "ab"}
    joined = lw.oblivious_join(streams(tables), on="t", expect=lw.expect(scrambling=0), memory=60_000)
    query = joined.start()
    used: list[str] = []
    steps = [("a", at) for at in range(0, 2000, 100)] + [("b", at) for at in range(0, 2000, 100)]
    steps += [(name, at) for at in range(2000, 3000, 100) for name in "ab"]
    for name, at in steps:
        query.push(tables[name].slice(at, 100), name)
        (join,) = operators(query)
        assert join.memory <= 60_000
        used += [join.strategy.name] if used[-1:] != [join.strategy.name] else []
    assert used == ["plain", "DBF", "plain"]
    query.finish()
    assert query.result().num_rows == 3000


def test_small_lags_put_nothing_on_disk() -> None:
    """Rows are put aside from a lag of three times C on: C is what an I/O takes (WO 4.2)."""
    tables = {n: named(n, list(range(1000))) for n in "ab"}
    for lag, expected in ((140, 0), (160, 110)):
        joined = lw.oblivious_join(streams(tables), on="t", expect=lw.expect(scrambling=0), strategy="DBF", ahead=50)
        query = joined.start()
        query.push(a=tables["a"].slice(0, 300), b=tables["b"].slice(0, 300 - lag))
        (join,) = operators(query)
        assert sum(one.rows for one in join.aside) == expected


def test_limit_holds_if_every_micro_batch_opens_the_join_anew() -> None:
    """As on Spark: nothing is known but what is in the state."""
    tables, arrival = lagging()
    expect = {n: lw.expect(scrambling=k) for n, k in {"a": 60, "b": 40, "c": 20}.items()}
    query = lw.oblivious_join(streams(tables), on="t", expect=expect, memory=100_000).start()
    used: set[str] = set()

    def seen() -> None:
        (join,) = operators(query)
        before, ahead = join.memory, join.ahead
        assert before <= 100_000
        used.add(join.strategy.name)
        query.restart()
        (join,) = operators(query)
        assert (join.memory, join.ahead) == (before, pytest.approx(ahead, rel=0.5))

    feed(tables, arrival, query, 2.0, seen)
    query.finish()
    assert query.result().num_rows == tables["a"].num_rows // 2 * 8
    assert {"plain", "DBF"} <= used
    assert query.metrics().operators[0].evicted_rows == 0


@pytest.mark.parametrize("strategy", ["MSF", "Hybrid"])
def test_sorting_within_a_limit_takes_keys_that_no_float_holds(strategy: str) -> None:
    """400 equal keys above 2^53 wait for larger ones, and take more than the limit allows."""
    tables = {n: named(n, [2**60 + 1] * 400) for n in "ab"}
    expect = lw.expect(scrambling=500)
    query = lw.oblivious_join(streams(tables), on="t", expect=expect, strategy=strategy, memory=5_000).start()
    query.push(tables["a"], "a")
    (join,) = operators(query)
    assert join.memory <= 5_000
    query.finish()
    assert query.metrics().operators[0].evicted_rows > 0


@examples(30)
@given(st.lists(st.integers(2**60 - 3, 2**60 + 3), min_size=1, max_size=30))
def test_the_middle_of_waiting_rows_is_a_value_of_theirs(values: list[int]) -> None:
    query = lw.oblivious_join(
        streams({n: named(n, []) for n in "ab"}), on="t", expect=lw.expect(scrambling=50), strategy="MSF"
    ).start()
    query.push(named("a", values), "a")
    (join,) = operators(query)
    middle = join.waiting[0].middle()
    assert middle in values
    assert 2 * sum(value <= middle for value in values) >= len(values)
    assert 2 * sum(value < middle for value in values) <= len(values)


@every
@pytest.mark.parametrize("then", list(STRATEGIES))
@pytest.mark.parametrize("shards", [1, 2])
def test_restart_takes_the_strategy_that_is_asked_for_then(strategy: str, then: str, shards: int) -> None:
    tables, arrival = lagging(600)
    expect = {n: lw.expect(scrambling=k) for n, k in {"a": 60, "b": 40, "c": 20}.items()}
    first, other = (
        lw.oblivious_join(streams(tables), on="t", expect=expect, strategy=name, ahead=20) for name in (strategy, then)
    )
    query, pushes = first.start(shards=shards), 0

    def seen() -> None:
        nonlocal pushes
        pushes += 1
        if pushes in (4, 5):
            assert {join.strategy.name for join in operators(query)} == {strategy if pushes == 4 else then}
            query.restart(other.node)

    feed(tables, arrival, query, 1.0, seen)
    query.finish()
    assert pushes > 6
    assert query.result().num_rows == tables["a"].num_rows // 2 * 8
    assert query.metrics().late_rows == 0


def tree(each: dict[str, lw.Relation], factors: dict[str, int], **lower) -> lw.Relation:
    """A join of a and b below a join with c."""
    known = {n: lw.expect(scrambling=k, multiplicity=2) for n, k in factors.items()}
    below = lw.oblivious_join([each["a"], each["b"]], on="t", expect={n: known[n] for n in "ab"}, **lower)
    return lw.oblivious_join([below.named("below"), each["c"]], on="t", expect={"c": known["c"]})


@every
@pytest.mark.parametrize("then", list(STRATEGIES))
@pytest.mark.parametrize("seed", sampled(range(4), 1))
def test_restart_below_another_join_takes_the_strategy_and_loses_nothing(strategy: str, then: str, seed: int) -> None:
    """What has come so far is as scrambled as it was, although what comes is in order."""
    factors = {"a": 200, "b": 150, "c": 20}
    tables = {
        n: named(n, scrambled(800, 10 * seed + i, factor=k, multiplicity=2).values.tolist())
        for i, (n, k) in enumerate(factors.items())
    }
    each = dict(zip(tables, streams(tables), strict=True))
    one, other = (tree(each, factors, strategy=name, ahead=20) for name in (strategy, then))
    query = one.start(shards=1 + seed)
    for at in range(0, 800, 40):
        if at in (320, 360, 640):
            query.restart((other if at == 320 else one).node)
        query.push(**{n: table.slice(at, 40) for n, table in tables.items()})
    query.finish()
    assert query.result().num_rows == 400 * 8
    assert sum(join.losses.rows for join in operators(query)) == 0


@pytest.mark.parametrize("first", ["DBF", None])
def test_rows_aside_come_back_when_the_limit_is_gone(first: str | None) -> None:
    """One stream is far ahead, so that its rows are on disk."""
    tables = {n: named(n, list(range(2000))) for n in "ab"}
    limited, free, asked = (
        lw.oblivious_join(streams(tables), on="t", expect=lw.expect(scrambling=0), **limits)
        for limits in ({"memory": 20_000, "strategy": first}, {}, {"strategy": "MSF", "memory": "1 MB"})
    )
    query = limited.start()
    query.push(tables["a"], "a")
    query.push(tables["b"].slice(0, 100), "b")
    (join,) = operators(query)
    assert (join.strategy.name, sum(own.rows for own in join.aside) > 1000) == ("DBF", True)
    query.restart(free.node)
    query.push(tables["b"].slice(100, 100), "b")
    (join,) = operators(query)
    assert (join.strategy.name, sum(own.rows for own in join.aside)) == ("plain", 0)
    query.restart(asked.node)
    query.push(tables["b"].slice(200), "b")
    assert [join.strategy.name for join in operators(query)] == ["MSF"]
    query.finish()
    assert sorted(row["a"] for row in query.result().to_pylist()) == list(range(2000))


def test_restart_with_a_limit_goes_on_with_the_strategy_that_fitted() -> None:
    tables = {n: named(n, list(range(2000))) for n in "ab"}
    limited = lw.oblivious_join(streams(tables), on="t", expect=lw.expect(scrambling=0), memory=20_000)
    query = limited.start()
    query.push(tables["a"], "a")
    query.restart(limited.node)
    assert [join.strategy.name for join in operators(query)] == ["DBF"]


@pytest.mark.parametrize(
    "then",
    [{"expect": lw.expect(scrambling=90)}, {"memory": "1 MB"}, {"ahead": 500}, {"strategy": "MSF", "memory": "1 MB"}],
    ids=lambda then: " ".join(then),
)
def test_restart_takes_other_expectations_and_limits(then: dict[str, object]) -> None:
    tables, arrival = lagging(600)
    before = {"expect": lw.expect(scrambling=60), "strategy": "Hybrid", "ahead": 20}
    one, other = (lw.oblivious_join(streams(tables), on="t", **now) for now in (before, {**before, **then}))
    query = one.start()
    feed(tables, arrival, query, 1.0, lambda: query.restart(other.node))
    query.finish()
    assert query.result().num_rows == tables["a"].num_rows // 2 * 8
    assert query.metrics().late_rows == 0


@pytest.mark.parametrize("then", [{"how": "left"}, {"on": ["t", "k"]}], ids=lambda then: " ".join(then))
def test_restart_with_another_key_or_with_rows_alone_is_refused(then: dict[str, object]) -> None:
    each = streams({n: pa.table({"t": [1, 2], "k": [1, 2], n: [1, 2]}) for n in "ab"})
    one, other = (lw.oblivious_join(each, **{"on": "t", **now}) for now in ({}, then))
    query = one.start()
    with pytest.raises(lw.LowwaterError, match="belongs to another query"):
        query.restart(other.node)
