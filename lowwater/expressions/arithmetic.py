"""Arithmetic on numbers as Spark computes it in ANSI mode: overflow and division by zero raise, `round` is HALF_UP.

Integers keep their type. Java's rules hold for the rest: a remainder has the sign of the dividend, `floor` of NaN is 0,
the logarithm of a number that is not positive is null.

>>> round_half_up(0, pa.array([2.5, -2.5, 2.675])).to_pylist(), round_half_up(2, pa.array([2.675])).to_pylist()
([3.0, -3.0, 3.0], [2.68])
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import ROUND_HALF_EVEN, ROUND_HALF_UP, Decimal
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lowwater.expressions.kernels import Mask, numbers, raising, refuse, with_nulls

OVERFLOW = "the result for {} and {} is outside its type"
NEGATED = "the result for {} is outside its type"
BY_ZERO = "{} is divided by {}"
Values = npt.NDArray[Any]


def _computed(operation: str, a: pa.Array, b: pa.Array) -> tuple[Values, Mask]:
    """The result modulo the integer size, and a mask of overflows."""
    x, y = numbers(a), numbers(b)
    with np.errstate(all="ignore"):
        found: Values = {"add": np.add, "subtract": np.subtract, "multiply": np.multiply}[operation](x, y)
        if x.dtype.kind == "f":
            return found, np.zeros(len(x), np.bool_)
        if operation == "add":
            return found, ((x ^ found) & (y ^ found)) < 0
        if operation == "subtract":
            return found, ((x ^ y) & (x ^ found)) < 0
        if x.dtype.itemsize < 8:
            return found, x.astype(np.int64) * y.astype(np.int64) != found
        large = np.abs(x.astype(np.float64)) * np.abs(y.astype(np.float64)) > 2.0**62
        wrong = np.zeros(len(x), np.bool_)
        at = np.flatnonzero(large)  # computed exactly only where the floating-point estimate cannot decide
        exact = x[at].astype(object) * y[at].astype(object)
        wrong[at] = (exact > 2**63 - 1) | (exact < -(2**63))
        return found, wrong


@raising
def arithmetic(operation: str, a: pa.Array, b: pa.Array) -> pa.Array:
    """Adds, subtracts or multiplies two arrays of one type."""
    found, wrong = _computed(operation, a, b)
    refuse(wrong, (a, b), OVERFLOW)
    return pa.array(found, a.type)


def try_arithmetic(operation: str, a: pa.Array, b: pa.Array) -> pa.Array:
    found, wrong = _computed(operation, a, b)
    return with_nulls(pa.array(found, a.type), wrong)


def _quotient(a: pa.Array, b: pa.Array) -> pa.Array:
    with np.errstate(all="ignore"):
        return pa.array(numbers(a) / numbers(b, 1))


@raising
def divide(a: pa.Array, b: pa.Array) -> pa.Array:
    refuse(numbers(b, 1) == 0, (a, b), BY_ZERO)
    return _quotient(a, b)


def try_divide(a: pa.Array, b: pa.Array) -> pa.Array:
    return with_nulls(_quotient(a, b), numbers(b, 1) == 0)


@raising
def integral_divide(a: pa.Array, b: pa.Array) -> pa.Array:
    """`div`: the quotient of two bigints, truncated towards zero."""
    x, y = numbers(a), numbers(b, 1)
    refuse(y == 0, (a, b), BY_ZERO)
    y = np.where(y == 0, 1, y)
    refuse((x == np.iinfo(np.int64).min) & (y == -1), (a, b), OVERFLOW)
    return pa.array(_truncated(x, y))


def _truncated(x: Values, y: Values) -> Values:
    with np.errstate(all="ignore"):
        found: Values = x // y
        return np.asarray(found + ((found * y != x) & ((x < 0) != (y < 0))))


def _remainder(x: Values, y: Values) -> Values:
    with np.errstate(all="ignore"):
        return np.fmod(x, np.where(y == 0, 1, y)).astype(x.dtype)


@raising
def remainder(a: pa.Array, b: pa.Array) -> pa.Array:
    """`%` with the sign of the dividend."""
    x, y = numbers(a), numbers(b, 1)
    refuse(y == 0, (a, b), BY_ZERO)
    if x.dtype.kind == "i":
        y = np.where(y == -1, 1, y)  # the smallest integer % -1 traps in the processor; the result is 0 for both
    return pa.array(_remainder(x, y), a.type)


@raising
def positive_remainder(a: pa.Array, b: pa.Array) -> pa.Array:
    """`pmod`: r = a % b, and where r < 0, (r + b) % b, in the arithmetic of Java."""
    x, y = numbers(a), numbers(b, 1)
    refuse(y == 0, (a, b), BY_ZERO)
    safe = np.where(y == -1, 1, y) if x.dtype.kind == "i" else y
    r = _remainder(x, safe)
    with np.errstate(all="ignore"):
        if x.dtype.kind == "i" and x.dtype.itemsize < 4:  # Java adds bytes and shorts as ints
            again = _remainder(r.astype(np.int32) + y, safe.astype(np.int32)).astype(x.dtype)
        else:
            again = _remainder((r + y).astype(x.dtype), safe)
    return pa.array(np.where(r < 0, again, r), a.type)


@raising
def negative(a: pa.Array) -> pa.Array:
    x = numbers(a)
    if x.dtype.kind == "i":
        refuse(x == np.iinfo(x.dtype).min, (a,), NEGATED)
    with np.errstate(all="ignore"):
        return pa.array(-x, a.type)


@raising
def absolute(a: pa.Array) -> pa.Array:
    x = numbers(a)
    if x.dtype.kind == "i":
        refuse(x == np.iinfo(x.dtype).min, (a,), NEGATED)
    with np.errstate(all="ignore"):
        return pa.array(np.abs(x), a.type)


def sign(a: pa.Array) -> pa.Array:
    x = numbers(a)
    return pa.array(np.where(x == 0, x, np.sign(x)))


def java_long(x: Values) -> Values:
    """Doubles as longs, cast as in Java: NaN is 0, and values out of range become the nearest bound."""
    with np.errstate(all="ignore"):
        found = np.where(np.abs(x) < 2.0**63, x, 0).astype(np.int64)
    found = np.where(x >= 2.0**63, np.iinfo(np.int64).max, found)
    return np.where(x <= -(2.0**63), np.iinfo(np.int64).min, found)


@raising
def floor(a: pa.Array) -> pa.Array:
    return _whole(np.floor(numbers(a)), a)


@raising
def ceil(a: pa.Array) -> pa.Array:
    return _whole(np.ceil(numbers(a)), a)


def _whole(x: Values, a: pa.Array) -> pa.Array:
    refuse((x >= 2.0**63) | (x < -(2.0**63)), (a,), NEGATED)
    return pa.array(java_long(x))


def of_doubles(function: Callable[[Values], Values], a: pa.Array) -> pa.Array:
    with np.errstate(all="ignore"):
        return pa.array(function(numbers(a)))


def ln(a: pa.Array) -> pa.Array:
    x = numbers(a, 1)
    with np.errstate(all="ignore"):
        return with_nulls(pa.array(np.log(x)), x <= 0)


def log(base: pa.Array, a: pa.Array) -> pa.Array:
    b, x = numbers(base, 1), numbers(a, 1)
    with np.errstate(all="ignore"):
        return with_nulls(pa.array(np.log(x) / np.log(b)), (x <= 0) | (b <= 0))


def power(a: pa.Array, b: pa.Array) -> pa.Array:
    x, y = numbers(a), numbers(b)
    with np.errstate(all="ignore"):
        found = np.power(x, y)
    undefined = np.isnan(y) | (np.isinf(y) & (np.abs(x) == 1))  # 1 in C, NaN in Java
    return pa.array(np.where(undefined, np.nan, found))


def round_half_up(digits: int, a: pa.Array) -> pa.Array:
    return _rounded(a, digits, False)


def round_half_even(digits: int, a: pa.Array) -> pa.Array:
    return _rounded(a, digits, True)


def _rounded(a: pa.Array, digits: int, even: bool) -> pa.Array:
    """Rounds the decimal that Java prints for a double, as Java does: 2.675 is a tie at two digits.

    A tie (j - 1/2) / 10^digits of at most 15 digits is the printed form of the double nearest to it and of no other, so
    one comparison of doubles decides. The few numbers that are too long for that go one by one.
    """
    x = numbers(a).astype(np.float64)
    size = np.abs(x)
    if not -22 < digits < 22:
        return pa.array(_one_by_one(x, digits, even), a.type)
    with np.errstate(all="ignore"):
        scaled = size * 10.0**digits if digits >= 0 else size / 10.0**-digits
        j = np.floor(scaled + 0.5)
        down = size < _tie(j, digits)
        j = np.where(down, j - 1, j)
        up = size >= _tie(j + 1, digits)
        j = np.where(up, j + 1, j)
        if even:
            j = np.where((size == _tie(j, digits)) & (j % 2 == 1), j - 1, j)
        found = np.copysign(j / 10.0**digits if digits >= 0 else j * 10.0**-digits, x)
    found = np.where(found == 0, 0.0, found)  # BigDecimal has no negative zero
    found = np.where(np.isfinite(x), found, x)
    long = np.isfinite(x) & (scaled >= 2.0**48)
    whole = long & (size >= 2.0**53) & (digits >= 0)
    found = np.where(whole, x, found)
    rest = np.flatnonzero(long & ~whole)
    found[rest] = _one_by_one(x[rest], digits, even)
    return pa.array(found.astype(a.type.to_pandas_dtype()), a.type)


def _tie(j: Values, digits: int) -> Values:
    tie = (2 * j - 1) * 5
    return tie / 10.0 ** (digits + 1) if digits >= -1 else tie * 10.0 ** (-digits - 1)


def _one_by_one(x: Values, digits: int, even: bool) -> Values:
    how = ROUND_HALF_EVEN if even else ROUND_HALF_UP
    step = Decimal(1).scaleb(-digits)
    found = [v if not np.isfinite(v) else _decimal_rounded(float(v), step, how) for v in x]
    return np.array(found, np.float64)


def _decimal_rounded(value: float, step: Decimal, how: str) -> float:
    exact = Decimal(repr(value))
    if exact.adjusted() - step.adjusted() > 40 or exact.as_tuple().exponent >= step.adjusted():  # type: ignore[operator]
        return value
    return float((exact / step).quantize(Decimal(1), how) * step) + 0.0


@raising
def round_integer(digits: int, even: bool, a: pa.Array) -> pa.Array:
    """Rounds integers to tens, hundreds and so on; `digits` is negative."""
    x = numbers(a)
    if digits < -18:
        refuse(np.abs(x.astype(np.float64)) >= 5.0 * 10.0 ** (-digits - 1), (a,), NEGATED)
        return pa.array(np.zeros(len(x), x.dtype), a.type)
    step = 10**-digits
    wide = x.astype(np.int64)
    down = _truncated(wide, np.full_like(wide, step))
    rest = np.abs(wide - down * step)
    away = (rest * 2 > step) | ((rest * 2 == step) & ((down % 2 != 0) | (not even)))
    j = down + np.where(away, np.sign(wide), 0)
    limit = np.iinfo(x.dtype)
    refuse((j > limit.max // step) | (j < -(-limit.min // step)), (a,), NEGATED)
    return pa.array((j * step).astype(x.dtype), a.type)
