"""Sorting many short segments at once, and laying rows out by group.

    order_of(key, stop)       a stable argsort of integers
    by_group(group, n)        where the rows of each group are
    parted(rows, part, n)     a table cut into n by the part of each row
    sort_each(key, offset)    key[offset[i]:offset[i+1]] sorted, for every i
    rank_each(key, offset)    the place of every key in its own segment, and the sorted keys
    explode(lo, hi)           the positions lo, lo+1, .. hi-1 of every range, one range after the other
    apart(n, lo, hi)          where segments may be cut so that no range is

A sort of plain numbers runs in vector instructions, and along the rows of a matrix it needs no codes that say which
segment a key belongs to. So short segments of about the same length are put side by side as the rows of a matrix,
filled up with a key that comes last; lengths are told apart by powers of two, so less than half of it is filling. Long
segments are sorted one by one where they are.

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
"""Bytes of a table that are sorted at once, about."""
LONG = 1 << 10
"""From so many keys on, a segment is worth a call of its own."""
_FEW = 4
"""Up to so many different keys, a pass for each costs less than a sort."""
TILE = 1 << 16
"""Keys of one matrix, about: what is sorted together stays in the cache."""


def offsets(lengths: npt.NDArray[Any]) -> Ints:
    """Where each list begins among the flattened values, and where the last ends: running totals from 0 on."""
    out = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=out[1:])
    return out


def order_of(key: Ints, stop: int) -> Ints:
    """The stable order of integers 0 <= key < stop.

    A handful of keys are gathered one by one, and keys of 16 bits are sorted by their digits. Otherwise key and row
    number share one integer where they fit, which sorts several times faster than an argsort.
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
    """(order, offset): the rows of group g are order[offset[g]:offset[g+1]], in the order in which they came."""
    return order_of(group, n), offsets(np.bincount(group, minlength=n))


def parted(rows: pa.Table, part: Ints, n: int) -> list[pa.Table]:
    """The rows of each part 0..n-1, in the order in which they came. All are sorted once.

    Large tables are sorted piece by piece: text of 2 GB and more does not fit one Arrow array.

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
    out = key.copy()
    for first, stop in _long(offset):
        out[first:stop].sort()
    for at, inside in _tiles(offset):
        matrix = _filled(key, at, inside)
        matrix.sort(axis=1)
        out[_only(at, inside)] = _only(matrix, inside)
    return out


def rank_each(key: Key, offset: Ints) -> tuple[npt.NDArray[np.int32], Key]:
    """(rank, ordered): ordered[offset[i] + rank[j]] is key[j], where j is in segment i; equal keys have different
    ranks."""
    rank, out = np.zeros(len(key), np.int32), key.copy()
    for first, stop in _long(offset):
        order = key[first:stop].argsort()
        rank[first:stop][order] = np.arange(stop - first, dtype=np.int32)
        out[first:stop] = key[first:stop][order]
    kind: Literal["stable"] | None = (
        "stable" if _has_last(key) else None
    )  # filling is at the end of a row and must stay behind such keys
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


def apart(n: int, lo: Ints, hi: Ints) -> Ints:
    """0, n and the positions between that no range lo <= i < hi reaches across: what lies between two is joined.

    Windows of different groups share nothing, so what is sorted for them may be sorted apart.
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
    """(at, inside): the positions of short segments of similar length, a segment a row, and which of them are real.

    Segments of one key are sorted as they are, and left out.
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
    """matrix[inside], several times faster than by a boolean index."""
    return np.compress(inside.ravel(), matrix.ravel())


def _last(key: Key) -> Any:
    """A key that no other comes after: NumPy sorts NaN behind everything."""
    return np.nan if key.dtype.kind == "f" else np.iinfo(key.dtype).max


def _has_last(key: Key) -> bool:
    return bool((np.isnan(key) if key.dtype.kind == "f" else key == _last(key)).any())
