"""Outside cases: what other engines' own tests expect, computed here.

The cases named in EXPRESSIBLE pass, and they are all cases there are in the three suites. Windows, groups, selects,
derived columns, aggregates and joins are lowwater's. What a case does to the few results afterwards (best of each
window, a filter, a projection, duplicates removed) is done here in plain Python, except an aggregation over the results
or a join of them, which is a second query. How joins are asked for is in join_cases.py.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import lowwater as lw
from tests import join_cases
from tests.join_cases import TYPES, Case, Row

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SUITES = ("arroyo.jsonl", "risingwave.jsonl", "druid.jsonl")

EXPRESSIBLE = [
    "arroyo-sql-testing/hourly_by_event_type",
    "arroyo-sql-testing/month_loose_watermark",
    "arroyo-sql-testing/tight_watermark",
    "arroyo-sql-testing/most_active_driver_last_hour",
    "arroyo-sql-testing/most_active_driver_last_hour_unaligned",
    "arroyo-sql-testing/sliding_window_end",
    "arroyo-sql-testing/reinvoke_window_function",
    "arroyo-sql-testing/aggregates",
    "arroyo-sql-testing/grouped_aggregates",
    "arroyo-sql-testing/every_aggregate",
    "risingwave-e2e/time_window/mv_tumble_agg_1",
    "risingwave-e2e/time_window/mv_tumble_agg_2",
    "risingwave-e2e/time_window/mv_hop_agg_1",
    "risingwave-e2e/time_window/mv_hop_agg_2",
    "risingwave-e2e/time_window/mv_hop_agg_3",
    "risingwave-e2e/eowc_group_agg/after 5 rows",
    "risingwave-e2e/eowc_group_agg/after 6 rows",
    "risingwave-e2e/q5/nexmark_q5",
    "druid-window/hourly sum(delta) by country",
    "druid-window/total sum(delta) by country",
    "arroyo-sql-testing/global_session_window",
    "arroyo-sql-testing/session_window",
    "risingwave-e2e/mod/v_b.out3 after 4 rows",
    "risingwave-e2e/mod/v_d.out11 after 4 rows",
    "risingwave-e2e/mod/v_b.out3 after 6 rows",
    "risingwave-e2e/mod/v_d.out11 after 6 rows",
    "druid-window/hourly sum, then ROWS 3 PRECEDING .. 2 FOLLOWING per country",
    "arroyo-sql-testing/windowed_inner_join",
    "arroyo-sql-testing/windowed_outer_join",
    "arroyo-sql-testing/offset_impulse_join",
    "risingwave-e2e/time_window_join/full_join",
    "risingwave-e2e/q7/nexmark_q7",
    "risingwave-e2e/q8/nexmark_q8",
]
ON_SPARK = [
    "druid-window/hourly sum(delta) by country",
    "arroyo-sql-testing/most_active_driver_last_hour",
    "arroyo-sql-testing/most_active_driver_last_hour_unaligned",
    "arroyo-sql-testing/session_window",
    "risingwave-e2e/mod/v_b.out3 after 6 rows",
    "risingwave-e2e/mod/v_d.out11 after 6 rows",
    "risingwave-e2e/time_window_join/full_join",
    "risingwave-e2e/q8/nexmark_q8",
]

DERIVED = {
    "counter % 5": "counter % 5",
    "0 if counter % 10 == 0 else counter": "CASE WHEN counter % 10 = 0 THEN 0 ELSE counter END",
}
"""Expressions of `derive` (Python) and what they are in SQL."""
HOUR = 3_600_000
FUNCTIONS: dict[str, Callable[..., Any]] = {
    "count": lw.count,
    "sum": lw.sum,
    "min": lw.min,
    "max": lw.max,
    "avg": lw.avg,
    "var_pop": lw.var_pop,
    "stddev_pop": lw.stddev_pop,
    "count_distinct": lw.count_distinct,
}


@cache
def cases_of(folder: Path) -> dict[str, Case]:
    lines = [line for suite in SUITES for line in (folder / suite).read_text().splitlines()]
    cases = [json.loads(line) for line in lines]
    assert len({case["id"] for case in cases}) == len(cases)
    return {case["id"]: case for case in cases}


@pytest.fixture
def cases(shared: Path) -> dict[str, Case]:
    folder = shared / "cases"
    if not all((folder / suite).is_file() for suite in SUITES):
        pytest.skip("the outside cases are not in the folder `shared`")
    return cases_of(folder)


@cache
def lines_of(path: Path) -> list[Row]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def arrival_of(case: Case, folder: Path) -> list[Row]:
    return case["arrival"] if "arrival" in case else lines_of(folder / case["arrival_ref"])


def table_of(case: Case, folder: Path) -> pa.Table:
    """The rows of the case's input in arrival order, event time in column `t`."""
    arrival = arrival_of(case, folder)
    name = case["query"]["input"]
    columns = case["streams"][name]["columns"]
    schema = pa.schema([("t", pa.int64()), *((column, TYPES[type]) for column, type in columns.items())])
    return pa.Table.from_pylist([{"t": a["t"], **a["r"]} for a in arrival if a["s"] == name], schema=schema)


