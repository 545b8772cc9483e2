"""Casts in ANSI mode: a value that does not fit the target type raises an error.

`cast` binds a cast and refuses the pairs of types that are not in the subset. Floating point to text is refused because
its digits differ between versions of Java.

>>> cast(Literal("12", pa.string()), pa.int32(), "UTC").value
12
"""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lowwater.expressions import decimals, times
from lowwater.expressions.arithmetic import java_long
from lowwater.expressions.errors import Mismatch, OutsideSubset
from lowwater.expressions.kernels import Kernel, fixed, numbers, raising, refuse
from lowwater.expressions.texts import to_boolean, to_date, to_double, to_integer, to_timestamp
from lowwater.expressions.tree import Call, Literal, Node, folded
from lowwater.expressions.types import (
    as_decimal,
    is_decimal,
    is_float,
    is_instant,
    is_integer,
    is_number,
    is_timestamp,
    spark_name,
)

FAR = "the year of day {} since 1970 does not have four digits"
UTC = frozenset({"UTC", "Etc/UTC", "GMT", "Etc/GMT", "Z", "+00:00", "Zulu", "UCT", "Universal"})


def cast(node: Node, to: pa.DataType, timezone: str) -> Node:
    """A node cast to a type, or the node itself if it already has that type."""
    if node.type == to:
        return node
    if pa.types.is_null(node.type):
        return Literal(None, to) if isinstance(node, Literal) else Call(fixed(_nulls, to), (node,), to)
    if is_instant(node.type) != is_instant(to) and (is_timestamp(to) or is_timestamp(node.type)):
        in_utc(timezone, f"CAST from {spark_name(node.type)} to {spark_name(to)}", node.type, to)
    return folded(Call(_kernel(node.type, to), (node,), to))


def in_utc(timezone: str, what: str, *types: pa.DataType) -> None:
    """Refuses an operation whose result depends on a time zone other than UTC."""
    if timezone not in UTC and any(is_instant(type) for type in types):
        raise OutsideSubset(f"{what} in the time zone {timezone!r}", "use UTC as spark.sql.session.timeZone")


def _kernel(a: pa.DataType, b: pa.DataType) -> Kernel:
    """The kernel of a cast between two types that differ."""
    if b == pa.string():
        return _to_string(a)
    if a == pa.string():
        return _from_string(b)
    if a == pa.bool_() and (is_integer(b) or is_float(b)):
        return fixed(_plain, b)
    if b == pa.bool_() and (is_integer(a) or is_float(a)):
        return _not_zero
    if is_number(a) and is_number(b):
        return _between_numbers(a, b)
    if is_timestamp(a) and b == pa.date32():
        return times.timestamp_to_date
    if a == pa.date32() and is_timestamp(b):
        return fixed(times.date_to_timestamp, b)
    if is_timestamp(a) and is_timestamp(b):
        return fixed(times.relabelled, b)
    if is_instant(a) and b == pa.int64():
        return fixed(times.to_seconds, times.SECOND)
    if is_instant(a) and b == pa.float64():
        return times.seconds
    if is_instant(b) and is_integer(a):
        return fixed(_seconds, b)
    pair = f"CAST from {spark_name(a)} to {spark_name(b)}"
    if (
        (a == pa.date32() and is_number(b))
        or (b == pa.date32() and is_number(a))
        or {a, b} == {pa.bool_(), pa.date32()}
    ):
        raise Mismatch(f"{pair} is refused by Spark too; use unix_date() or date_add() there.")
    raise OutsideSubset(pair)


def _to_string(a: pa.DataType) -> Kernel:
    if is_integer(a):
        return fixed(_plain, pa.string())
    if a == pa.bool_():
        return _boolean_text
    if is_decimal(a) and a.scale <= 6:  # Arrow prints longer fractions with an exponent
        return fixed(_plain, pa.string())
    if a == pa.date32():
        return _date_text
    if is_timestamp(a):
        return _timestamp_text
    raise OutsideSubset(f"CAST from {spark_name(a)} to string")


def _from_string(b: pa.DataType) -> Kernel:
    if is_integer(b):
        return fixed(to_integer, b)
    if is_float(b):
        return fixed(to_double, b)
    if b == pa.bool_():
        return to_boolean
    if b == pa.date32():
        return to_date
    if is_timestamp(b):
        return fixed(to_timestamp, b)
    raise OutsideSubset(f"CAST from string to {spark_name(b)}")


def _between_numbers(a: pa.DataType, b: pa.DataType) -> Kernel:
    if is_decimal(b):
        if is_float(a):
            raise OutsideSubset(f"CAST from {spark_name(a)} to {spark_name(b)}")
        whole = as_decimal(a)
        fits = b.precision - b.scale >= whole.precision - whole.scale and b.scale >= whole.scale
        return fixed(_plain_decimal, b) if fits else fixed(_decimal, b)
    if is_decimal(a):
        if is_float(b):
            return fixed(_decimal_float, b)
        return fixed(_decimal_integer, b)
    if is_float(b):
        return fixed(_floats, b)
    if is_float(a):
        return fixed(_float_integer, b)
    return fixed(_plain, b) if b.bit_width > a.bit_width else fixed(_narrowed, b)


