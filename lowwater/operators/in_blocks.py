"""Keeping partials in blocks: what WID and Paned-WID share, whatever a slot means to them."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

import numpy as np

from lowwater.aggregates.base import Algebra
from lowwater.operators.blocks import BLOCKS, Blocks
from lowwater.operators.group_lows import Advance, Frontier, Ints, each
from lowwater.operators.keeping import Keeping
from lowwater.state.store import Store
from lowwater.windows.spec import OPEN_END


class InBlocks(Keeping):
    """State is its blocks, and nothing else; a window spans `slots` of them."""

    def __init__(self, algebras: Sequence[Algebra], slots: int, store: Store | None = None) -> None:
        self._algebras = algebras
        self._blocks = Blocks(algebras, slots // BLOCKS, store)

    @abstractmethod
    def last_wid(self, slot: Ints) -> Ints:
        """The last window that reads each slot."""

    @abstractmethod
    def first_slot(self, wid: int) -> int:
        """The first slot that a window reads."""

    def expire_own(self, step: Advance) -> None:
        self._blocks.keep(
            lambda rows: np.asarray(self.last_wid(rows.slot) >= each(step.due(rows.keys), rows.group)),
            step.most if step.most == OPEN_END else self.first_slot(step.most),
        )

    def least_own(self, frontier: Frontier) -> int | None:
        parts = [(self.last_wid(rows.slot), each(frontier.of(rows.keys), rows.group)) for rows in self._blocks.parts()]
        return min((int(wid[wid < closed].min()) for wid, closed in parts if (wid < closed).any()), default=None)

    def span(self) -> int:
        return self._blocks.span()

    def span_own(self) -> int:
        return self._blocks.widest()

    @property
    def rows(self) -> int:
        return self._blocks.rows
