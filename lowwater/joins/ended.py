"""The values of one side that have ended: what punctuations on the key have promised (PW 3.1, 4.4).

Single values, and lists of them, are kept as a side of their own (side.py), so that they are found by value; ranges are
few and kept as bounds. An ended value is in one of two states, by the paper's PunctFlag:

    punctuated   rows of the value may still be met here: its position is that of the last of them, so that time lets
                 it go exactly when that row leaves its window. That is the paper's punctuated ring: early propagation
    propagated   no result with the value can come any more, and the output has been told; rows of the other sides with
                 it are dropped unprocessed. Its position is how far the inputs were then

A promise is forgotten when the inputs have progressed past all windows that could still reach the time it was
propagated at; without a window it is kept for ever, so that rows which break it are told.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lowwater.aggregates.grouped import factorise
from lowwater.joins.keyed import Ints, Keyed, Mask
from lowwater.joins.side import Side
from lowwater.model.columns import whole
from lowwater.model.punctuation import Range
from lowwater.model.ticks import NEVER
from lowwater.operators.base import Load
from lowwater.state.segments import Segment


@dataclass(frozen=True)
class Span:
    """A range of ended values, and the position of the last row in it; `over` once it is propagated."""

    range: Range
    last: int = NEVER
    over: bool = False

    def among(self, keys: pa.Table) -> Mask:
        return inside(self.range, keys)


class EndedValues:
    """See the module text."""

    def __init__(self, on: tuple[str, ...]) -> None:
        self.on = on
        self.punctuated = Side(on)
        self.propagated = Side(on)
        self.spans: list[Span] = []

    @property
    def any(self) -> bool:
        return bool(self.punctuated.parts or self.propagated.parts or self.spans)

    def has(self, keyed: Keyed) -> Mask:
        """Which rows have a value that has ended."""
        if not self.any:
            return np.zeros(len(keyed), np.bool_)
        return self.punctuated.holds(keyed) | self.is_over(keyed) | self._in_spans(keyed, self.spans)

    def is_over(self, keyed: Keyed) -> Mask:
        """Which rows have a value that is propagated."""
        if not self.any:
            return np.zeros(len(keyed), np.bool_)
        return self.propagated.holds(keyed) | self._in_spans(keyed, [span for span in self.spans if span.over])

    def _in_spans(self, keyed: Keyed, spans: Sequence[Span]) -> Mask:
        held = np.zeros(len(keyed), np.bool_)
        for span in spans:
            held |= span.among(keyed.keys)
        return held

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

    def spans_left(self, bound: int, at: int) -> list[Range]:
        """The ranges whose last row has left now that rows below `bound` have; they are propagated at `at`."""
        gone = [span for span in self.spans if not span.over and span.last < bound]
        self.spans = [span for span in self.spans if span not in gone]
        for span in gone:
            self.add(replace(span, over=True, last=at))
        return [span.range for span in gone]

    def add(self, span: Span) -> None:
        """A range more. Ranges that are propagated and touch each other become one."""
        if not span.over:
            self.spans.append(span)
            return
        for other in [s for s in self.spans if s.over]:
            bounds: list[Any] = [span.range.low, span.range.high, other.range.low, other.range.high]
            if bounds[0] <= bounds[3] and bounds[2] <= bounds[1]:
                self.spans.remove(other)
                span = Span(Range(min(bounds), max(bounds)), max(span.last, other.last), True)
        self.spans = [*(s for s in self.spans if s.over or not span.range.covers(s.range)), span]

    def covers(self, range: Range) -> bool:
        return any(span.range.covers(range) for span in self.spans)

    def punctuated_in(self, range: Range) -> pa.Table | None:
        """The single values in a range that are punctuated and not yet propagated."""
        found = []
        for part in self.punctuated.parts:
            rows = part.keyed.where_key(lambda keys: inside(range, keys))
            found.append(part.keyed.rows.take(pa.array(rows[part.live[rows]])))
        return pa.concat_tables(found) if found else None

    def forget(self, bound: int) -> None:
        """Promises below a position are of no use any more, propagated or still waiting for another side."""
        self.propagated.invalidate(bound)
        self.punctuated.invalidate(bound)
        self.spans = [span for span in self.spans if span.last >= bound]
        self.propagated.tidy()
        self.punctuated.tidy()

    @property
    def rows(self) -> int:
        return self.punctuated.rows + self.propagated.rows + len(self.spans)

    # -- state -----------------------------------------------------------------------------------------------------

    def snapshot(self) -> tuple[dict[str, Any], list[Segment[Any]]]:
        punctuated, segments = self.punctuated.snapshot()
        propagated, more = self.propagated.snapshot()
        head: dict[str, Any] = {"punctuated": punctuated, "propagated": propagated, "spans": None}
        segments = [*segments, *more]
        if self.spans:
            columns = {
                "low": [span.range.low for span in self.spans],
                "high": [span.range.high for span in self.spans],
                "last": pa.array([span.last for span in self.spans], pa.int64()),
                "over": [span.over for span in self.spans],
            }
            table = pa.table(columns)
            spans = Segment.of(table, {"spans": table})
            head["spans"] = spans.id
            segments.append(spans)
        return head, segments

    def restore(self, head: dict[str, Any], load: Load) -> None:
        self.punctuated.restore(head["punctuated"], load)
        self.propagated.restore(head["propagated"], load)
        told = [] if head["spans"] is None else load(head["spans"]).value.to_pylist()
        self.spans = [Span(Range(row["low"], row["high"]), row["last"], row["over"]) for row in told]


def inside(range: Range, keys: pa.Table) -> Mask:
    """Which keys, of one column, are in a half-open range; null is in none."""
    column = whole(keys.column(0))
    low, high = (pa.scalar(bound, column.type) for bound in (range.low, range.high))
    held = pc.and_(pc.greater_equal(column, low), pc.less(column, high))
    return np.asarray(pc.fill_null(held, False).to_numpy(zero_copy_only=False), np.bool_)


def distinct(values: pa.Table, on: tuple[str, ...], null_safe: bool) -> Keyed:
    """Single values as rows to search with: each once, nulls only where they match."""
    _, keys = factorise(values.rename_columns(list(on)))
    if not null_safe:
        for name in on:
            keys = keys.filter(pc.is_valid(keys.column(name)))
    return Keyed.of(keys.combine_chunks(), on, np.zeros(keys.num_rows, np.int64))
