"""Group-wise progress: the low-watermark of each source as one table, for operators whose groups have one source each.

A `GroupLows` is as many punctuations as it has sources (TH 2.1, linear punctuation within a group): of a source s no
row with `attribute` below the low of s comes any more. A source is a value of `column`, by its name
(model/progress.py).

    GroupLows   the message
    Own         the lows that an operator has heard, as its state
    Frontier    how far groups are closed: all alike, or each by its own source where that is further
    Advance     a step from one frontier to the next

The linear bound is the minimum over the sources, and what an operator has promised of its output by it holds for all
groups. So a source that appears behind the linear bound is closed up to that bound, as if it had been there.

>>> lows = GroupLows("ts", "link", pa.array(["a", "b"]), np.array([30, 5]))
>>> rows = pa.table({"link": ["b", "a", "c"]})
>>> Frontier(10, lows).of(rows).tolist(), Frontier(10).of(rows)
([10, 30, 10], 10)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lowwater.aggregates.grouped import factorise
from lowwater.model.columns import whole
from lowwater.model.progress import names_of
from lowwater.model.ticks import END, NEVER
from lowwater.state.store import Store

Ints = npt.NDArray[np.int64]
Reached = int | Ints
"""How far groups are closed: one number for all, or one for each."""
LOWS = "lows"


@dataclass(frozen=True)
class GroupLows:
    """See the module text. `names` are distinct."""

    attribute: str
    column: str
    names: pa.Array
    lows: Ints

    def of(self, rows: pa.Table) -> Ints:
        """The low of the source of each row; NEVER where the source is not known."""
        code, distinct = factorise(rows.select([self.column]))
        return self.named(names_of(whole(distinct.column(0))))[code]

    def named(self, names: pa.Array) -> Ints:
        """The lows of named sources; NEVER where a source is not known."""
        at = pc.fill_null(pc.index_in(names, value_set=self.names), -1).to_numpy(zero_copy_only=False)
        return np.asarray(np.append(self.lows, NEVER)[at], np.int64)

    def mapped(self, function: Callable[[Ints], Ints]) -> GroupLows:
        """The lows on another axis. NEVER and END stay."""
        known = (self.lows > NEVER) & (self.lows < END)
        lows = self.lows.copy()
        lows[known] = function(self.lows[known])
        return replace(self, lows=lows)

    def moved(self, attribute: str, ahead: int) -> GroupLows:
        """The lows of a column that is `ahead` ticks ahead of the attribute."""
        return replace(self.mapped(lambda lows: lows + ahead), attribute=attribute)


def least(lows: Sequence[GroupLows | None], bounds: Sequence[int]) -> GroupLows | None:
    """The lows of a union, by the lows of its inputs and their linear bounds; None if no input has any.

    An input that does not know a source promises its linear bound of it.
    """
    known = [one for one in lows if one is not None]
    if not known:
        return None
    names = pa.concat_arrays([one.names for one in known]).unique()
    none = np.full(len(names), NEVER)
    found = [np.maximum(none if one is None else one.named(names), b) for one, b in zip(lows, bounds, strict=True)]
    return replace(known[0], names=names, lows=np.minimum.reduce(found))


class LowsCodec:
    """The codec of lows."""

    def encode(self, value: GroupLows) -> dict[str, pa.Table]:
        about = {"attribute": value.attribute, "column": value.column}
        return {LOWS: pa.table({"source": value.names, "low": value.lows}).replace_schema_metadata(about)}

    def decode(self, tables: dict[str, pa.Table]) -> GroupLows:
        table = tables[LOWS]
        about = {name.decode(): value.decode() for name, value in table.schema.metadata.items()}
        low = np.asarray(table.column("low").to_numpy(), np.int64)
        return GroupLows(about["attribute"], about["column"], whole(table.column("source")), low)


@dataclass(frozen=True)
class Frontier:
    """How far groups are closed: `least` is for all, and `own` is further for some. On any axis that lows are on."""

    least: int
    own: GroupLows | None = None

    def of(self, keys: pa.Table) -> Reached:
        """How far each row of a table is closed whose columns contain the source."""
        return self.least if self.own is None else np.maximum(self.own.of(keys), self.least)

    @property
    def most(self) -> int:
        return self.least if self.own is None else int(self.own.lows.max(initial=self.least))


@dataclass(frozen=True)
class Advance:
    """A step of progress. `most` is how far the furthest of the groups is that have moved."""

    before: Frontier
    after: Frontier
    most: int

    def due(self, keys: pa.Table) -> Reached:
        """How far each group is closed now; NEVER for groups that have not moved."""
        if self.after.own is None:
            return self.after.least
        after = self.after.of(keys)
        return np.where(after > self.before.of(keys), after, NEVER)

    def before_due(self, keys: pa.Table, ticks: int) -> Reached:
        """`due` less so many ticks; END stays."""
        due = self.due(keys)
        if isinstance(due, int):
            return less(due, ticks)
        return np.where(due == END, END, due - ticks)


class Own:
    """The lows that an operator has heard, on one attribute. Without a column no group closes on its own."""

    def __init__(self, column: str | None, attribute: str, store: Store) -> None:
        self.column, self.attribute = column, attribute
        self._slots = None if column is None else store.slots("own", LowsCodec())

    @property
    def lows(self) -> GroupLows | None:
        return self._slots[LOWS].value if self._slots is not None and LOWS in self._slots else None

    def hear(self, lows: GroupLows, least: int) -> int | None:
        """Keeps new lows. Returns the furthest of those that have grown, or None if none has. `least` is the linear
        bound: at the end there is nothing more to hear."""
        if self._slots is None or (lows.attribute, lows.column) != (self.attribute, self.column) or least == END:
            return None
        before = self.lows
        if before is not None:
            names = lows.names if lows.names.equals(before.names) else pa.concat_arrays([before.names, lows.names])
            names = names.unique()
            lows = replace(lows, names=names, lows=np.maximum(before.named(names), lows.named(names)))
        grown = lows.lows > (NEVER if before is None else before.named(lows.names))
        if not grown.any():
            return None
        self._slots.put(LOWS, lows)
        return int(lows.lows[grown].max())

    def forget(self) -> None:
        """The stream has ended, and with it all sources."""
        if self._slots is not None:
            self._slots.clear()


def less(low: int, ticks: int) -> int:
    """A low-watermark less so many ticks; END stays."""
    return low if low == END else low - ticks


def each(reached: Reached, group: Ints) -> Reached:
    """How far each row is closed, by its group."""
    return reached if isinstance(reached, int) else reached[group]
