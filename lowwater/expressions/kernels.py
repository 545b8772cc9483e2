"""Kernels: functions of whole Arrow arrays; and the small steps that kernels share.

The kernel of a strict call can return any value where an argument is null, because the call sets these rows to null.

>>> numbers(pa.array([1, None])).tolist(), with_nulls(pa.array([1, 2]), np.array([False, True])).to_pylist()
([1, 0], [1, None])
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lowwater.errors import LowwaterError

Mask = npt.NDArray[np.bool_]
Kernel = Callable[..., pa.Array]
K = TypeVar("K", bound=Callable[..., Any])


class Raised(LowwaterError):
    """A value for which Spark raises an error in ANSI mode. `Expression` adds its text to the message."""


def raising(kernel: K) -> K:
    """Marks a kernel that raises for some values."""
    kernel.raises = True  # type: ignore[attr-defined]
    return kernel


def takes_scalars(kernel: K) -> K:
    """Marks a kernel that takes a literal as one scalar instead of an array."""
    kernel.scalars = True  # type: ignore[attr-defined]
    return kernel


@dataclass(frozen=True)
class Fixed:
    """A kernel with its first arguments fixed. Unlike `functools.partial`, it compares by value, as plans need it."""

    kernel: Kernel
    options: tuple[Any, ...]

    @property
    def raises(self) -> bool:
        return getattr(self.kernel, "raises", False)

    @property
    def scalars(self) -> bool:
        return getattr(self.kernel, "scalars", False)

    def __call__(self, *values: pa.Array) -> pa.Array:
        return self.kernel(*self.options, *values)


def fixed(kernel: Kernel, *options: Any) -> Fixed:
    return Fixed(kernel, options)


def pick(chosen: Sequence[Mask], values: Sequence[pa.Array]) -> pa.Array:
    """For each row, the value of the first mask that holds, or else the last value."""
    found = values[-1]
    for mask, value in zip(reversed(chosen), reversed(values[:-1]), strict=True):
        found = pc.if_else(pa.array(mask), value, found)
    return found


def validity(values: pa.Array) -> Mask:
    if not values.null_count:
        return np.ones(len(values), np.bool_)
    return np.asarray(values.is_valid(), np.bool_)


def all_valid(values: Sequence[pa.Array]) -> Mask:
    found = np.ones(len(values[0]) if values else 0, np.bool_)
    for value in values:
        if value.null_count:
            found &= validity(value)
    return found


def with_nulls(values: pa.Array, null: Mask) -> pa.Array:
    """The values with null where the mask holds."""
    if not null.any():
        return values
    return pc.if_else(pa.array(null), pa.scalar(None, values.type), values)


def numbers(values: pa.Array, fill: Any = 0) -> npt.NDArray[Any]:
    """The values as a NumPy array. Nulls become `fill`, for which no kernel raises. The call sets them to null."""
    if values.null_count:
        values = values.fill_null(pa.scalar(fill, values.type))
    return np.asarray(values.to_numpy(zero_copy_only=False))


def refuse(bad: Mask, values: Sequence[pa.Array], cause: str) -> None:
    """Raises if the mask holds on a row without null arguments, with the values of the first such row."""
    bad = bad & all_valid(values)
    if bad.any():
        at = int(np.argmax(bad))
        raise Raised(cause.format(*(value[at].as_py() for value in values)))
