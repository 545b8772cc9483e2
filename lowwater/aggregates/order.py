"""Arrow values as NumPy keys with the order that Spark gives the values: NaN above all numbers, 0.0 equal to -0.0.

    keys(values)   for numbers, times and booleans the value itself as a number; for other types its dense rank
    dense(values)  the rank of each value among the distinct values, and the distinct values in order

Keys that are ranks are only meaningful for the array from which they were made. `Keys.decode` turns them back.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lowwater.aggregates.words import DECIMAL_DIGITS, decimal_of, unscaled
from lowwater.errors import BadAggregate

Rows = npt.NDArray[np.bool_] | slice


class Keys(NamedTuple):
    """`key[i]` is the key of value i. `decode` turns any of these keys into values."""

    key: npt.NDArray[Any]
    decode: Callable[[npt.NDArray[Any]], pa.Array]


def present(values: pa.Array) -> Rows:
    """An index of the rows that are not null. It is a slice, at no cost, if there is no null."""
    if values.null_count == 0:
        return slice(None)
    mask: npt.NDArray[np.bool_] = values.is_valid().to_numpy(zero_copy_only=False)
    return mask


def complete(values: pa.Array) -> tuple[pa.Array, Rows]:
    """The values that are not null, and their rows. Of several columns, the rows where no column is null."""
    if not pa.types.is_struct(values.type):
        return values.drop_null(), present(values)
    if not any(column.null_count for column in values.flatten()):
        return values, slice(None)
    masks = [column.is_valid().to_numpy(zero_copy_only=False) for column in values.flatten()]
    rows: npt.NDArray[np.bool_] = np.logical_and.reduce(masks)
    return values.filter(pa.array(rows)), rows


def spread(values: pa.Array, seen: npt.NDArray[np.bool_]) -> pa.Array:
    """Puts values at the rows in `seen`, in order, and null elsewhere."""
    return values if seen.all() else values.take(pa.array(np.cumsum(seen) - 1, mask=~seen))


def floats(values: pa.Array) -> npt.NDArray[np.float64]:
    """Numbers of any kind as doubles; no nulls."""
    out: npt.NDArray[np.float64] = values.cast(pa.float64(), safe=False).to_numpy()
    return out


def keys(values: pa.Array) -> Keys:
    """Ordered keys of values without nulls."""
    type = values.type
    if pa.types.is_floating(type):
        # + 0 turns -0.0 into 0.0
        return Keys(values.to_numpy(), lambda key: pa.array(key + key.dtype.type(0), type))
    if pa.types.is_integer(type):
        return Keys(values.to_numpy(), lambda key: pa.array(key, type))
    if pa.types.is_boolean(type):
        return Keys(values.cast(pa.int8()).to_numpy(), lambda key: pa.array(key).cast(type))
    if pa.types.is_temporal(type):
        ticks = pa.int32() if type.bit_width == 32 else pa.int64()
        return Keys(values.view(ticks).to_numpy(), lambda key: pa.array(key, ticks).view(type))
    if pa.types.is_decimal128(type) and type.precision <= DECIMAL_DIGITS:
        return Keys(unscaled(values), lambda key: decimal_of(key, type))
    rank, distinct = dense(values)
    return Keys(rank, lambda key: distinct.take(pa.array(key)))


def dense(values: pa.Array) -> tuple[npt.NDArray[np.int64], pa.Array]:
    """(rank, distinct): distinct is sorted, distinct[rank[i]] is value i; no nulls.

    Floats are sorted, because hashing would distinguish 0.0 from -0.0 and one NaN from another. Other types are hashed
    first, so that only the distinct values are sorted.
    """
    if pa.types.is_floating(values.type):
        distinct, rank = np.unique(values.to_numpy() + values.type.to_pandas_dtype()(0), return_inverse=True)
        return rank.astype(np.int64, copy=False), pa.array(distinct, values.type)
    coded = values.dictionary_encode()
    order = pc.sort_indices(coded.dictionary)
    rank_of = np.empty(len(order), np.int64)
    rank_of[order.to_numpy()] = np.arange(len(order))
    return rank_of[coded.indices.to_numpy()], coded.dictionary.take(order)


def begins(key: npt.NDArray[Any], offset: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
    """A mask of the keys that differ from the one before them in their segment. All NaN are equal."""
    new = np.ones(len(key), np.bool_)
    if len(key):
        new[1:] = key[1:] != key[:-1]
        if key.dtype.kind == "f":
            new[1:] &= ~(np.isnan(key[1:]) & np.isnan(key[:-1]))
        new[offset[:-1][offset[:-1] < len(key)]] = True
    return new


def above(a: npt.NDArray[Any], b: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    """A mask of the rows where key a comes after key b."""
    later: npt.NDArray[np.bool_] = a > b
    return later | (np.isnan(a) & ~np.isnan(b)) if a.dtype.kind == "f" else later


def refuse(label: str, type: pa.DataType | None, wants: str) -> BadAggregate:
    found = "no column" if type is None else str(type)
    return BadAggregate(f"{label} takes {wants}, but was given {found}.")


def is_number(type: pa.DataType | None) -> bool:
    """Whether int64 or float64 can represent the values: integers except uint64, decimals, floats."""
    return type is not None and (
        (pa.types.is_integer(type) and type != pa.uint64())
        or pa.types.is_float32(type)
        or pa.types.is_float64(type)
        or pa.types.is_decimal128(type)
    )


def is_ordered(type: pa.DataType | None) -> bool:
    """Whether Spark can sort the values and Arrow can rank them."""
    if type is None:
        return False
    text = (pa.types.is_string, pa.types.is_large_string, pa.types.is_binary, pa.types.is_large_binary)
    plain = (pa.types.is_boolean, pa.types.is_integer, pa.types.is_temporal, pa.types.is_fixed_size_binary)
    if pa.types.is_interval(type):
        return False
    return is_number(type) or any(fits(type) for fits in text + plain)


def ordered_type(label: str, type: pa.DataType | None) -> pa.DataType:
    """The type, if its values have an order. Otherwise raises the refusal that these aggregates share."""
    if not is_ordered(type):
        raise refuse(label, type, "a column of numbers, booleans, times, strings or binaries")
    return type
