"""Arithmetic on decimals, exact in up to 76 digits and then rounded HALF_UP to the type that Spark gives the result.

>>> a, b = pa.array([Decimal("10.0")]), pa.array([Decimal("3.0")])
>>> divide(pa.decimal128(8, 6), a, b).to_pylist()
[Decimal('3.333333')]
"""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lowwater.expressions.arithmetic import BY_ZERO
from lowwater.expressions.kernels import Mask, numbers, raising, refuse, with_nulls

MOST = 76


def fit(type: pa.DataType, values: pa.Array) -> tuple[pa.Array, Mask]:
    """Decimals rounded HALF_UP to a type, and a mask of those that do not fit (null in the result)."""
    values = values.cast(pa.decimal256(MOST, values.type.scale))
    if values.type.scale > type.scale:
        values = pc.round(values, ndigits=type.scale, round_mode="half_towards_infinity")
    elif values.type.scale < type.scale:
        values = values.cast(pa.decimal256(MOST, type.scale))
    bound = pa.scalar(Decimal(10) ** (type.precision - type.scale), values.type)
    large = pc.greater_equal(pc.abs(values), bound)
    wrong = np.asarray(large.fill_null(False), np.bool_)
    return with_nulls(values, wrong).cast(type), wrong


@raising
def fitted(type: pa.DataType, values: pa.Array) -> pa.Array:
    found, wrong = fit(type, values)
    refuse(wrong, (values,), f"{{}} does not fit decimal({type.precision},{type.scale})")
    return found


def wide(a: pa.Array) -> pa.Array:
    """Decimals with twice the digits, so that no intermediate result overflows."""
    return a.cast(pa.decimal256(a.type.precision, a.type.scale))


def roomy(a: pa.Array) -> pa.Array:
    """Decimals with one more digit, which rounding may need."""
    return a.cast(pa.decimal256(a.type.precision + 1, a.type.scale))


def arithmetic(operation: str, type: pa.DataType, a: pa.Array, b: pa.Array) -> pa.Array:
    """Adds, subtracts or multiplies. The type has a digit for every carry, so nothing overflows."""
    return pc.call_function(operation, [a, b]).cast(type)


def _zero(b: pa.Array) -> Mask:
    return np.asarray(pc.equal(b, pa.scalar(0, b.type)).fill_null(False), np.bool_)


@raising
def divide(type: pa.DataType, a: pa.Array, b: pa.Array) -> pa.Array:
    """The quotient in one digit more than the type has, truncated; HALF_UP looks at that digit only."""
    refuse(_zero(b), (a, b), BY_ZERO)
    over = with_nulls(b, _zero(b))
    digits = dividend_digits(type, a.type, b.type)
    decimal, most = (pa.decimal128, 38) if digits + b.type.precision + 1 <= 38 else (pa.decimal256, MOST)
    x = _read_as(decimal(digits, 0), a.cast(decimal(digits, type.scale + 1 + b.type.scale)))
    y = _read_as(decimal(b.type.precision, 0), over.cast(decimal(b.type.precision, b.type.scale)))
    whole = pc.trunc(pc.divide(x, y)).cast(decimal(most, 0))
    found = _read_as(decimal(most, type.scale + 1), whole)
    return pc.round(found, ndigits=type.scale, round_mode="half_towards_infinity").cast(type)


def dividend_digits(type: pa.DataType, a: pa.DataType, b: pa.DataType) -> int:
    """The digits of the dividend that a quotient with one more digit than its type needs."""
    return int(max(a.precision + type.scale + 1 + b.scale - a.scale, a.precision))


def _read_as(type: pa.DataType, a: pa.Array) -> pa.Array:
    """The same unscaled values under another scale."""
    return pa.Array.from_buffers(type, len(a), a.buffers(), a.null_count, a.offset)


def negative(a: pa.Array) -> pa.Array:
    return pc.negate(a)


def absolute(a: pa.Array) -> pa.Array:
    return pc.abs(a)


def floor(type: pa.DataType, a: pa.Array) -> pa.Array:
    return pc.floor(roomy(a)).cast(pa.decimal256(MOST, 0)).cast(type)


def ceil(type: pa.DataType, a: pa.Array) -> pa.Array:
    return pc.ceil(roomy(a)).cast(pa.decimal256(MOST, 0)).cast(type)


@raising
def rounded(type: pa.DataType, digits: int, mode: str, a: pa.Array) -> pa.Array:
    return fitted(type, pc.round(roomy(a), ndigits=digits, round_mode=mode))


def to_double(a: pa.Array) -> pa.Array:
    """The nearest doubles. Short decimals by one division of exact numbers, long ones by conversion through text."""
    if a.type.precision <= 15:
        plain = pa.Array.from_buffers(pa.decimal128(18, 0), len(a), a.buffers(), a.null_count, a.offset).cast(
            pa.int64()
        )
        return pa.array(numbers(plain) / 10.0**a.type.scale)
    return a.cast(pa.string()).cast(pa.float64())
