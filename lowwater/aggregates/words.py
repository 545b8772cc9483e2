"""Exact integer totals in two words: total = high * 2**32 + low, 0 <= low < 2**32, both int64.

A total of int64 values may not fit into int64. Even if it does, a sum of some of the values may not: with a single
word, [max, 1] + [-1] would fail or not, depending on the order of additions. With two words, sums of up to 2**31 rows
are exact in any order of additions and subtractions, and overflow is checked once, on the result.

Decimals of up to 18 digits are represented by their unscaled int64. Their totals, of up to 28 digits, fit as well.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lowwater.errors import BadAggregate

Ints = npt.NDArray[np.int64]
LOW = np.int64(2**32 - 1)
DECIMAL_DIGITS = 18
"""Decimals with this many digits fit into int64."""


def unscaled(values: pa.Array) -> Ints:
    """Integers as int64, or the unscaled int64 of a decimal128. Without nulls, at most 18 digits."""
    if not pa.types.is_decimal(values.type):
        return np.asarray(values.to_numpy(zero_copy_only=False), np.int64)
    pairs = np.frombuffer(values.buffers()[1], np.int64) if len(values) else np.zeros(0, np.int64)
    return pairs[2 * values.offset : 2 * (values.offset + len(values)) : 2]


def split(values: Ints) -> tuple[Ints, Ints]:
    return values >> 32, values & LOW


def carry(high: Ints, low: Ints) -> tuple[Ints, Ints]:
    """The canonical representation with 0 <= low < 2**32, so that equal totals have equal words."""
    return high + (low >> 32), low & LOW


def nullable(values: npt.NDArray[np.generic], seen: npt.NDArray[np.bool_]) -> pa.Array:
    """Values, with null where nothing was seen. NaN stays NaN."""
    return pa.array(values, mask=None if seen.all() else ~seen, from_pandas=False)


def total_int64(n: Ints, high: Ints, low: Ints, label: str) -> pa.Array:
    """The total if n > 0, otherwise null. Raises an error if it is outside int64."""
    if np.any((high < -(2**31)) | (high >= 2**31)):
        raise BadAggregate(f"{label} exceeds the range of int64; cast the column to double.")
    return nullable((high << 32) + low, n > 0)


def total_decimal(n: Ints, high: Ints, low: Ints, type: pa.DataType) -> pa.Array:
    """The total as a decimal128 if n > 0, otherwise null."""
    return _decimal(high, low, n > 0, type)


def mean_double(n: Ints, high: Ints, low: Ints) -> pa.Array:
    """total / n, rounded once by the conversion to double and once by the division."""
    return nullable((high * 2.0**32 + low) / np.maximum(n, 1), n > 0)


def mean_decimal(n: Ints, high: Ints, low: Ints, type: pa.DataType) -> pa.Array:
    """total / n with four more digits after the point, rounded half away from zero as in Spark's avg.

    Long division by words: total = quotient * n + rest, 0 <= rest < n <= 2**31, so no step leaves int64.
    """
    count = np.maximum(n, 1)
    upper, rest = np.divmod(high, count)
    lower, rest = np.divmod((rest << 32) + low, count)
    twice = 2 * 10_000 * rest  # the fraction is rest / n in [0, 1): a tie goes up from zero, thus down for negatives
    digits = np.where(high < 0, -((count - twice) // (2 * count)), (twice + count) // (2 * count))
    quotient_high, quotient_low = carry(upper, lower)
    return _decimal(*carry(quotient_high * 10_000, quotient_low * 10_000 + digits), n > 0, type)


def decimal_of(digits: Ints, type: pa.DataType) -> pa.Array:
    """The inverse of `unscaled`, without nulls."""
    return _decimal(*split(digits), np.ones(len(digits), np.bool_), type)


def _decimal(high: Ints, low: Ints, seen: npt.NDArray[np.bool_], type: pa.DataType) -> pa.Array:
    """Words as decimal128: two's complement, little-endian. The two words form the lower half, the sign the upper."""
    pairs = np.stack([(high << 32) | low, high >> 32], axis=1)
    validity = None if seen.all() else pa.py_buffer(np.packbits(seen, bitorder="little"))
    return pa.Array.from_buffers(type, len(high), [validity, pa.py_buffer(np.ascontiguousarray(pairs))])
