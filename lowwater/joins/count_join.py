"""Count join: windows of the last so many tuples, on one side or both, in event-time order (SH 2.1, PW 3.2).

Which tuples are the last ones depends on an order, and arrival is not it. Here it is that of time, of both inputs
together: smaller times first, at equal times left before right, within a side as they came. A tuple joins those of its
key that are in the window of the other side when its turn comes,

    rows_i = n   the last n tuples of side i, of its key or (per_key=False) of all of them
    rows_i None  the tuples of side i that came at most wait_i ticks before

so a pair is found by the later of the two. A row waits until both low-watermarks have passed it: then nothing that
belongs before it can come, and its turn does not depend on how rows arrived. Rows that are final go all at once. Each
has a position on its own side and a range of positions on the other, from which the pairs follow as in every join here:

                 position of a row             range for a row of the other side
    counted      tuples of i before it, c      c' - n .. c' - 1, where c' tuples of i come before that row
    timed        its time, t                   t' - wait .. t', without t' for a row of the left

State: rows that wait, and rows in a window. Those of timed windows are let go by time; of counted ones the last n stay,
by key of each key that was ever seen, until the other input has ended. Numbers of a key go on from the last row that is
kept of it, so there is no count beside the rows but one of the whole input.

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
from lowwater.joins.keyed import Ints, Keyed, Mask, order_by
from lowwater.joins.oa_join import EVER, LATE, Arrived, Bound, OAJoin
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
    """Rows that become final together, of each side by (time, arrival)."""

    rows: Sequence[pa.Table]
    time: Sequence[Ints]
    values: Keyed
    """The distinct keys of all of them, by code."""
    group: Sequence[Ints]
    """Which of them each row of a side has."""
    place: Sequence[Ints]
    """With what it is counted: the rows of its key, or all rows."""
    before: Sequence[Sequence[Ints]]
    """before[i][j]: for each row of side j how many of side i come before it in its place."""

    @staticmethod
    def of(what: WindowJoin, gone: Sequence[tuple[pa.Table, Ints]]) -> Turn:
        rows, time = zip(*gone, strict=True)
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
        """The rows of a side by (code, position). Positions of a key ascend, so it is enough to sort by key, unless two
        of them share a code."""
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
    """The positions that each row of the other side meets."""
    stays: Mask
    """Which rows of this side are in it when the turn is over."""
    least: Ints | int
    """The first position that is in it then: for each key, or for all."""


@dataclass
class Numbers:
    """How many tuples of each side were counted."""

    numbered: list[int] = field(default_factory=list)


class CountJoin(OAJoin):
    """See the module text. `numbered` is how many tuples of each side were counted: the count of the whole input."""

    def __init__(
        self,
        what: WindowJoin,
        extremes: bool = False,
        store: Store | None = None,
        kept: Sequence[Sequence[str]] | None = None,
    ) -> None:
        """`kept` names the columns of each side that come, where they are not all."""
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
        assert self.what.per_key, "ties of different keys go by arrival here, so rows come as they are"
        for given in (rows.keyed.rows, rows.nulls):
            if given is not None:
                self._wait(port, given, emit)
        self._broken(port, rows, emit)

    def _wait(self, port: int, rows: pa.Table, emit: Emit) -> None:
        """Late rows go out as such; a row that neither matches nor counts need not wait."""
        time = checked(self._time(port, rows), self.what.sides[port].time)
        late = time < self.low[port]
        if late.any():
            self._drop_late(port, rows.filter(pa.array(late)), LATE, emit)
        needless = ~late & ~self._matchable(port, rows) if self.what.per_key else np.zeros(len(time), np.bool_)
        self.counts.discarded += int(np.count_nonzero(needless))
        wait = ~(late | needless)
        self._waiting[port].add(rows if wait.all() else rows.filter(pa.array(wait)), time[wait])

    def _matchable(self, port: int, rows: pa.Table) -> Mask:
        """Which rows can match: those whose key is not null, unless nulls match."""
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
                side.parts = []  # nobody is left to meet them
            side.tidy()
        self._promise(emit)

    def _turn(self, turn: Turn, emit: Emit) -> None:
        """The rows of a turn meet what is in the windows and each other, and the windows move on."""
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

        The newest tuple of a key never leaves its window, so the last position that is there tells how many there were.
        """
        per_key = self.what.per_key
        earlier = self.sides[i].last(turn.values, -1) + 1 if per_key else np.array([self.numbered[i]])
        own, other = (earlier[turn.place[j]] + turn.before[i][j] for j in (i, 1 - i))
        self.numbered[i] += len(own)
        least = earlier + np.bincount(turn.place[i], minlength=len(earlier)) - rows
        stays = own >= least[turn.place[i]]
        return Window(own, other - rows, other - 1, stays, least if per_key else int(least[0]))

    def _timed(self, turn: Turn, i: int) -> Window:
        """A window of time. At equal times the left comes first: the right meets it, and it does not meet the right."""
        wait, own, other = self.what.waits[i], turn.time[i], turn.time[1 - i]
        high = other if i == 0 else other - 1
        if wait is None:
            return Window(own, np.full_like(other, NEVER), high, np.ones(len(own), np.bool_), NEVER)
        least = min(min(self.low), EVER) - wait
        return Window(own, other - wait, high, own >= least, least)

    def _meet(self, i: int, came: Keyed, low: Ints, high: Ints, others: Keyed, emit: Emit) -> None:
        """The pairs of rows of side i with those in the other's window, and with earlier ones of this turn."""
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
        """Lets go the rows of side i that are no longer in its window; only keys of this turn can have lost some."""
        side = self.sides[i]
        if isinstance(least, int):
            side.invalidate(least, which=False)
            return
        for part, _, rows in side.probe(turn.values, np.zeros_like(least), least - 1):
            part.end(rows)
            side.operations.purged += len(rows)

    def _bound(self, port: int) -> int:
        """The least time of this side that a result to come may have: rows that wait have none below both inputs'."""
        kept = [self._time(port, part.keyed.rows)[part.live] for part in self.sides[port].parts]
        return min([min(self.low), *(int(time.min()) for time in kept if len(time))])

    def excess(self) -> str | None:
        """Rows wait until both inputs have passed them; a side keeps the rows of its windows."""
        least = min((of.least for of in self._waiting if of.least is not None), default=None)
        if least is not None and least < min(self.low):
            return f"A row at {least} waits, though both inputs are past it."
        for i, (side, n) in enumerate(zip(self.sides, self.counted, strict=True)):
            name, wait = self.what.sides[i].name, self.what.waits[i]
            if min(self.low) == END and side.live_rows:
                return f"{side.live_rows} rows of {name} are kept after the end of both inputs."
            if n is None:
                if wait is not None and side.below(min(min(self.low), EVER) - wait):
                    return f"Rows of {name} are kept that are out of their window."
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
    """[i][j]: for each row of side j how many rows of side i of its place come before it. Times ascend on each side.

    >>> left, right = preceding([np.array([1, 2]), np.array([2, 3])], [np.array([0, 0]), np.array([0, 1])])
    >>> [n.tolist() for n in left], [n.tolist() for n in right]
    ([[0, 1], [2, 0]], [[0, 0], [0, 0]])
    """
    n = len(time[0])
    order = np.argsort(np.concatenate(time), kind="stable")  # at equal times the left first, then as they came
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
    """How many rows each window has. What such windows cannot do is refused, by one sentence each."""
    n = len(what.sides)
    if n != 2:
        raise LowwaterError(f"Windows that count rows join two inputs, not {n}; join them one after the other.")
    if what.rows is None or len(what.rows) != n or any(rows is not None and rows < 0 for rows in what.rows):
        raise LowwaterError(
            f"A count join needs for each input a number of rows or None for a window of time, but rows is {what.rows}."
        )
    if what.how != "inner":
        raise LowwaterError(f"Windows that count rows are for inner joins, not {what.how}; use windows of time for it.")
    if what.grid is not None:
        raise LowwaterError("A join counts rows or has tumbling or hopping windows, not both; leave one of them out.")
    return what.rows
