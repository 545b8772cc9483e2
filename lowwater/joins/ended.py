"""The ended values of one join side: the promises that punctuations on the key have made (PW 3.1, 4.4).

Single values and lists of values are kept in a `Side` of their own (side.py), so that they are found by hash. Ranges of
values are kept in order (ranges.py). An ended value is in one of two states, the PunctFlag of the paper:

    punctuated   This side may still hold rows of the value. The position of the promise is that of the last of these
                 rows, so the promise expires exactly when that row leaves its window. This is the punctuated ring of
                 the paper, for early propagation.
    propagated   No result with the value can come any more, and the output has been punctuated. Rows of the other sides
                 with this value are dropped without a probe. The position of the promise is the progress of the inputs
                 when it was propagated.

A promise is dropped when the inputs have progressed so far that no open window contains the position at which the
promise was propagated. A join without a window keeps its promises until its inputs end, so that rows which break them
are reported as late.

Two bounds move over the punctuated values. `left` takes the bound below which rows have left their window, and `forget`
the bound below which promises are no longer needed. The second bound is never ahead of the first. With early
propagation, the first bound passes a promise before the second does, so the promise is propagated by then. Without it,
only the second bound moves until the other inputs have ended, and `_kept_from` (pwjoin.py) sets the positions.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lowwater.aggregates.grouped import factorise
from lowwater.joins.keyed import Ints, Keyed, Mask, pick
from lowwater.joins.ranges import Ranges, in_order, none
from lowwater.joins.side import Side
from lowwater.model.columns import whole
from lowwater.state.store import OneTable, Store

SPANS = "spans"


@dataclass
class Spans:
    """Ranges of ended values, each with the position of its last row. `over` marks the propagated ranges."""

    ranges: Ranges
    last: Ints = field(default_factory=lambda: np.empty(0, np.int64))
    over: Mask = field(default_factory=lambda: np.empty(0, np.bool_))
    is_stored: bool = False
    """Whether the state has the current ranges."""

    def add(self, ranges: Ranges, last: Ints, over: Mask) -> None:
        """Adds ranges, which replace what was known about their values. Merges adjacent ranges with equal facts."""
        pieces = self.ranges.pieces(ranges)
        old, new = self.ranges.number(pieces.low), ranges.number(pieces.low)
        some = (old >= 0) | (new >= 0)
        pieces, old, new = pieces.where(some), old[some], new[some]
        # np.where never chooses the element at index -1, which stands for "not in this set of ranges".
        last = np.where(new >= 0, np.append(last, 0)[new], np.append(self.last, 0)[old])
        over = np.where(new >= 0, np.append(over, False)[new], np.append(self.over, False)[old])
        apart = np.asarray(pieces.low[1:] != pieces.high[:-1], np.bool_)
        other = (over[1:] != over[:-1]) | (~over[1:] & (last[1:] != last[:-1]))
        starts = np.flatnonzero(np.append(True, apart | other)[: len(pieces)])
        ends = np.append(starts[1:], len(pieces))[: len(starts)] - 1
        self.ranges = Ranges(ranges.type, pieces.low[starts], pieces.high[ends])
        self.last = np.maximum.reduceat(last, starts) if len(starts) else last
        self.over = over[starts]
        self.is_stored = False

    def keep(self, mask: Mask) -> None:
        """Drops the ranges that are not in `mask`."""
        if mask.all():
            return
        self.is_stored = False
        self.ranges, self.last, self.over = self.ranges.where(mask), self.last[mask], self.over[mask]


class EndedValues:
    """See the module text. `type` is the type of a key of one column; only such keys have ranges."""

    def __init__(self, on: tuple[str, ...], type: pa.DataType | None = None, store: Store | None = None) -> None:
        self.on = on
        store = store or Store()
        self.punctuated = Side(on, store=store.at("punctuated"))
        self.propagated = Side(on, store=store.at("propagated"))
        self._slots = store.slots("spans", OneTable())
        self.spans = _spans(self._slots[SPANS].value) if SPANS in self._slots else Spans(none(type or pa.int64()))
        store.settling(self._settle)

    @property
    def any(self) -> bool:
        """Whether any value has ended and is still remembered."""
        return bool(self.punctuated.parts or self.propagated.parts or len(self.spans.ranges))

    def has(self, keyed: Keyed) -> Mask:
        """The rows whose value has ended."""
        if not self.any:
            return np.zeros(len(keyed), np.bool_)
        single = self.punctuated.holds(keyed) | self.propagated.holds(keyed)
        return single | _inside(self.spans.ranges, keyed)

    def is_over(self, keyed: Keyed) -> Mask:
        """The rows whose value is propagated."""
        if not self.any:
            return np.zeros(len(keyed), np.bool_)
        return self.propagated.holds(keyed) | _inside(self.over, keyed)

    @property
    def over(self) -> Ranges:
        """The propagated ranges."""
        return self.spans.ranges.where(self.spans.over)

    def expect(self, values: Keyed, last: Ints) -> None:
        """Adds values as punctuated. `last` is the position of the last row of each value."""
        self.punctuated.insert(Keyed.of(values.rows, self.on, last, values.code))

    def finish(self, values: Keyed, at: int) -> None:
        """Marks values as propagated when the inputs have progressed to `at`."""
        if not len(values):
            return
        self.punctuated.purge(values)
        self.propagated.insert(Keyed(values.rows, self.on, values.code, np.full(len(values), at)))

    def left(self, bound: int) -> list[pa.Table]:
        """Removes and returns the punctuated values whose last row is below `bound`."""
        return [part.keyed.rows.take(pa.array(rows)) for part, rows in self.punctuated.invalidate(bound) if len(rows)]

    def spans_left(self, bound: int) -> Ranges:
        """The ranges whose last row is below `bound` and that are not propagated yet."""
        return self.spans.ranges.where(~self.spans.over & (self.spans.last < bound))

    def finish_ranges(self, ranges: Ranges, at: int) -> None:
        """Marks ranges as propagated when the inputs have progressed to `at`."""
        if len(ranges):
            self.spans.add(ranges, np.full(len(ranges), at), np.ones(len(ranges), np.bool_))

    def punctuated_in(self, ranges: Ranges) -> pa.Table | None:
        """The single values in `ranges` that are punctuated and not propagated yet."""
        found = []
        for part in self.punctuated.parts:
            rows = part.keyed.where_key(ranges.has)
            found.append(part.keyed.rows.take(pa.array(rows[part.live[rows]])))
        return pa.concat_tables(found) if found else None

    def forget(self, bound: int) -> None:
        """Drops the promises with a position below `bound`, whether propagated or waiting for another side."""
        self.propagated.invalidate(bound, which=False)
        self.punctuated.invalidate(bound, which=False)
        self.spans.keep(self.spans.last >= bound)
        self.propagated.tidy()
        self.punctuated.tidy()

    def merge(self) -> None:
        self.propagated.merge()
        self.punctuated.merge()

    @property
    def rows(self) -> int:
        """The number of single values and ranges that are remembered."""
        return self.punctuated.live_rows + self.propagated.live_rows + len(self.spans.ranges)

    def _settle(self) -> None:
        if not len(self.spans.ranges):
            self._slots.clear()
        elif not self.spans.is_stored or SPANS not in self._slots:
            low, high = self.spans.ranges.columns
            table = pa.table({"low": low, "high": high, "last": self.spans.last, "over": self.spans.over})
            self._slots.put(SPANS, table, rows=table.num_rows)
            self.spans.is_stored = True


def _spans(table: pa.Table) -> Spans:
    low, high, last, over = (whole(column) for column in table.columns)
    ranges = Ranges(low.type, in_order(low), in_order(high))
    return Spans(ranges, last.to_numpy(), over.to_numpy(zero_copy_only=False), is_stored=True)


def _inside(ranges: Ranges, keyed: Keyed) -> Mask:
    """The rows whose key is in a range. Tests each value list once."""
    if not len(ranges) or keyed.mixed:
        return ranges.has(keyed.keys) if len(ranges) else np.zeros(len(keyed), np.bool_)
    return np.repeat(ranges.has(pick(keyed.keys, keyed.starts[:-1])), np.diff(keyed.starts))


def distinct(values: pa.Table, on: tuple[str, ...], null_safe: bool) -> Keyed:
    """Single values as rows to probe with: each value once, and null only if nulls match."""
    _, keys = factorise(values.rename_columns(list(on)))
    if not null_safe:
        for name in on:
            keys = keys.filter(pc.is_valid(keys.column(name)))
    return Keyed.of(keys.combine_chunks(), on, np.zeros(keys.num_rows, np.int64))
