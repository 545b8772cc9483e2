"""Sorts many short segments at once, and arranges rows by group.

    order_of(key, stop)       a stable argsort of integers
    by_group(group, n)        the positions of the rows of each group
    parted(rows, part, n)     a table split into n parts
    sort_each(key, offset)    key[offset[i]:offset[i+1]] sorted, for every i
    rank_each(key, offset)    the rank of every key in its segment, and the sorted keys
    explode(lo, hi)           the positions lo, lo+1, .. hi-1 of every range, one range after the other
    last_of_each(offset, k)   the positions of the last k rows of every segment
    backwards(offset)         the positions of every segment in reverse order
    apart(n, lo, hi)          positions at which segments can be cut without cutting a range

NumPy sorts plain numbers with vector instructions, and sorting along the rows of a matrix needs no code for the segment
of each key. So short segments of similar length become the rows of a matrix, padded with a key that sorts last. Lengths
are grouped by powers of two, so less than half of the matrix is padding. Long segments are sorted one by one, in place.

>>> import numpy as np
>>> order, offset = by_group(np.array([1, 0, 1, 1]), 2)
>>> order.tolist(), offset.tolist()
([1, 0, 2, 3], [0, 1, 4])
>>> sort_each(np.array([5, 3, 9, 1]), offset).tolist(), rank_each(np.array([5, 3, 9, 1]), offset)[0].tolist()
([5, 1, 3, 9], [0, 1, 2, 0])
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Ints = npt.NDArray[np.int64]
Key = npt.NDArray[Any]
Mask = npt.NDArray[np.bool_]

_PIECE = 1 << 28
"""Approximate bytes of a table that are sorted at once."""
LONG = 1 << 10
"""The number of keys from which a segment is sorted by a separate call."""
_FEW = 4
"""The number of distinct keys up to which one pass per key costs less than a sort."""
TILE = 1 << 16
"""Approximate number of keys in one matrix, so that it stays in the CPU cache."""


def offsets(lengths: npt.NDArray[Any]) -> Ints:
    """The offset of each list in the flattened values, and the end of the last list: running totals from 0."""
    out = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=out[1:])
    return out


def order_of(key: Ints, stop: int) -> Ints:
    """The stable order of integers 0 <= key < stop.

    A few distinct keys are collected one by one, and keys of 16 bits are sorted by radix sort. Otherwise key and row
    number are packed into one integer if they fit, which sorts several times faster than an argsort.
    """
    rows = np.arange(len(key))
    if len(key) < 2 or bool((key[1:] >= key[:-1]).all()):
        return rows
    if stop <= _FEW:
        return np.concatenate([np.flatnonzero(key == value) for value in range(stop)])
    if stop <= 1 << 16:
        return np.argsort(key.astype(np.uint16), kind="stable")
    bits = (len(key) - 1).bit_length()
    if stop.bit_length() + bits > 63:
        return np.argsort(key, kind="stable")
    return np.asarray(np.sort((key << bits) | rows) & ((1 << bits) - 1), np.int64)


def by_group(group: npt.NDArray[np.intp], n: int) -> tuple[Ints, Ints]:
    """(order, offset): the rows of group g are order[offset[g]:offset[g+1]], in their original order."""
    return order_of(group, n), offsets(np.bincount(group, minlength=n))


def parted(rows: pa.Table, part: Ints, n: int) -> list[pa.Table]:
    """The rows of each part 0..n-1, in their original order, from one sort.

    Large tables are sorted in pieces, because text of 2 GB and more does not fit into one Arrow array.

    >>> [table["v"].to_pylist() for table in parted(pa.table({"v": [7, 8, 9]}), np.array([2, 0, 2]), 3)]
    [[8], [], [7, 9]]
    """
    if n == 1:
        return [rows]
    step = max(1, _PIECE * rows.num_rows // max(1, rows.nbytes))
    found: list[list[pa.Table]] = [[] for _ in range(n)]
    for at in range(0, max(1, rows.num_rows), step):
        order, offset = by_group(part[at : at + step], n)
        piece = rows.slice(at, step).take(pa.array(order))
        for tables, first, stop in zip(found, offset[:-1].tolist(), offset[1:].tolist(), strict=True):
            tables.append(piece.slice(first, stop - first))
    return [pa.concat_tables(tables) for tables in found]


def sort_each(key: Key, offset: Ints) -> Key:
    """The keys with every segment key[offset[i]:offset[i+1]] sorted."""
    out = key.copy()
    for first, stop in _long(offset):
        out[first:stop].sort()
    for at, inside in _tiles(offset):
        matrix = _filled(key, at, inside)
        matrix.sort(axis=1)
        out[_only(at, inside)] = _only(matrix, inside)
    return out


def rank_each(key: Key, offset: Ints) -> tuple[npt.NDArray[np.int32], Key]:
    """(rank, ordered): ordered[offset[i] + rank[j]] is key[j], for j in segment i. Equal keys have different ranks."""
    rank, out = np.zeros(len(key), np.int32), key.copy()
    for first, stop in _long(offset):
        order = key[first:stop].argsort()
        rank[first:stop][order] = np.arange(stop - first, dtype=np.int32)
        out[first:stop] = key[first:stop][order]
    kind: Literal["stable"] | None = (
        "stable" if _has_last(key) else None
    )  # padding is at the end of a row and must stay behind keys that are equal to it
    for at, inside in _tiles(offset):
        matrix = _filled(key, at, inside)
        rows, width = matrix.shape
        order = matrix.argsort(axis=1, kind=kind) + (np.arange(rows) * width)[:, None]
        places = np.empty(rows * width, np.int32)
        places[order.ravel()] = np.tile(np.arange(width, dtype=np.int32), rows)
        where = _only(at, inside)
        rank[where] = _only(places, inside)
        out[where] = _only(matrix.ravel()[order], inside)
    return rank, out


def explode(lo: npt.NDArray[np.integer[Any]], hi: npt.NDArray[np.integer[Any]]) -> Ints:
    length = hi - lo
    begin = np.cumsum(length) - length
    return np.asarray(np.arange(int(length.sum())) + np.repeat(lo - begin, length), np.int64)


def last_of_each(offset: Ints, k: int) -> tuple[Ints, Ints]:
    """The positions of the last k rows of every segment, or of all if it has fewer, and the offsets of these rows."""
    first = np.maximum(offset[:-1], offset[1:] - k)
    return explode(first, offset[1:]), offsets(offset[1:] - first)


def backwards(offset: Ints) -> Ints:
    """The positions of all rows, those of every segment in reverse order."""
    return np.asarray(np.repeat(offset[:-1] + offset[1:] - 1, np.diff(offset)) - np.arange(offset[-1]), np.int64)


def apart(n: int, lo: Ints, hi: Ints) -> Ints:
    """The positions that no range lo <= i < hi spans, with 0 and n: the borders of independent sections.

    Windows of different groups share no rows, so their sections can be sorted separately.
    """
    across = np.zeros(n + 1, np.int64)
    filled = lo < hi
    np.add.at(across, lo[filled] + 1, 1)
    np.add.at(across, hi[filled], -1)
    inner = np.flatnonzero(np.cumsum(across)[1:n] == 0) + 1
    return np.concatenate([[0], inner, [n]])


def _long(offset: Ints) -> Iterator[tuple[int, int]]:
    long = np.flatnonzero(np.diff(offset) >= LONG)
    return zip(offset[long].tolist(), offset[long + 1].tolist(), strict=True)


def _tiles(offset: Ints) -> Iterator[tuple[Ints, Mask]]:
    """(at, inside): positions of short segments of similar length, one segment per row, and a mask of real positions.

    Segments with a single key need no sorting and are left out.
    """
    length = np.diff(offset)
    scale = np.frexp(np.maximum(length - 1, 0))[1]
    for j in range(1, LONG.bit_length()):
        alike = np.flatnonzero((scale == j) & (length > 1) & (length < LONG))
        step = TILE >> j
        for first in range(0, len(alike), step):
            some = alike[first : first + step]
            column = np.arange(int(length[some].max()))
            yield offset[some][:, None] + column, column < length[some][:, None]


def _filled(key: Key, at: Ints, inside: Mask) -> Key:
    matrix = key.take(at, mode="clip")
    if not inside.all():
        np.putmask(matrix, ~inside, _last(key))
    return matrix


def _only(matrix: Key, inside: Mask) -> Key:
    """matrix[inside], but several times faster than a boolean index."""
    return np.compress(inside.ravel(), matrix.ravel())


def _last(key: Key) -> Any:
    """The key that sorts last. NumPy sorts NaN after all numbers."""
    return np.nan if key.dtype.kind == "f" else np.iinfo(key.dtype).max


def _has_last(key: Key) -> bool:
    return bool((np.isnan(key) if key.dtype.kind == "f" else key == _last(key)).any())
