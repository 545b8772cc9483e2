"""Cases of our own: features that the suites of other stream systems test, with results computed by hand.

A case (cases_of_ours/*.yaml) has inputs, rows in order of arrival, a query in lowwater's API, and the expected rows:

    name, like    what it shows, and which systems test the same
    inputs        columns with their types (`t` is the time), and disorder=, source=, sources=, idle= or punctuated=
    arrival       [input, value, ...] is a row, {tick: 5} lets the clock pass to 5 s, {out: [...]} are the results
                  since the last `out`
    query         an expression over the inputs, or a function `query` of them
    columns       the columns of the results that are compared; `expected` are all results, in any order
    late          late rows, each with its input
    spark         whether the case runs on Spark, too

Rows come one at a time. A case without `out` and `late` does not depend on that, so it also runs with all rows of an
input at once, and on more shards.
"""

from __future__ import annotations

import datetime as dt
import inspect
import json
import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
import yaml

import lowwater as lw

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FOLDER = Path(__file__).parent / "cases_of_ours"
KEYS = {"name", "like", "inputs", "arrival", "query", "columns", "expected", "late", "spark"}
TYPES = {
    "int": pa.int64(),
    "string": pa.string(),
    "double": pa.float64(),
    "bool": pa.bool_(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
}
SECOND = 10**6


@dataclass(frozen=True)
class Input:
    name: str
    schema: pa.Schema
    options: dict[str, Any]

    def stream(self, data: Any) -> lw.Relation:
        return lw.stream(data, name=self.name, progress="t", **self.options)

    def table(self, rows: list[list[Any]]) -> pa.Table:
        columns = [
            pa.array([value_of(row[at], field.type) for row in rows], field.type)
            for at, field in enumerate(self.schema)
        ]
        return pa.table(columns, schema=self.schema)


@dataclass(frozen=True)
class Case:
    name: str
    inputs: dict[str, Input]
    arrival: list[Any]
    query: str
    columns: list[str]
    expected: list[list[Any]]
    late: list[list[Any]]
    spark: bool

    def asked(self, frame: Callable[[pa.Table], Any] = lambda table: table) -> lw.Relation:
        """The query over its inputs, whose frames are made of their rows."""
        streams = {name: one.stream(frame(one.table(self.rows(name)))) for name, one in self.inputs.items()}
        scope: dict[str, Any] = {"lw": lw, **streams}
        if not self.query.startswith("def "):
            return eval(self.query, scope)  # type: ignore[no-any-return]
        exec(self.query, scope)
        query = scope["query"]
        return query(*(streams[name] for name in inspect.signature(query).parameters))  # type: ignore[no-any-return]

    def rows(self, name: str) -> list[list[Any]]:
        return [step[1:] for step in self.arrival if isinstance(step, list) and step[0] == name]

    @property
    def ticks(self) -> bool:
        return any(isinstance(step, dict) and "tick" in step for step in self.arrival)

    @property
    def any_order(self) -> bool:
        """Whether results do not depend on which rows are a micro-batch."""
        return not self.late and all(isinstance(step, list) for step in self.arrival)


def value_of(value: Any, type: pa.DataType) -> Any:
    if pa.types.is_timestamp(type) and value is not None:
        return dt.datetime.fromisoformat(value)
    if pa.types.is_date(type) and value is not None:
        return dt.date.fromisoformat(value)
    return Decimal(value) if pa.types.is_decimal(type) and value is not None else value


def type_of(text: str) -> pa.DataType:
    if found := re.fullmatch(r"decimal\((\d+),(\d+)\)", text):
        return pa.decimal128(int(found[1]), int(found[2]))
    kind, _, zone = text.partition(" ")
    return pa.timestamp("us", zone) if zone else TYPES[kind]


def input_of(name: str, declared: dict[str, Any]) -> Input:
    options = {key: declared[key] for key in ("disorder", "source", "sources") if key in declared}
    if "punctuated" in declared:
        options["disorder"] = lw.punctuated(declared["punctuated"], "t")
    if "idle" in declared:
        options["idle"] = lw.idle(*declared["idle"])
    assert set(declared) <= {"columns", "punctuated", "idle", *options}
    columns = [column.split(" ", 1) for column in re.split(r", (?=\w)", declared["columns"])]
    return Input(name, pa.schema([(column, type_of(text)) for column, text in columns]), options)


def loaded() -> Iterator[Case]:
    for path in sorted(FOLDER.glob("*.yaml")):
        for told in yaml.safe_load(path.read_text()):
            assert set(told) <= KEYS, set(told) - KEYS
            assert told["like"]
            yield Case(
                told["name"],
                {name: input_of(name, declared) for name, declared in told["inputs"].items()},
                told["arrival"],
                told["query"],
                told["columns"],
                told["expected"],
                told.get("late", []),
                told.get("spark", False),
            )


CASES = list(loaded())


def plain(value: Any) -> Any:
    """A value as the files write it: times as text in UTC, decimals as text."""
    if isinstance(value, dt.datetime):
        return value.astimezone(dt.UTC).replace(tzinfo=None).isoformat() + "Z"
    if isinstance(value, dt.date | Decimal):
        return str(value)
    return "not a number" if isinstance(value, float) and math.isnan(value) else value


def in_order(rows: list[list[Any]]) -> list[str]:
    return sorted(json.dumps([plain(value) for value in row]) for row in rows)


def picked(table: pa.Table, columns: list[str]) -> list[list[Any]]:
    return [list(row.values()) for row in table.select(columns).to_pylist()]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_case_row_by_row(case: Case) -> None:
    stepped(case)


@pytest.mark.parametrize("case", [case for case in CASES if not case.ticks], ids=lambda case: case.name)
def test_case_that_is_restarted_behind_every_row(case: Case) -> None:
    """From the committed state. The silence of a source counts anew then, so cases with a clock are left out."""
    stepped(case, restarts=True)


def stepped(case: Case, restarts: bool = False) -> None:
    running = case.asked().start(shards=2)
    ports = {one.name: port for port, one in enumerate(running.plan.inputs)}
    out: list[list[Any]] = []
    for step in case.arrival:
        if isinstance(step, list):
            name, *values = step
            out += picked(running.push(case.inputs[name].table([values]), ports[name]), case.columns)
            if restarts:
                running.restart()
        elif "tick" in step:
            out += picked(running.tick(step["tick"] * SECOND), case.columns)
        else:
            assert in_order(out) == in_order(step["out"])
            out.clear()
    running.finish()
    assert in_order(picked(running.result(), case.columns)) == in_order(case.expected)
    assert running.metrics().state_rows == 0
    late = running.late_output()
    of_inputs = [[row["input"], *(row[f.name] for f in case.inputs[row["input"]].schema)] for row in late.to_pylist()]
    assert in_order(of_inputs) == in_order([[name, *typed(case, name, row)] for name, *row in case.late])


def typed(case: Case, name: str, row: list[Any]) -> list[Any]:
    (values,) = case.inputs[name].table([row]).to_pylist()
    return list(values.values())


@pytest.mark.parametrize("case", [case for case in CASES if case.any_order], ids=lambda case: case.name)
def test_case_at_once(case: Case) -> None:
    for shards in (1, 3):
        assert in_order(picked(case.asked().collect(shards=shards), case.columns)) == in_order(case.expected)


@pytest.mark.spark
@pytest.mark.parametrize("case", [case for case in CASES if case.spark], ids=lambda case: case.name)
def test_case_on_spark(case: Case, spark: SparkSession) -> None:
    found = case.asked(spark.createDataFrame).collect()
    assert in_order(picked(found, case.columns)) == in_order(case.expected)


def test_there_are_cases_and_their_names_differ() -> None:
    names = [case.name for case in CASES]
    assert len(set(names)) == len(names) > 60
    assert sum(case.spark for case in CASES) >= 15
