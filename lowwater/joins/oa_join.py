"""OA-Join: a window join of two or more inputs (J7) that needs no order of arrival (TH 7.1, Fig. 7-1 and 7-2).

A batch on one port probes the stored rows of the other inputs. Then its own rows are stored, except those that no later
row of another input can join, by the low-watermarks of these inputs. A punctuation on one port removes the rows of the
other inputs that it rules out. So every pair is found exactly once, when the later of its rows arrives, in any order of
arrival.

A row of input i is kept if and only if its time is at or above bound_i, which progress.py defines with all that a join
promises of its results. combinations.py finds the partners of a batch.

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

import numpy as np
import pyarrow as pa

from lowwater.joins.arrived import Arrived, arrange
from lowwater.joins.combinations import Bound, Combinations
from lowwater.joins.keyed import Ints, Keyed, Mask
from lowwater.joins.part import Part
from lowwater.joins.progress import ProgressingJoin
from lowwater.joins.side import Side
from lowwater.joins.spec import WindowJoin
from lowwater.model.columns import whole
from lowwater.model.punctuation import Punctuation
from lowwater.model.ticks import NEVER
from lowwater.operators.base import Batch, Emit, Payload, batch_of
from lowwater.state.store import Store

LATE = "its input has progressed past it"
UNGRAMMATICAL = "its input has ended this value"


class OAJoin(ProgressingJoin):
    """See the module text. `joint` and `extremes` request further promises of the output (`ProgressingJoin`)."""

    def __init__(
        self, what: WindowJoin, joint: bool = False, extremes: bool = False, store: Store | None = None
    ) -> None:
        super().__init__(what, joint, extremes, store)
        flagged = what.keeps if not what.one_sided else (False,) * self.ports
        self.sides = [
            Side(side.on, flag, self.store.at(f"side{i}"))
            for i, (side, flag) in enumerate(zip(what.sides, flagged, strict=True))
        ]
        self._combinations = Combinations(self.sides, what.waits)
        self._tidy = False  # whether the sides were tidied after the last rows came

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
        for found, which in self._combinations.of(port, keyed):
            holds = self._condition(found)
            if holds is not None:
                found = {side: Bound(b.keyed, b.rows[holds], b.part) for side, b in found.items()}
                which = which[holds]
            if not len(which):
                continue
            matched[which] = True
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

    def _release(self, port: int, removed: list[tuple[Part, Ints]], emit: Emit) -> None:
        """Emits the removed rows that found no partner, if such rows are results."""
        if self.what.keeps[port]:
            for part, rows in removed:
                alone = rows if part.matched is None else rows[~part.matched[rows]]
                self._alone(port, part.keyed.rows, alone, part.keyed.at[alone], emit)

    def _passed(self, emit: Emit) -> None:
        """Called when the low-watermark of an input has moved. OA-Join itself does nothing more."""
        return None

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