def _nulls(type: pa.DataType, values: pa.Array) -> pa.Array:
    return pa.nulls(len(values), type)


def _plain(type: pa.DataType, values: pa.Array) -> pa.Array:
    return values.cast(type)


def _not_zero(values: pa.Array) -> pa.Array:
    return pa.array(numbers(values) != 0)


def _floats(type: pa.DataType, values: pa.Array) -> pa.Array:
    with np.errstate(all="ignore"):
        return pa.array(numbers(values).astype(type.to_pandas_dtype()), type)


@raising
def _narrowed(type: pa.DataType, values: pa.Array) -> pa.Array:
    x, limit = numbers(values), np.iinfo(type.to_pandas_dtype())
    refuse((x > limit.max) | (x < limit.min), (values,), f"{{}} is outside the range of {spark_name(type)}")
    return pa.array(x.astype(type.to_pandas_dtype()), type)


@raising
def _float_integer(type: pa.DataType, values: pa.Array) -> pa.Array:
    """Truncates; the comparison is Spark's, in doubles, which lets 2^63 pass as the largest bigint."""
    x, limit = numbers(values).astype(np.float64), np.iinfo(type.to_pandas_dtype())
    fits = (np.floor(x) <= float(limit.max)) & (np.ceil(x) >= float(limit.min))
    refuse(~fits, (values,), f"{{}} is outside the range of {spark_name(type)}")
    return pa.array(java_long(np.where(fits, x, 0)).astype(type.to_pandas_dtype()), type)


def _as_decimals(values: pa.Array) -> pa.Array:
    return values if is_decimal(values.type) else values.cast(pa.decimal128(19 if values.type == pa.int64() else 10, 0))


def _plain_decimal(type: pa.DataType, values: pa.Array) -> pa.Array:
    return _as_decimals(values).cast(type)


@raising
def _decimal(type: pa.DataType, values: pa.Array) -> pa.Array:
    return decimals.fitted(type, decimals.wide(_as_decimals(values)))


def _decimal_float(type: pa.DataType, values: pa.Array) -> pa.Array:
    if type == pa.float32() and values.type.precision > 15:
        return values.cast(pa.string()).cast(type)
    return decimals.to_double(values).cast(type, safe=False)


@raising
def _decimal_integer(type: pa.DataType, values: pa.Array) -> pa.Array:
    whole, limit = pc.trunc(decimals.wide(values)), np.iinfo(type.to_pandas_dtype())
    least, most = (pa.scalar(Decimal(int(v)), pa.decimal256(39, 0)) for v in (limit.min, limit.max))
    wrong = pc.or_(pc.greater(whole, most), pc.less(whole, least)).fill_null(False)
    refuse(np.asarray(wrong, np.bool_), (values,), f"{{}} is outside the range of {spark_name(type)}")
    return whole.cast(pa.decimal256(76, 0)).cast(type)


def _seconds(type: pa.DataType, values: pa.Array) -> pa.Array:
    """Seconds as a timestamp; values outside end at the bounds of a long."""
    count = numbers(values).astype(np.int64)
    found, wrong = times.multiplied(count, times.SECOND)
    bounds = np.iinfo(np.int64)
    return times.timestamps(np.where(wrong, np.where(count < 0, bounds.min, bounds.max), found), type)


def _boolean_text(values: pa.Array) -> pa.Array:
    return pc.if_else(values, "true", "false")


@raising
def _date_text(values: pa.Array) -> pa.Array:
    year, month, day = (pa.array(field) for field in times.civil(times.days(values)))
    refuse(np.asarray(pc.or_(pc.less(year, 0), pc.greater(year, 9999))), (values.cast(pa.int32()),), FAR)
    return pc.binary_join_element_wise(_digits(year, 4), _digits(month, 2), _digits(day, 2), "-")


def _digits(values: pa.Array, width: int) -> pa.Array:
    return pc.utf8_lpad(values.cast(pa.string()), width, "0")


@raising
def _timestamp_text(values: pa.Array) -> pa.Array:
    """`2020-02-29 12:34:56.789`: the fraction without trailing zeros, absent where it is zero."""
    at = times.micros(values)
    day = _date_text(times.dates(at // times.DAY))
    within = at % times.DAY
    clock = [within // times.UNITS["hour"], within // times.UNITS["minute"] % 60, within // times.SECOND % 60]
    shown = pc.binary_join_element_wise(*(_digits(pa.array(field), 2) for field in clock), ":")
    rest = within % times.SECOND
    fraction = pc.utf8_rtrim(_digits(pa.array(rest), 6), "0")
    parts = pc.binary_join_element_wise(day, shown, " ")
    return pc.if_else(pa.array(rest == 0), parts, pc.binary_join_element_wise(parts, fraction, "."))
