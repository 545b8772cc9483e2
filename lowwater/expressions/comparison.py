"""Comparisons as Spark orders values: NaN equals NaN and is greater than all other numbers, -0.0 equals 0.0.

>>> x = pa.array([float("nan"), 1.0, None])
>>> compare("greater", x, pa.array([1.0, float("nan"), 1.0])).to_pylist(), null_safe_equal(x, x).to_pylist()
([True, False, None], [True, True, True])
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lowwater.expressions.kernels import pick, takes_scalars, validity

NAN = {
    # the result of a comparison if (only the left, only the right, each side) is NaN
    "equal": (False, False, True),
    "not_equal": (True, True, False),
    "less": (False, True, False),
    "less_equal": (False, True, True),
    "greater": (True, False, False),
    "greater_equal": (True, False, True),
}


@takes_scalars
def compare(operation: str, a: pa.Array | pa.Scalar, b: pa.Array | pa.Scalar) -> pa.Array:
    found = pc.call_function(operation, [a, b])
    if pa.types.is_floating(a.type) and (_has_nan(a) or _has_nan(b)):
        x, y = pc.is_nan(a), pc.is_nan(b)
        for mask, value in zip((x, y, pc.and_(x, y)), NAN[operation], strict=True):
            found = pc.if_else(pc.and_(mask, found.is_valid()), pa.scalar(value), found)
    return found


def _has_nan(values: pa.Array | pa.Scalar) -> bool:
    nan = pc.is_nan(values)
    return bool((nan if isinstance(nan, pa.Scalar) else pc.any(nan)).as_py())


def null_safe_equal(a: pa.Array, b: pa.Array) -> pa.Array:
    x, y = validity(a), validity(b)
    if pa.types.is_null(a.type):
        return pa.array(np.ones(len(a), np.bool_))
    same = np.asarray(compare("equal", a, b).fill_null(False), np.bool_)
    return pa.array(np.where(x & y, same, x == y))


def is_null(a: pa.Array) -> pa.Array:
    return a.is_null()


def is_not_null(a: pa.Array) -> pa.Array:
    return a.is_valid()


def is_nan(a: pa.Array) -> pa.Array:
    return pc.is_nan(a).fill_null(False)


def negation(a: pa.Array) -> pa.Array:
    return pc.invert(a)


def among(values: tuple[Any, ...], null: bool, a: pa.Array) -> pa.Array:
    """`IN` with literals of one type. Null if nothing matches and the list contains a null."""
    found = pa.array(np.zeros(len(a), np.bool_))
    if pa.types.is_floating(a.type):
        for value in values:
            found = pc.or_(found, compare("equal", a, pa.repeat(pa.scalar(value, a.type), len(a))).fill_null(False))
    elif values:
        found = pc.is_in(a, value_set=pa.array(values, a.type))
    return pc.if_else(found, pa.scalar(True), pa.scalar(None, pa.bool_())) if null else found


def extreme(operation: str, *values: pa.Array) -> pa.Array:
    """`greatest` and `least`. Nulls are ignored, and the first of equal values is taken."""
    found = values[0]
    if pa.types.is_null(found.type):
        return found
    for value in values[1:]:
        better = np.asarray(compare(operation, value, found).fill_null(False), np.bool_)
        found = pick([better | ~validity(found)], [value, found])
    return found
