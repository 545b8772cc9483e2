"""Cases of joins in the format of the outside cases, made up here, and judged by the reading that comes with those.

The folder has few joins, and none over an interval. `check_cases.py` beside the cases reads all kinds by nested loops.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path
from random import Random
from types import ModuleType
from typing import Any

import pytest

from tests import join_cases
from tests.case_plans import computed
from tests.test_cases import assert_expected

Case = dict[str, Any]


@pytest.fixture(scope="module")
def reading(shared: Path) -> ModuleType:
    file = shared / "cases" / "check_cases.py"
    if not file.is_file():
        pytest.skip("the reading of the outside cases is not in the folder `shared`")
    spec = importlib.util.spec_from_file_location("check_cases", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


SELECT = [["left", "k", "lk"], ["left", "v", "lv"], ["right", "k", "rk"], ["right", "w", "rw"], ["coalesce", "k", "k"]]


def made_up(random: Random, kind: str) -> Case:
    """Two streams with ties, nulls and disorder; some cases have times that are no whole numbers."""
    unit = random.choice([1, 1, 0.5])
    drops = kind == "interval_join" and random.random() < 0.5
    arrival = [
        {
            "s": random.choice("AB"),
            "t": (at + random.randint(-6, 6)) * unit,
            "r": {"k": random.choice(["a", "b", "c", None]), "v": random.randint(0, 3), "w": random.randint(0, 3)},
        }
        for at in range(random.randint(0, 40))
    ]
    query = {
        "kind": kind,
        "left": "A",
        "right": "B",
        "on": random.choice([[], [["k", "k"]], [["v", "w"]], [["k", "k"], ["v", "w"]]]),
        "where": [],
        "join_type": random.choice(["inner", "left", "right", "full"]),
        "select": SELECT,
        "distinct": kind == "window_join" and random.random() < 0.3,
    }
    if kind == "interval_join":
        low = random.randint(-8, 4)
        query |= {"lower": low * unit, "upper": (low + random.randint(2, 10)) * unit}
        query |= {"bounds": random.choice(["[]", "[)", "(]", "()"]), "null_safe_equality": random.random() < 0.5}
        query["where"] = random.choice(
            [
                [],
                [{"left": {"col": ["left", "v"]}, "op": "<", "right": {"col": ["right", "w"]}}],
                [{"left": {"col": ["right", "w"]}, "op": "<>", "right": {"const": 2}}],
                [{"left": {"col": ["left", "k"]}, "op": "=", "right": {"const": "a"}}],
            ]
        )
    else:
        slide = random.randint(1, 6)
        size = random.choice([slide, slide + random.randint(1, 9)])
        window = {"size": size * unit, "slide": slide * unit, "origin": random.randint(-3, 3) * unit}
        query["window"] = {"type": "tumble" if size == slide else "hop", **window}
        query["select"] = [*SELECT, ["window", "start", "window_start"], ["window", "end", "window_end"]]
    lateness = {"rule": "drop_row", "cutoff": random.randint(1, 6) * unit} if drops else {"rule": "none"}
    columns = {"columns": {"k": "STRING", "v": "", "w": "BIGINT"}}
    return {"streams": {"A": columns, "B": columns}, "arrival": arrival, "query": query, "lateness": lateness}


@pytest.mark.parametrize("seed", range(60))
@pytest.mark.parametrize("kind", ["interval_join", "window_join"])
def test_a_join_of_streams_is_as_the_reading_says(kind: str, seed: int, reading: ModuleType) -> None:
    case = made_up(Random(f"{kind}/{seed}"), kind)
    expected = getattr(reading, kind)(case, case["query"], case["arrival"])
    assert_expected(computed(case, case["arrival"]), {"expected": {"rows": expected}})


@pytest.mark.parametrize("seed", range(20))
def test_a_join_of_results_is_as_the_reading_says(seed: int, reading: ModuleType) -> None:
    random = Random(f"results/{seed}")
    arrival = [
        {"s": "A", "t": at + random.randint(-4, 4), "r": {"k": random.choice(["a", "b", None]), "v": at}}
        for at in range(random.randint(0, 40))
    ]
    slide = random.randint(2, 9)
    window = {"type": "hop", "size": slide + random.randint(0, 9), "slide": slide, "origin": random.randint(-3, 3)}
    keys = random.choice([[], ["k"]])
    sides = [
        {
            "kind": "window_agg",
            "input": "A",
            "where": [{"left": {"col": "v"}, "op": op, "right": {"const": 20}}],
            "window": window,
            "group_by": keys,
            "aggs": [{"fn": "count", "col": None, "as": "n"}],
        }
        for op in ("<", random.choice(["<", ">"]))
    ]
    query = {
        "kind": "window_join_of_aggs",
        "left": sides[0],
        "right": sides[1],
        "on": [[key, key] for key in keys],
        "join_type": random.choice(["inner", "left", "right", "full"]),
        "select": [[side, name, f"{side}_{name}"] for side in ("left", "right") for name in ("window_end", "n", *keys)],
    }
    case = {
        "streams": {"A": {"columns": {"k": "STRING", "v": "BIGINT"}}},
        "arrival": arrival,
        "query": query,
        "lateness": {"rule": "none"},
        "emit": "final",
    }
    expected = reading.join_of_aggs(case, query, arrival)
    assert_expected(computed(case, arrival), {"expected": {"rows": expected}})


def test_the_cases_made_up_are_not_all_alike(reading: ModuleType) -> None:
    for kind in ("interval_join", "window_join"):
        made = [made_up(Random(f"{kind}/{seed}"), kind) for seed in range(60)]
        found = [getattr(reading, kind)(case, case["query"], case["arrival"]) for case in made]
        assert sum(len(rows) > 5 for rows in found) > 30
        assert any(row["lk"] is None is not row["rk"] for rows in found for row in rows)
        assert len({case["query"]["join_type"] for case in made}) == 4


def test_a_stream_that_is_joined_with_itself_comes_twice() -> None:
    """No result before the second time: the slower stream decides."""
    rows = [{"s": "A", "t": t, "r": {"k": "a"}} for t in (0, 900_000, 300_000)]
    case = {"query": {"left": "A", "right": "A"}}
    told = [(side, row["t"]) for side, row in join_cases.arrived(case, rows)]
    assert told == [(0, 0), (1, 0), (0, 900_000), (0, 300_000), (1, 900_000), (1, 300_000)]
