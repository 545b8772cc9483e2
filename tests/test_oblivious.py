"""The join without a window: all results where the expected disorder holds, and bounded buffers."""

from __future__ import annotations

from collections import Counter
from itertools import product

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lowwater as lw
from lowwater.generate.scrambled import Spell, scrambled
from lowwater.joins.losses import DISORDER
from lowwater.joins.mjoin import MJoin
from lowwater.model.scrambling import Scrambling
from lowwater.testing import output_accuracy
from tests.soak import examples


def equijoin(*tables: pa.Table, on: tuple[str, ...] = ("t",)) -> Counter:
    """The definition: all combinations of rows that agree on the key, as sorted items."""
    found: Counter = Counter()
    for rows in product(*(table.to_pylist() for table in tables)):
        keys = {tuple(row[c] for c in on) for row in rows}
        if len(keys) == 1 and None not in next(iter(keys)):
            found[tuple(sorted({k: v for row in rows for k, v in row.items()}.items()))] += 1
    return found


def counted(table: pa.Table) -> Counter:
    return Counter(tuple(sorted(row.items())) for row in table.to_pylist())


def named(name: str, values: list[int]) -> pa.Table:
    return pa.table({"t": pa.array(values, pa.int64()), name: np.arange(len(values))})


def streams(tables: dict[str, pa.Table]) -> list[lw.Relation]:
    return [lw.stream(t, name=name, progress="t", disorder=lw.measured()) for name, t in tables.items()]


def operators(query) -> list[MJoin]:
    graphs = [query.graph(stage, shard) for stage in range(query.plan.stages) for shard in range(query.shards)]
    return [op for graph in graphs for op in graph.operators.values() if isinstance(op, MJoin)]


VALUES = st.lists(st.integers(0, 25), max_size=25)


@examples(60)
@given(st.lists(VALUES, min_size=2, max_size=3), st.integers(1, 3), st.data())
def test_all_results_come_where_the_expected_factor_holds(lists: list[list[int]], shards: int, data) -> None:
    tables = {name: named(name, values) for name, values in zip("abc", lists, strict=False)}
    expect = {n: lw.expect(scrambling=Scrambling.of(t["t"].to_numpy()).factor) for n, t in tables.items()}
    query = lw.oblivious_join(streams(tables), on="t", expect=expect).start(shards=shards)
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
    assert query.metrics().late_rows == 0
    assert query.metrics().state_rows == 0


def feed(tables: dict[str, pa.Table], arrival: dict[str, np.ndarray], query, every: float, seen) -> None:
    """Pushes the streams in steps of virtual time, and calls `seen` after each."""
    last = max(times[-1] for times in arrival.values())
    for until in np.arange(every, last + every, every):
        for name, times in arrival.items():
            first, stop = np.searchsorted(times, [until - every, until])
            if stop > first:
                query.push(tables[name].slice(first, stop - first), name)
        seen()


def paper(seed: int, seconds: int = 110) -> tuple[dict[str, pa.Table], dict[str, np.ndarray]]:
    """Query 1: three streams with k = 500, 200 and 50, one suppressed and one with a burst."""
    spells = {"b": [Spell(10, 30, 1 / 8)], "c": [Spell(80, 10, 8)]}
    tables, arrival = {}, {}
    for i, (name, k) in enumerate({"a": 500, "b": 200, "c": 50}.items()):
        made = scrambled(50 * seconds, seed * 10 + i, factor=k, multiplicity=2, spells=spells.get(name, ()))
        tables[name], arrival[name] = named(name, made.values.tolist()), made.arrival
    return tables, arrival


@pytest.mark.parametrize("shards", [1, 2])
def test_expected_factors_give_all_results_through_a_suppression_and_a_burst(shards: int) -> None:
    tables, arrival = paper(1, 60)
    expect = {n: lw.expect(scrambling=k, multiplicity=2) for n, k in {"a": 500, "b": 200, "c": 50}.items()}
    query = lw.oblivious_join(streams(tables), on="t", expect=expect).start(shards=shards)
    most: Counter = Counter()

    def seen() -> None:
        for port, name in enumerate("abc"):
            most[name] = max(most[name], operators(query)[0].buffer(port))

    feed(tables, arrival, query, 1.0, seen)
    query.finish()
    assert query.result().num_rows == 60 * 50 // 2 * 8
    assert query.metrics().late_rows == 0
    assert max(most.values()) < 2600, "most of the 3,000 rows must leave"


