"""PWJoin: a window join that exploits punctuation on the key (PW 4), of two inputs or more (P6).

The paper has three operations. OA-Join has two of them: invalidation by time and probing by value. PWJoin adds the
third, purging by value. When side i has ended value v:

    Stored rows of another side with v are removed once all sides except their own have ended v, because no later row
    can join them.
    New rows of another side with v are joined and not kept (on-the-fly discard).
    New rows of side i with v break the promise and are late.

The join also punctuates its output: it emits the end of v to the operators that follow, as `Ended`, or as a punctuation
if v is a range. It does so

    regularly    when all sides have ended v                                                  (Theorem 3.1)
    early        when one side has ended v and its last row with v has left its window        (Theorem 4.1)

Streams without ended values cost nothing extra: the join then makes no search for ended values.

PJoin and WJoin are settings of this join. PJoin has no window: `waits` are None and `early=False`. WJoin receives no
punctuation on values. Values arrive as `Ended`, many at a time, or as punctuations: a constant, a list or a range.

>>> from lowwater.joins.spec import JoinSide
>>> from lowwater.operators.base import Batch, taken
>>> auction, bid = (JoinSide(n, pa.schema({"ts": pa.int64(), "item": pa.int64()}), "ts", ("item",)) for n in "ab")
>>> join = PWJoin(WindowJoin((auction, bid), (12, 0)))
>>> _ = taken(join, 0, Batch(pa.table({"ts": [0, 1], "item": [180, 181]})))
>>> [m.rows.to_pylist() for m in taken(join, 1, Batch(pa.table({"ts": [5], "item": [180]})))]
[[{'item': 180, 'a_ts': 0, 'b_ts': 5}]]
>>> taken(join, 0, Ended(pa.table({"item": [180, 181]})))            # an item is auctioned once: bids are not kept
[]
>>> [m.values.to_pylist() for m in taken(join, 1, Ended(pa.table({"item": [180]})))], join.held().rows
([[{'item': 180}]], 1)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lowwater.joins.ended import EndedValues, distinct
from lowwater.joins.keyed import Ints, Keyed, Mask
from lowwater.joins.oa_join import UNGRAMMATICAL, OAJoin
from lowwater.joins.part import Part
from lowwater.joins.ranges import Ranges
from lowwater.joins.spec import WindowJoin
from lowwater.model.columns import whole
from lowwater.model.punctuation import Finite, Punctuation, Range
from lowwater.model.ticks import END, NEVER
from lowwater.operators.base import Emit, Ended
from lowwater.state.store import Store

__all__ = ["UNGRAMMATICAL", "PWJoin", "pjoin"]


@dataclass
class Values:
    """Counters of a PWJoin, as a record of its state."""

    newest: int = NEVER
    """The largest position of a row or of a punctuation."""
    propagated: int = 0
    """The single values and ranges whose end was emitted."""
    ended: int = 0
    """The single values that inputs have ended."""


class PWJoin(OAJoin):
    """See the module text."""

    def __init__(
        self,
        what: WindowJoin,
        joint: bool = False,
        early: bool = True,
        extremes: bool = False,
        store: Store | None = None,
    ) -> None:
        super().__init__(what, joint, extremes, store)
        self.early = early
        self._values = self.store.record("values", Values())
        self.ended = [
            EndedValues(side.on, side.schema.field(side.on[0]).type if side.on else None, self.store.at(f"ended{i}"))
            for i, side in enumerate(what.sides)
        ]

    @property
    def newest(self) -> int:
        return self._values.newest

    @newest.setter
    def newest(self, newest: int) -> None:
        self._values.newest = newest

    @property
    def propagated(self) -> int:
        """The number of single values and ranges whose end was emitted."""
        return self._values.propagated

    @property
    def remembered(self) -> int:
        return sum(ended.rows for ended in self.ended)

    def excess(self) -> str | None:
        """The bound of OA-Join. In addition, no more promises about single values are kept than inputs have made."""
        kept = sum(ended.punctuated.live_rows + ended.propagated.live_rows for ended in self.ended)
        if kept > self._values.ended:
            return f"{kept} promises are kept, though only {self._values.ended} values have ended."
        return super().excess()

    @property
    def demands(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys([*super().demands, *(name for side in self.what.sides for name in side.on)]))

    # -- rows ------------------------------------------------------------------------------------------------------

    def _on_time(self, port: int, keyed: Keyed, emit: Emit) -> Keyed:
        keyed = super()._on_time(port, keyed, emit)
        self.newest = max(self.newest, keyed.most if len(keyed) else NEVER)
        return self._without(port, keyed, self.ended[port].has(keyed), UNGRAMMATICAL, emit)

    def _probe(self, port: int, keyed: Keyed, emit: Emit) -> Mask:
        """Probes with the rows whose value is not propagated. The others cannot have a partner."""
        over = self._over(port, keyed)
        if not over.any():
            return super()._probe(port, keyed, emit)
        matched = np.zeros(len(keyed), np.bool_)
        matched[~over] = super()._probe(port, keyed.where(~over), emit)
        return matched

    def _over(self, port: int, keyed: Keyed) -> Mask:
        """The rows of side `port` whose value is propagated."""
        over = np.zeros(len(keyed), np.bool_)
        for i in self._others(port):
            over |= self.ended[i].is_over(keyed)
        return over

    def _needless(self, port: int, keyed: Keyed) -> Mask:
        needless = self._ended_by(self._others(port), keyed)
        return needless if self.ports == 2 else needless | self._over(port, keyed)

    def _others(self, *ports: int) -> list[int]:
        return [i for i in range(self.ports) if i not in ports]

    def _ended_by(self, ports: list[int], keyed: Keyed) -> Mask:
        """The rows whose value all these sides have ended."""
        ended = np.ones(len(keyed), np.bool_)
        for i in ports:
            if ended.any():
                ended &= self.ended[i].has(keyed)
        return ended

    # -- values ----------------------------------------------------------------------------------------------------

    def on_ended(self, port: int, ended: Ended, emit: Emit) -> None:
        """Takes ended values first, then ended ranges. Their promises hold from `ended.marked` on."""
        if ended.marked is not None:
            self._marked(ended.marked)
        if ended.values.num_rows:
            self._on_values(port, ended.values, emit)
        if ended.ranges is not None and ended.ranges.num_rows:
            low, high = (whole(ended.ranges.column(name)) for name in ("low", "high"))
            self._on_ranges(port, low, high, emit)

    def _on_values(self, port: int, listed: pa.Table, emit: Emit) -> None:
        """Ends single values of one side: purges, propagates what is over, and remembers the rest."""
        values = distinct(listed, self.what.sides[port].on, self.what.null_safe)
        values = values.where(~self.ended[port].has(values))
        if not len(values):
            return
        self._values.ended += len(values)
        for i in self._others(port):
            self._purge(i, values.where(self._ended_by(self._others(i, port), self._of(i, values))), emit)
        regular = self._ended_by(self._others(port), values)
        last = self.sides[port].last(values, NEVER)
        over = regular | ((last == NEVER) & self._early(port))
        self._propagate(values.where(over), port, emit)
        self.ended[port].expect(values.where(~over), last[~over] if self._early(port) else self._kept_from(last[~over]))
        for side in self.sides:
            side.tidy()

    def _marked(self, time: int) -> None:
        """Records that punctuations were read up to this time."""
        at, _ = self.what.axis.positions(np.array([time]))
        self.newest = max(self.newest, int(at.max()) if len(at) else self.what.axis.reached(time))

    def _early(self, port: int) -> bool:
        """Whether this side alone can end a value. It cannot if rows of another side without a partner are results."""
        return self.early and not any(self.what.keeps[i] for i in self._others(port))

    def _kept_from(self, last: Ints) -> Ints:
        """The positions of promises that wait for another side. They are kept no shorter than if propagated now."""
        return np.maximum(last, self._reached())

    def _reached(self) -> int:
        """The progress of the inputs: the newest row, mark or low-watermark.

        Rows and marks are included because the punctuation of a batch comes after its rows and ended values.
        """
        return max([self.newest, *(self.what.axis.reached(low) for low in self.low if low < END)])

    def _of(self, side: int, values: Keyed) -> Keyed:
        """The same values under the key names of another side."""
        on = self.what.sides[side].on
        return Keyed(values.rows.rename_columns(list(on)), on, values.code, values.at)

    def _purge(self, port: int, values: Keyed, emit: Emit) -> None:
        self._release(port, self.sides[port].purge(self._of(port, values)), emit)

    def _propagate(self, values: Keyed, port: int, emit: Emit) -> None:
        """Marks values of one side as propagated on all sides that have ended them, and emits their end once."""
        if not len(values):
            return
        reached = self._reached()
        new = np.ones(len(values), np.bool_)
        self.ended[port].finish(values, reached)
        for i in self._others(port):
            theirs = self._of(i, values)
            over = self.ended[i].is_over(theirs)
            new &= ~over
            self.ended[i].finish(theirs.where(self.ended[i].punctuated.holds(theirs)), reached)
            if self.ports > 2:  # of two sides, the other one has removed these rows when this side ended the values
                self._purge(i, values, emit)
        values = values.where(new)
        if len(values):
            self._values.propagated += len(values)
            emit(Ended(values.rows.rename_columns(list(self.what.keys))))

    def _passed(self, emit: Emit) -> None:
        """Propagates values whose last row has left its window. Drops promises that no open window reaches."""
        for i, ended in enumerate(self.ended):
            if not ended.any:
                continue
            bound = self._bound(i)
            for rows in ended.left(bound) if self._early(i) or bound == END else []:
                self._propagate(Keyed.of(rows, ended.on, np.zeros(rows.num_rows, np.int64)), i, emit)
            if self._early(i) or bound == END:
                self._propagate_ranges(ended.spans_left(bound), i, emit)
        for ended in self.ended:  # after all sides have propagated, so that no value is reported a second time
            if ended.any:
                ended.forget(self._forgotten())

    def end(self, emit: Emit) -> None:
        for ended in self.ended:
            ended.merge()
        super().end(emit)

    def _forgotten(self) -> int:
        """The position below which promises are dropped, because no open window reaches so far back."""
        reached = self._least()
        if reached in (NEVER, END):
            return reached
        if None in self.what.waits:
            return NEVER
        return reached - sum(abs(wait) for wait in self.what.waits if wait is not None)

    # -- ranges ----------------------------------------------------------------------------------------------------

    def on_punctuation(self, port: int, punctuation: Punctuation, emit: Emit) -> None:
        side = self.what.sides[port]
        named = dict(punctuation.patterns)
        if len(side.on) != 1 or set(named) != set(side.on) or punctuation.low_watermark(side.time) is not None:
            super().on_punctuation(port, punctuation, emit)
            return
        (pattern,) = named.values()
        if isinstance(pattern, Finite):
            listed = pa.array(list(pattern.listed()), side.schema.field(side.on[0]).type)
            self._on_values(port, pa.table([listed], names=list(side.on)), emit)
        elif isinstance(pattern, Range) and pattern.closed_low and pattern.high is not None:
            low, high = (pa.array([end], side.schema.field(side.on[0]).type) for end in (pattern.low, pattern.high))
            self._on_ranges(port, low, high, emit)

    def _on_ranges(self, port: int, low: pa.Array, high: pa.Array, emit: Emit) -> None:
        """Ends ranges of values, by the rules of `_on_values`. Propagates the parts that all other sides have ended."""
        new = Ranges.of(low, high).minus(self.ended[port].spans.ranges)
        if not len(new):
            return
        others = self._others(port)
        for i in others:
            self._release(i, self._purge_ranges(i, new, self._others(i, port)), emit)
        shared = unreported = new
        for i in others:
            shared = shared.meet(self.ended[i].spans.ranges)
            unreported = unreported.minus(self.ended[i].over)
        for ended in self.ended:
            ended.finish_ranges(shared, self._reached())
        self._report(shared.meet(unreported), emit)
        for i in others:
            singles = self.ended[i].punctuated_in(new)
            if singles is not None and singles.num_rows:
                values = Keyed.of(singles, self.what.sides[i].on, np.zeros(singles.num_rows, np.int64))
                self._propagate(values.where(self._ended_by(self._others(i, port), values)), i, emit)
        self._expect_ranges(port, new.minus(shared), emit)
        for side in self.sides:
            side.tidy()

    def _expect_ranges(self, port: int, ranges: Ranges, emit: Emit) -> None:
        """Remembers ranges that only this side has ended. Propagates at once those without a stored row."""
        if not len(ranges):
            return
        last = self.sides[port].last_in(ranges.numbers, len(ranges), NEVER)
        over = (last == NEVER) & self._early(port)
        waits = ~over & self._early(port)
        self.ended[port].spans.add(ranges, np.where(waits, last, self._kept_from(last)), over)
        self._propagate_ranges(ranges.where(over), port, emit)

    def _propagate_ranges(self, ranges: Ranges, port: int, emit: Emit) -> None:
        """Propagates ranges, as `_propagate` does for values. Does not report again what another side has reported."""
        if not len(ranges):
            return
        reached = self._reached()
        new = ranges
        self.ended[port].finish_ranges(ranges, reached)
        for i in self._others(port):
            theirs = self.ended[i]
            new = new.minus(theirs.over)
            theirs.finish_ranges(ranges.meet(theirs.spans.ranges).minus(theirs.over), reached)
            if self.ports > 2:
                self._release(i, self._purge_ranges(i, ranges, []), emit)
        self._report(new, emit)

    def _purge_ranges(self, port: int, ranges: Ranges, others: list[int]) -> list[tuple[Part, Ints]]:
        """Removes the rows of a side that are in `ranges` and whose value all `others` have ended as well."""
        side = self.sides[port]

        def among(keys: pa.Table) -> Mask:
            held = ranges.has(keys)
            if others and held.any():
                chosen = np.flatnonzero(held)
                candidates = Keyed.of(keys.take(pa.array(chosen)), side.on, chosen)
                held[candidates.at[~self._ended_by(others, candidates)]] = False
            return held

        return side.purge_where(among)

    def _report(self, ranges: Ranges, emit: Emit) -> None:
        """Emits the end of ranges as punctuations."""
        self._values.propagated += len(ranges)
        for low, high in ranges.to_pylist():
            emit(Punctuation({self.what.keys[0]: Range(low, high)}))


def pjoin(what: WindowJoin, store: Store | None = None) -> PWJoin:
    """A join without a window that exploits punctuation on the key (PW's PJoin)."""
    return PWJoin(what, early=False, store=store)
