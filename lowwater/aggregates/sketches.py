"""Sketches: approximate answers from partials of bounded size, computed by the library datasketches.

A partial is the image of a sketch, that is its serialised bytes, or no bytes if it has no value. Images are made from
whole columns, and the library merges them one by one. So Python makes one call per (group, pane) and not per row, and a
window takes about five merges, however many panes it has.

    sketch           of                     independent of division and order     error
    HLL              approx_count_distinct  yes                                   a bound by theory
    frequent items   approx_heavy_hitters   while a partial holds all values      a bound by theory
    t-digest         approx_quantile        while a partial holds all values      small on usual data, no bound

Merging is deterministic: the same partials give the same sketch in any order. Sketches are not differential, because
they cannot restore what they have dropped.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lowwater.aggregates.base import Algebra, Group, Partial
from lowwater.aggregates.bounded import added
from lowwater.aggregates.rollup import prefix
from lowwater.aggregates.sorting import by_group

Ints = npt.NDArray[np.int64]
Sketch = Any
"""A mutable sketch object of the library."""
IMAGE = pa.field("sketch", pa.large_binary(), nullable=False)


class Sketched(Algebra):
    """Base of sketch kernels: images in the first column of a partial, and in subclasses additional counts."""

    fields: tuple[pa.Field, ...] = (IMAGE,)

    @abstractmethod
    def opened(self, image: bytes) -> Sketch:
        """A mutable sketch from an image."""

    @abstractmethod
    def add(self, sketch: Sketch, image: bytes) -> None:
        """Merges an image into a sketch."""

    @abstractmethod
    def image(self, sketch: Sketch) -> bytes: ...

    @abstractmethod
    def read(self, sketches: Iterator[tuple[int, Sketch | None]], beside: Sequence[Ints], n: int) -> pa.Array:
        """The results of n answers.

        `sketches` yields, in any order, the number of an answer and the sketch of its rows, or None if it has no value.
        `beside` are the additional counts.
        """

    def combine(self, partial: Partial, group: Group, n: int) -> Partial:
        images, *beside = partial
        return self._combined(images, group, n), *(added(column, group, n) for column in beside)

    def _combined(self, images: pa.Array, group: Group, n: int) -> pa.Array:
        """Merges the images of each group. They are sorted first, so that their order has no effect."""
        filled = np.flatnonzero(pc.greater(pc.binary_length(images), 0).to_numpy(zero_copy_only=False))
        order, offset = by_group(group[filled], n)
        rows, number = filled[order], np.diff(offset)
        several = np.flatnonzero(number > 1)
        parts = images.take(pa.array(rows)).to_pylist() if len(several) else []
        merged = [self.image(self._union(sorted(parts[a:b]))) for a, b in _pairs(offset[several], offset[several + 1])]
        at = np.full(n, len(images) + len(merged))  # the position of the empty image
        at[number == 1] = rows[offset[:-1][number == 1]]
        at[several] = len(images) + np.arange(len(merged))
        return pa.concat_arrays([images, pa.array([*merged, b""], IMAGE.type)]).take(pa.array(at))

    def lower(self, partial: Partial) -> pa.Array:
        rows = np.arange(len(partial[0]))
        return self.roll(partial, rows, rows + 1)

    def roll(self, partial: Partial, lo: Group, hi: Group) -> pa.Array:
        images, *beside = partial
        return self.read(self._unions(images, lo, hi), [prefix(column, lo, hi) for column in beside], len(lo))

    def _unions(self, images: pa.Array, lo: Group, hi: Group) -> Iterator[tuple[int, Sketch | None]]:
        """(i, the sketch of rows lo[i] .. hi[i] - 1) for every range, in no particular order.

        A range is cut at its middle, the row whose number is divisible by the highest power of two. Ranges with the
        same middle share the running unions to its left and to its right. Sliding windows have few middles, so a row is
        merged into about two running unions, and each answer takes one more merge.
        """
        image = images.to_pylist()
        last = hi - 1
        scale = np.frexp((lo ^ last).astype(np.float64))[1]
        middle = np.where(lo == last, last, last >> np.maximum(scale - 1, 0) << np.maximum(scale - 1, 0))
        order = np.argsort(middle, kind="stable")
        cut = np.flatnonzero(np.diff(middle[order])) + 1
        for some in np.split(order, cut) if len(order) else []:
            centre = int(middle[some[0]])
            lefts, rights = lo[some].tolist(), last[some].tolist()
            left = self._running(image, range(centre - 1, min(lefts) - 1, -1), set(lefts))
            right = self._running(image, range(centre, max(rights) + 1), set(rights))
            for i, a, b in zip(some.tolist(), lefts, rights, strict=True):
                parts = [part for part in (left.get(a), right[b]) if part]
                yield i, self._union(parts) if parts else None

    def _running(self, image: Sequence[bytes], rows: range, wanted: set[int]) -> dict[int, bytes]:
        """The union of all rows up to each wanted row."""
        found: dict[int, bytes] = {}
        sketch, so_far = None, b""
        for row in rows:
            if image[row]:
                if sketch is None:
                    sketch, so_far = self.opened(image[row]), image[row]
                else:
                    self.add(sketch, image[row])
                    so_far = b""
            if row in wanted:
                so_far = so_far or (b"" if sketch is None else self.image(sketch))
                found[row] = so_far
        return found

    def _union(self, images: Sequence[bytes]) -> Sketch:
        sketch = self.opened(images[0])
        for image in images[1:]:
            self.add(sketch, image)
        return sketch


def _pairs(a: Ints, b: Ints) -> Iterator[tuple[int, int]]:
    return zip(a.tolist(), b.tolist(), strict=True)
