"""Partials in blocks of neighbouring slots, each an immutable segment.

A batch rewrites the few blocks that its slots fall into; blocks that time has passed are dropped whole, and only the
block at the edge is cut. With `width` slots a block, state of p slots is p / width segments, of which a batch touches
those between the low-watermark and the newest row. Stored rows are live rows: no (group, slot) is kept twice, and none
that no window will read.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from lowwater.aggregates.base import Algebra
from lowwater.aggregates.grouped import Grouped, merge, regroup, gather
from lowwater.state.segments import Segment

BLOCKS = 16
"""How many blocks the slots of one window are cut into, about."""


class Blocks:
    """Blocks by number; block b holds the slots [b*width, (b+1)*width)."""

    def __init__(self, algebras: Sequence[Algebra], width: int) -> None:
        self._algebras = algebras
        self._width = max(1, width)
        self._blocks: dict[int, Grouped] = {}
        self._written: dict[int, Segment[Grouped]] = {}

    def absorb(self, grouped: Grouped) -> None:
        number = grouped.slot // self._width
        for b in np.unique(number).tolist():
            part = grouped.where(number == b)
            before = self._blocks.get(b)
            self._put(b, part if before is None else merge([before, part], self._algebras))

    def keep(self, live: "npt.NDArray[np.bool_] | None", b: int) -> None:
        """Cuts block b to its live rows."""
        block = self._blocks[b]
        if live is None or not live.any():
            del self._blocks[b]
            self._written.pop(b, None)
        elif not live.all():
            self._put(b, block.where(live))

    def _put(self, b: int, block: Grouped) -> None:
        self._blocks[b] = block
        self._written.pop(b, None)

    def numbers(self) -> list[int]:
        return sorted(self._blocks)

    def __getitem__(self, b: int) -> Grouped:
        return self._blocks[b]

    def below(self, slot: int) -> list[int]:
        """Numbers of the blocks that begin below a slot."""
        return [b for b in self._blocks if b * self._width < slot]

    def together(self, below: int | None = None) -> Grouped | None:
        """All rows (or those of blocks that begin below a slot) as one sorted table."""
        parts = [self._blocks[b] for b in (self.numbers() if below is None else sorted(self.below(below)))]
        if not parts:
            return None
        if len(parts) == 1:
            return parts[0]
        all_rows = gather(parts)
        return regroup(all_rows.keys, all_rows.group, all_rows.slot, all_rows.partials, self._algebras)

    @property
    def rows(self) -> int:
        return sum(len(block) for block in self._blocks.values())

    def segments(self) -> dict[int, Segment[Grouped]]:
        """The blocks as segments; only blocks changed since the last call are encoded."""
        for b, block in self._blocks.items():
            if b not in self._written:
                self._written[b] = Segment.of(block, block.tables(self._algebras))
        return dict(self._written)

    def restore(self, segments: dict[int, Segment[Grouped]]) -> None:
        self._written = dict(segments)
        self._blocks = {b: segment.value for b, segment in segments.items()}