def asked(stream: lw.Stream, query: Row) -> lw.Query:
    """The case's query over a stream."""
    if query["kind"] == "over_agg":
        frame = (query["preceding"], query["following"])
        over = stream.over(query["partition_by"], **{query["frame"]: frame})
        return over.agg(**aggregates(query["aggs"]))
    for condition in query["where"]:
        stream = stream.where(sql(condition))
    for new in query.get("derive", []):
        stream = stream.with_column(new["as"], DERIVED[new["expr"]])
    window = query["window"]
    if window["type"] == "global":
        over = stream.window(range="all", slide=HOUR)
    elif window["type"] == "session":
        over = stream.session(window["gap"])
    else:
        assert window["type"] in ("tumble", "hop")
        over = stream.window(range=window["size"], slide=window["slide"], origin=window["origin"])
    return over.group_by(*query["group_by"]).agg(**aggregates(query["aggs"]))


def aggregates(wanted: list[Row]) -> dict[str, Any]:
    return {a["as"]: FUNCTIONS[a["fn"]](*([a["col"]] if a["col"] else [])) for a in wanted}


def sql(condition: Row) -> str:
    left, right = (
        side["col"] if "col" in side else f"'{side['const']}'" if isinstance(side["const"], str) else str(side["const"])
        for side in (condition["left"], condition["right"])
    )
    return f"{left} {condition['op']} {right}"


def disorder_of(table: pa.Table, case: Case) -> lw.Disorder:
    """The grace of a case that drops late rows; for the others, as much as the rows are disordered."""
    if case["lateness"]["rule"] == "drop_per_window":
        return lw.delay(case["lateness"]["grace"])
    assert case["lateness"]["rule"] == "none"
    return lw.delay(join_cases.most_behind(table.column("t").to_pylist()))


def computed(case: Case, folder: Path) -> list[Row]:
    """The results of a case on the local backend. Rows that may be dropped come one at a time."""
    if case["query"]["kind"] in JOINS:
        return JOINS[case["query"]["kind"]](case, folder)
    if isinstance(case["query"]["input"], dict):  # a query over the results of another
        inner = case | {"query": case["query"]["input"]}
        rows = computed(inner, folder)
        outer = case["query"] | {"input": "results"}
        return over_results(rows, outer)
    table = table_of(case, folder)
    stream = lw.stream(table, name="rows", progress="t", disorder=disorder_of(table, case))
    query = asked(stream, case["query"]).start(shards=2)
    step = 1 if case["lateness"]["rule"] == "drop_per_window" else 1000
    for at in range(0, table.num_rows, step):
        query.push(table.slice(at, step))
    if case["emit"] != "on_close":
        query.finish()
    if case["lateness"]["rule"] == "none":
        assert query.metrics().late_rows == 0
    return afterwards(query.result().to_pylist(), case["query"])


def over_results(rows: list[Row], query: Row) -> list[Row]:
    """Windows over the results of windows: they progress on the start of their windows."""
    assert query["order_by"] == "window_start"
    results = pa.Table.from_pylist(sorted(rows, key=lambda row: row["window_start"]))
    stream = lw.stream(results.drop_columns(["wid"]), name="results", progress="window_start", disorder=lw.ordered())
    return asked(stream, query).collect().to_pylist()


def afterwards(rows: list[Row], query: Row) -> list[Row]:
    if query["kind"] == "over_agg":
        return rows
    if query["window"]["type"] == "global":  # the last value of the landmark window
        last = max(row["wid"] for row in rows)
        rows = [row for row in rows if row["wid"] == last]
    for step in query.get("then", []):
        rows = STEPS[step["op"]](rows, step)
    return rows


# -- joins ----------------------------------------------------------------------------------------------------------


def join_of_streams(case: Case, folder: Path) -> list[Row]:
    return join_cases.computed(case, arrival_of(case, folder))


def join_of_aggregates(case: Case, folder: Path) -> list[Row]:
    """Two aggregations, and a join of their results as streams."""
    left, right = (aggregated_side(case, case["query"][name], folder) for name in ("left", "right"))
    return join_cases.join_of_windows(
        case["query"],
        join_cases.as_stream(*left, 0, "window_start"),
        join_cases.as_stream(*right, 1, "window_start"),
    )


def aggregated_side(case: Case, query: Row, folder: Path) -> tuple[list[Row], pa.Schema]:
    """The results of an aggregation, and their types, which results without rows have too."""
    inner = case | {"query": query}
    rows = computed(inner, folder)
    stream = lw.stream(table_of(inner, folder), name="rows", progress="t", disorder=lw.ordered())
    known = asked(stream, query).schema
    return rows, pa.schema([known.field(name) for name in (rows[0] if rows else known.names) if name != "wid"])


