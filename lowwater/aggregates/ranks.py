"""Order statistics over ranges of an integer sequence: a wavelet matrix, answered while it is built.

Questions about code[lo:hi], many at once, each O(log max(code)) after O(n log max(code)) for the matrix:

    kth(code, lo, hi, k)          the k-th smallest, k = 0 is the minimum
    count_below(code, lo, hi, x)  how many are smaller than x

Level by level from the highest bit, the sequence is parted stably into codes with bit 0 and then codes with bit 1. A
range stays a range on either side: its zeros are at zeros_before[lo] .. zeros_before[hi], its ones follow all zeros.
A query walks down one side per level. As all queries walk together, a level is forgotten once they have passed it:
memory is O(n + q), not O(n log n).

Claude, Navarro, Ordonez: The wavelet matrix (2015).

>>> import numpy as np
>>> code, lo, hi = np.array([3, 0, 2, 2]), np.array([0, 1]), np.array([3, 4])
>>> kth(code, lo, hi, np.array([1, 2]))
array([2, 2])
>>> count_below(code, lo, hi, np.array([3, 2]))
array([2, 1])
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Positions = npt.NDArray[Any]


def kth(code: Ints, lo: Positions, hi: Positions, k: Ints) -> Ints:
    """The k-th smallest of code[lo:hi], 0 <= k < hi - lo.

    If the range has more than k zeros at this bit, the answer is among them; otherwise its bit is 1 and the zeros are
    smaller, so they are counted off k.
    """
    lo, hi, k = _positions(code, lo), _positions(code, hi), k.astype(np.int64)
    out = np.zeros(len(lo), np.int64)
    for bit, zeros_before, zeros in _levels(code, int(code.max(initial=0)).bit_length()):
        lo_zeros, hi_zeros = zeros_before[lo], zeros_before[hi]
        inside = hi_zeros - lo_zeros
        one = k >= inside
        out |= one.astype(np.int64) << bit
        k -= np.where(one, inside, 0)
        lo = np.where(one, zeros + lo - lo_zeros, lo_zeros)
        hi = np.where(one, zeros + hi - hi_zeros, hi_zeros)
    return out


def count_below(code: Ints, lo: Positions, hi: Positions, x: Ints) -> Ints:
    """How many of code[lo:hi] are smaller than x.

    Follow the bits of x: where x has a 1, the range's zeros agree with x above this bit and are smaller at it.
    """
    lo, hi = _positions(code, lo), _positions(code, hi)
    out = np.zeros(len(lo), np.int64)
    for bit, zeros_before, zeros in _levels(code, max(int(code.max(initial=0)), int(x.max(initial=0))).bit_length()):
        lo_zeros, hi_zeros = zeros_before[lo], zeros_before[hi]
        one = (x >> bit) & 1 == 1
        out += np.where(one, hi_zeros - lo_zeros, 0)
        lo = np.where(one, zeros + lo - lo_zeros, lo_zeros)
        hi = np.where(one, zeros + hi - hi_zeros, hi_zeros)
    return out


def _levels(code: Ints, bits: int) -> Iterator[tuple[int, Positions, int]]:
    """(bit, zeros_before, zeros): zeros_before[i] codes among the first i of this level have bit 0."""
    for bit in range(bits - 1, -1, -1):
        zero = (code >> bit) & 1 == 0
        zeros_before = np.zeros(len(code) + 1, _width(code))
        np.cumsum(zero, out=zeros_before[1:])
        yield bit, zeros_before, int(zeros_before[-1])
        code = np.concatenate([code[zero], code[~zero]])


def _width(code: Ints) -> type[np.signedinteger[Any]]:
    """Half the memory where it suffices: the look-ups are random, so what fits into the cache decides."""
    return np.int32 if len(code) < 2**31 - 1 else np.int64


def _positions(code: Ints, at: Positions) -> Positions:
    return at.astype(_width(code))
