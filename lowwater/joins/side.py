"""One side of a symmetric join: insert a batch, probe with a batch, let rows go by time and by value.

State is a handful of parts (part.py), each of immutable rows and a few flags. As in the paper's lazy deletion a row
that leaves is only crossed out; a part is dropped when all of it is gone, and parts are written anew when more rows of
the side are gone than are left. So a side never holds more than twice the rows that may still join. Parts of similar
size are merged, eight into one: their number grows with the logarithm of the state, not with the number of batches.

To write a row costs more than to search for it (0022), so little is written twice: a merge of fewer parts, or half of a
part cleared as soon as half of it is gone, would write most rows of a window that spans some micro-batches again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lowwater.joins.keyed import Among, Ints, Keyed, Mask
from lowwater.joins.part import FlagsOfRows, KeyedRows, Part
from lowwater.model.columns import whole
from lowwater.state.store import SEGMENT, Store

FANOUT = 8
"""Parts of about one size that are merged into one."""
LARGEST = SEGMENT
"""Bytes of a part that is merged no more: a merge is work for one batch."""
CUT = 8
"""A part that is not yet written is first cut down to what is left when a row in so many is gone."""


@dataclass
class Operations:
    """What a side has done, in the units of the papers: one a tuple, a punctuation or a node of a list."""

    inserted: int = 0
    looked_up: int = 0
    """Searches in the I-Node index: one a probing tuple, one a punctuated value."""
    visited: int = 0
    """Nodes of value lists that a probe has found."""
    invalidated: int = 0
    purged: int = 0

    @property
    def total(self) -> int:
        return self.inserted + self.looked_up + self.visited + self.invalidated + self.purged


class Side:
    """See the module text. `on` are the key columns; `flagged` sides remember which rows have found a partner."""

    def __init__(self, on: tuple[str, ...], flagged: bool = False, store: Store | None = None) -> None:
        self.on = on
        self.flagged = flagged
        self.operations = Operations()
        store = store or Store()
        self._slots, self._flags = store.slots("parts", KeyedRows()), store.slots("flags", FlagsOfRows())
        named = {entry.name: entry for entry in self._flags}
        self.parts = [Part(None, None, entry, named.get(entry.name)) for entry in self._slots]
        store.settling(self._settle)

    def insert(self, keyed: Keyed, matched: Mask | None = None) -> None:
        if not len(keyed):
            return
        if self.flagged and matched is None:
            matched = np.zeros(len(keyed), np.bool_)
        self.operations.inserted += len(keyed)
        self.parts.append(Part(keyed, matched=matched))

    def probe(self, probing: Keyed, low: Ints, high: Ints) -> Iterator[tuple[Part, Ints, Ints]]:
        """(part, theirs, ours) for each part that has pairs; positions of ours are within low..high of theirs."""
        self.operations.looked_up += len(probing)
        if not len(probing):
            return
        least, most = int(low.min()), int(high.max())
        for part in self.parts:
            if part.most < least or part.least > most:
                continue
            theirs, ours = part.keyed.probe(probing, low, high)
            if part.alive is not None:
                alive = part.alive[ours]
                theirs, ours = theirs[alive], ours[alive]
            if len(ours):
                self.operations.visited += len(ours)
                yield part, theirs, ours

    def partners(self, probing: Keyed, low: Ints, high: Ints) -> Ints:
        """How many pairs each probing row has at most."""
        count = np.zeros(len(probing), np.int64)
        for part in self.parts:
            count += part.keyed.partners(probing, low, high)
        return count

    def invalidate(self, bound: int, which: bool = True) -> list[tuple[Part, Ints]]:
        """Lets go the rows with a position below `bound`; which those are, if asked, of the ones that had not left.

        A bound only moves forward: rows that have left do not come back when a lower bound is asked for later.
        """
        left = []
        for part in self.parts:
            until = 0 if bound <= part.least else len(part) if bound > part.most else part.keyed.before(bound)
            if until <= part.passed:
                continue
            since, part.passed = part.passed, until
            if not which and part.alive is None:  # their number is enough, for which they need no order
                self.operations.invalidated += until - since
                continue
            rows = part.keyed.by_time[since:until]
            rows = rows if part.alive is None else rows[part.alive[rows]]
            self.operations.invalidated += len(rows)
            left.append((part, rows))
        return left

    def purge(self, values: Keyed) -> list[tuple[Part, Ints]]:
        """Lets go the rows of these values."""
        self.operations.looked_up += len(values)
        left = [self._cross_out(part, ours) for part, _, ours in self._rows_of(values)]
        return [(part, rows) for part, rows in left if len(rows)]

    def purge_where(self, ended: Among) -> list[tuple[Part, Ints]]:
        """Lets go the rows whose key is among the ended, of which the lists are asked and not the rows."""
        left = []
        for part in self.parts:
            self.operations.looked_up += len(part.keyed.codes)
            left.append(self._cross_out(part, part.keyed.where_key(ended)))
        return [(part, rows) for part, rows in left if len(rows)]

    def _rows_of(self, values: Keyed) -> Iterator[tuple[Part, Ints, Ints]]:
        """(part, which value, row) for all rows of these values."""
        ever = np.full(len(values), 1 << 62)
        for part in self.parts:
            which, rows = part.keyed.probe(values, -ever, ever)
            if len(rows):
                yield part, which, rows

    def _cross_out(self, part: Part, rows: Ints) -> tuple[Part, Ints]:
        rows = rows[part.live[rows]]
        if len(rows):
            self.operations.purged += len(rows)
            part.end(rows)
        return part, rows

    def holds(self, values: Keyed) -> Mask:
        """Which of these rows have a row of their value here."""
        held = np.zeros(len(values), np.bool_)
        if self.parts:
            self.operations.looked_up += len(values)
        for part, which, rows in self._rows_of(values):
            held[which[part.live[rows]]] = True
        return held

    def last(self, values: Keyed, none: int) -> Ints:
        """The largest position of the rows of each value that are here, `none` where there are none."""
        most = np.full(len(values), none)
        for part, which, rows in self._rows_of(values):
            live = part.live[rows]
            np.maximum.at(most, which[live], part.keyed.at[rows[live]])
        return most

    def last_in(self, number: Callable[[pa.Array], Ints], n: int, none: int) -> Ints:
        """The largest position of all rows of each of `n` ranges of keys, `none` where there are none.

        `number` tells which range a key is in, below zero for no range.
        """
        most = np.full(n, none)
        for part in self.parts:
            rows = part.keyed.where_key(lambda keys: number(whole(keys.column(0))) >= 0)
            rows = rows[part.live[rows]]
            of = number(whole(part.keyed.keys.column(0).take(pa.array(rows))))
            np.maximum.at(most, of, part.keyed.at[rows])
        return most

    def tidy(self) -> None:
        """Drops parts of which all is gone, and writes parts anew while more rows are gone than are left."""
        parts = [(part, gone) for part in self.parts if (gone := part.gone) < len(part)]
        self.parts = [part.kept() if part.entry is None and CUT * gone > len(part) else part for part, gone in parts]
        while 2 * (self.rows - self.live_rows) > self.rows:
            worst = max(range(len(self.parts)), key=lambda i: self.parts[i].gone)
            self.parts[worst] = self.parts[worst].kept()
        self.merge()

    def merge(self) -> None:
        """Parts of about one size become one. After rows were let go, not when they come: what leaves is not merged."""
        while True:
            sizes = [
                None if part.bytes > LARGEST else int(np.log2(max(1, len(part))) // np.log2(FANOUT))
                for part in self.parts
            ]
            full = [size for size in set(sizes) if size is not None and sizes.count(size) >= FANOUT]
            if not full:
                return
            some = [part for part, size in zip(self.parts, sizes, strict=True) if size == min(full)]
            others = [part for part, size in zip(self.parts, sizes, strict=True) if size != min(full)]
            kept = [part.kept() for part in some if part.gone < len(part)]
            self.parts = [*others, *([merged(kept)] if kept else [])]

    def below(self, bound: int) -> int:
        """How many rows have a position below `bound` and have not left."""
        found = 0
        for part in self.parts:
            until = 0 if bound <= part.least else len(part) if bound > part.most else part.keyed.before(bound)
            if until > part.passed:
                rows = part.keyed.by_time[part.passed : until]
                found += len(rows) if part.alive is None else int(part.alive[rows].sum())
        return found

    @property
    def rows(self) -> int:
        return sum(len(part) for part in self.parts)

    @property
    def live_rows(self) -> int:
        return sum(len(part) - part.gone for part in self.parts)

    def _settle(self) -> None:
        """Puts parts that are new into the state, and takes out those that are gone."""
        self._slots.arrange([part.store(self._slots, self._flags) for part in self.parts])
        for flags in self._flags:
            if flags.name not in self._slots:
                self._flags.drop(flags.name)


def merged(parts: Sequence[Part]) -> Part:
    """One part of several; flags are carried along."""
    if len(parts) == 1:
        return parts[0]
    keyed, order = Keyed.merged([part.keyed for part in parts])
    flags = [part.matched for part in parts if part.matched is not None]
    return Part(keyed, np.concatenate(flags)[order] if flags else None)
