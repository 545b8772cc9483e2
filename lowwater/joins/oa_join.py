"""OA-Join: a window join of two or more inputs (J7) that needs no order of arrival (TH 7.1, Fig. 7-1 and 7-2).

A batch on one port probes the stored rows of the other inputs. Then its own rows are stored, except those that no later
row of another input can join, by the low-watermarks of these inputs. A punctuation on one port removes the rows of the
other inputs that it rules out. So every pair is found exactly once, when the later of its rows arrives, in any order of
arrival.

    b_i                  low-watermark of input i: no row with t < b_i comes any more; if one does, it is late
    bound_i              min over the others of b_j, minus wait_i: no later row joins a row of i below bound_i
    row of i is kept     iff  t >= bound_i
    individual output    no result with t_i < min(b_i, bound_i) comes any more      (a slab, Fig. 7-5a)
    joint output         no result with all t_i < b_i comes any more                (a box, Fig. 7-5b: without windows)

Over a grid, both sides of each of these comparisons are window numbers (erratum 3). Results then progress on
window_start and window_end too: no result comes of a window before the first that the slowest input has reached.

Rows without a partner are results of outer and anti joins. They are emitted when they fall below their bound, because
progress then proves that no partner comes. A row with a null key has no partner from the start, unless nulls match.

>>> from lowwater.joins.spec import JoinSide, WindowJoin
>>> from lowwater.operators.base import taken
>>> a, b = (JoinSide(name, pa.schema({"ts": pa.int64(), "k": pa.string()}), "ts", ("k",)) for name in ("a", "b"))
>>> join = OAJoin(WindowJoin((a, b), (5, 5), "left"))
>>> taken(join, 0, Batch(pa.table({"ts": [3, 40], "k": ["x", "x"]})))
[]
>>> [m.rows.to_pylist() for m in taken(join, 1, Batch(pa.table({"ts": [7], "k": ["x"]})))]
[[{'k': 'x', 'a_ts': 3, 'b_ts': 7}]]
>>> rows, *_ = taken(join, 1, Punctuation.linear("ts", 46))
>>> rows.rows.to_pylist(), join.held().rows
([{'k': 'x', 'a_ts': 40, 'b_ts': None}], 1)
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
import pyarrow as pa

from lowwater.joins.keyed import Ints, Keyed, Mask
from lowwater.joins.part import Part
from lowwater.joins.side import Side
from lowwater.joins.spec import WINDOW, WindowJoin
from lowwater.model.columns import whole
from lowwater.model.punctuation import ALL, Punctuation, Range
from lowwater.model.ticks import END, NEVER, checked
from lowwater.operators.base import Batch, Emit, Operator, Payload, Promises, batch_of
from lowwater.state.store import Store

LATE = "its input has progressed past it"
UNGRAMMATICAL = "its input has ended this value"
EVER = -NEVER
TEXT = 1 << 30
"""Bytes of text in one column of results at most; an Arrow array holds up to twice as many."""
PIECE = 32 << 20
"""Approximate size of one piece of results in bytes. Results are emitted piece by piece."""


@dataclass(frozen=True)
class Arrived(Payload):
    """A batch in the layout of ingest: rows sorted by (code, position), and rows with a null key.

    `broken` are the rows that ingest found to come after the end of their own value. They are late.
    """

    keyed: Keyed
    nulls: pa.Table | None = None
    broken: pa.Table | None = None


@dataclass
class Bounds:
    """The low-watermarks of the inputs and the bounds emitted to the output, as a record of the state."""

    low: list[int] = field(default_factory=list)
    told: list[int] = field(default_factory=list)
    """The last bound emitted for the time of each input. Checkpoints contain this name."""


@dataclass(frozen=True, eq=False)
class Bound:
    """One side of a list of combinations: the rows of this side, and the row index of each combination."""

    keyed: Keyed
    rows: Ints
    part: Part | None = None


class OAJoin(Operator):
    """See the module text.

    `joint` requests joint instead of individual punctuation on the output. It takes effect for inner joins of two
    inputs whose times both appear in the results. For other joins no result would lie in a box, and later operators
    would not progress before the end, so punctuation stays individual.

    `extremes` requests linear punctuation on two derived attributes, the greatest and the least time of a result. It
    takes effect if all times have the same type.
    """

    GREATEST: ClassVar[str] = "__lw_greatest"
    LEAST: ClassVar[str] = "__lw_least"

    def __init__(
        self, what: WindowJoin, joint: bool = False, extremes: bool = False, store: Store | None = None
    ) -> None:
        super().__init__(store)
        self.what = what
        self.ports = len(what.sides)
        self.joint = joint and what.how == "inner" and len(what.sides) == len(set(what.times)) == 2
        self.extremes = extremes and len({side.schema.field(side.time).type for side in what.sides}) == 1
        self._bounds = self.store.record("told", Bounds([NEVER] * self.ports, [NEVER] * self.ports))
        self._promises = self.store.record("promises", Promises())
        flagged = what.keeps if not what.one_sided else (False,) * self.ports
        self.sides = [
            Side(side.on, flag, self.store.at(f"side{i}"))
            for i, (side, flag) in enumerate(zip(what.sides, flagged, strict=True))
        ]
        self._tidy = False  # whether the sides were tidied after the last rows came

    @property
    def low(self) -> list[int]:
        """The low-watermarks of the inputs."""
        return self._bounds.low

    @property
    def promised(self) -> list[int]:
        """The last bound emitted for the time of each input."""
        return self._bounds.told

    @property
    def demands(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(side.time for side in self.what.sides))

    # -- rows ------------------------------------------------------------------------------------------------------

    def on_rows(self, port: int, rows: Payload, emit: Emit) -> None:
        self._tidy = False
        arrived = rows if isinstance(rows, Arrived) else arrange(self.what, port, batch_of(rows))
        if arrived.nulls is not None and arrived.nulls.num_rows:
            self._nulls(port, arrived.nulls, emit)
        keyed = self._on_time(port, arrived.keyed, emit)
        if len(keyed):
            matched = self._probe(port, keyed, emit)
            self._keep(port, keyed, matched, emit)
        self._broken(port, arrived, emit)

    def _broken(self, port: int, arrived: Arrived, emit: Emit) -> None:
        """Emits as late the rows that ingest found to break a promise."""
        if arrived.broken is not None and arrived.broken.num_rows:
            self._drop_late(port, arrived.broken, UNGRAMMATICAL, emit)

    def _on_time(self, port: int, keyed: Keyed, emit: Emit) -> Keyed:
        """The rows that are not late. Emits the late rows."""
        if self.low[port] == NEVER or not len(keyed):
            return keyed
        return self._without(port, keyed, self._late(port, keyed.rows, keyed.at), LATE, emit)

    def _without(self, port: int, keyed: Keyed, late: Mask, reason: str, emit: Emit) -> Keyed:
        """The rows that are not in `late`. Emits those in `late`, once even if a row is in several windows."""
        if not late.any():
            return keyed
        rows = keyed.rows.filter(pa.array(late))
        if self.what.grid is not None and self.what.grid.range != self.what.grid.slide:
            first, _ = self.what.grid.bounds(self._time(port, rows))
            rows = rows.filter(pa.array(keyed.at[late] == first))
        self._drop_late(port, rows, reason, emit)
        return keyed.where(~late)

    def _late(self, port: int, rows: pa.Table, at: Ints | None = None) -> Mask:
        time = at if at is not None and self.what.grid is None else self._time(port, rows)
        return np.asarray(time < self.low[port], np.bool_)

    def _time(self, port: int, rows: pa.Table) -> Ints:
        side = self.what.sides[port]
        return side.ticks.encode(whole(rows.column(side.time)))

    def _drop_late(self, port: int, rows: pa.Table, reason: str, emit: Emit) -> None:
        """Late rows count nowhere in a join. They are emitted with the columns of their input."""
        known = set(rows.column_names)
        own = [name for name in self.what.sides[port].schema.names if name in known]
        self.drop_late(rows.select(own), reason, emit)

    def _nulls(self, port: int, rows: pa.Table, emit: Emit) -> None:
        """Takes rows with a null key, which cannot have a partner."""
        late = self._late(port, rows)
        if late.any():
            self._drop_late(port, rows.filter(pa.array(late)), LATE, emit)
            rows = rows.filter(pa.array(~late))
        if self.what.keeps[port] and rows.num_rows:
            at, of_row = self.what.axis.positions(self._time(port, rows))
            self._alone(port, rows, np.arange(len(at)) if of_row is None else of_row, at, emit)

    def _probe(self, port: int, keyed: Keyed, emit: Emit) -> Mask:
        """Finds all partners of a batch and emits the results. Returns the rows of the batch that have a partner."""
        matched = np.zeros(len(keyed), np.bool_)
        probing, which, order = self._promising(port, keyed)
        for found in self._combinations([(port, Bound(probing, np.arange(len(probing))))], order):
            holds = self._condition(found)
            if holds is not None:
                found = {side: Bound(b.keyed, b.rows[holds], b.part) for side, b in found.items()}
            if not len(found[port].rows):
                continue
            matched[which[found[port].rows]] = True
            if self.what.one_sided:
                self._matched_once(port, found, emit)
                continue
            for side, bound in found.items():
                if bound.part is not None and self.sides[side].flagged:
                    bound.part.mark(bound.rows)
            self._pairs([(found[i].keyed.rows, found[i].rows) for i in range(self.ports)], found[port], emit)
        if self.what.how == "semi" and port == 0 and matched.any():
            self._alone(0, keyed.rows, np.flatnonzero(matched), keyed.at[matched], emit)
        return matched

    def _promising(self, port: int, keyed: Keyed) -> tuple[Keyed, Ints, list[int]]:
        """The rows that have a partner on every other side, and the order in which to probe these sides.

        Returns (rows, their indices in the batch, sides), with the side that has the fewest partners first. With three
        or more inputs this avoids combinations that cannot be completed.
        """
        others = [side for side in range(self.ports) if side != port]
        everyone = np.arange(len(keyed))
        if self.ports == 2:
            return keyed, everyone, others
        partners = {}
        for side in others:
            low, high = self._within([(port, Bound(keyed, everyone))], side)
            partners[side] = self.sides[side].partners(keyed, low, high)
        promising = np.logical_and.reduce([count > 0 for count in partners.values()])
        order = sorted(others, key=lambda side: int(partners[side][promising].sum()))
        return keyed.where(promising), np.flatnonzero(promising), order

    def _within(self, bound: list[tuple[int, Bound]], new: int) -> tuple[Ints, Ints]:
        """The positions low..high that a partner on side `new` must have.

        It must be in the window of every bound row, and every bound row must be in the window of the partner.
        """
        n = len(bound[0][1].rows)
        low, high = np.full(n, NEVER), np.full(n, EVER)
        for side, b in bound:
            at = b.keyed.at[b.rows]
            if (wait := self.what.waits[new]) is not None:
                low = np.maximum(low, at - wait)
            if (wait := self.what.waits[side]) is not None:
                high = np.minimum(high, at + wait)
        return low, high

    def _combinations(self, bound: list[tuple[int, Bound]], order: list[int]) -> Iterator[dict[int, Bound]]:
        """All combinations of the bound rows with one row of each side in `order`.

        Yields one piece per choice of parts, or several pieces if they are large.
        """
        _, first = bound[0]
        if not order:
            most = min(TEXT // max(b.keyed.widest for _, b in bound), PIECE // sum(b.keyed.width for _, b in bound))
            most = max(1, most)
            for at in range(0, len(first.rows), most):
                yield {side: Bound(b.keyed, b.rows[at : at + most], b.part) for side, b in bound}
            return
        new, *rest = order
        low, high = self._within(bound, new)
        probing = first.keyed
        if len(bound) > 1:  # rows of the batch, one per combination so far; they are still sorted by code
            chosen = probing.keys.take(pa.array(first.rows))
            probing = Keyed(chosen, probing.on, probing.code[first.rows], probing.at[first.rows])
        for part, theirs, ours in self.sides[new].probe(probing, low, high):
            narrowed = [(side, Bound(b.keyed, b.rows[theirs], b.part)) for side, b in bound]
            yield from self._combinations([*narrowed, (new, Bound(part.keyed, ours, part))], rest)

    def _condition(self, found: dict[int, Bound]) -> Mask | None:
        if self.what.condition is None:
            return None
        wanted = set(self.what.condition.reads([c.name for c in self.what.paired]))
        columns = [c for c in self.what.paired if c.name in wanted] or list(self.what.paired)
        pairs = self.what.pairs([(found[i].keyed.rows, found[i].rows) for i in range(self.ports)], columns)
        return self.what.condition.holds(pairs)

    def _matched_once(self, port: int, found: dict[int, Bound], emit: Emit) -> None:
        """Decides rows of the first side of a semi or anti join when the second side brings their partner.

        A decided row is removed. A semi join emits it.
        """
        bound = found[0]
        if port == 0 or bound.part is None:
            return
        rows = np.unique(bound.rows)
        bound.part.end(rows)
        if self.what.how == "semi":
            self._alone(0, bound.keyed.rows, rows, bound.keyed.at[rows], emit)

    def _keep(self, port: int, keyed: Keyed, matched: Mask, emit: Emit) -> None:
        """Keeps the rows that may still find a partner. Emits rows that can have none, if such rows are results."""
        keep = keyed.at >= self._bound(port)
        keep &= ~self._needless(port, keyed)
        if self.what.keeps[port]:
            rows = np.flatnonzero(~keep & ~matched)
            self._alone(port, keyed.rows, rows, keyed.at[rows], emit)
        if self.what.one_sided and port == 0:
            keep &= ~matched
        self.counts.discarded += int(np.count_nonzero(~keep))
        side = self.sides[port]
        side.insert(keyed.where(keep), matched[keep] if side.flagged else None)

    def _needless(self, port: int, keyed: Keyed) -> Mask:
        """The rows that need not be kept for a reason other than time."""
        return np.zeros(len(keyed), np.bool_)

    def _pairs(self, found: list[tuple[pa.Table, Ints]], of: Bound, emit: Emit) -> None:
        rows = self.what.windowed(self.what.pairs(found, self.what.columns), of.keyed.at[of.rows])
        self.counts.results += rows.num_rows
        emit(Batch(rows))

    def _alone(self, port: int, rows: pa.Table, which: Ints, at: Ints, emit: Emit) -> None:
        """Emits rows of one side as results, with null for the columns of other sides."""
        if not len(which):
            return
        found: list[tuple[pa.Table, Ints] | None] = [None] * self.ports
        found[port] = (rows, which)
        self.counts.results += len(which)
        emit(Batch(self.what.windowed(self.what.pairs(found, self.what.columns), at)))

    # -- progress --------------------------------------------------------------------------------------------------

    def on_punctuation(self, port: int, punctuation: Punctuation, emit: Emit) -> None:
        low = punctuation.low_watermark(self.what.sides[port].time)
        if low is None or low <= self.low[port]:
            return
        self.low[port] = low
        for i in range(self.ports):
            if i != port:
                self._release(i, self.sides[i].invalidate(self._bound(i), self.what.keeps[i]), emit)
        self._passed(emit)
        for side in self.sides:
            side.tidy()
        self._tidy = True
        self._promise(emit)

    def end(self, emit: Emit) -> None:
        for side in self.sides:
            side.merge()

    def _bound(self, port: int) -> int:
        """The least position at which a row of this side may still find a partner among later rows."""
        reached = min(self.what.axis.reached(low) for i, low in enumerate(self.low) if i != port)
        wait = self.what.waits[port]
        if reached in (NEVER, END):
            return reached
        return NEVER if wait is None else reached - wait

    def _release(self, port: int, removed: list[tuple[Part, Ints]], emit: Emit) -> None:
        """Emits the removed rows that found no partner, if such rows are results."""
        if self.what.keeps[port]:
            for part, rows in removed:
                alone = rows if part.matched is None else rows[~part.matched[rows]]
                self._alone(port, part.keyed.rows, alone, part.keyed.at[alone], emit)

    def _passed(self, emit: Emit) -> None:
        """Called when the low-watermark of an input has moved. OA-Join itself does nothing more."""
        return None

    def _promise(self, emit: Emit) -> None:
        """Emits the promises about the output that hold now and were not emitted before."""
        if min(self.low) == END:
            new = min(self.promised) < END
            self._bounds.told = [END] * self.ports
            if new:
                emit(ALL)
            return
        if self.joint:
            self._box(emit)
        else:
            self._slabs(emit)
        if self.extremes:
            bounds = zip((self.GREATEST, self.LEAST), self._extremes(), strict=True)
            self._promises.emit({name: low for name, low in bounds if NEVER < low < END}, emit)
        self._promises.emit(self._windows(), emit)

    def _least(self) -> int:
        """The least position of a result to come.

        A pair to come has a row to come, and that is in no window before the first that its input has reached. A row
        that comes out alone was kept, so the others have not passed its window.
        """
        return min(self.what.axis.reached(low) for low in self.low)

    def _windows(self) -> dict[str, int]:
        """The least start and end of the window of a result to come."""
        reached = self._least()
        if self.what.grid is None or reached in (NEVER, END):
            return {}
        start, end = self.what.grid.interval(np.array([reached], np.int64))
        assert start is not None
        return dict(zip(WINDOW, (int(start[0]), int(end[0])), strict=True))

    def _slab(self, port: int) -> int:
        """The least time of one input in any later result."""
        return min(self.low[port], self.what.axis.since(self._bound(port)))

    def _extremes(self) -> tuple[int, int]:
        """Lower bounds of the greatest and of the least time of any later result; missing times are ignored.

        At least one row of a later pair has not arrived yet. It comes on some input i and has t_i >= b_i, so the
        greatest time is at least the smallest b_i. A row that is emitted without a partner was stored and is not below
        its bound. The least time of a result is the time of one of its rows, each of which is in its slab (mission J8).
        """
        if self.what.one_sided:
            return self._slab(0), self._slab(0)
        alone = [self._slab(i) for i, keeps in enumerate(self.what.keeps) if keeps]
        return min([*self.low, *alone]), min(self._slab(i) for i in range(self.ports))

    def _slabs(self, emit: Emit) -> None:
        """Emits individual punctuation, under the names that the times have in the result.

        If time is part of the key, the sides share one name, and a row of any side can appear under it without a
        partner. The bound is then the smallest of the sides.
        """
        lows: dict[str, int] = {}
        for i, name in enumerate(self.what.times[:1] if self.what.one_sided else self.what.times):
            lows[name] = min(self._slab(i), lows.get(name, END))
        for name, low in lows.items():
            i = self.what.times.index(name)
            if low > self.promised[i]:
                self.promised[i] = low
                emit(ALL if low == END else Punctuation.linear(name, low))

    def _box(self, emit: Emit) -> None:
        """Emits joint punctuation if its box has a point of the window that no earlier box had (Fig. 7-5b)."""
        if min(self.low) == NEVER:
            return
        new = False
        for i, (low, before) in enumerate(zip(self.low, self.promised, strict=True)):
            wait = self.what.waits[1 - i] if self.ports == 2 else None
            reach = self.what.axis.since(self.what.axis.reached(before))
            new |= low > before and (wait is None or before == NEVER or reach - wait < self.low[1 - i])
        if not new:
            return
        self._bounds.told = list(self.low)
        names: dict[str, int] = {}
        for name, low in zip(self.what.times, self.low, strict=True):
            names[name] = min(low, names.get(name, END))
        emit(Punctuation({name: Range(None, None if low == END else low) for name, low in names.items()}))

    def excess(self) -> str | None:
        """Checks that no row below the bound of its side is kept, and that a tidied side is at least half live."""
        for i, side in enumerate(self.sides):
            bound = self._bound(i)
            if n := side.below(bound):
                return f"{n} rows of {self.what.sides[i].name} are kept below {bound}, where no later row can join."
            if self._tidy and side.rows > 2 * side.live_rows:
                return f"{side.rows} rows of {self.what.sides[i].name} are stored, but only {side.live_rows} can join."
        return None

    @property
    def rows(self) -> int:
        """The rows that can still join. `held().bytes` also counts removed rows that are still stored."""
        return sum(side.live_rows for side in self.sides)


def arrange(what: WindowJoin, port: int, rows: pa.Table) -> Arrived:
    """Rows of one input in the layout that the join takes, for a single shard."""
    (keyed,), nulls = laid_out(what, port, rows, 1)
    return Arrived(keyed, nulls)


def laid_out(what: WindowJoin, port: int, rows: pa.Table, shards: int) -> tuple[list[Keyed], pa.Table | None]:
    """Rows of one input, laid out per shard, and the rows with a null key. If nulls match, none are set apart."""
    side = what.sides[port]
    nulls = None
    keys = [rows.column(name) for name in side.on]
    if not what.null_safe and any(key.null_count for key in keys):
        missing = np.zeros(rows.num_rows, np.bool_)
        for key in keys:
            missing |= np.asarray(whole(key).is_null().to_numpy(zero_copy_only=False))
        nulls, rows = rows.filter(pa.array(missing)), rows.filter(pa.array(~missing))
    time = checked(side.ticks.encode(whole(rows.column(side.time))), side.time)
    at, of_row = what.axis.positions(time)
    if of_row is not None:
        rows = rows.take(pa.array(of_row))
    return Keyed.by_shard(rows, side.on, at, shards), nulls