def test_monitored_factors_give_at_least_99_percent() -> None:
    tables, arrival = paper(2)
    query = lw.oblivious_join(streams(tables), on="t").start()
    feed(tables, arrival, query, 0.5, lambda: None)
    query.finish()
    whole = 110 * 50 // 2 * 8
    assert query.result().num_rows >= 0.992 * whole
    lost = operators(query)[0].losses.rows
    assert (query.result().num_rows < whole) <= (lost > 0)


def test_rows_beyond_the_expected_factor_are_reported_with_the_reason() -> None:
    tables = {"a": named("a", [1, 2, 3, 4, 5, 6]), "b": named("b", [1, 2, 5, 6, 3])}
    query = lw.oblivious_join(streams(tables), on="t", expect=lw.expect(scrambling=0)).start()
    query.push(tables["a"], "a")
    query.push(tables["b"].slice(0, 4), "b")
    assert query.metrics().state_rows == 0
    assert query.push(tables["b"].slice(4), "b").num_rows == 0
    (late,) = query.late_output().to_pylist()
    assert (late["input"], late["late_reason"], late["b"]) == ("b", DISORDER, 4)
    assert (query.metrics().late_rows, query.metrics().dropped_rows, operators(query)[0].losses.rows) == (1, 0, 1)


def test_buffer_is_never_above_equation_7_if_the_streams_are_in_step() -> None:
    rng = np.random.default_rng(5)
    values = {n: scrambled(4000, s, factor=k).values for n, s, k in (("a", 1, 90), ("b", 2, 40))}
    tables = {name: named(name, v.tolist()) for name, v in values.items()}
    expect = {"a": lw.expect(scrambling=90), "b": lw.expect(scrambling=40)}
    query = lw.oblivious_join(streams(tables), on="t", expect=expect).start()
    for at in range(0, 4000, 10):
        for name in rng.permutation(["a", "b"]):
            query.push(tables[name].slice(at, 10), str(name))
        (join,) = operators(query)
        assert max(join.buffer(0), join.buffer(1)) <= (90 + 40 + 10) * 1.05


def test_second_key_column_and_null_keys() -> None:
    a = pa.table({"t": [1, 2, 2, 3], "s": ["x", "x", None, "y"], "a": [1, 2, 3, 4]})
    b = pa.table({"t": [1, 2, 2, 3], "s": ["x", "y", None, "y"], "b": [1, 2, 3, 4]})
    tables = {"a": a, "b": b}
    result = lw.oblivious_join(streams(tables), on=["s", "t"], expect=lw.expect(scrambling=3)).collect(shards=2)
    assert counted(result) == equijoin(a, b, on=("s", "t"))


def test_declared_disorder_cuts_buffers_and_promises_results() -> None:
    tables = {"a": named("a", [1, 5, 9]), "b": named("b", [1, 6, 9])}
    relations = [lw.stream(t, name=n, progress="t", disorder=2) for n, t in tables.items()]
    counts = lw.oblivious_join(relations, on="t").window(5).agg(n=lw.count())
    query = counts.start()
    for name, table in tables.items():
        query.push(table, name)
    assert query.result()["n"].to_pylist() == [1]
    assert operators(query)[0].rows == 2
    query.finish()
    assert query.result()["n"].to_pylist() == [1, 1]


