"""approx_count_distinct: HyperLogLog of the library datasketches (sketches.py).

A value is hashed to a coupon: a place of 26 bits, and the number of leading zeros of another hash. A sketch holds the
distinct coupons while there are few of them, and later the largest number of zeros for each of 2**lg_k places. Both are
sets that only grow. So the result depends on the distinct values alone, and not on their frequency, order or panes.

The library takes values one at a time. Therefore coupons are computed here for whole columns, with the library's hash,
and written as the image of a sketch with few coupons. If they do not fit, several images are written, and the library
merges them. A test compares the result with the library's own sketch of the same values.

Flajolet, Fusy, Gandouet, Meunier: HyperLogLog (2007); its estimate is the library's.

>>> import numpy as np, pyarrow as pa
>>> kernel = approx_count_distinct("ip").bind(pa.schema([("ip", pa.string())]))
>>> ips = kernel.lift(pa.array(["a", "b", "a", None]), np.zeros(4, np.int64), np.array([0, 0, 1, 2]), 3)
>>> kernel.lower(ips).to_pylist(), kernel.roll(ips, np.array([0]), np.array([3])).to_pylist()
([2, 1, 0], [2])
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import datasketches  # type: ignore[import-untyped]
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lowwater.aggregates.base import Aggregate, Algebra, BoundedOnly, Group, Partial
from lowwater.aggregates.bounded import Times
from lowwater.aggregates.filtered import filtered
from lowwater.aggregates.order import ordered_type, present
from lowwater.aggregates.sketches import IMAGE, Ints, Sketch, Sketched
from lowwater.aggregates.sorting import offsets
from lowwater.errors import BadAggregate
from lowwater.model.routing import route

Hash = npt.NDArray[np.uint64]
SIZES = range(8, 22)
"""The values of lg_k that can be used: the library has no sets of coupons below 8, and no sketches above 21."""
SEED, EIGHT = np.uint64(9001), np.uint64(8)
"""The seed of the library's hash, and the number of bytes that are hashed."""


