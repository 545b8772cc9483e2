"""Partials in blocks of neighbouring slots, each an entry of the state.

A batch rewrites the few blocks that its slots fall into; blocks that time has passed are dropped whole, and only the
block at the edge is cut. With `width` slots a block, state of p slots is p / width segments, of which a batch touches
those between the low-watermark and the newest row. Stored rows are live rows: no (group, slot) is kept twice, and none
that no window will read.

What a batch brings waits beside the blocks until the batch's punctuation has been answered: most of it is often closed
and forgotten right away, and only the rest is sorted into blocks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from lowwater.aggregates.base import Algebra, take
from lowwater.aggregates.grouped import Grouped, GroupedCodec, gather, merge, regroup
from lowwater.aggregates.sorting import by_group
from lowwater.state.store import Store

BLOCKS = 16
"""How many blocks the slots of one window are cut into, about."""

LEAST = 16
"""The fewest slots of a block: where one source stands still, thousands of tumbling windows may be open."""

Live = Callable[[Grouped], npt.NDArray[np.bool_]]
"""Which rows of a table are live."""


class Blocks:
    """Blocks by number; block b holds the slots [b*width, (b+1)*width)."""

    def __init__(self, algebras: Sequence[Algebra], width: int, store: Store | None = None) -> None:
        self._algebras = algebras
        self.width = max(LEAST, width)
        store = store or Store()
        self._blocks = store.slots("blocks", GroupedCodec(algebras))
        self._waiting: list[Grouped] = []
        store.settling(self.settle)

    def absorb(self, grouped: Grouped) -> None:
        self._waiting.append(grouped)

    def settle(self) -> None:
        """Sorts what is waiting into its blocks."""
        if not self._waiting:
            return
        grouped = merge(self._waiting, self._algebras)
        self._waiting = []
        number = grouped.slot // self.width
        by_block = np.argsort(number, kind="stable")  # rows of a block stay in order
        numbers, starts = np.unique(number[by_block], return_index=True)
        for b, rows in zip(numbers.tolist(), np.split(by_block, starts[1:]), strict=True):
            part = grouped.take(rows)
            self._put(b, merge([self._block(b), part], self._algebras) if str(b) in self._blocks else part)

    def keep(self, live: Live, below: int | None = None) -> None:
        """Cuts everything to what is live: the slots from some slot on, or, with `below`, any rows of earlier slots."""
        self._waiting = [part for part in (part.where(live(part)) for part in self._waiting) if len(part)]
        for b in self._numbers():
            if below is not None and b * self.width >= below:
                return
            block = self._block(b)
            rows = live(block)
            if rows.all():
                if below is None:
                    return  # and so are all later blocks
            elif rows.any():
                self._put(b, block.where(rows))
            else:
                self._blocks.drop(str(b))

    def clear(self) -> None:
        self._blocks.clear()
        self._waiting = []

    def _numbers(self) -> list[int]:
        return sorted(int(entry.name) for entry in self._blocks)

    def _block(self, b: int) -> Grouped:
        return self._blocks[str(b)].value

    def _put(self, b: int, block: Grouped) -> None:
        self._blocks.put(str(b), block, rows=len(block))

    def parts(self, below: int | None = None) -> list[Grouped]:
        """All tables as they are, a (group, slot) perhaps in several; of blocks only those that begin below a slot."""
        return [self._block(b) for b in self._numbers() if below is None or b * self.width < below] + self._waiting

    def together(self, below: int | None = None) -> Grouped | None:
        """All rows as one sorted table; with `below`, of blocks only those that begin below that slot."""
        parts = self.parts(below)
        if not parts:
            return None
        if len(parts) == 1:
            return parts[0]
        rows = gather(parts)
        return regroup(rows.keys, rows.group, rows.slot, rows.partials, self._algebras)

    def in_order(self, below: int | None = None) -> Grouped | None:
        """As `together`, for state that outlasts many batches: what waits will mostly stay, so it is settled first.

        Blocks follow each other in time and share no slot, so laying the rows of each group one after the other sorts.
        """
        self.settle()
        parts = self.parts(below)
        if len(parts) < 2:
            return parts[0] if parts else None
        rows = gather(parts)
        order, _ = by_group(rows.group, rows.keys.num_rows)
        partials = tuple(tuple(take(column, order) for column in partial) for partial in rows.partials)
        return Grouped(rows.keys, rows.group[order], rows.slot[order], partials)

    @property
    def rows(self) -> int:
        self.settle()
        return self._blocks.rows

    def span(self) -> int:
        """The slots from the smallest to the largest that is kept."""
        parts = [part.slot for part in self.parts() if len(part)]
        return max(int(slot.max()) for slot in parts) - min(int(slot.min()) for slot in parts) + 1 if parts else 0

    def widest(self) -> int:
        """The slots from the smallest to the largest that is kept of one group, of the group with most of them."""
        rows = self.together()
        if rows is None or not len(rows):
            return 0
        starts = np.flatnonzero(np.diff(rows.group, prepend=-1))  # rows are sorted by group and slot
        stops = np.append(starts[1:], len(rows))
        return int((rows.slot[stops - 1] - rows.slot[starts]).max()) + 1

    def least(self) -> int | None:
        """The smallest slot that is kept."""
        parts = [part for part in [*(self._block(b) for b in self._numbers()[:1]), *self._waiting] if len(part)]
        return min((int(part.slot.min()) for part in parts), default=None)
