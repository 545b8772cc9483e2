"""Expressions without Spark: binding, refusals, short-circuits, pickling, and what the planner reads off them."""

from __future__ import annotations

import pickle
import re
import subprocess
import sys
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lowwater as lw
from lowwater.errors import LowwaterError, UnknownColumn
from lowwater.expressions import Expression, OutsideSubset
from lowwater.expressions.functions import CASTS, FUNCTIONS, OPERATORS
from tests.spark.expression_cases import FAMILIES, listed

ROOT = Path(__file__).parent.parent
NAN = float("nan")
SCHEMA = pa.schema(
    {
        "n": pa.int64(),
        "i": pa.int32(),
        "x": pa.float64(),
        "s": pa.string(),
        "ok": pa.bool_(),
        "ts": pa.timestamp("us", "UTC"),
        "ms": pa.timestamp("ms", "UTC"),
        "clock": pa.timestamp("us"),
        "d": pa.date32(),
        "Two Words": pa.int64(),
        "l": pa.list_(pa.int64()),
        "dec": pa.decimal128(6, 2),
    }
)


def bound(text: str, timezone: str = "UTC") -> Expression:
    return Expression.of(text, SCHEMA, timezone)


def value(text: str, **row: Any) -> Any:
    """The value of an expression for one row; columns that are not given are null."""
    return bound(text).evaluate(pa.Table.from_pylist([row], schema=SCHEMA))[0].as_py()


# -- the differences from SQL as Polars reads it ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("round(2.5D)", 3.0),
        ("round(-2.5D)", -3.0),
        ("concat('a', NULL)", None),
        ("concat('a', 'b')", "ab"),
        ("\"user\" = 'user'", True),
        ("dayofweek(DATE'2024-01-07')", 1),
        ("ln(-7)", None),
        ("floor(double('NaN'))", 0),
        ("date_trunc('hour', TIMESTAMP'2024-01-01 10:59:00')", datetime(2024, 1, 1, 10, tzinfo=UTC)),
        ("to_date('2024-02-29')", date(2024, 2, 29)),
        ("unix_timestamp(TIMESTAMP'1970-01-02 00:00:00')", 86400),
        ("split('a,b,', ',')", ["a", "b", ""]),
        ("-7 div 2", -3),
    ],
)
def test_functions_mean_what_they_mean_in_spark(text: str, expected: Any) -> None:
    assert value(text) == expected


@pytest.mark.parametrize(
    ("text", "row", "cause"),
    [
        ("i + 1", {"i": 2**31 - 1}, "the result for 2147483647 and 1 is outside its type"),
        ("x / 0", {"x": 1.0}, "1.0 is divided by 0.0"),
        ("n % 0", {"n": 3}, "3 is divided by 0"),
        ("cast(s AS int)", {"s": "x"}, "'x' cannot be read as int"),
        ("cast(n AS tinyint)", {"n": 128}, "128 is outside the range of tinyint"),
    ],
)
def test_what_raises_in_spark_raises_with_the_expression_and_the_cause(
    text: str, row: dict[str, Any], cause: str
) -> None:
    with pytest.raises(
        LowwaterError, match=f"^Cannot evaluate {re.escape(repr(text))}: {re.escape(cause)}; Spark raises"
    ):
        value(text, **row)


# -- rows that are not reached ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("CASE WHEN i <> 0 THEN n / i END", [2.0, None, None]),
        ("if(i = 0, -1, n div i)", [2, -1, None]),
        ("i <> 0 AND n / i > 1", [True, False, None]),
        ("i = 0 OR n / i > 1", [True, True, None]),
        ("coalesce(n, 1 div i)", [4, 4, 5]),
        ("i + (5 div n) IS NULL", [False, False, True]),
        ("nullif(i, 0) + n / nullif(i, 0)", [4.0, None, None]),
    ],
)
def test_rows_that_are_not_reached_do_not_raise(text: str, expected: list[Any]) -> None:
    rows = pa.table({"n": [4, 4, 5], "i": pa.array([2, 0, None], pa.int32())})
    assert Expression.of(text, rows.schema).evaluate(rows).to_pylist() == expected


