"""Several queries as one: each answers as it does alone, and none waits for streams that only others read."""

from __future__ import annotations

import json
import os
import random
from contextlib import suppress
from typing import Any

import pyarrow as pa
import pytest

import lowwater as lw
from lowwater.errors import CheckpointMismatch, LowwaterError
from lowwater.plan.meaning import check_meaning
from lowwater.query.described import scanned
from lowwater.query.planner import plan
from tests.tree_oracle import Arrived, endless, evaluate, unlike
from tests.trees import Drawing, drawn_data, shown
from tests.trees import run as run_pushes

A = pa.table(
    {
        "ts": [1, 3, 8, 12, None, 27, 4, 33, 34, 2, 40, 41],
        "k": ["a", "b", "a", "a", "b", "c", "a", "a", "b", "c", "a", "b"],
        "v": [5, 2, 7, 1, 9, 4, 8, 3, 6, 1, 2, 9],
    }
)
B = pa.table({"ts": [2, 4, 9, 13, 22, 31], "k": list("aabbac"), "v": [3, 6, 1, 2, 4, 0]})
TABLES = {"a": A, "b": B}
SLICE = 4
SEEDS = int(os.environ.get("LOWWATER_SOAK", "20"))
BLOCK = 10


def streams() -> dict[str, lw.Relation]:
    """Declared once, as in a file, and used by all queries."""
    return {name: lw.stream(table, name=name, progress="ts", disorder=2) for name, table in TABLES.items()}


def queries() -> dict[str, lw.Relation]:
    a, b = streams().values()
    view = a.window(10).group_by("k").agg(n=lw.count(), most=lw.max("v"))
    return {
        "counts": view,
        "busy": view.where("n > 1"),
        "ofview": view.group_by("window_end").agg(total=lw.sum("n")),
        "some": a.where("k <> 'c'").with_column("v", "v * 10").window(20, slide=10).agg(s=lw.sum("v")),
        "rest": a.where("k = 'c'").with_column("v", "v + 1").select("ts", "v"),
        "same": a.where("k = 'c'").with_column("v", "v + 1").select("ts", "v"),
        "pairs": a.join(b, on="k", within=5),
        "both": a.select("ts", "k").union(b.select("ts", "k")).window(10).agg(n=lw.count()),
        "later": view.select("window_end", "k", "n").named("x").join(b.named("y"), on="k", within=20),
    }


NAMES = list(queries())
OF_A = ("counts", "some", "rest")


def told(table: pa.Table) -> list[str]:
    return sorted(map(str, table.to_pylist()))


def run(query: Any, inputs: dict[str, pa.Table], restarts: bool = True) -> Any:
    """Slices of all inputs side by side, with a restart between."""
    for at in range(0, A.num_rows, SLICE):
        query.push_all({name: table.slice(at, SLICE) for name, table in inputs.items()})
        if restarts:
            query.restart()
    query.finish()
    return query


def inputs_of(query: Any) -> dict[str, pa.Table]:
    return {one.name: TABLES[one.name] for one in query.plan.inputs}


@pytest.fixture(scope="module", params=[(1, True), (3, True), (3, False)], ids=str)
def ran(request: pytest.FixtureRequest) -> tuple[Any, dict[str, Any]]:
    """All queries together, and each alone."""
    shards, late = request.param
    whole = lw.together(**queries()).start(shards=shards, late=late)
    alone = {name: query.start(shards=shards, late=late) for name, query in queries().items()}
    return run(whole, TABLES), {name: run(one, inputs_of(one)) for name, one in alone.items()}


@pytest.mark.parametrize("name", NAMES)
def test_each_query_answers_as_it_does_alone(name: str, ran: tuple[Any, dict[str, Any]]) -> None:
    together, alone = ran
    assert alone[name].result().num_rows
    assert together.result()[name].schema == alone[name].result().schema
    assert told(together.result()[name]) == told(alone[name].result())


