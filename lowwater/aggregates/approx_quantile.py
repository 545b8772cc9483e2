"""approx_quantile: t-digest of the library datasketches (sketches.py).

A digest holds up to about 1.4 k weighted means, more closely spaced at both ends than in the middle. The result is
interpolated between means, as `quantile` interpolates between values. Up to about 0.75 k values are held as they are,
and the result is exact.

The library's other quantile sketches (KLL, REQ, classic) use random numbers that cannot be seeded, so two runs over the
same rows would differ. A t-digest is deterministic. It has no bound on its error, which depends on the data; a test
asserts an error of ranks of at most 0.005 over several distributions with k = 200. Values are sorted before they are
added, so their order has no effect. Their division into panes and batches has an effect, within that error.

Digests take finite numbers only. Infinities and NaN (the largest value) are counted separately. The means are read from
the image, because get_quantile of release 5.2 interpolates with swapped weights (apache/datasketches-java#755), which
makes the error 20 times as large.

Dunning, Ertl: Computing extremely accurate quantiles using t-digests (2019).

>>> import numpy as np, pyarrow as pa
>>> kernel = approx_quantile("v", 0.9).bind(pa.schema([("v", pa.float64())]))
>>> partial = kernel.lift(pa.array(np.arange(11) * 1.0), np.zeros(11, np.int64), np.zeros(11, np.intp), 1)
>>> kernel.lower(partial).to_pylist()
[9.0]
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import datasketches  # type: ignore[import-untyped]
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lowwater.aggregates.base import Aggregate, Algebra, BoundedOnly, Group, Partial
from lowwater.aggregates.bounded import Times, column_of
from lowwater.aggregates.filtered import filtered
from lowwater.aggregates.holistic import between, neighbours
from lowwater.aggregates.order import floats, is_number, present, refuse
from lowwater.aggregates.sketches import IMAGE, Ints, Sketch, Sketched
from lowwater.aggregates.sorting import by_group, sort_each
from lowwater.errors import BadAggregate

SIZES = range(10, 65536)
"""The values of k that the library allows."""


MEANS = np.dtype([("mean", "<f8"), ("weight", "<u8")])


class Digest(Sketched):
    """The digest of the finite values, and the numbers of finite values, -inf, inf and NaN."""

    fields = (IMAGE, *(column_of(name, pa.int64()) for name in ("finite", "below", "above", "nan")))
    result = pa.float64()

    def __init__(self, q: float, k: int) -> None:
        self.q, self.k = q, k

    def lift(self, values: pa.Array | None, time: Times, group: Group, n: int) -> Partial:
        assert values is not None
        value, group = floats(values.drop_null()), group[present(values)]
        kinds = (np.isfinite(value), value == -np.inf, value == np.inf, np.isnan(value))
        beside = (np.bincount(group[is_so], minlength=n).astype(np.int64, copy=False) for is_so in kinds)
        order, offset = by_group(group[kinds[0]], n)
        ordered = sort_each(value[kinds[0]][order], offset)
        images = []
        for a, b in zip(offset[:-1].tolist(), offset[1:].tolist(), strict=True):
            digest = datasketches.tdigest_double(self.k)
            digest.update(ordered[a:b])
            images.append(self.image(digest) if a < b else b"")
        return pa.array(images, IMAGE.type), *beside

    def read(self, sketches: Iterator[tuple[int, Sketch | None]], beside: Sequence[Ints], n: int) -> pa.Array:
        """The results. Positions before the finite values are -inf, and after them inf and then NaN."""
        finite, low, high, nan = beside
        below, above, weight = neighbours(finite + low + high + nan, self.q)
        places = np.stack([below - low, above - low])
        value = np.where(places < 0, -np.inf, np.where(places < finite + high, np.inf, np.nan))
        inside = (places >= 0) & (places < finite)
        for i, digest in sketches:
            if digest is not None:
                value[:, i] = np.where(inside[:, i], self._at(self.image(digest), places[:, i]), value[:, i])
        return between(value[0], value[1], weight, finite + low + high + nan > 0)

    def _at(self, image: bytes, place: Ints) -> npt.NDArray[np.float64]:
        """The values at positions of the sorted values. A mean is in the middle of as many positions as its weight."""
        if len(image) == 16:  # a single value
            return np.full(len(place), np.frombuffer(image, "<f8", offset=8)[0])
        least, most = np.frombuffer(image, "<f8", 2, offset=16)
        means = np.frombuffer(image, MEANS, offset=32)
        upto = np.cumsum(means["weight"])
        places = np.concatenate([[0.0], upto - (means["weight"] + 1) / 2, [upto[-1] - 1.0]])
        values = np.concatenate([[least], means["mean"], [most]])
        return np.asarray(np.interp(place, places, values))

    def opened(self, image: bytes) -> Sketch:
        return datasketches.tdigest_double.deserialize(image)

    def add(self, sketch: Sketch, image: bytes) -> None:
        sketch.merge(datasketches.tdigest_double.deserialize(image))

    def image(self, sketch: Sketch) -> bytes:
        return bytes(sketch.serialize())


@dataclass(frozen=True)
class ApproxQuantile(BoundedOnly):
    q: float
    k: int
    name = "approx_quantile"

    def __post_init__(self) -> None:
        if not 0 <= self.q <= 1:
            raise BadAggregate(f"{self} asks for the quantile {self.q}; give a share between 0 and 1.")
        if self.k not in SIZES:
            raise BadAggregate(f"{self} asks for a digest of size {self.k}; give k from {SIZES[0]} to {SIZES[-1]}.")

    def bind(self, schema: pa.Schema) -> Algebra:
        type = self.type_in(schema)
        if not is_number(type):
            raise refuse(str(self), type, "a column of integers, decimals or doubles")
        return Digest(self.q, self.k)

    def __str__(self) -> str:
        return f"{self.name}({self.column}, {self.q})"


def approx_quantile(column: str, q: float, k: int = 200, *, where: str | None = None) -> Aggregate:
    """About the value that a share q of the values does not exceed; double. A larger k is finer and keeps more."""
    return filtered(ApproxQuantile(column, q, k), where)