def test_a_branch_that_is_reached_still_raises() -> None:
    with pytest.raises(LowwaterError, match="4 is divided by 0"):
        value("CASE WHEN ok THEN n div i ELSE 0 END", ok=True, n=4, i=0)


def test_rows_outside_a_mask_are_null_and_do_not_raise() -> None:
    rows = pa.table({"s": ["1", "x"]})
    mask = pa.array([True, False]).to_numpy(zero_copy_only=False)
    assert Expression.of("cast(s AS int)", rows.schema).evaluate(rows, mask).to_pylist() == [1, None]


def test_over_tables_an_expression_after_a_filter_is_evaluated_on_kept_rows_only() -> None:
    rows = pa.table({"ts": [1, 2, 3], "s": ["7", "x", "5"]})
    stream = (
        lw.stream(rows, progress="ts", disorder=0)
        .where("s <> 'x'")
        .with_column("v", "cast(s AS bigint)")
        .where("v > 0")
    )
    assert stream.window(range=10).agg(v=lw.sum("v"), n=lw.count()).collect().select(["v", "n"]).to_pylist() == [
        {"v": 12, "n": 2}
    ]


# -- binding ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "type"),
    [
        ("i + n", pa.int64()),
        ("i / i", pa.float64()),
        ("n * 0.5", pa.decimal128(22, 1)),
        ("coalesce(i, s)", pa.int64()),
        ("d + 1", pa.date32()),
        ("d + INTERVAL 1 HOUR", pa.timestamp("us", "UTC")),
        ("greatest(d, ts)", pa.timestamp("us", "UTC")),
        ("clock + INTERVAL 1 DAY", pa.timestamp("us")),
        ("split(s, ',')", pa.list_(pa.string())),
        ("null", pa.null()),
    ],
)
def test_types_are_those_of_spark(text: str, type: pa.DataType) -> None:
    assert bound(text).type == type


def test_columns_are_found_whatever_their_case_and_named_as_the_schema_has_them() -> None:
    assert bound("N + I > 3 AND `two words` = n").columns == ("n", "i", "Two Words")
    both = pa.schema({"a": pa.int64(), "A": pa.int64(), "b": pa.int64(), "B": pa.int64()})
    assert Expression.of("A", both).columns == ("A",)
    with pytest.raises(LowwaterError, match="The name 'C' is ambiguous: it may be c, c; rename one of them"):
        Expression.of("C", pa.schema([("c", pa.int64()), ("c", pa.int32())]))


