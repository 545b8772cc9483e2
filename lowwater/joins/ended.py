"""The values of one side that have ended: what punctuations on the key have promised (PW 3.1, 4.4).

Single values, and lists of them, are kept as a side of their own (side.py), so that they are found by hash; ranges are
kept in order (ranges.py). What has ended is in one of two states, by the paper's PunctFlag:

    punctuated   rows of the value may still be met here: its position is that of the last of them, so that time lets
                 it go exactly when that row leaves its window. That is the paper's punctuated ring: early propagation
    propagated   no result with the value can come any more, and the output has been told; rows of the other sides with
                 it are dropped unprocessed. Its position is how far the inputs were then

A promise is forgotten when the inputs have progressed past all windows that could still reach the time it was
propagated at; without a window it is kept for ever, so that rows which break it are told.

Two bounds move over the punctuated values: that of the rows that have left (`left`), and that of the promises that are
of no use any more (`forget`). The second is never beyond the first. Where values are propagated early, the first has
passed a promise before the second reaches it, and the promise is among the propagated by then. Where they are not, only
the second moves, until the other inputs have ended, and positions are those of `_kept_from` (pwjoin.py).
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
    """Ranges of ended values, with the position of the last row of each; `over` once it is propagated."""

    ranges: Ranges
    last: Ints = field(default_factory=lambda: np.empty(0, np.int64))
    over: Mask = field(default_factory=lambda: np.empty(0, np.bool_))
    is_stored: bool = False
    """Whether the state has them as they are."""

    def add(self, ranges: Ranges, last: Ints, over: Mask) -> None:
        """More ranges, in the place of what was known of their values. Neighbours of one fate become one."""
        pieces = self.ranges.pieces(ranges)
        old, new = self.ranges.number(pieces.low), ranges.number(pieces.low)
        some = (old >= 0) | (new >= 0)
        pieces, old, new = pieces.where(some), old[some], new[some]
        # A piece that is only old has its number there; index -1, of a piece that is not, is never chosen.
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
        if mask.all():
            return
        self.is_stored = False
        self.ranges, self.last, self.over = self.ranges.where(mask), self.last[mask], self.over[mask]


class EndedValues:
    """See the module text. `type` is that of a key of one column; ranges are of nothing else."""

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
        return bool(self.punctuated.parts or self.propagated.parts or len(self.spans.ranges))

    def has(self, keyed: Keyed) -> Mask:
        """Which rows have a value that has ended."""
        if not self.any:
            return np.zeros(len(keyed), np.bool_)
        single = self.punctuated.holds(keyed) | self.propagated.holds(keyed)
        return single | _inside(self.spans.ranges, keyed)

    def is_over(self, keyed: Keyed) -> Mask:
        """Which rows have a value that is propagated."""
        if not self.any:
            return np.zeros(len(keyed), np.bool_)
        return self.propagated.holds(keyed) | _inside(self.over, keyed)

    @property
    def over(self) -> Ranges:
        """The ranges that are propagated."""
        return self.spans.ranges.where(self.spans.over)

    def expect(self, values: Keyed, last: Ints) -> None:
        """Values whose last row is still here."""
        self.punctuated.insert(Keyed.of(values.rows, self.on, last, values.code))

    def finish(self, values: Keyed, at: int) -> None:
        """Values that are propagated now."""
        if not len(values):
            return
        self.punctuated.purge(values)
        self.propagated.insert(Keyed(values.rows, self.on, values.code, np.full(len(values), at)))

    def left(self, bound: int) -> list[pa.Table]:
        """The values whose last row has left now that rows below `bound` have."""
        return [part.keyed.rows.take(pa.array(rows)) for part, rows in self.punctuated.invalidate(bound) if len(rows)]

    def spans_left(self, bound: int) -> Ranges:
        """The ranges whose last row has left now that rows below `bound` have, and that are not yet propagated."""
        return self.spans.ranges.where(~self.spans.over & (self.spans.last < bound))

    def finish_ranges(self, ranges: Ranges, at: int) -> None:
        """Ranges that are propagated now."""
        if len(ranges):
            self.spans.add(ranges, np.full(len(ranges), at), np.ones(len(ranges), np.bool_))

    def punctuated_in(self, ranges: Ranges) -> pa.Table | None:
        """The single values in some ranges that are punctuated and not yet propagated."""
        found = []
        for part in self.punctuated.parts:
            rows = part.keyed.where_key(ranges.has)
            found.append(part.keyed.rows.take(pa.array(rows[part.live[rows]])))
        return pa.concat_tables(found) if found else None

    def forget(self, bound: int) -> None:
        """Promises below a position are of no use any more, propagated or still waiting for another side."""
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
        """How many single values and ranges are remembered."""
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
    """Which rows have a key in a range; asked once for each value list."""
    if not len(ranges) or keyed.mixed:
        return ranges.has(keyed.keys) if len(ranges) else np.zeros(len(keyed), np.bool_)
    return np.repeat(ranges.has(pick(keyed.keys, keyed.starts[:-1])), np.diff(keyed.starts))


def distinct(values: pa.Table, on: tuple[str, ...], null_safe: bool) -> Keyed:
    """Single values as rows to search with: each once, nulls only where they match."""
    _, keys = factorise(values.rename_columns(list(on)))
    if not null_safe:
        for name in on:
            keys = keys.filter(pc.is_valid(keys.column(name)))
    return Keyed.of(keys.combine_chunks(), on, np.zeros(keys.num_rows, np.int64))
