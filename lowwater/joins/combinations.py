"""Combinations of a join: the rows of a batch with one stored row of each other side, piece by piece.

With two inputs a combination is a pair. With more, a batch binds one side after the other, and each side narrows the
positions that the next may have.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lowwater.joins.keyed import Ints, Keyed
from lowwater.joins.part import Part
from lowwater.joins.side import Side
from lowwater.model.ticks import NEVER

EVER = -NEVER
TEXT = 1 << 30
"""Bytes of text in one column of results at most; an Arrow array holds up to twice as many."""
PIECE = 32 << 20
"""Approximate size of one piece of results in bytes. Results are emitted piece by piece."""


@dataclass(frozen=True, eq=False)
class Bound:
    """One side of a list of combinations: the rows of this side, and the row index of each combination."""

    keyed: Keyed
    rows: Ints
    part: Part | None = None


@dataclass(frozen=True)
class Combinations:
    """Finds the combinations over `sides`; `waits` has per side how long its rows stay in the window, None for ever."""

    sides: Sequence[Side]
    waits: Sequence[int | None]

    def of(self, port: int, keyed: Keyed) -> Iterator[tuple[dict[int, Bound], Ints]]:
        """Pieces of all combinations of a batch. Each comes with the indices of its rows in the batch."""
        probing, which, order = self.promising(port, keyed)
        for found in self.complete([(port, Bound(probing, np.arange(len(probing))))], order):
            yield found, which[found[port].rows]

    def promising(self, port: int, keyed: Keyed) -> tuple[Keyed, Ints, list[int]]:
        """The rows that have a partner on every other side, and the order in which to probe these sides.

        Returns (rows, their indices in the batch, sides), with the side that has the fewest partners first. With three
        or more inputs this avoids combinations that cannot be completed.
        """
        others = [side for side in range(len(self.sides)) if side != port]
        everyone = np.arange(len(keyed))
        if len(self.sides) == 2:
            return keyed, everyone, others
        partners = {}
        for side in others:
            low, high = self.within([(port, Bound(keyed, everyone))], side)
            partners[side] = self.sides[side].partners(keyed, low, high)
        promising = np.logical_and.reduce([count > 0 for count in partners.values()])
        order = sorted(others, key=lambda side: int(partners[side][promising].sum()))
        return keyed.where(promising), np.flatnonzero(promising), order

    def within(self, bound: list[tuple[int, Bound]], new: int) -> tuple[Ints, Ints]:
        """The positions low..high that a partner on side `new` must have.

        It must be in the window of every bound row, and every bound row must be in the window of the partner.
        """
        n = len(bound[0][1].rows)
        low, high = np.full(n, NEVER), np.full(n, EVER)
        for side, b in bound:
            at = b.keyed.at[b.rows]
            if (wait := self.waits[new]) is not None:
                low = np.maximum(low, at - wait)
            if (wait := self.waits[side]) is not None:
                high = np.minimum(high, at + wait)
        return low, high

    def complete(self, bound: list[tuple[int, Bound]], order: list[int]) -> Iterator[dict[int, Bound]]:
        """All combinations of the bound rows with one row of each side in `order`.

        Yields one piece per choice of parts, or several pieces if they are large.
        """
        _, first = bound[0]
        if not order:
            most = min(TEXT // max(b.keyed.widest for _, b in bound), PIECE // sum(b.keyed.width for _, b in bound))
            most = max(1, most)
            for at in range(0, len(first.rows), most):
                yield {side: Bound(b.keyed, b.rows[at : at + most], b.part) for side, b in bound}
            return
        new, *rest = order
        low, high = self.within(bound, new)
        probing = first.keyed
        if len(bound) > 1:  # rows of the batch, one per combination so far; they are still sorted by code
            chosen = probing.keys.take(pa.array(first.rows))
            probing = Keyed(chosen, probing.on, probing.code[first.rows], probing.at[first.rows])
        for part, theirs, ours in self.sides[new].probe(probing, low, high):
            narrowed = [(side, Bound(b.keyed, b.rows[theirs], b.part)) for side, b in bound]
            yield from self.complete([*narrowed, (new, Bound(part.keyed, ours, part))], rest)
