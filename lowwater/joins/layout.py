"""The layout of the rows of a join: sorted by (key, time) before the shuffle, so that shards only merge and search.

Rows go to the shard of their key. Rows with a null key join nothing. They travel in a separate table, and only if rows
without a partner are results.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lowwater.joins.arrived import Arrived, laid_out
from lowwater.joins.combinations import TEXT
from lowwater.joins.keyed import Keyed
from lowwater.joins.spec import WindowJoin
from lowwater.operators.base import Message
from lowwater.operators.layout import ROWS, Laying, Layout, Tables, by_shard

Ints = npt.NDArray[np.int64]
NULLS = "nulls"


@dataclass(frozen=True)
class KeyedLayout(Layout):
    """The layout of the rows of one join side."""

    what: WindowJoin
    side: int
    columns: tuple[str, ...]
    route: tuple[str, ...] | None
    """The columns that decide the shard: the key, a part of it, or none."""
    with_nulls: bool
    """Whether rows with a null key travel."""

    def open(self, shards: int, late: bool, home: int = 0) -> KeyedLaying:
        return KeyedLaying(self, shards)

    def messages(self, runs: Sequence[tuple[int, Tables]]) -> Iterator[Message]:
        """Merges the runs into one message, or yields one per run if their text would not fit into one Arrow array."""
        large = sum(tables["keyed"].nbytes for _, tables in runs if "keyed" in tables) > TEXT
        for some in [[run] for run in runs] if large else [runs]:
            keyed = [Keyed.of_tables(tables) for _, tables in some if "keyed" in tables]
            nulls = [tables[NULLS] for _, tables in some if NULLS in tables]
            if keyed or nulls:
                rows = Keyed.merged(keyed)[0] if len(keyed) > 1 else keyed[0] if keyed else self._none()
                yield Arrived(rows, pa.concat_tables(nulls) if nulls else None)

    def _none(self) -> Keyed:
        side = self.what.sides[self.side]
        return Keyed.of(side.schema.empty_table().select(list(self.columns)), side.on, np.empty(0, np.int64))


class KeyedLaying(Laying):
    """Collects the rows of a run and lays them out per shard."""

    def __init__(self, layout: KeyedLayout, shards: int) -> None:
        self._layout, self._shards = layout, shards
        self._rows: list[pa.Table] = []

    def take(self, rows: pa.Table, time: Ints | None = None) -> None:
        self._rows.append(rows.select(list(self._layout.columns)))

    def finish(self) -> list[Tables]:
        out: list[Tables] = [{} for _ in range(self._shards)]
        if not self._rows:
            return out
        layout = self._layout
        keyed, nulls = self._sorted(pa.concat_tables(self._rows).combine_chunks())
        for tables, part in zip(out, keyed, strict=True):
            if len(part):
                tables |= part.tables()
        if nulls is not None and layout.with_nulls:
            for tables, own in zip(out, by_shard(nulls, layout.route, self._shards), strict=True):
                if own:
                    tables[NULLS] = own[ROWS]
        return out

    def _sorted(self, rows: pa.Table) -> tuple[list[Keyed], pa.Table | None]:
        layout = self._layout
        if layout.route == layout.what.sides[layout.side].on:
            return laid_out(layout.what, layout.side, rows, self._shards)
        parts, nulls = [], []
        for own in by_shard(rows, layout.route, self._shards):
            (part,), missing = laid_out(layout.what, layout.side, own.get(ROWS, rows.slice(0, 0)), 1)
            parts.append(part)
            nulls += [missing] if missing is not None else []
        return parts, pa.concat_tables(nulls) if nulls else None
