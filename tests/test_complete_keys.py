"""Keys whose rows have left a join without a window: a further row of such a key is counted, and reported."""

from __future__ import annotations

from collections import Counter
from itertools import product

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lowwater as lw
from lowwater.joins import memory_limit, mjoin
from lowwater.joins.losses import BEYOND
from lowwater.joins.strategy import STRATEGIES
from lowwater.model.scrambling import Scrambling
from tests.soak import examples
from tests.test_oblivious import counted, equijoin, named, operators, streams
from tests.test_oblivious_outer import outer


def once(tables: dict[str, pa.Table], k: int = 100, **options: object) -> lw.Relation:
    return lw.oblivious_join(streams(tables), on="t", expect=lw.expect(scrambling=k, multiplicity=1), **options)


@pytest.mark.parametrize("how", ["inner", "left", "right", "full"])
@pytest.mark.parametrize("strategy", list(STRATEGIES))
@pytest.mark.parametrize("shards", [1, 3])
def test_a_row_beyond_the_expected_multiplicity_is_counted_and_reported(how: str, strategy: str, shards: int) -> None:
    tables = {"a": named("a", [1, 2, 3]), "b": named("b", [1, 2, 3, 2, 3])}
    query = once(tables, k=2, how=how, strategy=strategy).start(shards=shards)
    query.push(tables["a"], "a")
    query.push(tables["b"].slice(0, 3), "b")
    query.restart()
    query.push(tables["b"].slice(3), "b")
    query.finish()
    found, metrics = counted(query.result()), query.metrics()
    (own,) = metrics.operators
    late = query.late_output().to_pylist()
    if STRATEGIES[strategy].sorts:  # no row has left when the others come: all wait for larger values
        assert (found, late) == (equijoin(*tables.values()), [])
        return
    assert found == equijoin(tables["a"], tables["b"].slice(0, 3)), "a row that had partners is not a row alone"
    reported = sorted((row["b"], row["input"], row["late_reason"]) for row in late)
    assert reported == [(3, "b", BEYOND), (4, "b", BEYOND)]
    assert (metrics.late_rows, own.lost_to_multiplicity, own.lost_to_disorder, own.lost_to_memory) == (2, 2, 0, 0)
    assert own.beyond_rows == {"a": 0, "b": 2}
    assert own.lost_results == 2
    assert own.output_accuracy == 3 / 5
    assert (metrics.state_rows, metrics.ended_values) == (0, 0)


