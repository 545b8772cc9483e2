"""The subset: every operator and function that an expression can use, one line each, with its binder.

`docs/expressions.md` lists the same names, and `tests/spark/test_expressions.py` compares each of them with Spark.

>>> sorted(FUNCTIONS)[:3], "<=>" in OPERATORS
(['abs', 'bround', 'ceil'], True)
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from lowwater.expressions import (
    arithmetic,
    comparison,
    decimals,
    number_functions,
    string_functions,
    strings,
    time_functions,
    times,
)
from lowwater.expressions import binding as bind
from lowwater.expressions.binding import Binder, anything, booleans, doubles, ints, texts
from lowwater.expressions.kernels import fixed
from lowwater.expressions.time_functions import a_clock, a_date, field

BOOLEAN, INT, DOUBLE, STRING = pa.bool_(), pa.int32(), pa.float64(), pa.string()

OPERATORS: dict[str, Binder] = {
    "=": bind.compare("equal"),
    "<>": bind.compare("not_equal"),
    "<": bind.compare("less"),
    "<=": bind.compare("less_equal"),
    ">": bind.compare("greater"),
    ">=": bind.compare("greater_equal"),
    "<=>": bind.compare("null_safe"),
    "AND": bind.both(False),
    "OR": bind.both(True),
    "NOT": bind.of(comparison.negation, BOOLEAN, booleans),
    "IS NULL": bind.of(comparison.is_null, BOOLEAN, anything, strict=False),
    "BETWEEN": bind.between,
    "IN": bind.among,
    "LIKE": string_functions.like,
    "+": time_functions.plus("add"),
    "-": time_functions.plus("subtract"),
    "*": number_functions.add("multiply"),
    "/": number_functions.divide,
    "div": number_functions.integral,
    "%": number_functions.remainder(arithmetic.remainder),
    "unary -": number_functions.unary(arithmetic.negative, decimals.negative),
    "||": bind.each(strings.concat, STRING, texts),
}

FUNCTIONS: dict[str, Binder] = {
    # nulls, conditions
    "coalesce": bind.coalesce,
    "ifnull": bind.coalesce,
    "nvl": bind.coalesce,
    "nvl2": bind.nvl2,
    "nullif": bind.nullif,
    "nanvl": bind.nanvl,
    "if": bind.conditional,
    "isnull": bind.of(comparison.is_null, BOOLEAN, anything, strict=False),
    "isnotnull": bind.of(comparison.is_not_null, BOOLEAN, anything, strict=False),
    "isnan": bind.of(comparison.is_nan, BOOLEAN, doubles, strict=False),
    "greatest": bind.extreme("greater"),
    "least": bind.extreme("less"),
    # numbers
    "abs": number_functions.unary(arithmetic.absolute, decimals.absolute),
    "sign": bind.of(arithmetic.sign, DOUBLE, doubles),
    "signum": bind.of(arithmetic.sign, DOUBLE, doubles),
    "negative": number_functions.unary(arithmetic.negative, decimals.negative),
    "mod": number_functions.remainder(arithmetic.remainder),
    "pmod": number_functions.remainder(arithmetic.positive_remainder),
    "round": number_functions.rounding(False),
    "bround": number_functions.rounding(True),
    "floor": number_functions.whole(arithmetic.floor, decimals.floor),
    "ceil": number_functions.whole(arithmetic.ceil, decimals.ceil),
    "ceiling": number_functions.whole(arithmetic.ceil, decimals.ceil),
    "sqrt": bind.of(fixed(arithmetic.of_doubles, np.sqrt), DOUBLE, doubles),
    "exp": bind.of(fixed(arithmetic.of_doubles, np.exp), DOUBLE, doubles),
    "ln": bind.of(arithmetic.ln, DOUBLE, doubles),
    "log": number_functions.logarithm,
    "pow": bind.of(arithmetic.power, DOUBLE, doubles, doubles),
    "power": bind.of(arithmetic.power, DOUBLE, doubles, doubles),
    "try_add": number_functions.try_add("add"),
    "try_subtract": number_functions.try_add("subtract"),
    "try_multiply": number_functions.try_add("multiply"),
    "try_divide": number_functions.try_divide,
    # strings
    "concat": bind.each(strings.concat, STRING, texts),
    "concat_ws": bind.each(strings.concat_ws, STRING, texts, strict=False),
    "upper": bind.of(strings.upper, STRING, texts),
    "ucase": bind.of(strings.upper, STRING, texts),
    "lower": bind.of(strings.lower, STRING, texts),
    "lcase": bind.of(strings.lower, STRING, texts),
    "length": bind.of(strings.length, INT, texts),
    "len": bind.of(strings.length, INT, texts),
    "char_length": bind.of(strings.length, INT, texts),
    "character_length": bind.of(strings.length, INT, texts),
    "trim": bind.of(fixed(strings.trim, "trim"), STRING, texts),
    "ltrim": bind.of(fixed(strings.trim, "ltrim"), STRING, texts),
    "rtrim": bind.of(fixed(strings.trim, "rtrim"), STRING, texts),
    "substring": bind.of(strings.substring, STRING, texts, ints, ints, optional=1),
    "substr": bind.of(strings.substring, STRING, texts, ints, ints, optional=1),
    "left": bind.of(strings.left, STRING, texts, ints),
    "right": bind.of(strings.right, STRING, texts, ints),
    "replace": string_functions.replace,
    "startswith": bind.of(strings.startswith, BOOLEAN, texts, texts),
    "endswith": bind.of(strings.endswith, BOOLEAN, texts, texts),
    "contains": bind.of(strings.contains, BOOLEAN, texts, texts),
    "instr": string_functions.position,
    "locate": string_functions.position,
    "split": string_functions.split,
    # dates and timestamps
    "year": field("year", a_date),
    "quarter": field("quarter", a_date),
    "month": field("month", a_date),
    "day": field("day", a_date),
    "dayofmonth": field("day", a_date),
    "dayofyear": field("dayofyear", a_date),
    "dayofweek": field("dayofweek", a_date),
    "weekday": field("weekday", a_date),
    "hour": field("hour", a_clock),
    "minute": field("minute", a_clock),
    "second": field("second", a_clock),
    "date_trunc": time_functions.date_trunc,
    "trunc": time_functions.trunc,
    "to_date": time_functions.to_date,
    "unix_timestamp": time_functions.since_1970(times.SECOND),
    "unix_seconds": time_functions.since_1970(times.SECOND),
    "unix_millis": time_functions.since_1970(1000),
    "unix_micros": time_functions.since_1970(1),
    "timestamp_seconds": time_functions.from_1970(times.SECOND),
    "timestamp_millis": time_functions.from_1970(1000),
    "timestamp_micros": time_functions.from_1970(1),
    "date_add": time_functions.add_days(1),
    "date_sub": time_functions.add_days(-1),
    "datediff": time_functions.datediff,
    "date_diff": time_functions.datediff,
}

CASTS: dict[str, pa.DataType] = {
    "boolean": BOOLEAN,
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "int": INT,
    "bigint": pa.int64(),
    "float": pa.float32(),
    "double": DOUBLE,
    "string": STRING,
    "date": pa.date32(),
}
"""Types whose name is also a cast function, as in `double('NaN')`. `_Reader.type` handles decimals and timestamps."""

AGGREGATES = {
    *("any", "any_value", "approx_count_distinct", "approx_percentile", "array_agg", "avg", "bit_and"),
    *("bit_or", "bit_xor", "bool_and", "bool_or", "collect_list", "collect_set", "corr", "count", "count_if"),
    *("count_min_sketch", "covar_pop", "covar_samp", "every", "first", "first_value", "grouping", "kurtosis"),
    *("last", "last_value", "listagg", "max", "max_by", "mean", "median", "min", "min_by", "mode"),
    *("percentile", "percentile_approx", "product", "skewness", "some", "std", "stddev", "stddev_pop"),
    *("stddev_samp", "string_agg", "sum", "try_avg", "try_sum", "var_pop", "var_samp", "variance"),
}
"""Spark's functions over several rows. An expression over one row cannot call them."""