def test_an_unknown_column_is_refused() -> None:
    with pytest.raises(UnknownColumn, match="The expression names column 'zz'"):
        bound("zz > 1")


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("soundex(s)", r"The function soundex\(\): Spark evaluates it, but lowwater cannot outside Spark; see docs"),
        ("s RLIKE 'a+'", "RLIKE"),
        ("l[0]", "bracket"),
        ("l = l", r"= of list<.*: Spark evaluates it"),
        ("cast(x AS string)", "CAST from double to string: Spark evaluates it"),
        ("cast(x AS decimal(5,2))", r"CAST from double to decimal\(5,2\)"),
        ("cast(n AS array<int>)", "The type ARRAY<INT>"),
        ("try_cast(s AS int)", "trycast"),
        ("split(s, '[,]')", "split\\(\\) by the regular expression"),
        ("replace(s, s, 'x')", "replace\\(\\) with an argument that varies per row"),
        ("n IN (i, 3)", "IN\\(\\) with an argument that varies per row"),
        ("ts - ts", "'-' between timestamp and timestamp"),
        ("INTERVAL 1 DAY", "as a value"),
        ("ts + INTERVAL '1 02:03:04' DAY TO SECOND", "write a literal interval"),
        ("date_trunc('century', ts)", "date_trunc\\(\\) to 'century'"),
        ("dec % 2", "% of decimal"),
        ("cast(dec AS decimal(38,2)) * 2", "would need 40 digits"),
        ("t.n > 1", "The qualified name"),
        ("n BETWEEN SYMMETRIC 1 AND 2", "symmetric"),
        ("s LIKE 'a' ESCAPE '/'", "escape"),
        ("s = 'a\\\\n'", "A backslash"),
        ("n IN (SELECT 1)", "query"),
        ("sum(n) OVER (ORDER BY n)", "order"),
        ("n n", "alias"),
        ("current_date()", "The function current_date"),
        ("substring(s)", "substring\\(\\) with 1 arguments"),
    ],
)
def test_what_lies_outside_the_subset_is_refused_in_one_sentence(text: str, sentence: str) -> None:
    with pytest.raises(OutsideSubset, match=sentence) as error:
        bound(text)
    assert "Spark evaluates it, but lowwater cannot outside Spark; " in str(error.value)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("n >", "^Cannot read the expression 'n >': an operand is missing at line 1, column 3.$"),
        ("n + (1", "^Cannot read the expression .* at line 1, column 6.$"),
        ("", "An expression is SQL text"),
        ("ok = n", "= has operands of types boolean, bigint"),
        ("n AND ok", "AND needs a boolean, but its operand is bigint"),
        ("cast(n AS date)", "refused by Spark too"),
        ("d + n", "adds an int to a date, not a bigint"),
        ("ok = n < i", "Write parentheses"),
        ("s || n + 1", "Write parentheses"),
        ("ts + INTERVAL 1 MONTH 1 DAY", "refused by Spark too"),
        ("1e", "Cannot read the number '1e'"),
    ],
)
def test_what_spark_refuses_is_refused(text: str, sentence: str) -> None:
    with pytest.raises(LowwaterError, match=sentence) as error:
        bound(text)
    assert not isinstance(error.value, OutsideSubset)


def test_a_condition_must_be_boolean() -> None:
    assert Expression.condition("n > 3", SCHEMA).type == pa.bool_()
    with pytest.raises(LowwaterError, match=r"^A filter needs a condition, but 'n \+ 1' is bigint.$"):
        Expression.condition("n + 1", SCHEMA)


@pytest.mark.parametrize(
    "text", ["hour(ts)", "cast(ts AS date)", "ts + INTERVAL 1 DAY", "to_date(ts)", "cast(s AS timestamp)"]
)
def test_what_depends_on_another_time_zone_than_utc_is_refused(text: str) -> None:
    with pytest.raises(OutsideSubset, match="Europe/Berlin"):
        bound(text, "Europe/Berlin")


def test_what_does_not_depend_on_the_time_zone_is_evaluated_in_any() -> None:
    assert bound("ts + INTERVAL 10 MINUTES", "Europe/Berlin").shift == ("ts", 600_000_000)
    assert bound("unix_micros(ts) > 5", "Europe/Berlin").type == pa.bool_()


@pytest.mark.parametrize(
    ("type", "values", "text", "expected"),
    [
        (pa.dictionary(pa.int8(), pa.string()), ["a", "B"], "upper(v)", ["A", "B"]),
        (pa.large_string(), ["a", None], "length(v)", [1, None]),
        (pa.timestamp("ns", "UTC"), [-1, 1500], "unix_micros(v)", [-1, 1]),
        (pa.timestamp("s", "UTC"), [1, None], "unix_micros(v)", [1_000_000, None]),
        (pa.uint8(), [255, 1], "v + 1", [256, 2]),
    ],
)
def test_columns_of_types_that_spark_lacks_are_read_as_the_type_it_would_have(
    type: pa.DataType, values: list[Any], text: str, expected: list[Any]
) -> None:
    rows = pa.table({"v": pa.chunked_array([pa.array(values[:1], type), pa.array(values[1:], type)])})
    assert Expression.of(text, rows.schema).evaluate(rows).to_pylist() == expected