@pytest.mark.parametrize("shards", [1, 3])
@pytest.mark.parametrize("apriori", [True, False])
def test_tree_of_joins_gives_all_results(shards: int, apriori: bool) -> None:
    tables = {
        n: named(n, scrambled(400, i, factor=k, multiplicity=2).values.tolist())
        for i, (n, k) in enumerate({"a": 30, "b": 20, "c": 10, "d": 25}.items())
    }
    factors = {"a": 30, "b": 20, "c": 10, "d": 25}
    each = dict(zip(tables, streams(tables), strict=True))
    known = {n: lw.expect(scrambling=k, multiplicity=2) for n, k in factors.items()} if apriori else {}
    left = lw.oblivious_join([each["a"], each["b"]], on="t", expect={n: known[n] for n in "ab" if n in known})
    right = lw.oblivious_join([each["c"], each["d"]], on="t", expect={n: known[n] for n in "cd" if n in known})
    both = lw.oblivious_join([left.named("left"), right.named("right")], on="t")
    assert ("by Theorem 3.1" in both.explain()) == apriori
    query = both.start(shards=shards)
    for at in range(0, 400, 25):
        for name, table in tables.items():
            query.push(table.slice(at, 25), name)
    held = query.metrics().state_rows
    query.finish()
    found = query.result().num_rows
    assert found == 200 * 16 if apriori else found >= 0.99 * 200 * 16
    assert held < 4 * 400 + 2 * 800


@pytest.mark.parametrize(
    "step",
    [
        lambda rows: rows,
        lambda rows: rows.where("a % 3 > 0"),
        lambda rows: rows.with_column("z", "a + b").select("t", "z"),
    ],
    ids=["none", "where", "columns"],
)
@pytest.mark.parametrize("shards", [1, 2])
def test_row_wise_steps_between_joins_keep_what_is_known_of_the_results(step, shards: int) -> None:
    factors = {"a": 60, "b": 40, "c": 10}
    tables = {
        n: named(n, scrambled(600, i, factor=k, multiplicity=2).values.tolist())
        for i, (n, k) in enumerate(factors.items())
    }
    each = dict(zip(tables, streams(tables), strict=True))
    known = {n: lw.expect(scrambling=k, multiplicity=2) for n, k in factors.items()}
    below = step(lw.oblivious_join([each["a"], each["b"]], on="t", expect={n: known[n] for n in "ab"}))
    both = lw.oblivious_join([below.named("below"), each["c"]], on="t", expect={"c": known["c"]})
    assert "by Theorem 3.1" in both.explain()
    query = both.start(shards=shards)
    for at in range(0, 600, 20):
        query.push(**{name: table.slice(at, 20) for name, table in tables.items()})
    query.finish()
    assert query.result().num_rows == both.collect().num_rows > 0
    assert query.metrics().late_rows == sum(one.lost_to_disorder for one in query.metrics().operators) == 0


def test_join_of_measured_streams_without_a_window_is_planned_without_one() -> None:
    a, b = streams({"a": named("a", [1, 2]), "b": named("b", [2, 3])})
    assert "MJoin  inner, without a window, of a and b" in a.join(b, on="t").explain()
    assert a.join(b, on="t").collect()["t"].to_pylist() == [2]


def test_streams_that_promise_nothing_have_no_windows() -> None:
    (a,) = streams({"a": named("a", [1, 2])})
    with pytest.raises(lw.LowwaterError, match="measured and not declared"):
        a.window(5)


def test_key_that_does_not_progress_is_refused() -> None:
    a, b = streams({"a": named("a", [1]), "b": named("b", [1])})
    with pytest.raises(lw.LowwaterError, match="does not progress"):
        lw.oblivious_join([a, b], on=[("a", "b")])


@pytest.mark.parametrize(
    ("expect", "sentence"),
    [(5, "lw.expect"), ({"x": lw.expect(scrambling=1)}, "which it does not join")],
)
def test_expectations_of_unknown_streams_are_refused(expect: object, sentence: str) -> None:
    a, b = streams({"a": named("a", [1]), "b": named("b", [1])})
    with pytest.raises(lw.LowwaterError, match=sentence):
        lw.oblivious_join([a, b], on="t", expect=expect)


def test_impossible_expectations_are_refused() -> None:
    with pytest.raises(lw.LowwaterError, match="multiplicity of 1 or more"):
        lw.expect(scrambling=-1)


LOCATION = """SELECT * FROM Sensor1 S1, Sensor2 S2, Sensor3 S3, Sensor4 S4
WHERE S1.epoch = S2.epoch AND S2.epoch = S3.epoch AND S3.epoch = S4.epoch"""


