"""OA-Join: a window join that asks for no order (TH 7.1, Fig. 7-1 and 7-2), of two inputs or more (J7).

A batch on one port probes what is kept of the others and is then kept itself, but for the rows that no later row of the
others can join: the others' low-watermarks tell. A punctuation on one port lets go what it makes useless on the others.
So every pair is found once, when the later of its rows arrives, and in whatever order they do.

    b_i                  low-watermark of input i: no row with t < b_i comes any more, and one that does is late
    bound_i              min over the others of b_j, less wait_i: rows of i below it have no partner to come
    row of i is kept     iff  t >= bound_i
    individual output    no result with t_i < min(b_i, bound_i) comes any more      (a slab, Fig. 7-5a)
    joint output         no result with all t_i < b_i comes any more                (a box, Fig. 7-5b: without windows)

Over a grid all of this is said of window numbers, on both sides of every comparison (erratum 3).

Rows that stay alone are part of outer and anti joins. They leave when they fall below their bound: that is when
progress proves that there is no partner. A null key has none from the start, unless nulls match.

>>> from lowwater.joins.spec import JoinSide, WindowJoin
>>> from lowwater.model.punctuation import Punctuation
>>> a, b = (JoinSide(name, pa.schema({"ts": pa.int64(), "k": pa.string()}), "ts", ("k",)) for name in ("a", "b"))
>>> join = OAJoin(WindowJoin((a, b), (5, 5), "left"))
>>> join.on_batch(0, Batch(pa.table({"ts": [3, 40], "k": ["x", "x"]})))
[]
>>> [m.rows.to_pylist() for m in join.on_batch(1, Batch(pa.table({"ts": [7], "k": ["x"]})))]
[[{'k': 'x', 'a_ts': 3, 'b_ts': 7}]]
>>> rows, *_ = join.on_punctuation(1, Punctuation.linear("ts", 46))
>>> rows.rows.to_pylist(), join.held().rows
([{'k': 'x', 'a_ts': 40, 'b_ts': None}], 1)
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from lowwater.joins.keyed import Ints, Keyed, Mask
from lowwater.joins.part import Part
from lowwater.joins.side import Side, decode
from lowwater.joins.spec import WindowJoin
from lowwater.model.columns import whole
from lowwater.model.punctuation import ALL, Punctuation, Range
from lowwater.model.ticks import END, NEVER, checked
from lowwater.operators.aggregation import all_late
from lowwater.operators.base import Batch, Held, Late, Load, Message, Operator, Snapshot
from lowwater.state.segments import Segment

LATE = "its input has progressed past it"
EVER = -NEVER
TEXT = 1 << 30
"""Bytes of text in a column of results: Arrow's arrays end at twice that."""


@dataclass(frozen=True)
class Arrived:
    """A batch as ingest has laid it out: rows sorted by (code, position), and those whose key is null."""

    keyed: Keyed
    nulls: pa.Table | None = None