@pytest.mark.parametrize("memory", [None, 1_000])
def test_keys_are_remembered_until_a_cut_has_passed_them_and_no_longer(memory: int | None) -> None:
    """Each key comes once on each input, in order; a row may come 50 places too late."""
    tables = {n: named(n, list(range(400))) for n in "ab"}
    query = once(tables, k=50, memory=memory, strategy="plain").start()
    most = 0
    for at in range(0, 400, 10):
        for name, table in tables.items():
            query.push(table.slice(at, 10), name)
        most = max(most, query.metrics().ended_values)
        (join,) = operators(query)
        assert join.complete.memory <= (1000 if memory is None else memory // memory_limit.PART)
        query.restart()
    assert 30 <= most < 100
    query.finish()
    assert query.metrics().ended_values == 0
    assert query.result().num_rows == 400


def lost_and_reported(query, tables: dict[str, pa.Table], wanted: Counter) -> tuple[Counter, set[tuple[str, int]]]:
    late = query.late_output().to_pylist()
    return wanted - counted(query.result()), {(row["input"], row[row["input"]]) for row in late}


@examples(40)
@given(
    st.lists(st.lists(st.integers(0, 12), max_size=25), min_size=2, max_size=3),
    st.integers(1, 2),
    st.sampled_from([None, 300, 900, 20_000]),
    st.sampled_from([None, *STRATEGIES]),
    st.sampled_from(["inner", "left", "full"]),
    st.data(),
)
def test_every_lost_result_has_a_reported_row(
    lists: list[list[int]], shards: int, memory: int | None, strategy: str | None, how: str, data
) -> None:
    """Streams with any number of rows per key, of which one is expected. Where a bound fails, the run fails."""
    tables = {name: named(name, values) for name, values in zip("abc", lists, strict=False)}
    how = how if len(tables) == 2 else "inner"
    known = {n: lw.expect(Scrambling.of(t["t"].to_numpy()).factor, multiplicity=1) for n, t in tables.items()}
    limit = None if memory is None else memory * shards
    joined = lw.oblivious_join(streams(tables), on="t", expect=known, memory=limit, strategy=strategy, how=how)
    query = joined.start(shards=shards)
    at = dict.fromkeys(tables, 0)
    while any(at[n] < t.num_rows for n, t in tables.items()):
        name = data.draw(st.sampled_from([n for n, t in tables.items() if at[n] < t.num_rows]))
        rows = data.draw(st.integers(1, 6))
        query.push(tables[name].slice(at[name], rows), name)
        at[name] += rows
        assert memory is None or max(join.memory for join in operators(query)) <= memory
        if data.draw(st.booleans()):
            query.restart()
    query.finish()
    pairs = equijoin(*tables.values())
    wanted = pairs if len(tables) > 2 else outer(tables["a"], tables["b"], how)
    lost, reported = lost_and_reported(query, tables, wanted)
    metrics = query.metrics()
    (own,) = metrics.operators
    for result in lost & pairs:
        row = dict(result)
        assert reported & {(name, row[name]) for name in tables}, f"{row} is lost in silence"
    if not own.lost_to_memory and not own.evicted_rows:
        assert not counted(query.result()) - wanted, "no row that had a partner is a row alone"
    assert metrics.late_rows == own.lost_to_disorder + own.lost_to_memory + own.lost_to_multiplicity + own.evicted_rows
    assert (metrics.state_rows, metrics.ended_values) == (0, 0)


def test_lost_results_of_rows_beyond_the_multiplicity_are_estimated_while_the_query_runs() -> None:
    """Every tenth key comes once more on one input, in the next micro-batch, when its partner has left."""
    tables = {n: named(n, list(range(2000))) for n in "ab"}
    query = once(tables, k=200).start(shards=2)
    for at in range(0, 2000, 100):
        query.push(**{n: table.slice(at, 100) for n, table in tables.items()})
        query.push(named("b", list(range(at, at + 100, 10))), "b")
        if at == 1000:
            query.restart()
        lost = (at + 100) // 10
        (metrics,) = query.metrics().operators
        assert metrics.lost_results == pytest.approx(lost, abs=1)
    assert metrics.lost_to_multiplicity == lost == 200


def test_a_row_beyond_the_multiplicity_finds_later_rows_of_its_key() -> None:
    tables = {"a": named("a", [1, 1]), "b": named("b", [1, 1])}
    query = once(tables).start()
    for at, name in product((0, 1), "ab"):
        query.push(tables[name].slice(at, 1), name)
    assert sorted((row["a"], row["b"]) for row in query.result().to_pylist()) == [(0, 0), (1, 1)]
    assert query.metrics().operators[0].lost_to_multiplicity == 2


def test_a_second_key_column_tells_keys_of_one_value_apart() -> None:
    tables = {n: pa.table({"t": [1, 1, 1], "k": ["x", "y", "x"], n: [0, 1, 2]}) for n in "ab"}
    joined = lw.oblivious_join(
        streams(tables), on=["t", "k"], expect={n: lw.expect(scrambling=9, multiplicity=1) for n in "ab"}
    )
    query = joined.start(shards=2)
    for at in range(3):
        query.push(**{name: table.slice(at, 1) for name, table in tables.items()})
    reported = {(row["input"], row["k"], row[row["input"]]) for row in query.late_output().to_pylist()}
    assert reported == {("a", "x", 2), ("b", "x", 2)}


def test_keys_stay_remembered_if_the_multiplicity_is_not_expected_any_more() -> None:
    tables = {"a": named("a", [1, 2]), "b": named("b", [1, 2, 1])}
    query = once(tables).start()
    query.push(a=tables["a"], b=tables["b"].slice(0, 2))
    query.restart(lw.oblivious_join(streams(tables), on="t", expect=lw.expect(scrambling=100)).node)
    query.push(tables["b"].slice(2), "b")
    assert query.late_output()["late_reason"].to_pylist() == [BEYOND]


def test_pieces_on_disk_are_read_only_for_rows_of_their_values(monkeypatch: pytest.MonkeyPatch) -> None:
    from lowwater.joins.part import KeyedRows

    monkeypatch.setattr(mjoin, "RECENT", 20)
    tables = {n: named(n, list(range(1000))) for n in "ab"}
    query = once(tables, k=10**6).start()
    for at in range(0, 1000, 100):
        query.push(**{name: table.slice(at, 100) for name, table in tables.items()})
    (join,) = operators(query)
    assert (join.complete.rows, join.complete.memory, join.rows) == (1000, 0, 0)
    decoded = []
    decode = KeyedRows.decode
    monkeypatch.setattr(KeyedRows, "decode", lambda self, tables: decoded.append(1) or decode(self, tables))
    query.push(named("b", [1001, 1002]), "b")
    assert decoded == []
    query.push(named("b", [505]), "b")
    assert len(decoded) == 1
    assert query.metrics().operators[0].lost_to_multiplicity == 1


def test_more_keys_than_the_bound_allows_are_noticed() -> None:
    tables = {n: named(n, list(range(20))) for n in "ab"}
    query = once(tables, k=5).start()
    query.push(**tables)
    (join,) = operators(query)
    assert (join.excess(), join.complete.rows) == (None, 5)
    keys = tables["a"].slice(0, 9)
    broken = {
        99: "14 complete keys are remembered, but only 5 rows",
        0: "9 complete keys are remembered with values up to",
    }
    for value, sentence in broken.items():
        join.complete.add(mjoin.Keyed.of(keys, ("t",), np.arange(9)), np.full(9, value))
        assert (join.excess() or "").startswith(sentence)
        join.complete.forget(value)
