"""Every operator and function of the subset means what it means in Spark: same type, same values, same errors.

One select per family evaluates all its expressions. Each is guarded by a column that marks the rows for which lowwater
raises, since one of them would end the whole select. Some of those rows are then given to Spark alone.
"""

from __future__ import annotations

import math
import re
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest

from lowwater.errors import LowwaterError
from lowwater.expressions import Expression
from tests.spark.expression_cases import FAMILIES, listed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("compiled")]


CLOSE = ("exp(", "ln(", "log(", "pow(", "power(")
"""Java and the C library may differ in the last bits of these."""
SQL = {"int8": "tinyint", "int16": "smallint", "int32": "int", "int64": "bigint", "bool": "boolean"}
SQL |= {"date32[day]": "date", "timestamp[us, tz=UTC]": "timestamp", "timestamp[us]": "timestamp_ntz"}


@cache
def ours(family: str) -> tuple[pa.Table, list[Expression], list[tuple[pa.Array, npt.NDArray[np.bool_]]]]:
    """The rows of a family, its expressions, and per expression the values and the rows that have one."""
    rows, cases = FAMILIES[family]
    table = rows()
    bound = [Expression.of(text, table.schema) for text in listed(cases)]
    return table, bound, [evaluated(expression, table) for expression in bound]


def evaluated(expression: Expression, table: pa.Table) -> tuple[pa.Array, npt.NDArray[np.bool_]]:
    """Rows that raise are found by halving."""
    fine = np.ones(table.num_rows, np.bool_)

    def of(low: int, high: int) -> list[pa.Array]:
        try:
            return [expression.evaluate(table.slice(low, high - low))]
        except LowwaterError:
            if high - low == 1:
                fine[low] = False
                return [pa.nulls(1, expression.type)]
            middle = (low + high) // 2
            return of(low, middle) + of(middle, high)

    return pa.concat_arrays(of(0, table.num_rows)), fine


def in_spark(spark: SparkSession, table: pa.Table) -> Any:
    frame = spark.createDataFrame(table)
    for field in table.schema:
        if field.type == pa.timestamp("us"):  # Spark reads it as an instant
            frame = frame.withColumn(field.name, frame[field.name].cast("timestamp_ntz"))
    return frame


@pytest.mark.parametrize("family", FAMILIES)
def test_every_expression_has_the_type_and_the_values_of_spark(spark: SparkSession, family: str) -> None:
    table, bound, found = ours(family)
    guarded, select = table, []
    for k, (expression, (_, fine)) in enumerate(zip(bound, found, strict=True)):
        guarded = guarded.append_column(f"ok_{k}", pa.array(fine))
        text = expression.text if fine.all() else f"CASE WHEN ok_{k} THEN {expression.text} END"
        select.append(f"{text} AS r_{k}")
    answers = in_spark(spark, guarded).selectExpr(*select).toArrow()
    wrong: list[str] = []
    for k, (expression, (values, _)) in enumerate(zip(bound, found, strict=True)):
        theirs = answers.column(f"r_{k}")
        if not shown(theirs.type) == shown(values.type) == shown(expression.type):
            wrong.append(f"{expression.text}: {expression.type} {values.type}, Spark {theirs.type}")
        close = any(name in expression.text for name in CLOSE)
        pairs = enumerate(zip(plain(values), plain(theirs), strict=True))
        differ = [(i, a, b) for i, (a, b) in pairs if not same(a, b, close)]
        for i, a, b in differ[:2]:
            inputs = {name: table.column(name)[i].as_py() for name in expression.columns}
            wrong.append(f"{expression.text} of {inputs}: {a!r}, Spark {b!r} ({len(differ)} rows)")
    assert not wrong, "\n".join(wrong)


def shown(type: pa.DataType) -> str:
    return "list<string>" if pa.types.is_list(type) else str(type)


def same(ours: Any, theirs: Any, close: bool) -> bool:
    if isinstance(ours, float) and isinstance(theirs, float):
        if math.isnan(ours) or math.isnan(theirs):
            return math.isnan(ours) and math.isnan(theirs)
        if close and math.isfinite(ours) and ours != 0:
            return bool(abs(ours - theirs) <= 2 * np.spacing(abs(theirs)))
        return ours == theirs and math.copysign(1, ours) == math.copysign(1, theirs)
    return bool(ours == theirs)


