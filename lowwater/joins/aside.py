"""Disk-buffer first (WO 4.2): rows of one leading input that are put aside until the others have almost reached them.

Rows put aside are pieces in the state. In memory there is only an entry per piece: how many rows it has, and its
smallest and largest value. A piece is decoded once, when it is read back. In this process pieces are files on the local
disk; on Spark they are segments of the state store, which its tasks map from local files.

The rows of one call are sorted by value before they are cut, so that the pieces of one call do not overlap.

There are at most 2 * `PIECES` pieces, so the memory that their entries take does not grow with the lag. Beyond that, as
many pairs of neighbours are merged as pieces were added. They are the smallest, but not among those that are read back
next, so that a piece is read back whole only if few of its rows are early. Two pieces are decoded at a time.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np

from lowwater.joins.keyed import Ints, Keyed
from lowwater.joins.part import KeyedRows
from lowwater.model.ticks import END
from lowwater.state.store import Entry, Store

PIECES = 64
"""The number of pieces that is aimed at where many rows are aside: larger pieces keep the directory short. As many are
left as they are before any are merged."""


class Aside:
    """The rows of one input that are put aside."""

    def __init__(self, store: Store) -> None:
        self._slots = store.slots("aside", KeyedRows(), aside=True)

    def put(self, keyed: Keyed, time: Ints, rows: int, most: int | None = None) -> None:
        """Puts rows aside, in pieces of `rows` rows, or more if there are many; `most` bounds that."""
        size = max(rows, (self.rows + len(keyed)) // PIECES)
        size = max(1, size if most is None else min(size, most))
        order = np.argsort(time, kind="stable")
        for at in range(0, len(order), size):
            which = np.sort(order[at : at + size])  # in the order of the rows, which is by code
            piece = Keyed(keyed.rows.take(which), keyed.on, keyed.code[which], keyed.at[which])
            least, top = int(time[which].min()), int(time[which].max())
            self._slots.add(piece, rows=len(which), least=least, most=top)
        while self.pieces > 2 * PIECES:
            self._merge()

    def _merge(self) -> None:
        """Merges the two neighbours with the fewest rows that are not read back soon."""
        later = sorted(self._slots, key=lambda entry: int(entry.meta["least"]))[PIECES:]
        one, other = min(pairwise(later), key=lambda pair: int(pair[0].meta["rows"] + pair[1].meta["rows"]))
        keyed, most = Keyed.merged([one.value, other.value])[0], max(one.meta["most"], other.meta["most"])
        self._slots.add(keyed, rows=len(keyed), least=one.meta["least"], most=most)
        self._slots.drop(one.name)
        self._slots.drop(other.name)

    @property
    def _next(self) -> Entry[Keyed] | None:
        return min(self._slots, key=lambda entry: int(entry.meta["least"]), default=None)

    @property
    def least(self) -> int:
        """The smallest value that is aside; END if nothing is."""
        return END if self._next is None else int(self._next.meta["least"])

    def read_back(self) -> Keyed:
        """Decodes and removes the piece with the smallest value."""
        entry = self._next
        assert entry is not None, "nothing is aside"
        keyed = entry.value
        self._slots.drop(entry.name)
        return keyed

    def within(self, low: int, high: int) -> Iterator[Keyed]:
        """Decodes the pieces that can have values in low..high, one by one, and leaves them where they are."""
        for entry in self._slots:
            if entry.meta["least"] <= high and entry.meta["most"] >= low:
                yield entry.value

    def forget(self, upto: int) -> None:
        """Drops the pieces without a larger value."""
        for entry in self._slots:
            if entry.meta["most"] <= upto:
                self._slots.drop(entry.name)

    def above(self, value: int) -> int:
        """The rows of the pieces that have only larger values."""
        return sum(entry.meta["rows"] for entry in self._slots if entry.meta["least"] > value)

    def below(self, value: int) -> int:
        """The rows of the pieces that have no larger value."""
        return sum(entry.meta["rows"] for entry in self._slots if entry.meta["most"] <= value)

    @property
    def rows(self) -> int:
        return self._slots.rows

    @property
    def pieces(self) -> int:
        return len(self._slots)

    def clear(self) -> None:
        self._slots.clear()
