"""The state of one input of a symmetric join: inserts a batch, probes with a batch, removes rows by time and by value.

The state consists of a few parts (part.py), each with immutable rows and a few flags. Deletion is lazy, as in the
paper: a removed row is only flagged. A part is dropped when all its rows are removed. Parts are rewritten when more
than half of the rows of the side are removed, so a side never holds more than twice the rows that can still join. Eight
parts of similar size are merged into one, so the number of parts grows with the logarithm of the state and not with the
number of batches.

Writing a row costs more than searching for it (decision 0022), so rows are rarely rewritten. Merging fewer than eight
parts, or rewriting each part as soon as half of it is removed, would write most rows of a window that spans several
micro-batches a second time.
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
"""The number of parts of similar size that are merged into one."""
LARGEST = SEGMENT
"""Parts with more bytes than this are not merged, because one micro-batch has to do the whole merge."""
NUMBER = "__lw_number"
CUT = 8
"""A part that is not written yet is reduced to its live rows if more than one row in `CUT` has been removed."""


@dataclass
class Operations:
    """The work of a side in the units of the papers: one operation per tuple, punctuation or node of a list."""

    inserted: int = 0
    looked_up: int = 0
    """Searches in the I-Node index: one per probing tuple and one per punctuated value."""
    visited: int = 0
    """Nodes of value lists that probes have found."""
    invalidated: int = 0
    purged: int = 0

    @property
    def total(self) -> int:
        return self.inserted + self.looked_up + self.visited + self.invalidated + self.purged


class Side:
    """See the module text. `on` are the key columns. A `flagged` side remembers which rows have found a partner."""

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
        """The pairs of probing rows with rows of this side, as (part, theirs, ours) for each part that has pairs.

        `theirs` indexes the probing rows and `ours` the rows of the part. The position of a row of this side is within
        low..high of its probing row.
        """
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
        """An upper bound on the number of pairs of each probing row."""
        count = np.zeros(len(probing), np.int64)
        for part in self.parts:
            count += part.keyed.partners(probing, low, high)
        return count

    def invalidate(self, bound: int, which: bool = True) -> list[tuple[Part, Ints]]:
        """Removes the rows with a position below `bound`. With `which`, returns the rows that were live before.

        The bound only moves forward: a call with a lower bound does not bring removed rows back.
        """
        left = []
        for part in self.parts:
            until = 0 if bound <= part.least else len(part) if bound > part.most else part.keyed.before(bound)
            if until <= part.passed:
                continue
            since, part.passed = part.passed, until
            if not which and part.alive is None:  # only their number is needed, and counting needs no order by time
                self.operations.invalidated += until - since
                continue
            rows = part.keyed.by_time[since:until]
            rows = rows if part.alive is None else rows[part.alive[rows]]
            self.operations.invalidated += len(rows)
            left.append((part, rows))
        return left

    def purge(self, values: Keyed) -> list[tuple[Part, Ints]]:
        """Removes the rows of these values and returns them."""
        self.operations.looked_up += len(values)
        left = [self._cross_out(part, ours) for part, _, ours in self._rows_of(values)]
        return [(part, rows) for part, rows in left if len(rows)]

    def purge_where(self, ended: Among) -> list[tuple[Part, Ints]]:
        """Removes the rows whose key is in `ended` and returns them. Tests each value list once, not each row."""
        left = []
        for part in self.parts:
            self.operations.looked_up += len(part.keyed.codes)
            left.append(self._cross_out(part, part.keyed.where_key(ended)))
        return [(part, rows) for part, rows in left if len(rows)]

    def _rows_of(self, values: Keyed) -> Iterator[tuple[Part, Ints, Ints]]:
        """All rows of these values, as (part, index of the value, row)."""
        unbounded = np.full(len(values), 1 << 62)
        for part in self.parts:
            which, rows = part.keyed.probe(values, -unbounded, unbounded)
            if len(rows):
                yield part, which, rows

    def _cross_out(self, part: Part, rows: Ints) -> tuple[Part, Ints]:
        """Flags rows as ended. Returns those that were live before."""
        rows = rows[part.live[rows]]
        if len(rows):
            self.operations.purged += len(rows)
            part.end(rows)
        return part, rows

    def holds(self, values: Keyed) -> Mask:
        """The rows of `values` for whose key this side has a live row."""
        held = np.zeros(len(values), np.bool_)
        if self.parts:
            self.operations.looked_up += len(values)
        for part, which, rows in self._rows_of(values):
            held[which[part.live[rows]]] = True
        return held

    def count(self, values: Keyed) -> Ints:
        """The number of live rows of each value on this side."""
        found = np.zeros(len(values), np.int64)
        for part, which, rows in self._rows_of(values):
            found += np.bincount(which[part.live[rows]], minlength=len(values))
        return found

    def last(self, values: Keyed, none: int) -> Ints:
        """For each value, the largest position of its live rows on this side, or `none` if it has no live row."""
        most = np.full(len(values), none)
        for part, which, rows in self._rows_of(values):
            live = part.live[rows]
            np.maximum.at(most, which[live], part.keyed.at[rows[live]])
        return most

    def last_in(self, number: Callable[[pa.Array], Ints], n: int, none: int) -> Ints:
        """For each of `n` ranges of keys, the largest position of its live rows, or `none` if it has no live row.

        `number` returns the number of the range that contains a key, and a negative number if no range does.
        """
        most = np.full(n, none)
        for part in self.parts:
            rows = part.keyed.where_key(lambda keys: number(whole(keys.column(0))) >= 0)
            rows = rows[part.live[rows]]
            of = number(whole(part.keyed.keys.column(0).take(pa.array(rows))))
            np.maximum.at(most, of, part.keyed.at[rows])
        return most

    def tidy(self) -> None:
        """Drops parts without live rows. Rewrites parts until no more than half of the stored rows are removed ones."""
        parts = [(part, gone) for part in self.parts if (gone := part.gone) < len(part)]
        self.parts = [part.kept() if part.entry is None and CUT * gone > len(part) else part for part, gone in parts]
        while 2 * (self.rows - self.live_rows) > self.rows:
            worst = max(range(len(self.parts)), key=lambda i: self.parts[i].gone)
            self.parts[worst] = self.parts[worst].kept()
        self.merge()

    def merge(self) -> None:
        """Merges parts of similar size. Called after rows are removed, so that removed rows are not merged."""
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

    def take_where(self, wanted: Callable[[Keyed], Mask]) -> list[Keyed]:
        """Removes the live rows that are wanted, together with their bytes, and returns them."""
        taken, parts = [], []
        for part in self.parts:
            mask = wanted(part.keyed) & part.live
            if not mask.any():
                parts.append(part)
                continue
            taken.append(part.keyed.where(mask))
            rest = part.live & ~mask
            if rest.any():
                parts.append(Part(part.keyed.where(rest), None if part.matched is None else part.matched[rest]))
        self.parts = parts
        return taken

    def moved(self, placed: Callable[[Keyed], Keyed]) -> None:
        """Gives all live rows new positions. The flags of rows follow them."""
        self.compact()
        self.parts = [self._moved(part, placed) for part in self.parts]

    def _moved(self, part: Part, placed: Callable[[Keyed], Keyed]) -> Part:
        if part.matched is None:
            return Part(placed(part.keyed))
        numbered = part.keyed.rows.append_column(NUMBER, pa.array(np.arange(len(part))))
        keyed = placed(Keyed(numbered, part.keyed.on, part.keyed.code, part.keyed.at))
        order = whole(keyed.rows.column(NUMBER)).to_numpy()
        return Part(Keyed(keyed.rows.drop_columns([NUMBER]), keyed.on, keyed.code, keyed.at), part.matched[order])

    def compact(self) -> None:
        """Drops the bytes of all removed rows."""
        self.parts = [part.kept() for part in self.parts if part.gone < len(part)]

    @property
    def memory(self) -> int:
        """The bytes of all stored rows and their index in memory, at most."""
        return sum(part.memory for part in self.parts)

    def below(self, bound: int) -> int:
        """The number of live rows with a position below `bound`."""
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
        """Writes new parts to the state, and removes dropped parts from it."""
        self._slots.arrange([part.store(self._slots, self._flags) for part in self.parts])
        for flags in self._flags:
            if flags.name not in self._slots:
                self._flags.drop(flags.name)


def merged(parts: Sequence[Part]) -> Part:
    """One part with the rows and flags of several."""
    if len(parts) == 1:
        return parts[0]
    keyed, order = Keyed.merged([part.keyed for part in parts])
    flags = [part.matched for part in parts if part.matched is not None]
    return Part(keyed, np.concatenate(flags)[order] if flags else None)
