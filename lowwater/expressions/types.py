"""Spark's types in Arrow, the common type of two operands, and the results of decimal arithmetic (ANSI rules).

>>> wider(pa.int32(), pa.int64()), wider(pa.int32(), pa.float32()), wider(pa.string(), pa.int8())
(DataType(int64), DataType(double), DataType(int64))
>>> spark_name(pa.decimal128(5, 2)), spark_name(pa.timestamp("us"))
('decimal(5,2)', 'timestamp_ntz')
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce

import pyarrow as pa

from lowwater.expressions.errors import Mismatch, OutsideSubset

INTEGERS = (pa.int8(), pa.int16(), pa.int32(), pa.int64())
DIGITS = {pa.int8(): 3, pa.int16(): 5, pa.int32(): 10, pa.int64(): 20}
NUMBERS = (*INTEGERS, pa.float32(), pa.float64())
MOST_DIGITS = 38
NTZ = pa.timestamp("us")

NAMES = {
    pa.bool_(): "boolean",
    pa.int8(): "tinyint",
    pa.int16(): "smallint",
    pa.int32(): "int",
    pa.int64(): "bigint",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.string(): "string",
    pa.binary(): "binary",
    pa.date32(): "date",
    pa.null(): "void",
    NTZ: "timestamp_ntz",
}

STORED = {
    pa.uint8(): pa.int16(),
    pa.uint16(): pa.int32(),
    pa.uint32(): pa.int64(),
    pa.large_string(): pa.string(),
    pa.string_view(): pa.string(),
    pa.large_binary(): pa.binary(),
    pa.binary_view(): pa.binary(),
    pa.date64(): pa.date32(),
}


def canonical(type: pa.DataType, timezone: str) -> pa.DataType:
    """Spark's type for an Arrow type, or the Arrow type itself if the subset has none."""
    if pa.types.is_dictionary(type):
        inner = canonical(type.value_type, timezone)
        return inner if inner in NAMES else type
    if pa.types.is_timestamp(type):
        return pa.timestamp("us", timezone) if type.tz is not None else NTZ
    if pa.types.is_decimal(type) and type.precision <= MOST_DIGITS and type.scale >= 0:
        return pa.decimal128(type.precision, type.scale)
    return STORED.get(type, type)


def zone_of(schema: pa.Schema) -> str:
    """The time zone of the session, from a schema: Spark writes it into the types of timestamps."""
    return next((field.type.tz for field in schema if is_instant(field.type)), "UTC")


def spark_name(type: pa.DataType) -> str:
    if is_decimal(type):
        return f"decimal({type.precision},{type.scale})"
    if is_instant(type):
        return "timestamp"
    return NAMES.get(type, str(type))


def inside(type: pa.DataType) -> bool:
    return type in NAMES or is_decimal(type) or is_instant(type)


def is_integer(type: pa.DataType) -> bool:
    return type in INTEGERS


def is_float(type: pa.DataType) -> bool:
    return type in (pa.float32(), pa.float64())


def is_decimal(type: pa.DataType) -> bool:
    return bool(pa.types.is_decimal128(type))


def is_number(type: pa.DataType) -> bool:
    return type in NUMBERS or is_decimal(type)


def is_instant(type: pa.DataType) -> bool:
    """Whether it is Spark's `timestamp`, an instant, and not `timestamp_ntz`, a local time."""
    return bool(pa.types.is_timestamp(type)) and type.tz is not None


def is_timestamp(type: pa.DataType) -> bool:
    return bool(pa.types.is_timestamp(type))


def is_time(type: pa.DataType) -> bool:
    return type == pa.date32() or is_timestamp(type)


def as_decimal(type: pa.DataType) -> pa.DataType:
    """The decimal type that can hold every value of an integer type."""
    return type if is_decimal(type) else pa.decimal128(DIGITS[type], 0)


def exact(precision: int, scale: int, what: str) -> pa.DataType:
    if precision > MOST_DIGITS:
        raise OutsideSubset(f"{what} would need {precision} digits, which Spark rounds to {MOST_DIGITS}")
    return pa.decimal128(precision, scale)


def _decimals(a: pa.DataType, b: pa.DataType) -> pa.DataType:
    scale = max(a.scale, b.scale)
    precision = max(a.precision - a.scale, b.precision - b.scale) + scale
    return exact(precision, scale, f"The common type of {spark_name(a)} and {spark_name(b)}")


def tightest(a: pa.DataType, b: pa.DataType) -> pa.DataType | None:
    """The common type of two types, without promotion of strings."""
    if a == b:
        return a
    if pa.types.is_null(a) or pa.types.is_null(b):
        return b if pa.types.is_null(a) else a
    if a in NUMBERS and b in NUMBERS:
        wide = NUMBERS[max(NUMBERS.index(a), NUMBERS.index(b))]
        return pa.float64() if wide == pa.float32() else wide
    if is_number(a) and is_number(b):
        return pa.float64() if is_float(a) or is_float(b) else _decimals(as_decimal(a), as_decimal(b))
    if is_time(a) and is_time(b):
        return next((type for type in (a, b) if is_instant(type)), NTZ)
    return None


def promoted(a: pa.DataType, b: pa.DataType) -> pa.DataType | None:
    """The type to which a string is cast next to a type that is not a string (ANSI rules)."""
    if (a == pa.string()) == (b == pa.string()):
        return None
    other = b if a == pa.string() else a
    if is_integer(other):
        return pa.int64()
    return pa.float64() if is_number(other) else other


def wider(a: pa.DataType, b: pa.DataType) -> pa.DataType | None:
    return tightest(a, b) or promoted(a, b)


def common(types: Iterable[pa.DataType], what: str, strings: bool = True) -> pa.DataType:
    """The common type of all operands, or a refusal. Spark promotes strings only if there is no tighter type."""
    types = list(types)
    found: pa.DataType | None = reduce(
        lambda a, b: None if a is None else (wider(a, b) if strings else tightest(a, b)), types
    )
    if found is None:
        names = ", ".join(dict.fromkeys(spark_name(type) for type in types))
        raise Mismatch(f"{what} has operands of types {names}, which Spark does not bring together; cast one of them.")
    return found


def sum_type(a: pa.DataType, b: pa.DataType, what: str) -> pa.DataType:
    wide = _decimals(a, b)
    return exact(wide.precision + 1, wide.scale, what)


def product_type(a: pa.DataType, b: pa.DataType, what: str) -> pa.DataType:
    return exact(a.precision + b.precision + 1, a.scale + b.scale, what)


def quotient_type(a: pa.DataType, b: pa.DataType, what: str) -> pa.DataType:
    scale = max(6, a.scale + b.precision + 1)
    return exact(a.precision - a.scale + b.scale + scale, scale, what)