def highest_bids(case: Case, folder: Path) -> list[Row]:
    """NEXMark query 7: an aggregation of bids, and a join of its results with the bids."""
    window = case["query"]["window"]
    best = {
        "kind": "window_agg",
        "input": "bid",
        "where": [],
        "window": window,
        "group_by": [],
        "aggs": [{"fn": "max", "col": "price", "as": "price"}],
    }
    rows, schema = aggregated_side(case, best, folder)
    bids = table_of(case | {"query": best}, folder)
    return join_cases.bids_of_best(rows, bids, schema, window["size"])


JOINS: dict[str, Callable[[Case, Path], list[Row]]] = {
    "interval_join": join_of_streams,
    "window_join": join_of_streams,
    "window_join_of_aggs": join_of_aggregates,
    "nexmark_q7": highest_bids,
}


# -- what a case does with its results ------------------------------------------------------------------------------


def by_window(rows: list[Row]) -> list[list[Row]]:
    windows = defaultdict(list)
    for row in rows:
        windows[row["wid"]].append(row)
    return list(windows.values())


def filtered(rows: list[Row], step: Row) -> list[Row]:
    (condition,) = step["where"]
    assert condition["op"] == ">"
    return [row for row in rows if row[condition["left"]["col"]] > condition["right"]["const"]]


def best(rows: list[Row], step: Row) -> list[Row]:
    assert all(direction == "desc" for _, direction in step["order"])
    columns = [column for column, _ in step["order"]]
    found = []
    for window in by_window(rows):
        found += sorted(window, key=lambda row: [row[column] for column in columns], reverse=True)[: step["n"]]
    return found


def largest(rows: list[Row], step: Row) -> list[Row]:
    column = step["col"]
    return [row for window in by_window(rows) for row in window if row[column] == max(r[column] for r in window)]


def aggregated(rows: list[Row], step: Row) -> list[Row]:
    """A second query, over the results of the first: they progress on the start of their (tumbling) windows."""
    (size,) = {row["window_end"] - row["window_start"] for row in rows}
    assert all(row["window_start"] % size == 0 for row in rows)
    ordered = sorted(rows, key=lambda row: row["window_start"])
    results = pa.Table.from_pylist([{**row, "t": row["window_start"]} for row in ordered])
    results = results.drop_columns(["wid", "window_start", "window_end"])
    stream = lw.stream(results, name="results", progress="t", disorder=lw.ordered())
    return stream.window(range=size).agg(**aggregates(step["aggs"])).collect().to_pylist()


STEPS: dict[str, Callable[[list[Row], Row], list[Row]]] = {
    "filter": filtered,
    "top_n_per_window": best,
    "keep_rows_equal_to_max_of_window": largest,
    "agg_per_window": aggregated,
    "project": lambda rows, step: [{column: row[column] for column in step["cols"]} for row in rows],
}


def comparable(rows: list[Row], columns: list[str]) -> list[str]:
    """Rows without their order, numbers to the four places that the suites give."""

    def number(value: Any) -> Any:
        plain = isinstance(value, bool) or not isinstance(value, int | float)
        return value if plain else round(float(value), 4) + 0.0

    return sorted(json.dumps([number(row[column]) for column in columns]) for row in rows)


def assert_expected(got: list[Row], case: Case) -> None:
    expected = case["expected"]["rows"]
    if not expected:
        assert not got
        return
    columns = sorted(expected[0])
    assert comparable(got, columns) == comparable(expected, columns)


def test_every_case_is_computed(cases: dict[str, Case]) -> None:
    assert sorted(EXPRESSIBLE) == sorted(cases)
    assert all(case["expected"]["rows"] for case in cases.values())
    assert set(ON_SPARK) <= set(EXPRESSIBLE)


@pytest.mark.parametrize("name", EXPRESSIBLE)
def test_case_on_the_local_backend(name: str, cases: dict[str, Case], shared: Path) -> None:
    assert_expected(computed(cases[name], shared / "cases"), cases[name])


@pytest.mark.spark
@pytest.mark.parametrize("name", ON_SPARK)
def test_case_on_spark(name: str, cases: dict[str, Case], shared: Path, spark: SparkSession) -> None:
    case = cases[name]
    if case["query"]["kind"] in JOINS:
        tables = join_cases.tables_of(case, join_cases.arrived(case, arrival_of(case, shared / "cases")))
        joined = join_cases.asked(
            case, tables, lambda table, *more: join_cases.opened(spark.createDataFrame(table), *more)
        )
        assert_expected(join_cases.selected(joined.collect(), case["query"]), case)
        return
    table = table_of(case, shared / "cases")
    stream = lw.stream(spark.createDataFrame(table), name="rows", progress="t", disorder=disorder_of(table, case))
    assert_expected(afterwards(asked(stream, case["query"]).collect().to_pylist(), case["query"]), case)


def test_the_comparison_sees_a_wrong_a_missing_and_a_repeated_row() -> None:
    case = {"expected": {"rows": [{"k": "a", "n": 1}, {"k": None, "n": 2.5}]}}
    right = case["expected"]["rows"]
    assert_expected([right[1], right[0]], case)
    for wrong in ([right[0], {"k": None, "n": 2.6}], right[:1], [*right, right[0]]):
        with pytest.raises(AssertionError):
            assert_expected(wrong, case)
