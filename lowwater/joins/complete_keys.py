"""Keys of which all rows have come on all inputs, if the number of rows per key is expected. Their rows can leave.

A key whose rows have left is *complete*. Its code is remembered while rows of it can come and are not late anyway, so
that a row beyond the expected number is recognised: its partners have left (losses.py).

State: code and value per complete key, 16 bytes. The newest are in memory, older ones on disk in pieces by value
(aside.py). A piece is only decoded if rows come with values in its range. There is a row per complete key on every
input, behind the first with a value that is still open, so there are no more complete keys than rows in the shortest
buffer by arrival, whether or not the rows have left.

>>> keys = CompleteKeys(Store())
>>> batch = Keyed.of(pa.table({"t": [7, 8, 8, 9]}), ("t",), np.arange(4))
>>> keys.add(batch.where(np.array([False, True, False, False])), np.array([8]))
>>> np.sort(batch.rows["t"].to_numpy()[keys.has(batch, batch.rows["t"].to_numpy())]).tolist()
[8, 8]
>>> keys.spill(0), keys.memory, keys.rows       # on disk
(None, 0, 1)
>>> keys.forget(8), keys.rows
(None, 0)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from lowwater.joins.aside import Aside
from lowwater.joins.keyed import Codes, Ints, Keyed, Mask
from lowwater.joins.side import Side
from lowwater.model.columns import whole
from lowwater.model.monitors import Monitor
from lowwater.state.store import OneTable, Store

RECENT = 1 << 12
"""The complete keys that are in memory, at most, behind a micro-batch without a memory limit."""
WIDTH = 16
"""The bytes of a complete key in memory."""
ON = ("value", "code")
NEWEST = "newest"


class CompleteKeys:
    """The complete keys of one shard. The value of a key is that of its progressing column."""

    def __init__(self, store: Store) -> None:
        self._slots, self._disk = store.slots("recent", OneTable()), Aside(store)
        self._code: Codes = np.empty(0, np.uint64)
        self._value: Ints = np.empty(0, np.int64)
        if NEWEST in self._slots:
            table = self._slots[NEWEST].value
            self._code, self._value = (whole(table.column(name)).to_numpy() for name in ("code", "value"))
        self._changed = False
        store.settling(self._settle)

    def add(self, keys: Keyed, value: Ints) -> None:
        """Adds keys that are not known yet, one row each."""
        self._keep(np.append(self._code, keys.code), np.append(self._value, value))

    def has(self, keyed: Keyed, value: Ints) -> Mask:
        """The rows whose key is complete. `value` are their values."""
        if not self.rows or not len(keyed):
            return np.zeros(len(keyed), np.bool_)
        found = np.zeros(len(keyed.codes), np.bool_)
        for code in self._codes(int(value.min()), int(value.max())):
            place = np.minimum(np.searchsorted(keyed.codes, code), len(found) - 1)
            found[place[keyed.codes[place] == code]] = True
        return np.repeat(found, np.diff(keyed.starts))

    def _codes(self, low: int, high: int) -> Iterator[Codes]:
        """The codes of complete keys, of all with a value in low..high and of some others."""
        yield self._code[(self._value >= low) & (self._value <= high)]
        for piece in self._disk.within(low, high):
            yield piece.code

    def spill(self, most: int) -> None:
        """Puts the keys in memory on disk if they are more than `most`."""
        if len(self._code) > most:
            keys = Keyed.of(pa.table({"value": self._value, "code": self._code}), ON, self._value, self._code)
            self._disk.put(keys, keys.at, max(1, most))
            self._keep(self._code[:0], self._value[:0])

    def forget(self, upto: int) -> None:
        """Drops keys with values up to this one. On disk, those of a piece go together."""
        self._disk.forget(upto)
        if self.least <= upto:
            keep = self._value > upto
            self._keep(self._code[keep], self._value[keep])

    def _keep(self, code: Codes, value: Ints) -> None:
        self._code, self._value, self._changed = code, value, True

    @property
    def least(self) -> int:
        """The smallest value in memory, or one above all if there is none."""
        return int(self._value.min(initial=np.iinfo(np.int64).max))

    def excess(self, over: int, monitors: Sequence[Monitor]) -> str | None:
        """A sentence if keys are kept that `forget(over)` drops, or more than rows above `over` have come on an input.

        Pieces are not decoded: a piece that spans `over` counts in neither number.
        """
        if n := int(np.count_nonzero(self._value <= over)) + self._disk.below(over):
            return f"{n} complete keys are remembered with values up to {over}, where all rows to come are late."
        most = min(monitor.rows - monitor.first_above(over) for monitor in monitors)
        if (n := int(np.count_nonzero(self._value > over)) + self._disk.above(over)) > most:
            return f"{n} complete keys are remembered, but only {most} rows with open values have come on some input."
        return None

    @property
    def rows(self) -> int:
        return len(self._code) + self._disk.rows

    @property
    def memory(self) -> int:
        return WIDTH * len(self._code)

    def _settle(self) -> None:
        if not self._changed:
            return
        self._slots.clear()
        if len(self._code):
            self._slots.put(NEWEST, pa.table({"code": self._code, "value": self._value}), rows=len(self._code))
        self._changed = False


def leave(sides: Sequence[Side], keyed: Keyed, multiplicities: Sequence[int]) -> Keyed:
    """Removes the rows of the keys of a batch of which as many as expected are on every side. Returns these keys.

    Keys that share a code are judged by the first. The rows of others stay until their buffer is cut.
    """
    first = keyed.starts[:-1]
    keys = Keyed(keyed.rows.take(first), keyed.on, keyed.codes, keyed.at[first])
    complete = np.logical_and.reduce([side.count(keys) >= n for side, n in zip(sides, multiplicities, strict=True)])
    keys = keys.where(complete)
    if len(keys):
        for side in sides:
            side.purge(keys)
    return keys
