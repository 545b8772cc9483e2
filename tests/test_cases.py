"""Outside cases: what other engines' own tests expect, computed here, each as one plan (case_plans.py).

The cases named in EXPRESSIBLE pass, and they are all cases that the three suites have. A case of each kind also runs on
Spark over finite DataFrames, and so do all joins of aggregations; three cases run there as streams.
"""

from __future__ import annotations

import json
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.case_plans import computed, inputs_of, planned
from tests.join_cases import Case, Row

if TYPE_CHECKING:
    import pyarrow as pa
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
    "druid-window/hourly sum, then ROWS 3 PRECEDING .. 2 FOLLOWING per country",
    "arroyo-sql-testing/grouped_aggregates",
    "arroyo-sql-testing/reinvoke_window_function",
    "arroyo-sql-testing/windowed_inner_join",
    "arroyo-sql-testing/windowed_outer_join",
    "arroyo-sql-testing/most_active_driver_last_hour",
    "arroyo-sql-testing/most_active_driver_last_hour_unaligned",
    "arroyo-sql-testing/session_window",
    "risingwave-e2e/mod/v_b.out3 after 6 rows",
    "risingwave-e2e/mod/v_d.out11 after 6 rows",
    "risingwave-e2e/time_window_join/full_join",
    "risingwave-e2e/q5/nexmark_q5",
    "risingwave-e2e/q7/nexmark_q7",
    "risingwave-e2e/q8/nexmark_q8",
]
STREAMING = [
    "arroyo-sql-testing/windowed_inner_join",
    "arroyo-sql-testing/windowed_outer_join",
    "risingwave-e2e/eowc_group_agg/after 6 rows",
]
PARTS = 2
"""Files, and so micro-batches, of a stream on Spark."""


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


def comparable(rows: list[Row], columns: list[str]) -> list[str]:
    """Rows without their order, numbers to the four places that the suites give."""

    def number(value: Any) -> Any:
        plain = isinstance(value, bool) or not isinstance(value, int | float | Decimal)
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
    assert set(ON_SPARK) | set(STREAMING) <= set(EXPRESSIBLE)
    kinds = {name: case["query"]["kind"] for name, case in cases.items()}
    assert {kinds[name] for name in ON_SPARK} == set(kinds.values())
    assert {name for name, kind in kinds.items() if kind == "window_join_of_aggs"} <= set(ON_SPARK) & set(STREAMING)


@pytest.mark.parametrize("name", EXPRESSIBLE)
def test_case_on_the_local_backend(name: str, cases: dict[str, Case], shared: Path) -> None:
    case = cases[name]
    assert_expected(computed(case, arrival_of(case, shared / "cases")), case)


@pytest.mark.spark
@pytest.mark.parametrize("name", ON_SPARK)
def test_case_on_spark(name: str, cases: dict[str, Case], shared: Path, spark: SparkSession) -> None:
    case = cases[name]
    inputs = inputs_of(case, arrival_of(case, shared / "cases"))
    plan = planned(case["query"], inputs.streams(lambda _, table: spark.createDataFrame(table)))
    assert_expected(plan.collect().to_pylist(), case)


@pytest.mark.spark
@pytest.mark.parametrize("name", STREAMING)
def test_case_as_a_stream_on_spark(
    name: str, cases: dict[str, Case], shared: Path, spark: SparkSession, tmp_path: Path
) -> None:
    from pyspark.sql.pandas.types import from_arrow_schema

    from tests.spark.answers import parts, write_part

    case = cases[name]
    inputs = inputs_of(case, arrival_of(case, shared / "cases"))

    def arriving(stream: str, table: pa.Table) -> Any:
        for number, part in enumerate(parts(table, PARTS)):
            write_part(part, tmp_path / stream, number)
        reader = spark.readStream.schema(from_arrow_schema(table.schema)).option("maxFilesPerTrigger", 1)
        return reader.parquet(str(tmp_path / stream))

    running = planned(case["query"], inputs.streams(arriving)).start(
        checkpoint=str(tmp_path / "checkpoint"), results=str(tmp_path / "out"), trigger={"availableNow": True}
    )
    running.await_termination()
    if case["emit"] != "on_close":
        running.finish()
        assert running.metrics().state_rows == 0
    assert running.metrics().late_rows == 0
    assert_expected(spark.read.parquet(str(tmp_path / "out")).toArrow().to_pylist(), case)


def test_the_comparison_sees_a_wrong_a_missing_and_a_repeated_row() -> None:
    case = {"expected": {"rows": [{"k": "a", "n": 1}, {"k": None, "n": 2.5}]}}
    right = case["expected"]["rows"]
    assert_expected([right[1], right[0]], case)
    for wrong in ([right[0], {"k": None, "n": 2.6}], right[:1], [*right, right[0]]):
        with pytest.raises(AssertionError):
            assert_expected(wrong, case)
