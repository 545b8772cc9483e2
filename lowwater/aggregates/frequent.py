"""mode and heavy_hitters: exact, holistic and pseudo-differential (TH 6.2.2.2, 6.2.4).

    partial  the distinct values, sorted, and the count of each
    merge    adds the counts of equal values; the inverse subtracts them, exactly
    window   spans of values over the windows (spans.py), without scanning each window

Panes in the thesis hold the same table of (value, count). It is smaller than its input if values repeat, but has no
bound.

A share is the decimal fraction as it is written: 0.07 is exactly 7/100, so 7 of 100 rows reach it.

>>> import numpy as np, pyarrow as pa
>>> kernel = heavy_hitters("ip", 0.4).bind(pa.schema([("ip", pa.string())]))
>>> ips = kernel.lift(pa.array(["b", "a", "b", "c", "a"]), np.zeros(5, np.int64), np.zeros(5, np.intp), 1)
>>> kernel.lower(ips).to_pylist()
[[{'value': 'a', 'count': 2}, {'value': 'b', 'count': 2}]]
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lowwater.aggregates.base import Aggregate, Algebra, Differential, Group, Partial, concat
from lowwater.aggregates.filtered import filtered
from lowwater.aggregates.holistic import Times, as_lists, lengths
from lowwater.aggregates.order import Keys, begins, keys, ordered_type, present, spread
from lowwater.aggregates.rollup import Columns, idempotent, prefix
from lowwater.aggregates.sorting import by_group, explode, offsets, rank_each
from lowwater.aggregates.spans import Spans, ascending, codes, highest, restored, spans_over
from lowwater.errors import BadAggregate

Ints = npt.NDArray[np.int64]
FINEST = 10**9
"""Shares are fractions with at most this denominator, so that share * rows is exact in int64."""


def hit_type(type: pa.DataType) -> pa.DataType:
    return pa.list_(pa.struct([pa.field("value", type), pa.field("count", pa.int64())]))


class Counts(Algebra):
    """Two lists per row: the values and their counts, which are never zero."""

    exact_inverse = True

    def __init__(self, type: pa.DataType, label: str) -> None:
        self.label = label
        self.fields = (
            pa.field("values", pa.large_list(type), nullable=False),
            pa.field("counts", pa.large_list(pa.int64()), nullable=False),
        )

    def lift(self, values: pa.Array | None, time: Times, group: Group, n: int) -> Partial:
        assert values is not None
        rows = group[present(values)]
        return self._counted(values.drop_null(), np.ones(len(rows), np.int64), rows, n)

    def combine(self, partial: Partial, group: Group, n: int) -> Partial:
        values, counts = partial
        return self._counted(values.flatten(), counts.flatten().to_numpy(), np.repeat(group, lengths(values)), n)

    def inverse(self, a: Partial, b: Partial) -> Partial:
        n = len(a[0])
        group = np.concatenate([np.repeat(np.arange(n), lengths(part[0])) for part in (a, b)])
        count = np.concatenate([a[1].flatten().to_numpy(), -b[1].flatten().to_numpy()])
        return self._counted(concat([a[0].flatten(), b[0].flatten()]), count, group, n)

    def _counted(self, values: pa.Array, count: Ints, group: Group, n: int) -> Partial:
        known = keys(values)
        order, offset = by_group(group, n)
        rank, key = rank_each(known.key[order], offset)
        sorted_count = np.empty(len(count), np.int64)
        sorted_count[np.repeat(offset[:-1], np.diff(offset)) + rank] = count[order]
        new = begins(key, offset)
        total = np.diff(offsets(sorted_count)[np.append(np.flatnonzero(new), len(key))])
        left = total != 0
        offset = offsets(left)[offsets(new)[offset]]
        columns = known.decode(np.compress(new, key)[left]), pa.array(total[left])
        return tuple(
            pa.LargeListArray.from_arrays(pa.array(offset), column, type=field.type)
            for column, field in zip(columns, self.fields, strict=True)
        )

    def roll(self, partial: Partial, lo: Group, hi: Group) -> pa.Array:
        values, counts = partial
        begin = offsets(lengths(values))
        row, count = np.repeat(np.arange(len(values)), np.diff(begin)), counts.flatten().to_numpy()
        known = keys(values.flatten())
        code, distinct = codes(known.key, begin[lo], begin[hi])
        found = Keys(distinct, known.decode)
        chains = list(ascending(lo, hi))
        parts = [
            self.answer(
                spans_over(code, count, row, lo[chain], hi[chain]),
                found,
                prefix(count, begin[lo[chain]], begin[hi[chain]]),
            )
            for chain in chains
        ]
        return restored(pa.concat_arrays(parts), chains)

    def lower(self, partial: Partial) -> pa.Array:
        """The results of partials. Each row is an answer, and each of its entries a span over that answer alone."""
        values, counts = partial
        begin = offsets(lengths(values))
        row, count = np.repeat(np.arange(len(values)), np.diff(begin)), counts.flatten().to_numpy()
        known = keys(values.flatten())
        code, distinct = codes(known.key, begin[:-1], begin[1:])
        total = prefix(count, begin[:-1], begin[1:])
        return self.answer(Spans(code, row, row + 1, count), Keys(distinct, known.decode), total)

    @abstractmethod
    def answer(self, spans: Spans, found: Keys, total: Ints) -> pa.Array:
        """The results of answers with `total` rows each. The codes of spans are positions in found.key."""


class MostFrequent(Counts):
    """The value with the largest count; the smallest value if several have it."""

    def __init__(self, type: pa.DataType, label: str) -> None:
        super().__init__(type, label)
        self.result = type

    def answer(self, spans: Spans, found: Keys, total: Ints) -> pa.Array:
        """Packs count and code into one integer, so that the largest has the largest count, then the smallest code."""
        size = max(len(found.key), 1)
        best = highest(spans, spans.times * size + (size - 1 - spans.code), len(total))
        seen = best >= 0
        return spread(found.decode(found.key[size - 1 - best[seen] % size]), seen)


class FrequentEnough(Counts):
    """The values with at least a share of the rows: largest count first, then smallest value first."""

    def __init__(self, type: pa.DataType, label: str, share: Fraction) -> None:
        super().__init__(type, label)
        self.share = share
        self.result = hit_type(type)

    def answer(self, spans: Spans, found: Keys, total: Ints) -> pa.Array:
        """Expands a span over its answers only if its count suffices for at least one of them."""
        least = -(-total * self.share.numerator // self.share.denominator)
        if len(spans.code):
            (easiest,) = idempotent((least,), _smaller, spans.first, spans.stop)
            spans = Spans(*(part[spans.times >= easiest] for part in spans))
        answer = explode(spans.first, spans.stop)
        code, count = (np.repeat(part, spans.stop - spans.first) for part in (spans.code, spans.times))
        hit = np.flatnonzero(count >= least[answer])
        hit = hit[np.lexsort((code[hit], -count[hit], answer[hit]))]
        pairs = [found.decode(found.key[code[hit]]), pa.array(count[hit])]
        hits = pa.StructArray.from_arrays(pairs, fields=list(self.result.value_type))
        return as_lists(hits, offsets(np.bincount(answer[hit], minlength=len(total))), self.result, self.label)


def _smaller(a: Columns, b: Columns) -> Columns:
    return (np.minimum(a[0], b[0]),)


@dataclass(frozen=True)
class PseudoDifferential(Aggregate):
    """Base of mode and heavy_hitters: partials can be subtracted, and have no bound."""

    @property
    def bounded(self) -> bool:
        return False

    @property
    def differential(self) -> Differential:
        return Differential.PSEUDO


@dataclass(frozen=True)
class Mode(PseudoDifferential):
    name = "mode"

    def bind(self, schema: pa.Schema) -> Algebra:
        return MostFrequent(ordered_type(str(self), self.type_in(schema)), str(self))


@dataclass(frozen=True)
class HeavyHitters(PseudoDifferential):
    share: float
    name = "heavy_hitters"

    def __post_init__(self) -> None:
        check_share(str(self), self.share)

    def bind(self, schema: pa.Schema) -> Algebra:
        return FrequentEnough(ordered_type(str(self), self.type_in(schema)), str(self), fraction(self.share))

    def __str__(self) -> str:
        return f"{self.name}({self.column}, {self.share})"


def check_share(label: str, share: float) -> None:
    if not 1 / FINEST <= share <= 1:
        raise BadAggregate(f"{label} asks for the share {share}; give one above 0 and up to 1.")


def fraction(share: float) -> Fraction:
    return Fraction(str(share)).limit_denominator(FINEST)


def mode(column: str, *, where: str | None = None) -> Aggregate:
    """The most frequent value, or the smallest of several. The type is that of the column."""
    return filtered(Mode(column), where)


def heavy_hitters(column: str, share: float, *, where: str | None = None) -> Aggregate:
    """The values of at least this share of the rows, without nulls: a list of (value, count), largest count first."""
    return filtered(HeavyHitters(column, share), where)
