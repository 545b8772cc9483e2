"""A part of one side's state: rows that never change (keyed.py), and a few flags beside them that do.

    passed    how far the head of the time list has moved: rows before it have left their window (PW: Window Begin)
    alive     which rows no punctuation has ended; absent while all are
    matched   which rows have found a partner; only where rows that stay alone are part of the result

Rows come back from the state store when somebody looks at them. How many they are and which positions they span is
known without that, and is often all that is asked.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from lowwater.joins.keyed import Ints, Keyed, Mask
from lowwater.state.segments import Segment


class Part:
    """Rows and their flags. `written` and `flags` are what of them is encoded already."""

    def __init__(
        self,
        keyed: Keyed | None,
        passed: int = 0,
        alive: Mask | None = None,
        matched: Mask | None = None,
        written: Segment[Keyed] | None = None,
        flags: Segment[Any] | None = None,
        rows: int = 0,
        least: int = 0,
        most: int = 0,
    ) -> None:
        self._keyed = keyed
        self.passed = passed
        self.alive = alive
        self.matched = matched
        self.written = written
        self.flags = flags
        self._rows = rows if keyed is None else len(keyed)
        self.least = least if keyed is None else keyed.least
        self.most = most if keyed is None else keyed.most

    @property
    def keyed(self) -> Keyed:
        if self._keyed is None:
            assert self.written is not None
            self._keyed = self.written.value
        return self._keyed

    def __len__(self) -> int:
        return self._rows

    @property
    def bytes(self) -> int:
        return int(self.keyed.rows.nbytes) if self.written is None else self.written.size

    @property
    def gone(self) -> int:
        """Rows that are here but have left."""
        if self.alive is None or self.passed == len(self):
            return self.passed
        return self.passed + int(np.count_nonzero(~self.alive[self.keyed.by_time[self.passed :]]))

    @property
    def live(self) -> Mask:
        live = np.ones(len(self), np.bool_) if self.alive is None else self.alive.copy()
        if self.passed:
            live[self.keyed.by_time[: self.passed]] = False
        return live

    def kept(self) -> Part:
        """Only the rows that have not left."""
        live = self.live
        if live.all():
            return self
        return Part(self.keyed.where(live), matched=None if self.matched is None else self.matched[live])

    def mark(self, rows: Ints) -> None:
        assert self.matched is not None
        if not self.matched[rows].all():
            self.matched = self.matched.copy()
            self.matched[rows] = True
            self.flags = None

    def end(self, rows: Ints) -> None:
        alive = np.ones(len(self), np.bool_) if self.alive is None else self.alive.copy()
        alive[rows] = False
        self.alive, self.flags = alive, None

    def encode(self) -> tuple[Segment[Any], Segment[Any] | None]:
        if self.written is None:
            self.written = Segment.of(self.keyed, self.keyed.tables())
        if self.flags is None and (self.alive is not None or self.matched is not None):
            columns = {
                name: flag for name, flag in (("alive", self.alive), ("matched", self.matched)) if flag is not None
            }
            self.flags = Segment.of(columns, {"flags": pa.table({n: pa.array(flag) for n, flag in columns.items()})})
        return self.written, self.flags
