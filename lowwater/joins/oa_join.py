"""OA-Join: a window join that asks for no order (TH 7.1, Fig. 7-1 and 7-2), of two inputs or more (J7).

A batch on one port probes what is kept of the others and is then kept itself, but for the rows that no later row of the
others can join: the others' low-watermarks tell. A punctuation on one port lets go what it makes useless on the others.
So every pair is found once, when the later of its rows arrives, and in whatever order they do.

    b_i                  low-watermark of input i: no row with t < b_i comes any more, and one that does is late
    bound_i              min over the others of b_j, less wait_i: rows of i below it have no partner to come
    row of i is kept     iff  t >= bound_i
    individual output    no result with t_i < min(b_i, bound_i) comes any more      (a slab, Fig. 7-5a)
    joint output         no result with all t_i < b_i comes any more                (a box, Fig. 7-5b: without windows)

Over a grid all of this is said of window numbers, on both sides of every comparison (erratum 3). Results then progress
on window_start and window_end too: no result comes of a window before the first that the slowest input has reached.

Rows that stay alone are part of outer and anti joins. They leave when they fall below their bound: that is when
progress proves that there is no partner. A null key has none from the start, unless nulls match.

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
from lowwater.operators.aggregation import all_late
from lowwater.operators.base import Batch, Emit, Late, Operator, Payload, Promises, batch_of
from lowwater.state.store import Store

LATE = "its input has progressed past it"
UNGRAMMATICAL = "its input has ended this value"
EVER = -NEVER
TEXT = 1 << 30
"""Bytes of text in a column of results: Arrow's arrays end at twice that."""
PIECE = 32 << 20
"""Bytes of results that are made at once, about: whoever reads them takes them piece by piece."""


@dataclass(frozen=True)
class Arrived(Payload):
    """A batch as ingest has laid it out: rows sorted by (code, position), and those whose key is null.

    `broken` are rows that came behind the end of their own value, as ingest has found: they are late.
    """

    keyed: Keyed
    nulls: pa.Table | None = None
    broken: pa.Table | None = None


@dataclass
class Told:
    """The low-watermarks of the inputs, and what the output was told of the time of each."""

    low: list[int] = field(default_factory=list)
    told: list[int] = field(default_factory=list)


@dataclass(frozen=True, eq=False)
class Bound:
    """One side of some combinations of rows: where its rows are, and which of them each combination has."""

    keyed: Keyed
    rows: Ints
    part: Part | None = None