# -- what the planner reads off ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "shift"),
    [
        ("ts", ("ts", 0)),
        ("ts + INTERVAL 10 MINUTES", ("ts", 600_000_000)),
        ("INTERVAL '1' HOUR + ts - INTERVAL 1 MINUTE", ("ts", 3_540_000_000)),
        ("ms - INTERVAL 3 SECONDS", ("ms", -3000)),
        ("ms + INTERVAL 1 MICROSECOND", None),
        ("n - 5", ("n", -5)),
        ("5 + n", ("n", 5)),
        ("i + 5L", ("i", 5)),
        ("5 - n", None),
        ("n * 2", None),
        ("n + i", None),
        ("n + 0.5", None),
        ("n + NULL", None),
        ("d + 7", ("d", 7)),
        ("date_sub(d, 7)", ("d", -7)),
        ("ts + INTERVAL 1 MONTH", None),
        ("cast(ts AS date)", None),
    ],
)
def test_a_column_and_a_constant_are_seen_as_a_shift(text: str, shift: tuple[str, int] | None) -> None:
    assert bound(text).shift == shift


def test_the_greatest_and_least_of_plain_columns_are_seen() -> None:
    assert bound("greatest(n, `Two Words`)").extreme == ("greatest", ("n", "Two Words"))
    assert bound("LEAST(ts, ts)").extreme == ("least", ("ts", "ts"))
    assert bound("greatest(n, i)").extreme is None, "i is cast first"
    assert bound("greatest(n, 3)").extreme is None
    assert bound("n").extreme is None


def test_a_plain_column_is_seen() -> None:
    assert bound("(N)").renames == "n"
    assert bound("n + 0").renames is None


# -- travelling -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("family", FAMILIES)
def test_every_expression_pickles(family: str) -> None:
    rows, cases = FAMILIES[family]
    table = rows()
    for text in listed(cases):
        expression = Expression.of(text, table.schema)
        again = pickle.loads(pickle.dumps(expression))
        assert again == expression or "nan" in repr(expression)
        assert repr(again) == repr(expression)
        assert again.evaluate(table.slice(0, 0)).type == expression.type


def test_a_worker_evaluates_without_loading_the_parser() -> None:
    rows = pa.table({"n": [1, 2], "s": ["a", "b"]})
    packed = pickle.dumps((Expression.of("n > 1 AND upper(s) = 'B'", rows.schema), rows))
    program = (
        "import pickle, sys\ne, rows = pickle.loads(sys.stdin.buffer.read())\n"
        "print(e.evaluate(rows).to_pylist(), 'sqlglot' in sys.modules, 'polars' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, input=packed, capture_output=True, check=True)
    assert done.stdout.decode().strip() == "[False, True] False False"


# -- the list ---------------------------------------------------------------------------------------------------------


def test_every_function_is_compared_with_spark() -> None:
    text = "\n".join(cases.lower() for _, cases in FAMILIES.values())
    assert [name for name in (*FUNCTIONS, *CASTS) if name + "(" not in text and f" as {name})" not in text] == []
    spelled = {"unary -": "- i", "<": "d < e", ">": "d > e", "-": "i - j"}
    assert [name for name in OPERATORS if f" {spelled.get(name, name).lower()} " not in f" {text} "] == []


def test_the_page_lists_exactly_the_subset() -> None:
    page = (ROOT / "docs" / "expressions.md").read_text()
    rows = re.findall(r"^\|[^|]*\| (`.*) \|", page, re.MULTILINE)
    listed = [name.replace("\\|", "|") for row in rows for name in re.findall(r"`([^`]+)`", row)]
    assert sorted(listed) == sorted([*OPERATORS, *FUNCTIONS])
