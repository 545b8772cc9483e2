"""The groups of AdaptWID: where the tuples of each are, and what is done with the next ones (TH 6.3.4.2, Fig. 6-17).

    lazy           its rows are buffered
    eager          its rows are reduced to partials; some from before may still wait in the buffer
    transitional   was eager: its rows are buffered again, but partials from before are still to be answered

Arrays by group number; groups are numbered as they come. A group without an active tuple is forgotten, and one without
partials is lazy. All of it follows from the rows and partials that are held, but for which groups are in transition.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lowwater.aggregates.grouped import Codes, factorise, pick, stack, without_columns

LAZY, EAGER, TRANSITIONAL = 0, 1, 2

Mask = npt.NDArray[np.bool_]


class GroupStates:
    """Active tuples by group, in rows and in partials; `eager` says where the next ones go."""

    def __init__(self, schema: pa.Schema, group_by: Sequence[str]) -> None:
        self.keys = pa.schema([schema.field(name) for name in group_by]).empty_table()
        if not group_by:
            self.keys = without_columns(0)
        self.buffered = np.empty(0, np.int64)
        self.reduced = np.empty(0, np.int64)
        self.eager: Mask = np.empty(0, bool)

    def __len__(self) -> int:
        return len(self.eager)

    @property
    def volume(self) -> npt.NDArray[np.int64]:
        """winVol: the active tuples of each group."""
        return self.buffered + self.reduced

    @property
    def transitional(self) -> Mask:
        return ~self.eager & (self.reduced > 0)

    @property
    def state(self) -> npt.NDArray[np.int8]:
        return np.where(self.eager, EAGER, np.where(self.transitional, TRANSITIONAL, LAZY)).astype(np.int8)

    def admit(self, keys: pa.Table) -> Codes:
        """The numbers of these groups; those not known yet are added as lazy ones without tuples."""
        known = len(self)
        code, distinct = factorise(stack([self.keys, keys]))  # known groups come first and keep their numbers
        new = distinct.num_rows - known
        if new:
            self.keys = distinct
            self.buffered = np.concatenate([self.buffered, np.zeros(new, np.int64)])
            self.reduced = np.concatenate([self.reduced, np.zeros(new, np.int64)])
            self.eager = np.concatenate([self.eager, np.zeros(new, bool)])
        return code[known:]

    def rise(self, among: Codes, above: float) -> Mask:
        """Makes those of the groups eager whose volume is above; tells which of them were not."""
        rising = ~self.eager[among] & (self.buffered[among] + self.reduced[among] > above)
        self.eager[among[rising]] = True
        return rising

    def fall(self, below: float) -> None:
        """Groups whose volume is below are eager no more, and those without partials are lazy."""
        self.eager &= (self.reduced > 0) & (self.volume >= below)

    def forget(self) -> Codes | None:
        """Removes groups without tuples; the new numbers of all, if they change."""
        alive = self.volume > 0
        if alive.all():
            return None
        kept = np.flatnonzero(alive)
        self.keys = pick(self.keys, kept)
        self.buffered, self.reduced, self.eager = self.buffered[kept], self.reduced[kept], self.eager[kept]
        return np.cumsum(alive) - 1