class OAJoin(Operator):
    """See the module text. `joint` asks for joint instead of individual punctuation on the output.

    It is given where a box of it can hold a result: of two inputs whose times are both there. Elsewhere what follows
    would learn nothing before the end, so punctuation stays individual.

    `extremes` asks for linear punctuation on two attributes that follow from a result's times, the greatest and the
    least of them; it is given where all times are of one type.
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
        self._told = self.store.record("told", Told([NEVER] * self.ports, [NEVER] * self.ports))
        self._promises = self.store.record("promises", Promises())
        flagged = what.keeps if not what.one_sided else (False,) * self.ports
        self.sides = [
            Side(side.on, flag, self.store.at(f"side{i}"))
            for i, (side, flag) in enumerate(zip(what.sides, flagged, strict=True))
        ]
        self._tidy = False  # whether rows were cleared away since some came

    @property
    def low(self) -> list[int]:
        """The low-watermarks of the inputs."""
        return self._told.low

    @property
    def told(self) -> list[int]:
        """What the output was told of the time of each input."""
        return self._told.told

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
        """Emits the rows that ingest found to break a promise, as late ones."""
        if arrived.broken is not None and arrived.broken.num_rows:
            emit(self._told_late(port, arrived.broken, UNGRAMMATICAL))

    def _on_time(self, port: int, keyed: Keyed, emit: Emit) -> Keyed:
        """Without the late rows, which are emitted as late."""
        if self.low[port] == NEVER or not len(keyed):
            return keyed
        return self._without(port, keyed, self._late(port, keyed.rows, keyed.at), LATE, emit)

    def _without(self, port: int, keyed: Keyed, late: Mask, reason: str, emit: Emit) -> Keyed:
        """The rows that are not late; a row that is in several windows is told once."""
        if not late.any():
            return keyed
        rows = keyed.rows.filter(pa.array(late))
        if self.what.grid is not None and self.what.grid.range != self.what.grid.slide:
            first, _ = self.what.grid.bounds(self._time(port, rows))
            rows = rows.filter(pa.array(keyed.at[late] == first))
        emit(self._told_late(port, rows, reason))
        return keyed.where(~late)

    def _late(self, port: int, rows: pa.Table, at: Ints | None = None) -> Mask:
        time = at if at is not None and self.what.grid is None else self._time(port, rows)
        return np.asarray(time < self.low[port], np.bool_)

    def _time(self, port: int, rows: pa.Table) -> Ints:
        side = self.what.sides[port]
        return side.ticks.encode(whole(rows.column(side.time)))

    def _told_late(self, port: int, rows: pa.Table, reason: str) -> Late:
        """Late rows count nowhere in a join."""
        self.counts.late += rows.num_rows
        self.counts.dropped += rows.num_rows
        known = set(rows.column_names)
        return all_late(rows.select([name for name in self.what.sides[port].schema.names if name in known]), reason)

    def _nulls(self, port: int, rows: pa.Table, emit: Emit) -> None:
        """Rows whose key is null: alone from the start."""
        late = self._late(port, rows)
        if late.any():
            emit(self._told_late(port, rows.filter(pa.array(late)), LATE))
            rows = rows.filter(pa.array(~late))
        if self.what.keeps[port] and rows.num_rows:
            at, of_row = self.what.axis.positions(self._time(port, rows))
            self._alone(port, rows, np.arange(len(at)) if of_row is None else of_row, at, emit)

    def _probe(self, port: int, keyed: Keyed, emit: Emit) -> Mask:
        """Finds all partners of a batch, emits the results, and tells which rows of it have one."""
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
        """(rows, which of the batch they are, sides): the rows with a partner on every other side, and those sides, the
        one with fewest partners first. Of many sides this is what keeps combinations from being made in vain."""
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
        """Where a partner of a new side must be: in the windows of all that are bound, and all of them in its own."""
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
        """All combinations of what is bound with one row of each side in `order`: a piece for each choice of their
        parts, or several, where they are large."""
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
        if len(bound) > 1:  # rows of the batch, once for each combination so far: still in order of their code
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
        """Semi and anti join, when the second side brings the partner: a row of the first is decided and can go."""
        bound = found[0]
        if port == 0 or bound.part is None:
            return
        rows = np.unique(bound.rows)
        bound.part.end(rows)
        if self.what.how == "semi":
            self._alone(0, bound.keyed.rows, rows, bound.keyed.at[rows], emit)

    def _keep(self, port: int, keyed: Keyed, matched: Mask, emit: Emit) -> None:
        """Keeps the rows that may still find a partner; those that are alone for good go out if they are asked for."""
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
        """Rows that need not be kept for another reason than time."""
        return np.zeros(len(keyed), np.bool_)

    def _pairs(self, found: list[tuple[pa.Table, Ints]], of: Bound, emit: Emit) -> None:
        rows = self.what.windowed(self.what.pairs(found, self.what.columns), of.keyed.at[of.rows])
        self.counts.results += rows.num_rows
        emit(Batch(rows))

    def _alone(self, port: int, rows: pa.Table, which: Ints, at: Ints, emit: Emit) -> None:
        """Emits rows of one side as results."""
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
                self._let_go(i, self.sides[i].invalidate(self._bound(i), self.what.keeps[i]), emit)
        self._passed(emit)
        for side in self.sides:
            side.tidy()
        self._tidy = True
        self._promise(emit)

    def end(self, emit: Emit) -> None:
        for side in self.sides:
            side.merge()

    def _bound(self, port: int) -> int:
        """The least position of this side that may still find a partner among rows to come."""
        reached = min(self.what.axis.reached(low) for i, low in enumerate(self.low) if i != port)
        wait = self.what.waits[port]
        if reached in (NEVER, END):
            return reached
        return NEVER if wait is None else reached - wait

    def _let_go(self, port: int, left: list[tuple[Part, Ints]], emit: Emit) -> None:
        if self.what.keeps[port]:
            for part, rows in left:
                alone = rows if part.matched is None else rows[~part.matched[rows]]
                self._alone(port, part.keyed.rows, alone, part.keyed.at[alone], emit)

    def _passed(self, emit: Emit) -> None:
        """Time has passed on some input."""
        return None

    def _promise(self, emit: Emit) -> None:
        """Emits what the output may promise now and has not yet."""
        if min(self.low) == END:
            new = min(self.told) < END
            self._told.told = [END] * self.ports
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
        """The least time of one input that a result to come can have."""
        return min(self.low[port], self.what.axis.since(self._bound(port)))

    def _extremes(self) -> tuple[int, int]:
        """The least values of the greatest and the least time of a result to come; missing times are ignored.

        One row of a pair to come is still to come itself, on some input i, and has t_i >= b_i: the greatest is at least
        the least b_i. A row that comes out alone was kept, and is not below its bound. The least time of any result is
        that of one of its rows, each of which is in its slab (mission J8).
        """
        if self.what.one_sided:
            return self._slab(0), self._slab(0)
        alone = [self._slab(i) for i, keeps in enumerate(self.what.keeps) if keeps]
        return min([*self.low, *alone]), min(self._slab(i) for i in range(self.ports))

    def _slabs(self, emit: Emit) -> None:
        """By the names that timestamps have in the result. Where time is part of the key, sides share one, and a row of
        any of them may come out alone under it: then the least of them is told."""
        lows: dict[str, int] = {}
        for i, name in enumerate(self.what.times[:1] if self.what.one_sided else self.what.times):
            lows[name] = min(self._slab(i), lows.get(name, END))
        for name, low in lows.items():
            i = self.what.times.index(name)
            if low > self.told[i]:
                self.told[i] = low
                emit(ALL if low == END else Punctuation.linear(name, low))

    def _box(self, emit: Emit) -> None:
        """A box is told if it holds a place within the window that no box before it held (Fig. 7-5b)."""
        if min(self.low) == NEVER:
            return
        new = False
        for i, (low, told) in enumerate(zip(self.low, self.told, strict=True)):
            wait = self.what.waits[1 - i] if self.ports == 2 else None
            reach = self.what.axis.since(self.what.axis.reached(told))
            new |= low > told and (wait is None or told == NEVER or reach - wait < self.low[1 - i])
        if not new:
            return
        self._told.told = list(self.low)
        names: dict[str, int] = {}
        for name, low in zip(self.what.times, self.low, strict=True):
            names[name] = min(low, names.get(name, END))
        emit(Punctuation({name: Range(None, None if low == END else low) for name, low in names.items()}))

    def excess(self) -> str | None:
        """No row below its side's bound has stayed. Right after punctuation at most half of a side's rows are gone."""
        for i, side in enumerate(self.sides):
            bound = self._bound(i)
            if n := side.below(bound):
                return f"{n} rows of {self.what.sides[i].name} are kept below {bound}, where nothing can join them."
            if self._tidy and side.rows > 2 * side.live_rows:
                return f"{side.rows} rows are stored of {self.what.sides[i].name}, of which {side.live_rows} may join."
        return None

    @property
    def rows(self) -> int:
        """Rows that may still join; bytes also count those that have left but are not yet cleared away."""
        return sum(side.live_rows for side in self.sides)


def arrange(what: WindowJoin, port: int, rows: pa.Table) -> Arrived:
    """Rows of one input as the join takes them."""
    (keyed,), nulls = laid_out(what, port, rows, 1)
    return Arrived(keyed, nulls)


def laid_out(what: WindowJoin, port: int, rows: pa.Table, shards: int) -> tuple[list[Keyed], pa.Table | None]:
    """Rows of one input for every shard. Rows whose key is null are put aside, unless nulls match."""
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