def test_location_query_of_the_paper_is_one_join_without_a_window() -> None:
    values = {f"Sensor{i}": scrambled(300, i, factor=10 * i).values for i in range(1, 5)}
    tables = {n: pa.table({"epoch": own, "val": own * i}) for i, (n, own) in enumerate(values.items())}
    each = {n: lw.stream(t, name=n, progress="epoch", disorder=lw.measured()) for n, t in tables.items()}
    located = lw.sql(LOCATION, **each)
    assert located.explain().count("MJoin  inner, without a window, of S1, S2, S3 and S4") == 1
    rows = located.collect(shards=2).to_pylist()
    assert sorted(row["epoch"] for row in rows) == list(range(300))
    assert all(row["S4_val"] == 3 * row["epoch"] for row in rows)


def test_two_columns_and_outer_rows_in_the_language() -> None:
    a = pa.table({"t": [1, 2, 2], "s": ["x", "x", "y"], "a": [1, 2, 3]})
    b = pa.table({"t": [2, 1, 2], "s": ["y", "z", "x"], "b": [1, 2, 3]})
    one, two = streams({"a": a, "b": b})
    joined = lw.sql("SELECT a.t, a, b FROM a LEFT JOIN b ON a.t = b.t AND a.s = b.s", a=one, b=two)
    assert "MJoin  left, without a window" in joined.explain()
    assert sorted((row["a"], row["b"]) for row in joined.collect().to_pylist()) == [(1, None), (2, 3), (3, 1)]


def test_key_of_measured_streams_that_does_not_progress_is_refused_in_the_language() -> None:
    a, b = streams({"a": named("a", [1]), "b": named("b", [1])})
    with pytest.raises(lw.LowwaterError, match=r"measured and not declared.*write DISORDER"):
        lw.sql("SELECT a.t FROM a JOIN b ON a.a = b.b", a=a, b=b)


@pytest.mark.parametrize(("seed", "shards"), [(0, 1), (1, 2)])
def test_results_lost_to_disorder_are_estimated_while_the_query_runs(seed: int, shards: int) -> None:
    """Streams with three times the expected factor. The judge is the batch answer over what has come so far."""
    made = {n: scrambled(4000, seed * 10 + i, factor=300, multiplicity=2).values for i, n in enumerate("ab")}
    tables = {n: named(n, own.tolist()) for n, own in made.items()}
    joined = lw.oblivious_join(streams(tables), on="t", expect=lw.expect(scrambling=100))
    query = joined.start(shards=shards)
    for at in range(0, 4000, 40):
        query.push(**{n: t.slice(at, 40) for n, t in tables.items()})
        if at == 2000:
            so_far = lw.oblivious_join(streams({n: t.slice(0, 2040) for n, t in tables.items()}), on="t")
            lost = so_far.collect().num_rows - query.result().num_rows
            assert lost > 50
            assert 0.5 * lost <= query.metrics().operators[0].lost_results <= 2 * lost
    query.finish()
    (metrics,) = query.metrics().operators
    exact = output_accuracy(query.result(), joined)
    assert exact == query.result().num_rows / 8000 < 1
    assert metrics.output_accuracy == pytest.approx(exact, abs=(1 - exact) / 2)
    assert metrics.lost_to_memory == 0 < metrics.lost_to_disorder


def test_output_accuracy_is_one_where_nothing_is_lost() -> None:
    tables = {"a": named("a", [1, 1, 2]), "b": named("b", [2, 1, 1])}
    joined = lw.oblivious_join(streams(tables), on="t", expect=lw.expect(scrambling=2), memory=20_000)
    query = joined.start()
    query.push(**tables)
    assert output_accuracy(query.result(), joined) == 1 == query.metrics().operators[0].output_accuracy
    assert output_accuracy(query.result().slice(0, 2), joined) == 0.4, "one row twice is not two rows"
    assert (
        output_accuracy(query.result(), lw.oblivious_join(streams({"a": named("a", []), "b": named("b", [])}), "t"))
        == 1
    )
