"""One part of the state of a join side: immutable rows (keyed.py), and flags about these rows that can change.

    passed    how far the head of the time list has moved: rows before it have left their window (PW: Window Begin)
    alive     the rows that no punctuation has ended; absent while no row has ended
    matched   the rows that have found a partner; kept only if rows without a partner are results (outer joins)

Rows are fetched from the state when they are first read. The number of rows and the positions that they span are
known without fetching them, and are often all that a caller needs.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from lowwater.joins.keyed import Ints, Keyed, Mask
from lowwater.model.columns import whole
from lowwater.state.store import Entry, Slots

Flags = dict[str, Mask]
INDEX = 48
"""Bytes per row of code, position and everything that is derived from them for searching, at most (keyed.py)."""


def memory_of(bytes: int, rows: int) -> int:
    """The bytes of rows in memory, at most."""
    return int(bytes) + INDEX * rows


class Part:
    """Rows and their flags.

    `entry` and `flags` are the places of both in the state. They are None while the state does not have the current
    value.
    """

    def __init__(
        self,
        keyed: Keyed | None,
        matched: Mask | None = None,
        entry: Entry[Keyed] | None = None,
        flags: Entry[Flags] | None = None,
    ) -> None:
        assert keyed is not None or entry is not None, "rows are here or in the state"
        known = facts(keyed) if keyed is not None else {} if entry is None else entry.meta
        saved: Flags = {} if flags is None else flags.value
        self._keyed = keyed
        self.entry = entry
        self.flags = flags
        self.alive = saved.get("alive")
        self.matched = saved.get("matched") if matched is None else matched
        self._rows: int = known["rows"]
        self.least: int = known["least"]
        self.most: int = known["most"]
        self.passed: int = known["passed"]
        self._bytes: int = known.get("bytes", 0) or self.bytes

    @property
    def keyed(self) -> Keyed:
        if self._keyed is None:
            assert self.entry is not None
            self._keyed = self.entry.value
        return self._keyed

    def __len__(self) -> int:
        return self._rows

    @property
    def bytes(self) -> int:
        return int(self.keyed.rows.nbytes) if self.entry is None else self.entry.size

    @property
    def memory(self) -> int:
        """The bytes of rows and index in memory, at most. The same before and after the part is written."""
        return memory_of(self._bytes, len(self))

    @property
    def gone(self) -> int:
        """The number of rows that are still stored although they have left the join."""
        if self.alive is None or self.passed == len(self):
            return self.passed
        return self.passed + int(np.count_nonzero(~self.alive[self.keyed.by_time[self.passed :]]))

    @property
    def live(self) -> Mask:
        """The rows that have not left the join."""
        live = np.ones(len(self), np.bool_) if self.alive is None else self.alive.copy()
        if self.passed:
            live[self.keyed.by_time[: self.passed]] = False
        return live

    def kept(self) -> Part:
        """A part with only the rows that have not left the join."""
        live = self.live
        if live.all():
            return self
        return Part(self.keyed.where(live), None if self.matched is None else self.matched[live])

    def mark(self, rows: Ints) -> None:
        """Marks rows as matched."""
        assert self.matched is not None
        if not self.matched[rows].all():
            self.matched = self.matched.copy()
            self.matched[rows] = True
            self.flags = None

    def end(self, rows: Ints) -> None:
        """Marks rows as ended."""
        alive = np.ones(len(self), np.bool_) if self.alive is None else self.alive.copy()
        alive[rows] = False
        self.alive, self.flags = alive, None

    def store(self, parts: Slots[Keyed], flags: Slots[Flags]) -> Entry[Keyed]:
        """Writes rows and flags to the state, if they are new or have changed."""
        if self.entry is None:
            self.entry = parts.add(self.keyed, **facts(self.keyed))
        self.entry.meta["passed"] = self.passed
        name = self.entry.name
        columns = {name: flag for name, flag in (("alive", self.alive), ("matched", self.matched)) if flag is not None}
        if not columns:
            flags.drop(name)
        elif self.flags is None or name not in flags or flags[name] is not self.flags:
            self.flags = flags.put(name, columns)
        return self.entry


def facts(keyed: Keyed) -> dict[str, int]:
    """The facts about a part that are known without fetching its rows."""
    bytes = int(keyed.rows.nbytes)
    return {"rows": len(keyed), "least": keyed.least, "most": keyed.most, "passed": 0, "bytes": bytes}


class KeyedRows:
    """The codec of rows."""

    def encode(self, value: Keyed) -> dict[str, pa.Table]:
        return value.tables()

    def decode(self, tables: dict[str, pa.Table]) -> Keyed:
        return Keyed.of_tables(tables)


class FlagsOfRows:
    """The codec of flags."""

    def encode(self, value: Flags) -> dict[str, pa.Table]:
        return {"flags": pa.table({name: pa.array(flag) for name, flag in value.items()})}

    def decode(self, tables: dict[str, pa.Table]) -> Flags:
        flags = tables["flags"]
        return {name: whole(flags.column(name)).to_numpy(zero_copy_only=False) for name in flags.column_names}