@pytest.mark.parametrize("name", NAMES)
def test_each_query_has_the_late_rows_that_it_has_alone(name: str, ran: tuple[Any, dict[str, Any]]) -> None:
    together, alone = ran
    assert together.late_output()[name].schema == alone[name].late_output().schema
    assert told(together.late_output()[name]) == told(alone[name].late_output())
    if together.late:
        assert any(alone[other].late_output().num_rows for other in NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_each_query_has_the_metrics_that_it_has_alone(name: str, ran: tuple[Any, dict[str, Any]]) -> None:
    together, alone = ran
    ours, theirs = together.metrics(name), alone[name].metrics()
    for number in ("rows", "late_rows", "dropped_rows", "result_rows", "state_rows", "low_watermark", "closed_below"):
        assert getattr(ours, number) == getattr(theirs, number), number
    assert [one.name for one in ours.operators] == [one.name for one in theirs.operators]
    assert [one.input for one in ours.sources] == [one.input for one in theirs.sources]


def test_rows_are_counted_once_and_a_view_has_one_operator(ran: tuple[Any, dict[str, Any]]) -> None:
    together, _ = ran
    assert together.metrics().rows == A.num_rows + B.num_rows
    names = [one.name for one in together.metrics().operators]
    assert sum(name.startswith("WID aggregate") for name in names) == 2  # the view, and the union's
    assert together.metrics().result_rows == sum(table.num_rows for table in together.result().values())


def test_results_of_rows_on_time_are_those_of_the_definition() -> None:
    """Rows in order of time, so that none is late."""
    tables = {name: table.filter(table["ts"].is_valid()).sort_by("ts") for name, table in TABLES.items()}
    arrived = {name: Arrived(table, list(range(table.num_rows))) for name, table in tables.items()}
    asked = queries()
    found = run(lw.together(**asked).start(shards=2), tables)
    for name, query in asked.items():
        assert unlike(found.result()[name], evaluate(query.node, arrived)) == "", name


@pytest.mark.parametrize("block", range(-(-SEEDS // BLOCK)))
def test_random_trees_over_shared_streams_give_what_their_definitions_say(block: int) -> None:
    shared = 0
    for seed in range(block * BLOCK, min(SEEDS, (block + 1) * BLOCK)):
        rng = random.Random(f"several {seed}")
        data, shards, late = drawn_data(rng), rng.choice([1, 2, 3]), rng.random() < 0.5
        drawing = Drawing(rng, data, 2, rng.randrange(2))
        asked: dict[str, lw.Relation] = {}
        while len(asked) < 3:
            with suppress(LowwaterError):
                asked[f"q{len(asked)}"] = drawing.tree(rng.choice([1, 2]))
            drawing.turn = rng.randrange(2)
        query = run_pushes(lw.together(**asked), data, shards, late)
        arrived, found = data.arrived(), query.result()
        for name, one in asked.items():
            ends = max(found[name]["wid"].to_pylist(), default=None) if endless(one.node) else None
            told_wrong = unlike(found[name], evaluate(one.node, arrived, ends))
            assert told_wrong == "", f"seed {seed}, {name}\n{shown(one.node)}"
            assert query.late_output()[name].num_rows == query.metrics(name).late_rows == 0
            assert query.metrics(name).result_rows == found[name].num_rows
        assert [one.name for one in query.metrics().operators if one.state_rows] == []
        shared += sum(len(readers) > 1 for readers in scanned(query.plan).values())
    assert shared > BLOCK / 2


def test_a_query_does_not_wait_for_streams_that_only_others_read() -> None:
    a, b = streams().values()
    counts = a.window(10).agg(n=lw.count())
    asked = lw.together(counts=counts, pairs=a.join(b, on="k", within=5))
    query = asked.start()
    closed = query.push(A, "a")  # nothing of b has come
    assert told(closed["counts"]) == told(counts.start().push(A))
    assert closed["counts"].num_rows
    assert query.metrics("counts").low_watermark == "39"
    assert query.metrics("pairs").held_back_by == "b"


def test_columns_that_only_one_query_reads_are_read_for_it_alone() -> None:
    a, _ = streams().values()
    asked = lw.together(n=a.window(10).agg(n=lw.count()), most=a.window(10).agg(most=lw.max("v")))
    found = plan(asked.node, late=False)
    assert [frame.schema.names for frame in found.frames] == [["ts"], ["ts", "v"]]
    assert [entry.learns for entry in found.plan.entries] == [True, False]
    whole = plan(asked.node, late=True)
    assert [frame.schema.names for frame in whole.frames] == [["ts", "k", "v"]]


def test_collect_gives_a_table_of_each_query() -> None:
    found = lw.together(**queries()).collect(batch_rows=5, shards=2)
    assert list(found) == NAMES
    for name, query in queries().items():
        if query.plan.inputs[-1].name == "a":  # of several inputs, the cut into micro-batches tells what is late
            assert found[name].equals(query.collect(batch_rows=5, shards=2)), name


def test_a_plan_of_several_queries_follows_its_own_choices_and_names_what_has_changed() -> None:
    asked = lw.together(**queries())
    pinned = json.loads(asked.plan.pinned())
    assert plan(asked.node, pinned=pinned).plan.choices() == asked.plan.choices()
    fewer = dict(list(queries().items())[:2])
    with pytest.raises(CheckpointMismatch, match=r"the query was a set of queries of .* and is now a set of queries"):
        check_meaning(asked.plan.meaning, lw.together(**fewer).plan.meaning)
    renamed = {f"x{name}": one for name, one in queries().items()}
    with pytest.raises(CheckpointMismatch, match="names of its set of queries was counts, busy"):
        check_meaning(asked.plan.meaning, lw.together(**renamed).plan.meaning)


def test_what_is_no_set_of_queries_is_refused() -> None:
    a, _ = streams().values()
    for given, why in (
        ({"one": a}, "takes two or more queries by their names"),
        ({"one": a, "two": 3}, "two= of together\\(\\) is a relation, not int"),
    ):
        with pytest.raises(LowwaterError, match=why):
            lw.together(**given)  # type: ignore[arg-type]
    both = lw.together(one=a, two=a.window(10).agg(n=lw.count()))
    for results, why in (
        ({"one": "here"}, "results= has no sink for the query 'two'"),
        ({"one": "here", "two": "there", "three": "x"}, "'three' is none of the queries"),
    ):
        with pytest.raises(LowwaterError, match=why):
            both.start(results=results)
    with pytest.raises(LowwaterError, match="Two streams of the query are named 'a'"):
        lw.together(one=a, two=streams()["a"].window(10).agg(n=lw.count())).plan  # noqa: B018  it is planned
    with pytest.raises(LowwaterError, match="'none' is no query of this plan; its queries are one and two"):
        both.start().metrics("none")