@dataclass
class JoinCounts:
    """Rows late, rows that needed no keeping, and results."""

    late: int = 0
    discarded: int = 0
    results: int = 0


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
    """

    def __init__(self, what: WindowJoin, joint: bool = False) -> None:
        self.what = what
        self.ports = len(what.sides)
        self.joint = joint and what.how == "inner" and len(what.sides) == len(set(what.times)) == 2
        self.low = [NEVER] * self.ports
        self.told = [NEVER] * self.ports
        self.counts = JoinCounts()
        flagged = what.keeps if not what.one_sided else (False,) * self.ports
        self.sides = [Side(side.on, flag) for side, flag in zip(what.sides, flagged, strict=True)]

    @property
    def remembered(self) -> int:
        """How many promises about values are kept, beside rows."""
        return 0

    @property
    def demands(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(side.time for side in self.what.sides))

    # -- rows ------------------------------------------------------------------------------------------------------

    def on_batch(self, port: int, batch: Batch | Arrived) -> list[Message]:
        arrived = batch if isinstance(batch, Arrived) else arrange(self.what, port, batch.rows)
        out: list[Message] = []
        if arrived.nulls is not None and arrived.nulls.num_rows:
            out += self._nulls(port, arrived.nulls)
        keyed = self._on_time(port, arrived.keyed, out)
        if len(keyed):
            matched = self._probe(port, keyed, out)
            self._keep(port, keyed, matched, out)
        return out

    def _on_time(self, port: int, keyed: Keyed, out: list[Message]) -> Keyed:
        """Without the late rows, which go out as such."""
        if self.low[port] == NEVER or not len(keyed):
            return keyed
        return self._without(port, keyed, self._late(port, keyed.rows, keyed.at), LATE, out)

    def _without(self, port: int, keyed: Keyed, late: Mask, reason: str, out: list[Message]) -> Keyed:
        """The rows that are not late; a row that is in several windows is told once."""
        if not late.any():
            return keyed
        rows = keyed.rows.filter(pa.array(late))
        if self.what.grid is not None and self.what.grid.range != self.what.grid.slide:
            first, _ = self.what.grid.bounds(self._time(port, rows))
            rows = rows.filter(pa.array(keyed.at[late] == first))
        out.append(self._told_late(port, rows, reason))
        return keyed.where(~late)

    def _late(self, port: int, rows: pa.Table, at: Ints | None = None) -> Mask:
        time = at if at is not None and self.what.grid is None else self._time(port, rows)
        return np.asarray(time < self.low[port], np.bool_)

    def _time(self, port: int, rows: pa.Table) -> Ints:
        side = self.what.sides[port]
        return side.ticks.encode(whole(rows.column(side.time)))

    def _told_late(self, port: int, rows: pa.Table, reason: str) -> Late:
        self.counts.late += rows.num_rows
        return all_late(self.what.late(port, rows), reason)

    def _nulls(self, port: int, rows: pa.Table) -> list[Message]:
        """Rows whose key is null: alone from the start."""
        late = self._late(port, rows)
        out: list[Message] = [self._told_late(port, rows.filter(pa.array(late)), LATE)] if late.any() else []
        rows = rows.filter(pa.array(~late))
        if self.what.keeps[port] and rows.num_rows:
            at, of_row = self.what.axis.positions(self._time(port, rows))
            out += self._alone(port, rows, np.arange(len(at)) if of_row is None else of_row, at)
        return out

    def _probe(self, port: int, keyed: Keyed, out: list[Message]) -> Mask:
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
                out += self._matched_once(port, found)
                continue
            for side, bound in found.items():
                if bound.part is not None and self.sides[side].flagged:
                    bound.part.mark(bound.rows)
            out += self._emit([(found[i].keyed.rows, found[i].rows) for i in range(self.ports)], found[port])
        if self.what.how == "semi" and port == 0 and matched.any():
            out += self._alone(0, keyed.rows, np.flatnonzero(matched), keyed.at[matched])
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
        parts, or several, where a column of text would not fit one array."""
        _, first = bound[0]
        if not order:
            most = max(1, TEXT // max(b.keyed.widest for _, b in bound))
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

    def _matched_once(self, port: int, found: dict[int, Bound]) -> list[Message]:
        """Semi and anti join, when the second side brings the partner: a row of the first is decided and can go."""
        bound = found[0]
        if port == 0 or bound.part is None:
            return []
        rows = np.unique(bound.rows)
        bound.part.end(rows)
        return self._alone(0, bound.keyed.rows, rows, bound.keyed.at[rows]) if self.what.how == "semi" else []

    def _keep(self, port: int, keyed: Keyed, matched: Mask, out: list[Message]) -> None:
        """Keeps the rows that may still find a partner; those that are alone for good go out if they are asked for."""
        keep = keyed.at >= self._bound(port)
        keep &= ~self._needless(port, keyed)
        if self.what.keeps[port]:
            rows = np.flatnonzero(~keep & ~matched)
            out += self._alone(port, keyed.rows, rows, keyed.at[rows])
        if self.what.one_sided and port == 0:
            keep &= ~matched
        self.counts.discarded += int(np.count_nonzero(~keep))
        side = self.sides[port]
        side.insert(keyed.where(keep), matched[keep] if side.flagged else None)

    def _needless(self, port: int, keyed: Keyed) -> Mask:
        """Rows that need not be kept for another reason than time."""
        return np.zeros(len(keyed), np.bool_)

    def _emit(self, found: list[tuple[pa.Table, Ints]], of: Bound) -> list[Message]:
        rows = self.what.windowed(self.what.pairs(found, self.what.columns), of.keyed.at[of.rows])
        self.counts.results += rows.num_rows
        return [Batch(rows)]

    def _alone(self, port: int, rows: pa.Table, which: Ints, at: Ints) -> list[Message]:
        """Rows of one side as results."""
        if not len(which):
            return []
        found: list[tuple[pa.Table, Ints] | None] = [None] * self.ports
        found[port] = (rows, which)
        self.counts.results += len(which)
        return [Batch(self.what.windowed(self.what.pairs(found, self.what.columns), at))]

    # -- progress --------------------------------------------------------------------------------------------------

    def on_punctuation(self, port: int, punctuation: Punctuation) -> list[Message]:
        low = punctuation.low_watermark(self.what.sides[port].time)
        if low is None or low <= self.low[port]:
            return []
        self.low[port] = low
        out: list[Message] = []
        for i in range(self.ports):
            if i != port:
                self._let_go(i, self.sides[i].invalidate(self._bound(i), self.what.keeps[i]), out)
        self._passed(out)
        for side in self.sides:
            side.tidy()
        return [*out, *self._punctuation()]

    def settle(self) -> list[Message]:
        for side in self.sides:
            side.merge()
        return []

    def _bound(self, port: int) -> int:
        """The least position of this side that may still find a partner among rows to come."""
        reached = min(self.what.axis.reached(low) for i, low in enumerate(self.low) if i != port)
        wait = self.what.waits[port]
        if reached in (NEVER, END):
            return reached
        return NEVER if wait is None else reached - wait

    def _let_go(self, port: int, left: list[tuple[Part, Ints]], out: list[Message]) -> None:
        if self.what.keeps[port]:
            for part, rows in left:
                alone = rows if part.matched is None else rows[~part.matched[rows]]
                out += self._alone(port, part.keyed.rows, alone, part.keyed.at[alone])

    def _passed(self, out: list[Message]) -> None:
        """Time has passed on some input."""
        return None

    def _punctuation(self) -> list[Message]:
        """What the output may promise now and has not yet."""
        if min(self.low) == END:
            new = min(self.told) < END
            self.told = [END] * self.ports
            return [ALL] if new else []
        return self._box() if self.joint else self._slabs()

    def _slabs(self) -> list[Message]:
        """By the names that timestamps have in the result. Where time is part of the key, sides share one, and a row of
        any of them may come out alone under it: then the least of them is told."""
        lows: dict[str, int] = {}
        for i, name in enumerate(self.what.times[:1] if self.what.one_sided else self.what.times):
            low = min(self.low[i], self.what.axis.since(self._bound(i)))
            lows[name] = min(low, lows.get(name, END))
        out: list[Message] = []
        for name, low in lows.items():
            i = self.what.times.index(name)
            if low > self.told[i]:
                self.told[i] = low
                out.append(ALL if low == END else Punctuation.linear(name, low))
        return out

    def _box(self) -> list[Message]:
        """A box is told if it holds a place within the window that no box before it held (Fig. 7-5b)."""
        if min(self.low) == NEVER:
            return []
        new = False
        for i, (low, told) in enumerate(zip(self.low, self.told, strict=True)):
            wait = self.what.waits[1 - i] if self.ports == 2 else None
            reach = self.what.axis.since(self.what.axis.reached(told))
            new |= low > told and (wait is None or told == NEVER or reach - wait < self.low[1 - i])
        if not new:
            return []
        self.told = list(self.low)
        names: dict[str, int] = {}
        for name, low in zip(self.what.times, self.low, strict=True):
            names[name] = min(low, names.get(name, END))
        return [Punctuation({name: Range(None, None if low == END else low) for name, low in names.items()})]

    # -- state -----------------------------------------------------------------------------------------------------

    def snapshot(self) -> Snapshot:
        told = [side.snapshot() for side in self.sides]
        counts = [self.counts.late, self.counts.discarded, self.counts.results]
        head = {"low": list(self.low), "told": list(self.told), "counts": counts, "sides": [head for head, _ in told]}
        return Snapshot(head, {segment.id: segment for _, segments in told for segment in segments})

    def restore(self, head: dict[str, Any], load: Load) -> None:
        self.low, self.told = list(head["low"]), list(head["told"])
        self.counts = JoinCounts(*head["counts"])
        for side, parts in zip(self.sides, head["sides"], strict=True):
            side.restore(parts, load)

    def decode(self, tables: dict[str, pa.Table]) -> object:
        return decode(tables)

    def held(self) -> Held:
        """Rows that may still join; in bytes also those that have left but are not yet cleared away."""
        segments: dict[str, Segment[Any]] = self.snapshot().segments
        return Held(sum(side.live_rows for side in self.sides), sum(segment.size for segment in segments.values()))


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