class HyperLogLog(Sketched):
    """A sketch of 2**lg_k places, a byte each."""

    result = pa.int64()

    def __init__(self, lg_k: int) -> None:
        self.lg_k = lg_k
        self.few = 3 << lg_k - 5  # the largest set of coupons: three quarters of a table of 2**(lg_k - 3)

    def lift(self, values: pa.Array | None, time: Times, group: Group, n: int) -> Partial:
        assert values is not None
        coupon = coupons(route(pa.table([hashable(values.drop_null())], ["v"]), 1 << 63).view(np.uint64))
        pair = np.sort((group[present(values)] << 32) | coupon)
        pair = np.compress(np.append(True, pair[1:] != pair[:-1])[: len(pair)], pair)
        cell = pair >> 32
        place = np.arange(len(pair)) - np.searchsorted(cell, cell)
        first = np.flatnonzero(place % self.few == 0)
        images = self.written(pair & 0xFFFFFFFF, np.append(first, len(pair)))
        return self.combine((images,), cell[first], n)

    def written(self, coupon: Ints, offset: Ints) -> pa.Array:
        """Images of sketches that hold coupon[offset[i]:offset[i+1]]: a header of three words, then the coupons."""
        number = np.diff(offset)
        begin = offsets(number + 3)
        words = np.empty(int(begin[-1]), "<u4")
        table = np.maximum(np.frexp((number * 4 + 2) // 3 - 1)[1], 5)  # its logarithm: as small as number allows
        words[begin[:-1]] = 3 | 1 << 8 | 7 << 16 | self.lg_k << 24  # length of the header, version, family, size
        words[begin[:-1] + 1] = table | 8 << 8 | 9 << 24  # compact; a set, which later becomes a sketch of bytes
        words[begin[:-1] + 2] = number
        words[np.arange(len(coupon)) + np.repeat(begin[:-1] + 3 - offset[:-1], number)] = coupon
        buffers = [None, pa.py_buffer(begin * 4), pa.py_buffer(words)]
        return pa.Array.from_buffers(IMAGE.type, len(number), buffers)

    def opened(self, image: bytes) -> Sketch:
        union = datasketches.hll_union(self.lg_k)
        self.add(union, image)
        return union

    def add(self, sketch: Sketch, image: bytes) -> None:
        sketch.update(datasketches.hll_sketch.deserialize(image))

    def image(self, sketch: Sketch) -> bytes:
        return bytes(sketch.get_result(datasketches.HLL_8).serialize_compact())

    def read(self, sketches: Iterator[tuple[int, Sketch | None]], beside: Sequence[Ints], n: int) -> pa.Array:
        """The estimates of sketches.

        The estimate of a sketch that grew value by value can depend on their order. Merging a sketch with itself keeps
        the set and removes that dependence.
        """
        out = np.zeros(n, np.int64)
        for i, sketch in sketches:
            if sketch is not None:
                sketch.update(sketch.get_result(datasketches.HLL_8))
                out[i] = round(sketch.get_estimate())
        return pa.array(out)


def hashable(values: pa.Array) -> pa.Array:
    """Values in a type that `route` can hash: times of day and durations as ticks, fixed-size binary as binary."""
    type = values.type
    if pa.types.is_time(type) or pa.types.is_duration(type):
        return values.view(pa.int32() if type.bit_width == 32 else pa.int64())
    return values.cast(pa.large_binary()) if pa.types.is_fixed_size_binary(type) else values


def coupons(word: Hash) -> Ints:
    """place | (leading zeros + 1) << 26, of MurmurHash3 (x64, 128 bits) of eight bytes."""
    with np.errstate(over="ignore"):
        k = word * np.uint64(0x87C37B91114253D5)
        k = (k << np.uint64(31) | k >> np.uint64(33)) * np.uint64(0x4CF5AD432745937F)
        a = (SEED ^ k ^ EIGHT) + (SEED ^ EIGHT)
        b = _mixed(a + (SEED ^ EIGHT))
        a = _mixed(a) + b
        b = a + b
    place = (a & np.uint64(0x3FFFFFF)).astype(np.int64)
    zeros = 64 - np.where(b >> np.uint64(11), 11 + _length(b >> np.uint64(11)), _length(b))
    return np.asarray(place | (np.minimum(zeros, 62) + 1) << 26, np.int64)


def _mixed(h: Hash) -> Hash:
    h = (h ^ (h >> np.uint64(33))) * np.uint64(0xFF51AFD7ED558CCD)
    h = (h ^ (h >> np.uint64(33))) * np.uint64(0xC4CEB9FE1A85EC53)
    return np.asarray(h ^ (h >> np.uint64(33)), np.uint64)


def _length(word: Hash) -> Ints:
    """The bit lengths of numbers below 2**53, which a double represents exactly."""
    return np.asarray(np.frexp(word.astype(np.float64))[1], np.int64)


@dataclass(frozen=True)
class ApproxCountDistinct(BoundedOnly):
    rsd: float
    name = "approx_count_distinct"

    def __post_init__(self) -> None:
        self.lg_k()

    def lg_k(self) -> int:
        """The smallest sketch whose standard error is at most rsd."""
        for size in SIZES:
            if self.rsd >= datasketches.hll_sketch.get_rel_err(False, True, size, 1) and self.rsd < 1:
                return size
        raise BadAggregate(f"{self} asks for a standard error of {self.rsd}; give one from 0.001 up to below 1.")

    def bind(self, schema: pa.Schema) -> Algebra:
        ordered_type(str(self), self.type_in(schema))
        return HyperLogLog(self.lg_k())

    def __str__(self) -> str:
        return f"{self.name}({self.column}, {self.rsd})"


def approx_count_distinct(column: str, rsd: float = 0.05, *, where: str | None = None) -> Aggregate:
    """The approximate number of distinct values, without nulls. `rsd` is the relative standard deviation in Spark."""
    return filtered(ApproxCountDistinct(column, rsd), where)
