"""Order statistics over many ranges at once.

    smallest(key, lo, hi, of, k)  the k-th smallest key of range number `of`, for any keys; k = 0 is the minimum
    largest(key, lo, hi, k)       the k largest keys of every range, the largest first, and their offsets
    kth(code, lo, hi, k)          the same as `smallest` for non-negative integers, in O((n + q) log max(code))

`kth` answers queries with a wavelet matrix while it is built.

Level by level from the highest bit, the sequence is partitioned stably into codes with bit 0, then codes with bit 1. A
range stays a range on both sides: its zeros are at zeros_before[lo] .. zeros_before[hi], and its ones follow all zeros.
A query follows one side per level. All queries proceed together, so a level can be discarded once they have passed it,
and memory is O(n + q) instead of O(n log n).

Claude, Navarro, Ordonez: The wavelet matrix (2015).

>>> import numpy as np
>>> code, lo, hi = np.array([3, 0, 2, 2]), np.array([0, 1]), np.array([3, 4])
>>> kth(code, lo, hi, np.array([1, 2]))
array([2, 2])
>>> smallest(np.array([0.5, -2.0, 0.25]), np.array([0, 1]), np.array([3, 3]), np.array([0, 0, 1]), np.array([0, 2, 1]))
array([-2.  ,  0.5 ,  0.25])
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from lowwater.aggregates.sorting import apart, explode, offsets, rank_each, sort_each

Ints = npt.NDArray[np.int64]
Codes = npt.NDArray[Any]
"""Non-negative integers of any width."""
Positions = npt.NDArray[Any]


FEW_TIMES = 4
"""If keys are in at most this many ranges on average, sorting the ranges is cheaper than building the matrix."""


def smallest(key: npt.NDArray[Any], lo: Ints, hi: Ints, of: Ints, k: Ints) -> npt.NDArray[Any]:
    """The k-th smallest of key[lo[of]:hi[of]], 0 <= k < hi[of] - lo[of].

    Ranges that share no key, such as windows of different groups, need no common order. Codes are ranks within sections
    that no range crosses, so the matrix has only as many levels as the largest section needs.
    """
    if int((hi - lo).sum()) <= FEW_TIMES * len(key):
        begin = offsets(hi - lo)
        return np.asarray(sort_each(key[explode(lo, hi)], begin)[begin[of] + k])
    border = apart(len(key), lo, hi)
    rank, ordered = rank_each(key, border)
    start = border[np.searchsorted(border, lo, "right") - 1]
    return np.asarray(ordered[start[of] + kth(rank, lo[of], hi[of], k)])


def largest(key: npt.NDArray[Any], lo: Ints, hi: Ints, k: int) -> tuple[npt.NDArray[Any], Ints]:
    """The k largest keys of every range, or all if it has fewer, the largest first; and the offsets of the ranges."""
    number = np.minimum(hi - lo, k)
    offset = offsets(number)
    of = np.repeat(np.arange(len(lo)), number)
    place = (hi - lo - 1)[of] - (np.arange(len(of)) - offset[of])
    return smallest(key, lo, hi, of, place), offset


def kth(code: Codes, lo: Positions, hi: Positions, k: Ints) -> Ints:
    """The k-th smallest of code[lo:hi], 0 <= k < hi - lo.

    If the range has more than k zeros at a bit, the answer is among them. Otherwise the bit of the answer is 1, and the
    zeros, which are smaller, are subtracted from k.
    """
    lo, hi, k = _positions(code, lo), _positions(code, hi), _positions(code, k)
    out = np.zeros(len(lo), np.int64)
    for bit, zeros_before, zeros in _levels(code, int(code.max(initial=0)).bit_length()):
        lo_zeros, hi_zeros = zeros_before.take(lo), zeros_before.take(hi)
        inside = hi_zeros - lo_zeros
        one = k >= inside
        out |= one.astype(np.int64) << bit
        k -= inside * one
        lo = np.where(one, lo + (zeros - lo_zeros), lo_zeros)
        hi = np.where(one, hi + (zeros - hi_zeros), hi_zeros)
    return out


def _levels(code: Codes, bits: int) -> Iterator[tuple[int, Positions, Any]]:
    """(bit, zeros_before, zeros): zeros_before[i] codes among the first i of this level have bit 0.

    Parting is most of the work: codes are as narrow as they can be, and np.compress is several times faster than a
    boolean index.
    """
    code = code.astype(np.uint16 if bits <= 16 else np.uint32 if bits <= 32 else np.int64, copy=False)
    zeros_before = np.zeros(len(code) + 1, _width(code))
    for bit in range(bits - 1, -1, -1):
        one = (code >> bit) & 1 == 1
        zero = ~one
        np.cumsum(zero, out=zeros_before[1:])
        yield bit, zeros_before, zeros_before[-1]
        if bit:
            code = np.concatenate([np.compress(zero, code), np.compress(one, code)])


def _width(code: Codes) -> type[np.signedinteger[Any]]:
    """int32 if it suffices. Look-ups are random, so a table that fits into the CPU cache is faster."""
    return np.int32 if len(code) < 2**31 - 1 else np.int64


def _positions(code: Codes, at: Positions) -> Positions:
    return at.astype(_width(code))
