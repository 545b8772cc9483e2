"""approx_heavy_hitters: the frequent-items sketch of the library datasketches (sketches.py).

A sketch counts at most three quarters of `max_map_size` values. If there are more, it lowers all counts and drops those
that reach zero. The sum of these reductions is the largest error of any count, at most 3.5 / max_map_size of the rows.
A value that has the share is always found. A value that is found misses the share by at most that error, and its count
exceeds the true count by at most that error. As long as the values fit, results are exact.

Rows are first reduced to (value, count) for whole columns, as the thesis does with a hash table (TH 6.2.4). These
tables are written as images of sketches. If the values do not fit into one sketch, there are several images, and the
library merges them.

The library's sketches hold strings. Text is kept as it is. Other values are kept as the digits of their 64-bit key.

>>> import numpy as np, pyarrow as pa
>>> kernel = approx_heavy_hitters("ip", 0.5).bind(pa.schema([("ip", pa.string())]))
>>> ips = kernel.lift(pa.array(["b", "a", "b", "c"]), np.zeros(4, np.int64), np.zeros(4, np.intp), 1)
>>> kernel.lower(ips).to_pylist()
[[{'value': 'b', 'count': 2}]]
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import datasketches  # type: ignore[import-untyped]
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lowwater.aggregates.base import Aggregate, Algebra, BoundedOnly, Group, Partial
from lowwater.aggregates.bounded import Times
from lowwater.aggregates.filtered import filtered
from lowwater.aggregates.frequent import FrequentEnough, check_share, fraction, hit_type
from lowwater.aggregates.holistic import as_lists, lengths
from lowwater.aggregates.order import dense, is_ordered, keys, refuse
from lowwater.aggregates.sketches import IMAGE, Ints, Sketch, Sketched
from lowwater.aggregates.sorting import explode, offsets
from lowwater.errors import BadAggregate

SIZES = range(3, 27)
"""The logarithms of max_map_size that the library allows."""


class FrequentItems(Sketched):
    """A sketch with a table of 2**lg_size places."""

    def __init__(self, type: pa.DataType, label: str, share: Fraction, lg_size: int) -> None:
        self.type, self.label, self.share, self.lg_size = type, label, share, lg_size
        self.result = hit_type(type)
        self.counts = FrequentEnough(type, label, share)

    def lift(self, values: pa.Array | None, time: Times, group: Group, n: int) -> Partial:
        """The exact table of each group, cut into pieces that fit into a sketch."""
        table, counts = self.counts.lift(values, time, group, n)
        number = lengths(table)
        place = explode(np.zeros(n, np.int64), number)
        first = np.flatnonzero(place % (3 << self.lg_size - 2) == 0)
        images = self.written(
            text_of(table.flatten()), counts.flatten().to_numpy(), np.append(first, len(place)).astype(np.int64)
        )
        return self.combine((images,), np.repeat(np.arange(n), number)[first], n)

    def written(self, text: pa.Array, count: Ints, offset: Ints) -> pa.Array:
        """Images of sketches of the entries offset[i] .. offset[i+1] - 1.

        The format: a header of 32 bytes, the counts, and the texts, each preceded by its length.
        """
        number = np.diff(offset)
        size = pc.binary_length(text).to_numpy()
        texts = offsets(size + 4)
        begin = offsets(32 + 8 * number + np.diff(texts[offset]))
        out = np.zeros(int(begin[-1]), np.uint8)
        ahead = np.zeros((len(number), 4), "<u8")
        table = np.maximum(np.frexp((number * 4 + 2) // 3 - 1)[1], 3)  # its logarithm: as small as number allows
        ahead[:, 0] = 4 | 1 << 8 | 10 << 16 | self.lg_size << 24 | table.astype(np.int64) << 32
        ahead[:, 1] = number
        ahead[:, 2] = np.diff(offsets(count)[offset])
        of = np.repeat(np.arange(len(number)), number)
        counted = begin[:-1][of] + 32 + 8 * (np.arange(len(of)) - offset[:-1][of])
        written = begin[:-1][of] + 32 + 8 * number[of] + texts[:-1] - texts[offset[:-1]][of]
        _put(out, begin[:-1], ahead)
        _put(out, counted, count.astype("<i8"))
        _put(out, written, size.astype("<u4"))
        _, ends, data = text.buffers()
        if size.any():
            at = np.frombuffer(ends, np.int64)[text.offset : text.offset + len(text) + 1]
            out[explode(written + 4, written + 4 + size)] = np.frombuffer(data, np.uint8)[at[0] : at[-1]]
        return pa.Array.from_buffers(IMAGE.type, len(number), [None, pa.py_buffer(begin), pa.py_buffer(out)])

    def opened(self, image: bytes) -> Sketch:
        return datasketches.frequent_strings_sketch.deserialize(image)

    def add(self, sketch: Sketch, image: bytes) -> None:
        sketch.merge(datasketches.frequent_strings_sketch.deserialize(image))

    def image(self, sketch: Sketch) -> bytes:
        return bytes(sketch.serialize())

    def read(self, sketches: Iterator[tuple[int, Sketch | None]], beside: Sequence[Ints], n: int) -> pa.Array:
        found: list[tuple[str, int, int]] = []
        for i, sketch in sketches:
            if sketch is not None:
                least = -(-sketch.total_weight * self.share.numerator // self.share.denominator)
                hits = sketch.get_frequent_items(datasketches.NO_FALSE_NEGATIVES, least - 1)
                found += [(text, count, i) for text, count, _, _ in hits]
        text, number, of = zip(*found, strict=True) if found else ((), (), ())
        values = value_of(pa.array(text, pa.large_string()), self.type)
        count, answer = np.array(number, np.int64), np.array(of, np.int64)
        order = np.lexsort((dense(values)[0], -count, answer))
        pairs = [values.take(pa.array(order)), pa.array(count[order])]
        hit = pa.StructArray.from_arrays(pairs, fields=list(self.result.value_type))
        return as_lists(hit, offsets(np.bincount(answer, minlength=n)), self.result, self.label)


def _put(out: npt.NDArray[np.uint8], at: Ints, values: npt.NDArray[Any]) -> None:
    """Writes the bytes of each row of values at its position."""
    if len(at):
        rows = np.ascontiguousarray(values).view(np.uint8).reshape(len(at), -1)
        out[at[:, None] + np.arange(rows.shape[1])] = rows


def is_binary(type: pa.DataType) -> bool:
    return any(fits(type) for fits in (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_fixed_size_binary))


def is_text(type: pa.DataType) -> bool:
    """Whether values are kept as text: strings, and decimals that do not fit into 64 bits."""
    return bool(pa.types.is_string(type) or pa.types.is_large_string(type) or not _is_word(type))


def _is_word(type: pa.DataType) -> bool:
    return not pa.types.is_decimal(type) or type.precision <= 18


def text_of(values: pa.Array) -> pa.Array:
    if is_text(values.type):
        return values.cast(pa.large_string())
    key = keys(values).key
    if key.dtype.kind == "f":
        key = np.where(np.isnan(key), np.nan, key.astype(np.float64) + 0.0).view(np.int64)
    return pa.array(key.astype(np.int64)).cast(pa.large_string())


def value_of(text: pa.Array, type: pa.DataType) -> pa.Array:
    """The inverse of `text_of`."""
    if is_text(type):
        return text.cast(type)
    word = text.cast(pa.int64()).to_numpy()
    known = keys(pa.array([], type))
    return known.decode(word.view(np.float64).astype(known.key.dtype) if known.key.dtype.kind == "f" else word)


@dataclass(frozen=True)
class ApproxHeavyHitters(BoundedOnly):
    share: float
    max_map_size: int
    name = "approx_heavy_hitters"

    def __post_init__(self) -> None:
        check_share(str(self), self.share)
        if not isinstance(self.max_map_size, int) or self.max_map_size not in [1 << size for size in SIZES]:
            raise BadAggregate(
                f"{self} asks for max_map_size={self.max_map_size}; give a power of two from {1 << SIZES[0]} to "
                f"{1 << SIZES[-1]}."
            )
        error = 3.5 / self.max_map_size
        if self.share <= error:
            raise BadAggregate(
                f"{self} with max_map_size={self.max_map_size} may err by a share of {error:.2g}, so that everything "
                "could be a heavy hitter; give a larger max_map_size."
            )

    def bind(self, schema: pa.Schema) -> Algebra:
        type = self.type_in(schema)
        if not is_ordered(type) or is_binary(type):
            raise refuse(str(self), type, "a column of numbers, booleans, times or strings")
        return FrequentItems(type, str(self), fraction(self.share), self.max_map_size.bit_length() - 1)

    def __str__(self) -> str:
        return f"{self.name}({self.column}, {self.share})"


def approx_heavy_hitters(column: str, share: float, max_map_size: int = 1024, *, where: str | None = None) -> Aggregate:
    """heavy_hitters with partials of bounded size.

    No value that has the share is missing. Counts can be too high by up to 3.5 / max_map_size of the rows.
    """
    return filtered(ApproxHeavyHitters(column, share, max_map_size), where)