def plain(values: Any) -> list[Any]:
    """Dates and timestamps as numbers, since Python's end at the year 9999."""
    if pa.types.is_temporal(values.type):
        values = values.cast(pa.int32() if pa.types.is_date(values.type) else pa.int64())
    found: list[Any] = values.to_pylist()
    return found


@pytest.mark.parametrize(("family", "least"), [("numbers", 30), ("times", 8)])
def test_rows_that_raise_here_raise_in_spark_too(spark: SparkSession, family: str, least: int) -> None:
    from pyspark.errors import PySparkException

    table, bound, found = ours(family)
    wrong: list[str] = []
    asked: set[str] = set()
    for expression, (_, fine) in zip(bound, found, strict=True):
        refused = table.filter(pa.array(~fine)).select(expression.columns)
        full = [row for row in refused.to_pylist() if None not in row.values()]  # Spark folds a literal null away
        shape = re.sub(r"\b[a-z]{1,2}\b", "v", expression.text)
        if not full or shape in asked:
            continue
        row = full[len(asked) % len(full)]
        asked.add(shape)
        columns = ", ".join(
            f"{literal(value, refused.schema.field(name).type)} AS {name}" for name, value in row.items()
        )
        try:
            answer = spark.sql(f"SELECT {expression.text} AS r FROM (SELECT {columns})").collect()
            wrong.append(f"{expression.text} of {row}: refused, Spark {answer}")
        except PySparkException as error:
            if not (error.getSqlState() or "").startswith("22"):  # not a data exception of the SQL standard
                raise
    assert not wrong, "\n".join(wrong)
    assert len(asked) >= least


def literal(value: Any, type: pa.DataType) -> str:
    name = str(type)
    if name == "string":
        return "'" + value.replace("'", "''") + "'"
    if pa.types.is_temporal(type):
        return f"{SQL[name]}'{str(value).removesuffix('+00:00')}'"
    return f"CAST('{value}' AS {SQL.get(name, name.replace('128', ''))})"


def test_case_is_mapped_as_in_spark_for_every_character(spark: SparkSession) -> None:
    """Also behind a letter and before one, where the final sigma has another form."""
    characters = [chr(c) for c in range(0x20, 0x20000) if not 0xD800 <= c <= 0xDFFF]
    table = pa.table({"s": characters + [text for c in characters if c.isalpha() for text in (f"a{c}", f"{c}a")]})
    answers = in_spark(spark, table).selectExpr("s", "upper(s) AS u", "lower(s) AS l").toArrow()
    upper, lower = (Expression.of(text, table.schema).evaluate(answers) for text in ("upper(s)", "lower(s)"))
    rows = zip(answers["s"].to_pylist(), upper.to_pylist(), answers["u"].to_pylist(), strict=True)
    assert [(s, a, b) for s, a, b in rows if a != b] == []
    rows = zip(answers["s"].to_pylist(), lower.to_pylist(), answers["l"].to_pylist(), strict=True)
    assert [(s, a, b) for s, a, b in rows if a != b] == []


def test_many_doubles_are_rounded_and_cast_as_in_spark(spark: SparkSession) -> None:
    drawn = np.random.default_rng(7)
    short = np.round(drawn.uniform(-1000, 1000, 20_000), 3)  # every tenth is a tie at two digits
    wide = drawn.uniform(-1, 1, 20_000) * 10.0 ** drawn.integers(-8, 18, 20_000)
    wide = wide[np.abs(wide) < 2.0**53]  # the digits that Java prints for larger ones depend on its version
    table = pa.table({"d": np.concatenate([short, wide, drawn.integers(0, 2**53, 5000) / 8])})
    texts = [f"{name}(d, {digits})" for name in ("round", "bround") for digits in range(-3, 7)]
    texts += [
        "cast(d AS float)",
        "cast(d AS bigint)",
        "d % 0.1D",
        "pmod(d, 7.3D)",
        "floor(d)",
        "round(cast(d AS float), 2)",
    ]
    answers = in_spark(spark, table).selectExpr("d", *(f"{text} AS r_{k}" for k, text in enumerate(texts))).toArrow()
    for k, text in enumerate(texts):
        ours = Expression.of(text, table.schema).evaluate(answers)
        differ = np.asarray(ours) != answers[f"r_{k}"].to_numpy()
        assert not differ.any(), (text, answers["d"].to_numpy()[differ][:5], np.asarray(ours)[differ][:5])
