"""Keeping partials in blocks: what WID and Paned-WID share, whatever a slot means to them."""

from __future__ import annotations

from collections.abc import Sequence

from lowwater.aggregates.base import Algebra
from lowwater.operators.blocks import BLOCKS, Blocks
from lowwater.operators.window_aggregate import Keeping
from lowwater.state.store import Store


class InBlocks(Keeping):
    """State is its blocks, and nothing else; a window spans `slots` of them."""

    def __init__(self, algebras: Sequence[Algebra], slots: int, store: Store | None = None) -> None:
        self._algebras = algebras
        self._blocks = Blocks(algebras, slots // BLOCKS, store)

    def span(self) -> int:
        return self._blocks.span()

    @property
    def rows(self) -> int:
        return self._blocks.rows
