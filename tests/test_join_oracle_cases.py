"""The judge of window joins is judged by outside cases."""

from __future__ import annotations

import json
import operator
from pathlib import Path
from typing import Any

import pytest

from tests.compare import multiset
from tests.join_oracle import (
    band_join,
    grid_join,
)
from tests.oracle import Row

Case = dict[str, Any]
OPERATORS = {
    "=": operator.eq,
    "<>": operator.ne,
    "!=": operator.ne,
    "<": operator.lt,
    ">": operator.gt,
    "<=": operator.le,
    ">=": operator.ge,
}
TIME = "time of the event"  # no column of a case is called so
JOIN_CASES = {
    "arroyo-sql-testing/offset_impulse_join",
    "risingwave-e2e/time_window_join/full_join",
    "risingwave-e2e/q8/nexmark_q8",
}


def conditions(where: list[Row], a: Row, b: Row) -> bool:
    def value(of: Row) -> Any:
        return of["const"] if "const" in of else (a if of["col"][0] == "left" else b)[of["col"][1]]

    sides = [(value(one["left"]), one["op"], value(one["right"])) for one in where]
    return all(x is not None and y is not None and OPERATORS[op](x, y) for x, op, y in sides)


def selected(query: Row, a: Row | None, b: Row | None, *window: int) -> Row:
    row = {}
    for place, column, name in query["select"]:
        if place == "window":
            row[name] = window[("start", "end").index(column)]
        elif place == "coalesce":
            of, side = (a, 0) if a is not None else (b, 1)
            row[name] = of[column if column in of else query["on"][0][side]]
        else:
            of = a if place == "left" else b
            row[name] = None if of is None else of[column]
    return row


def computed(case: Case, folder: Path) -> list[Row]:
    query = case["query"]
    assert case["lateness"]["rule"] == "none"
    arrival = case.get("arrival") or [json.loads(line) for line in (folder / case["arrival_ref"]).open()]
    left, right = ([{TIME: a["t"], **a["r"]} for a in arrival if a["s"] == query[side]] for side in ("left", "right"))
    further = {
        "how": query["join_type"],
        "condition": lambda a, b: conditions(query["where"], a, b),
        "null_safe": query.get("null_safe_equality", False),
        "left_time": TIME,
        "right_time": TIME,
    }
    if query["kind"] == "interval_join":
        pairs = band_join(left, right, query["on"], query["lower"], query["upper"], bounds=query["bounds"], **further)
    else:
        window = query["window"]
        assert window["type"] in ("tumble", "hop")
        pairs = grid_join(left, right, query["on"], window["size"], window["slide"], window["origin"], **further)
    rows = [selected(query, *pair) for pair in pairs]
    return [json.loads(row) for row in {json.dumps(row) for row in rows}] if query.get("distinct") else rows


def assert_expected(case: Case, folder: Path) -> None:
    expected = case["expected"]["rows"]
    columns = sorted(expected[0])
    assert multiset({name: row[name] for name in columns} for row in computed(case, folder)) == multiset(expected)


def test_the_outside_cases_of_joins_are_reproduced(shared: Path) -> None:
    folder = shared / "cases"
    cases = [json.loads(line) for suite in sorted(folder.glob("*.jsonl")) for line in suite.open()]
    joins = {case["id"]: case for case in cases if case["query"]["kind"] in ("window_join", "interval_join")}
    if not joins:
        pytest.skip("the outside cases are not in the folder `shared`")
    assert set(joins) >= JOIN_CASES
    for case in joins.values():
        assert_expected(case, folder)


def test_a_case_of_an_interval_join_is_read_as_the_format_says(tmp_path: Path) -> None:
    """The suites at hand have none: an order and its payments within 10 ticks, the last one excluded."""
    arrival = [
        {"s": "orders", "t": 0, "r": {"id": 1, "price": 5}},
        {"s": "paid", "t": 10, "r": {"order": 1, "sum": 5}},
        {"s": "paid", "t": 9, "r": {"order": 1, "sum": 4}},
        {"s": "paid", "t": 3, "r": {"order": 1, "sum": 6}},
        {"s": "orders", "t": 2, "r": {"id": None, "price": 1}},
        {"s": "paid", "t": 2, "r": {"order": None, "sum": 1}},
    ]
    query = {
        "kind": "interval_join",
        "left": "orders",
        "right": "paid",
        "join_type": "full",
        "on": [["id", "order"]],
        "lower": 0,
        "upper": 10,
        "bounds": "[)",
        "where": [{"left": {"col": ["right", "sum"]}, "op": ">=", "right": {"col": ["left", "price"]}}],
        "select": [["coalesce", "id", "id"], ["left", "price", "price"], ["right", "sum", "sum"]],
    }
    expected = [(1, 5, 6), (None, 1, None), (1, None, 5), (1, None, 4), (None, None, 1)]
    rows = [{"id": i, "price": price, "sum": paid} for i, price, paid in expected]
    case = {"arrival": arrival, "query": query, "lateness": {"rule": "none"}, "expected": {"rows": rows}}
    assert_expected(case, tmp_path)
    safe = query | {"null_safe_equality": True, "join_type": "inner"}
    matched = {"rows": [rows[0], {"id": None, "price": 1, "sum": 1}]}
    assert_expected(case | {"query": safe, "expected": matched}, tmp_path)
