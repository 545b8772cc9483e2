"""Count join: joins windows of the last n tuples, on one side or both, in order of event time (SH 2.1, PW 3.2).

The last n tuples are defined by an order. The order is that of time over both inputs, not that of arrival: smaller
times first, at equal times the left side before the right, and within a side by arrival. When it is the turn of a
tuple, it joins the tuples of its key that are in the window of the other side at that moment:

    rows_i = n   the last n tuples of side i, of the same key or (per_key=False) of all keys
    rows_i None  the tuples of side i that came at most wait_i ticks before

So the later tuple of a pair finds the pair. A row waits until both low-watermarks have passed it. Then no row that
belongs before it can come, and its turn does not depend on the order of arrival. All rows that become final in a batch
are joined at once. Each row has a position on its own side and meets a range of positions on the other side. The pairs
follow from these positions, as in the other joins:

                 position of a row             range for a row of the other side
    counted      tuples of i before it, c      c' - n .. c' - 1, where c' tuples of i come before that row
    timed        its time, t                   t' - wait .. t', without t' for a row of the left

State: rows that wait, and rows in a window. Rows of timed windows are removed by time. Of counted windows the last n
rows stay until the other input has ended; with per_key, that is n rows for every key ever seen. The numbering of a key
continues from the last row kept for it, so only one extra count is needed, that of the whole input.

    output    no result with t_i < min(b_0, b_1, least time of the rows in the window of i) comes any more

>>> from lowwater.joins.spec import JoinSide, WindowJoin
>>> from lowwater.operators.base import Batch, taken
>>> a, b = (JoinSide(name, pa.schema({"ts": pa.int64(), "k": pa.string()}), "ts", ("k",)) for name in ("a", "b"))
>>> join = CountJoin(WindowJoin((a, b), (None, None), rows=(1, 1)))
>>> taken(join, 0, Batch(pa.table({"ts": [5, 2, 8], "k": ["x", "x", "x"]})))
[]
>>> taken(join, 1, Batch(pa.table({"ts": [6], "k": ["x"]}))), taken(join, 0, Punctuation.linear("ts", 7))
([], [])
>>> rows, *_ = taken(join, 1, Punctuation.linear("ts", 9))
>>> rows.rows.to_pylist(), join.held().rows
([{'k': 'x', 'a_ts': 5, 'b_ts': 6}], 3)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from lowwater.aggregates.grouped import factorise, without_columns
from lowwater.aggregates.sorting import order_of
from lowwater.errors import LowwaterError
from lowwater.joins.arrived import Arrived
from lowwater.joins.combinations import EVER, Bound
from lowwater.joins.keyed import Ints, Keyed, Mask, order_by
from lowwater.joins.oa_join import LATE, OAJoin
from lowwater.joins.spec import WindowJoin
from lowwater.model.columns import whole
from lowwater.model.punctuation import Punctuation
from lowwater.model.routing import hashed
from lowwater.model.ticks import END, NEVER, checked
from lowwater.operators.base import Emit, Payload, batch_of
from lowwater.operators.waiting import Waiting
from lowwater.state.store import Store


@dataclass(frozen=True, eq=False)
class Turn:
    """Rows that become final together. The rows of each side are sorted by (time, arrival)."""

    rows: Sequence[pa.Table]
    time: Sequence[Ints]
    values: Keyed
    """The distinct keys of all rows, sorted by code."""
    group: Sequence[Ints]
    """For each row of a side, the index of its key in `values`."""
    place: Sequence[Ints]
    """For each row of a side, the number of the set in which it is counted: its key, or 0 for all rows together."""
    before: Sequence[Sequence[Ints]]
    """before[i][j]: for each row of side j, the number of rows of side i in the same place that come before it."""

    @staticmethod
    def of(what: WindowJoin, final: Sequence[tuple[pa.Table, Ints]]) -> Turn:
        """The turn of rows that are final, given as (rows, times) per side."""
        rows, time = zip(*final, strict=True)
        names = list(what.sides[0].on)
        keys = without_columns(sum(map(len, time)))
        if names:
            own = [of.select(list(side.on)).rename_columns(names) for of, side in zip(rows, what.sides, strict=True)]
            keys = pa.concat_tables(own, promote_options="permissive")
        number, distinct = factorise(keys)
        code = hashed(distinct)
        order = np.argsort(code, kind="stable")
        values = Keyed(distinct.take(pa.array(order)), tuple(names), code[order], np.zeros_like(order))
        rank = np.empty_like(order)
        rank[order] = np.arange(len(order))
        group = np.split(rank[number], [len(time[0])])
        place = group if what.per_key else [np.zeros_like(of_side) for of_side in group]
        return Turn(rows, time, values, group, place, preceding(time, place))

    def order(self, i: int, at: Ints) -> Ints:
        """The order of the rows of side i by (code, position).

        The positions of a key ascend already, so sorting by key is enough, unless two keys share a code.
        """
        if len(self.values.codes) < len(self.values):
            return order_by(self.values.code[self.group[i]], at)
        return order_of(self.group[i], len(self.values))


@dataclass(frozen=True, eq=False)
class Window:
    """The window of one side in a turn."""

    at: Ints
    """The position of each row of this side."""
    low: Ints
    high: Ints
    """The first and the last position that each row of the other side meets."""
    stays: Mask
    """Rows of this side that remain in the window after the turn."""
    least: Ints | int
    """The first position in the window after the turn: one per key, or one for all rows."""


@dataclass
class Numbers:
    """The number of tuples of each side that have had their turn, as a record of the state."""

    numbered: list[int] = field(default_factory=list)


class CountJoin(OAJoin):
    """See the module text. `numbered` is the number of tuples of each side that have had their turn."""

    def __init__(
        self,
        what: WindowJoin,
        extremes: bool = False,
        store: Store | None = None,
        kept: Sequence[Sequence[str]] | None = None,
    ) -> None:
        """`kept` names the columns of each side that arrive; None means all columns."""
        self.counted = counted_rows(what)
        super().__init__(what, extremes=extremes, store=store)
        self._numbers = self.store.record("numbers", Numbers([0, 0]))
        schemas = [side.schema for side in what.sides]
        if kept is not None:
            schemas = [pa.schema([of.field(name) for name in names]) for of, names in zip(schemas, kept, strict=True)]
        self._waiting = [Waiting(schema, self.store.at(f"side{i}")) for i, schema in enumerate(schemas)]

    @property
    def numbered(self) -> list[int]:
        return self._numbers.numbered

    # -- rows ------------------------------------------------------------------------------------------------------

    def on_rows(self, port: int, rows: Payload, emit: Emit) -> None:
        if not isinstance(rows, Arrived):
            self._wait(port, batch_of(rows), emit)
            return
        assert self.what.per_key, "ties of different keys are ordered by arrival, so rows must not be sorted by key"
        for table in (rows.keyed.rows, rows.nulls):
            if table is not None:
                self._wait(port, table, emit)
        self._broken(port, rows, emit)

    def _wait(self, port: int, rows: pa.Table, emit: Emit) -> None:
        """Emits late rows. Discards at once the rows that can neither match nor be counted. Keeps the others."""
        time = checked(self._time(port, rows), self.what.sides[port].time)
        late = time < self.low[port]
        if late.any():
            self._drop_late(port, rows.filter(pa.array(late)), LATE, emit)
        needless = ~late & ~self._matchable(port, rows) if self.what.per_key else np.zeros(len(time), np.bool_)
        self.counts.discarded += int(np.count_nonzero(needless))
        wait = ~(late | needless)
        self._waiting[port].add(rows if wait.all() else rows.filter(pa.array(wait)), time[wait])

    def _matchable(self, port: int, rows: pa.Table) -> Mask:
        """The rows that can match: those whose key is not null, or all rows if nulls match."""
        known = np.ones(rows.num_rows, np.bool_)
        for name in () if self.what.null_safe else self.what.sides[port].on:
            known &= whole(rows.column(name)).is_valid().to_numpy(zero_copy_only=False)
        return known

    # -- progress --------------------------------------------------------------------------------------------------

    def on_punctuation(self, port: int, punctuation: Punctuation, emit: Emit) -> None:
        low = punctuation.low_watermark(self.what.sides[port].time)
        if low is None or low <= self.low[port]:
            return
        passed = min(self.low)
        self.low[port] = low
        if min(self.low) > passed:
            self._turn(Turn.of(self.what, [waiting.release(min(self.low)) for waiting in self._waiting]), emit)
        for i, side in enumerate(self.sides):
            if self.low[1 - i] == END and not self._waiting[1 - i].rows:
                side.parts = []  # no row is left that could meet them
            side.tidy()
        self._promise(emit)

    def _turn(self, turn: Turn, emit: Emit) -> None:
        """Joins the rows of a turn with the rows in the windows and with each other, and moves the windows forward."""
        windows = [self._timed(turn, i) if n is None else self._counted(turn, i, n) for i, n in enumerate(self.counted)]
        order, came = [], []
        for i, side in enumerate(self.what.sides):
            rows = turn.order(i, windows[i].at)
            rows = rows[self._matchable(i, turn.rows[i])[rows]]
            in_order = turn.rows[i].take(pa.array(rows)).combine_chunks()
            order.append(rows)
            came.append(Keyed(in_order, side.on, turn.values.code[turn.group[i][rows]], windows[i].at[rows]))
        for i, rows in enumerate(order):
            other = windows[1 - i]
            self._meet(i, came[i], other.low[rows], other.high[rows], came[1 - i], emit)
        for i, window in enumerate(windows):
            self._leave(turn, i, window.least)
            stays = window.stays[order[i]]
            self.counts.discarded += int(np.count_nonzero(~stays))
            self.sides[i].insert(came[i].where(stays))

    def _counted(self, turn: Turn, i: int, rows: int) -> Window:
        """A window of the last `rows` tuples.

        The newest tuple of a key never leaves its window, so its position is the number of tuples that came before it.
        """
        per_key = self.what.per_key
        earlier = self.sides[i].last(turn.values, -1) + 1 if per_key else np.array([self.numbered[i]])
        own, other = (earlier[turn.place[j]] + turn.before[i][j] for j in (i, 1 - i))
        self.numbered[i] += len(own)
        least = earlier + np.bincount(turn.place[i], minlength=len(earlier)) - rows
        stays = own >= least[turn.place[i]]
        return Window(own, other - rows, other - 1, stays, least if per_key else int(least[0]))

    def _timed(self, turn: Turn, i: int) -> Window:
        """A window of time. At equal times the left row comes first, so the right row meets it and not the reverse."""
        wait, own, other = self.what.waits[i], turn.time[i], turn.time[1 - i]
        high = other if i == 0 else other - 1
        if wait is None:
            return Window(own, np.full_like(other, NEVER), high, np.ones(len(own), np.bool_), NEVER)
        least = min(min(self.low), EVER) - wait
        return Window(own, other - wait, high, own >= least, least)

    def _meet(self, i: int, came: Keyed, low: Ints, high: Ints, others: Keyed, emit: Emit) -> None:
        """Emits the pairs of side i with rows in the window of the other side and with earlier rows of the turn."""
        kept = [(part.keyed, theirs, ours) for part, theirs, ours in self.sides[1 - i].probe(came, low, high)]
        for stored, theirs, ours in [*kept, (others, *others.probe(came, low, high))]:
            if not len(theirs):
                continue
            pair = {i: Bound(came, theirs), 1 - i: Bound(stored, ours)}
            holds = self._condition(pair)
            if holds is not None:
                pair = {side: Bound(bound.keyed, bound.rows[holds]) for side, bound in pair.items()}
            if len(pair[i].rows):
                self._pairs([(pair[side].keyed.rows, pair[side].rows) for side in (0, 1)], pair[i], emit)

    def _leave(self, turn: Turn, i: int, least: Ints | int) -> None:
        """Removes the rows of side i that have left its window. Counted windows change only for keys of this turn."""
        side = self.sides[i]
        if isinstance(least, int):
            side.invalidate(least, which=False)
            return
        for part, _, rows in side.probe(turn.values, np.zeros_like(least), least - 1):
            part.end(rows)
            side.operations.purged += len(rows)

    def _bound(self, port: int) -> int:
        """The least time of this side in any later result. Waiting rows are not below the low-watermarks."""
        kept = [self._time(port, part.keyed.rows)[part.live] for part in self.sides[port].parts]
        return min([min(self.low), *(int(time.min()) for time in kept if len(time))])

    def excess(self) -> str | None:
        """Checks that rows wait only until both inputs have passed them, and that a side keeps only window rows."""
        least = min((of.least for of in self._waiting if of.least is not None), default=None)
        if least is not None and least < min(self.low):
            return f"A row at {least} still waits, although both inputs have passed it."
        for i, (side, n) in enumerate(zip(self.sides, self.counted, strict=True)):
            name, wait = self.what.sides[i].name, self.what.waits[i]
            if min(self.low) == END and side.live_rows:
                return f"{side.live_rows} rows of {name} are kept after the end of both inputs."
            if n is None:
                if wait is not None and side.below(min(min(self.low), EVER) - wait):
                    return f"Rows of {name} are kept although they have left their window."
                continue
            codes = [part.keyed.codes for part in side.parts]
            places = len(np.unique(np.concatenate(codes))) if codes and self.what.per_key else 1
            if side.live_rows > n * places:
                return f"{side.live_rows} rows of {name} are kept in {places} windows of {n} rows."
        return None

    @property
    def rows(self) -> int:
        return super().rows + sum(waiting.rows for waiting in self._waiting)


def preceding(time: Sequence[Ints], place: Sequence[Ints]) -> list[list[Ints]]:
    """[i][j]: for each row of side j, the number of rows of side i in the same place that come before it.

    Times must ascend on each side.

    >>> left, right = preceding([np.array([1, 2]), np.array([2, 3])], [np.array([0, 0]), np.array([0, 1])])
    >>> [n.tolist() for n in left], [n.tolist() for n in right]
    ([[0, 1], [2, 0]], [[0, 0], [0, 0]])
    """
    n = len(time[0])
    order = np.argsort(np.concatenate(time), kind="stable")  # at equal times the left side first, then by arrival
    of_row = np.concatenate(place)[order]
    by_place = order_of(of_row, int(of_row.max(initial=0)) + 1)
    order, of_row = order[by_place], of_row[by_place]
    new = np.concatenate([[True], of_row[1:] != of_row[:-1]])[: len(of_row)]
    out = []
    for counts in (order < n, order >= n):
        upto: Ints = np.cumsum(counts) - counts
        before = np.empty(len(order), np.int64)
        before[order] = upto - np.maximum.accumulate(np.where(new, upto, 0))  # the last start of a place is the largest
        out.append(np.split(before, [n]))
    return out


def counted_rows(what: WindowJoin) -> tuple[int | None, ...]:
    """The number of rows of each window. Refuses joins that count windows do not support."""
    n = len(what.sides)
    if n != 2:
        raise LowwaterError(f"Windows that count rows join two inputs, not {n}; join them one after the other.")
    if what.rows is None or len(what.rows) != n or any(rows is not None and rows < 0 for rows in what.rows):
        raise LowwaterError(
            f"A count join needs, for each input, a number of rows, or None for a window of time; rows is {what.rows}."
        )
    if what.how != "inner":
        raise LowwaterError(f"Windows that count rows are for inner joins, not {what.how}; use windows of time for it.")
    if what.grid is not None:
        raise LowwaterError("A join counts rows or has tumbling or hopping windows, not both; leave one of them out.")
    return what.rows
