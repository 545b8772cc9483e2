"""Exact totals in words of 32 bits, the highest first: total = sum(word[i] * 2**(32 * (last - i))), all int64.

A total of int64 values may not fit into int64. Even if it does, a sum of some of the values may not: with a single
word, [max, 1] + [-1] would fail or not, depending on the order of additions. With a word more than the values have,
sums of up to 2**31 rows are exact in any order of additions and subtractions, and overflow is checked once, on the
result. In canonical form all words but the highest are in [0, 2**32), so that equal totals have equal words.

    integers, decimals of up to 18 digits    2 words: the values fit into int64
    decimals of up to 38 digits              4 words: the values fit into 128 bits, and the highest word has room
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lowwater.errors import BadAggregate

Ints = npt.NDArray[np.int64]
Words = tuple[Ints, ...]
LOW = np.int64(2**32 - 1)
DECIMAL_DIGITS = 18
"""Decimals with this many digits fit into int64."""
MOST_DIGITS = 38
"""The digits that a decimal has at most, as in Spark."""


def unscaled(values: pa.Array) -> Ints:
    """Integers as int64, or the unscaled int64 of a decimal128. Without nulls, at most 18 digits."""
    if not pa.types.is_decimal(values.type):
        return np.asarray(values.to_numpy(zero_copy_only=False), np.int64)
    return _pairs(values)[::2]


def _pairs(values: pa.Array) -> Ints:
    """The lower and the upper half of each decimal128, one after the other."""
    halves = np.frombuffer(values.buffers()[1], np.int64) if len(values) else np.zeros(0, np.int64)
    return halves[2 * values.offset : 2 * (values.offset + len(values))]


def split(values: Ints) -> Words:
    """Integers as two words."""
    return values >> 32, values & LOW


def parts(values: pa.Array) -> Words:
    """Integers, or the unscaled numbers of decimals, as words. Without nulls."""
    if not is_wide(values.type):
        return split(unscaled(values))
    pairs = _pairs(values)
    return (*split(pairs[1::2]), *((pairs[0::2] >> 32) & LOW, pairs[0::2] & LOW))


def is_wide(type: pa.DataType) -> bool:
    """Whether it is a decimal that does not fit into int64."""
    return bool(pa.types.is_decimal(type)) and type.precision > DECIMAL_DIGITS


def carry(*words: Ints) -> Words:
    """The canonical form."""
    out: list[Ints] = []
    over: Ints | int = 0
    for word in reversed(words[1:]):
        word = word + over
        out.append(word & LOW)
        over = word >> 32
    return (words[0] + over, *reversed(out))


def nullable(values: npt.NDArray[np.generic], seen: npt.NDArray[np.bool_]) -> pa.Array:
    """Values, with null where nothing was seen. NaN stays NaN."""
    return pa.array(values, mask=None if seen.all() else ~seen, from_pandas=False)


def total_int64(n: Ints, high: Ints, low: Ints, label: str) -> pa.Array:
    """The total if n > 0, otherwise null. Raises an error if it is outside int64."""
    if np.any((high < -(2**31)) | (high >= 2**31)):
        raise BadAggregate(f"{label} exceeds the range of int64; cast the column to double.")
    return nullable((high << 32) + low, n > 0)


def total_decimal(n: Ints, *words: Ints, type: pa.DataType, label: str) -> pa.Array:
    """The total as a decimal128 if n > 0, otherwise null. Raises an error if it has too many digits."""
    return _decimal(words, n > 0, type, label)


def mean_double(n: Ints, high: Ints, low: Ints) -> pa.Array:
    """total / n, rounded once by the conversion to double and once by the division."""
    return nullable((high * 2.0**32 + low) / np.maximum(n, 1), n > 0)


def mean_decimal(n: Ints, *words: Ints, total: pa.DataType, type: pa.DataType, label: str) -> pa.Array:
    """total / n as Spark's avg: rounded half away from zero, with an error where the total or the mean does not fit.

    Long division by words: the rest is below n <= 2**31, so no step leaves int64. Spark rounds the quotient to 39
    digits after the point first and then to those of the result. The first matters only if few digits are between.
    """
    _refuse_beyond(words, total, f"The total of {label}")
    negative = words[0] < 0
    count, rest = np.maximum(n, 1), np.zeros(len(n), np.int64)
    quotient: list[Ints] = []
    for word in carry(*(np.where(negative, -word, word) for word in words)):
        digit, rest = np.divmod((rest << 32) + word, count)
        quotient.append(digit)
    more = type.scale - total.scale
    digits, rest = np.divmod(rest * 10**more, count)
    between = MOST_DIGITS + 1 - type.scale
    if between < 10:  # with n <= 2**31 no other fraction is close enough to a half for the first rounding to reach it
        rest, count = (2 * rest * 10**between + count) // (2 * count), np.full(len(n), 10**between)
    digits = digits + (2 * rest >= count)
    mean = carry(*(word * 10**more for word in quotient[:-1]), quotient[-1] * 10**more + digits)
    return _decimal(carry(*(np.where(negative, -word, word) for word in mean)), n > 0, type, label)


def decimal_of(digits: Ints, type: pa.DataType) -> pa.Array:
    """The inverse of `unscaled`, without nulls."""
    return _decimal(split(digits), np.ones(len(digits), np.bool_), type, "A decimal")


def _decimal(words: Words, seen: npt.NDArray[np.bool_], type: pa.DataType, label: str) -> pa.Array:
    """Words as decimal128: two's complement, little-endian."""
    _refuse_beyond(words, type, label)
    pairs = np.stack(_halves(words)[::-1], axis=1)
    validity = None if seen.all() else pa.py_buffer(np.packbits(seen, bitorder="little"))
    return pa.Array.from_buffers(type, len(seen), [validity, pa.py_buffer(np.ascontiguousarray(pairs))])


def _halves(words: Words) -> tuple[Ints, Ints]:
    """The upper and the lower 64 bits. The sign fills the upper half of two words."""
    if len(words) == 2:
        return words[0] >> 32, (words[0] << 32) | words[1]
    return (words[0] << 32) | words[1], (words[2] << 32) | words[3]


def _refuse_beyond(words: Words, type: pa.DataType, label: str) -> None:
    """Raises an error where a total has more digits than its type, as Spark does in ANSI mode."""
    if len(words) == 2:
        return  # at most 28 digits, and the types of such totals have that many
    upper, lower = _halves(words)
    lower = lower.view(np.uint64)
    most, least = 10**type.precision, -(10**type.precision)
    high = (upper > most >> 64) | ((upper == most >> 64) & (lower >= np.uint64(most & (2**64 - 1))))
    low = (upper < least >> 64) | ((upper == least >> 64) & (lower <= np.uint64(least & (2**64 - 1))))
    if np.any(high | low | (words[0] < -(2**31)) | (words[0] >= 2**31)):
        raise BadAggregate(
            f"{label} exceeds decimal({type.precision}, {type.scale}); cast the column to double, or to a decimal with "
            "fewer digits behind the point."
        )
