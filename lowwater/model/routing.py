"""The hash that assigns groups to shards. It is defined here, so that it never changes.

State outlives the versions of libraries, and Python, pandas, Polars and Arrow do not guarantee stable hash functions.
The hash is computed on distinct groups only (after the sub-aggregation at the source), for whole columns at once:

    fixed width   splitmix64 of the 64-bit value (decimals: of both words)
    text, binary  splitmix64 of sum(byte_i * P^i) mod 2^64 and of the length
    null          a separate constant
    several columns: h = splitmix64(h * Q + h_column)

>>> route(pa.table({"k": pa.array([1, 2, None, 3])}), 2).tolist()
[1, 0, 1, 0]
>>> route(pa.table({"k": pa.array(["10.0.0.1", "10.0.0.2", None])}), 4).tolist()
[2, 0, 3]
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lowwater.model.columns import whole
from lowwater.model.ticks import decimal_words

Hash = npt.NDArray[np.uint64]

_NULL = np.uint64(0x9AE16A3B2F90404F)
_P = np.uint64(0x9E3779B185EBCA87)
_Q = np.uint64(0xC2B2AE3D27D4EB4F)


def route(keys: pa.Table, shards: int) -> npt.NDArray[np.int64]:
    """The shard 0..shards-1 of every row of keys. Without key columns, all rows are one group in shard 0."""
    if not keys.num_columns:
        return np.zeros(keys.num_rows, np.int64)
    return (hashed(keys) % np.uint64(shards)).astype(np.int64)


def hashed(keys: pa.Table) -> Hash:
    """The 64-bit hash of every row. It is one-to-one for a single fixed-width column without nulls."""
    total = np.zeros(keys.num_rows, np.uint64)
    with np.errstate(over="ignore"):
        for column in keys.columns:
            total = _mix(total * _Q + _hash(whole(column)))
    return total


def _mix(x: Hash) -> Hash:
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(x ^ (x >> np.uint64(31)), np.uint64)


def _hash(column: pa.Array) -> Hash:
    t = column.type
    if pa.types.is_null(t):
        return np.full(len(column), _NULL)
    if pa.types.is_string(t) or pa.types.is_binary(t) or pa.types.is_large_string(t) or pa.types.is_large_binary(t):
        hashed = _hash_bytes(column)
    elif pa.types.is_decimal(t) and t.precision > 18:
        hashed = _hash_bytes(column.cast(pa.string()))
    else:
        hashed = _mix(_words(column).view(np.uint64) + _P)
    if column.null_count:
        hashed[column.is_null().to_numpy(zero_copy_only=False)] = _NULL
    return hashed


def _words(column: pa.Array) -> npt.NDArray[np.int64]:
    """The 64-bit values, with zero for null. -0.0 equals 0.0 and all NaN are equal, as in GROUP BY."""
    t = column.type
    if pa.types.is_decimal(t):
        return decimal_words(pc.fill_null(column, 0))
    if pa.types.is_floating(t):
        values = pc.fill_null(column.cast(pa.float64()), 0.0).to_numpy(zero_copy_only=False) + 0.0
        return np.where(np.isnan(values), np.nan, values).view(np.int64)
    if pa.types.is_date32(t):
        column = column.cast(pa.int32())
    return np.asarray(pc.fill_null(column.cast(pa.int64()), 0).to_numpy(zero_copy_only=False), np.int64)


def _hash_bytes(column: pa.Array) -> Hash:
    binary = column.cast(pa.large_binary())
    offsets = np.frombuffer(binary.buffers()[1], np.int64)[binary.offset : binary.offset + len(binary) + 1]
    length = np.diff(offsets)
    if binary.null_count:
        length = np.where(binary.is_null().to_numpy(zero_copy_only=False), 0, length)
    total = np.zeros(len(binary), np.uint64)
    filled = np.flatnonzero(length)
    if len(filled):
        data = np.frombuffer(binary.buffers()[2], np.uint8)
        first = np.cumsum(length[filled]) - length[filled]
        position = np.arange(int(length.sum())) - np.repeat(first, length[filled])
        at = np.repeat(offsets[:-1][filled], length[filled]) + position
        powers = np.full(int(length.max()), _P)
        powers[0] = 1
        powers = np.cumprod(powers)
        total[filled] = np.add.reduceat((data[at].astype(np.uint64) + np.uint64(1)) * powers[position], first)
    return _mix(total + length.astype(np.uint64) * _Q)
