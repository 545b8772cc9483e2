"""A total order on rows of any type: by columns from left to right, null first, NaN after all numbers.

It decides between rows with equal times, so that a result does not depend on the order of arrival. Structs are ordered
by their fields and lists by their elements. A list comes before longer lists that begin with it. -0.0 equals 0.0, and
NaN equals NaN; rows that are equal but for that are ordered by the bits of their floats, -0.0 first.

>>> rows = pa.table({"v": [2, None, 2], "l": [[1, 5], [7], [1]]})
>>> order_of_rows(rows, np.zeros(3, np.int64)).tolist()
[1, 2, 0]
>>> order_of_rows(pa.table({"x": [0.0, -0.0, -0.0], "v": [1, 1, 0]}), np.zeros(3, np.int64)).tolist()
[2, 1, 0]
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lowwater.aggregates.order import dense
from lowwater.model.columns import whole

Ints = npt.NDArray[np.int64]


def order_of_rows(rows: pa.Table, run: Ints) -> Ints:
    """The rows by (run, columns, bits of floats)."""
    columns = [whole(column) for column in reversed(rows.columns)]
    bits = [ranks(column, bits=True) for column in columns if _has_floats(column.type)]
    return np.asarray(np.lexsort((*bits, *(ranks(column) for column in columns), run)), np.int64)


def _has_floats(type: pa.DataType) -> bool:
    if pa.types.is_dictionary(type):
        return _has_floats(type.value_type)
    return pa.types.is_floating(type) or any(_has_floats(type.field(i).type) for i in range(type.num_fields))


def ranks(values: pa.Array, bits: bool = False) -> Ints:
    """A number per value, in the order of the values. Equal values have equal numbers, and null has 0.

    With `bits`, floats are ordered by their bits, and equal only if all bits are.
    """
    out = np.zeros(len(values), np.int64)
    there = values.is_valid().to_numpy(zero_copy_only=False)
    if not there.any():
        return out
    known, type = values.filter(pa.array(there)), values.type
    if pa.types.is_dictionary(type):
        out[there] = ranks(known.dictionary_decode(), bits)
    elif pa.types.is_struct(type):
        out[there] = 1 + _combined([ranks(field, bits) for field in known.flatten()], len(known))
    elif pa.types.is_map(type):
        pairs = pa.struct([("key", type.key_type), ("value", type.item_type)])
        out[there] = ranks(known.cast(pa.list_(pairs)), bits)
    elif pa.types.is_list(type) or pa.types.is_large_list(type) or pa.types.is_fixed_size_list(type):
        out[there] = 1 + _of_lists(known, bits)
    elif bits and pa.types.is_floating(type):
        out[there] = 1 + dense(known.view(f"int{type.bit_width}"))[0]
    else:
        out[there] = 1 + dense(known)[0]
    return out


def _combined(columns: list[Ints], n: int) -> Ints:
    """The ranks of rows whose columns are ranks."""
    if not columns:
        return np.zeros(n, np.int64)
    matrix = np.stack(columns, axis=1)
    return np.asarray(np.unique(matrix, axis=0, return_inverse=True)[1].reshape(-1), np.int64)


def _of_lists(lists: pa.Array, bits: bool) -> Ints:
    """The ranks of lists. A list becomes binary, eight bytes per element, with the order of its elements."""
    offset = np.concatenate([[0], np.cumsum(pc.list_value_length(lists).to_numpy(zero_copy_only=False))])
    elements = ranks(lists.flatten(), bits).astype(">i8")  # no rank is below zero, so bytes compare as numbers
    data, ends = pa.py_buffer(elements.tobytes()), pa.py_buffer((8 * offset).astype(np.int64).tobytes())
    return dense(pa.Array.from_buffers(pa.large_binary(), len(lists), [None, ends, data]))[0]
