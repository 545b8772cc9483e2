"""Keeping partials in blocks: what WID and Paned-WID share, whatever a slot means to them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from lowwater.aggregates.base import Algebra
from lowwater.aggregates.grouped import Grouped
from lowwater.operators.blocks import BLOCKS, Blocks
from lowwater.operators.window_aggregate import Keeping
from lowwater.state.segments import Segment


class InBlocks(Keeping):
    """State is its blocks, and nothing else; a window spans `slots` of them."""

    def __init__(self, algebras: Sequence[Algebra], slots: int) -> None:
        self._algebras = algebras
        self._blocks = Blocks(algebras, slots // BLOCKS)

    def segments(self) -> dict[str, Segment[Any]]:
        return self._blocks.segments()

    def restore(self, segments: dict[str, Segment[Any]]) -> None:
        self._blocks.restore(segments)

    def decode(self, tables: dict[str, pa.Table]) -> Grouped:
        return Grouped.of_tables(tables, self._algebras)

    @property
    def rows(self) -> int:
        return self._blocks.rows
