"""Layouts: how rows of one port travel to the shards.

    RowLayout       rows, as they are
    PartialLayout   partials by (group, pane); with `live`, rows where the groups of a run are sparse
    KeyedLayout     rows sorted by (key, time), for joins (joins/layout.py)

A run of rows is laid out where it is read, or where an earlier stage emits it. It travels as named tables, and becomes
messages of the operator where it arrives. A run is one partition of a micro-batch of an input, or the results of one
shard of an earlier stage.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lowwater.aggregates.grouped import Grouped, gather, merge, regroup, split, without_columns
from lowwater.aggregates.sorting import parted
from lowwater.model.routing import route
from lowwater.operators.base import Batch, Message, Reduced
from lowwater.operators.bucket import ROW, Bucket
from lowwater.operators.density import Density
from lowwater.operators.sub_aggregation import Lazy, SubAggregation
from lowwater.state.segments import pack, unpack

Ints = npt.NDArray[np.int64]
Tables = dict[str, pa.Table]
ROWS = "rows"
_JUDGE_AFTER = 1 << 16
"""The number of rows of a run after which its groups are first weighed; then at twice as many, and so on."""
_MERGE_AFTER = 1 << 18
"""The number of partials that wait before they are merged or packed. Bounds the memory of a long run."""


class Laying(ABC):
    """One run being laid out."""

    @abstractmethod
    def take(self, rows: pa.Table, time: Ints | None = None) -> None:
        """Takes rows of the run, in order of arrival. `time` are the ticks of the operator's time, if known."""

    @abstractmethod
    def finish(self) -> list[Tables]:
        """The tables per shard; no table for a shard without rows."""


class SharedLaying(Laying):
    """One laying of several inputs. The first that asks for the tables gets those of all, once all rows are taken."""

    def __init__(self, laying: Laying, shards: int) -> None:
        self._laying, self._shards = laying, shards
        self._finished = False

    def take(self, rows: pa.Table, time: Ints | None = None) -> None:
        assert not self._finished
        self._laying.take(rows, time)

    def finish(self) -> list[Tables]:
        if self._finished:
            return [{} for _ in range(self._shards)]
        self._finished = True
        return self._laying.finish()


class Layout(ABC):
    """How rows of one port travel. Frozen; see the module text."""

    @property
    def shared(self) -> bool:
        """Whether rows of several inputs of a union can be laid out together: then their number and order as they
        travel mean nothing."""
        return False

    @abstractmethod
    def open(self, shards: int, late: bool, home: int = 0) -> Laying:
        """Begins a run. With `late`, rows travel beside partials, for the late output. `home` is the shard for rows
        that can be in any."""

    @abstractmethod
    def messages(self, runs: Sequence[tuple[int, Tables]]) -> Iterator[Message]:
        """The messages for the operator, from all runs of one entry: pairs of the run's number and its tables."""


@dataclass(frozen=True)
class RowLayout(Layout):
    """Rows as they are, in order of arrival. With `numbered`, each has its place in the run."""

    columns: tuple[str, ...]
    route: tuple[str, ...] | None
    """The columns that decide the shard. None: all rows of a run go to one shard, `home`."""
    numbered: bool = False

    def open(self, shards: int, late: bool, home: int = 0) -> RowLaying:
        return RowLaying(self, shards, home)

    def messages(self, runs: Sequence[tuple[int, Tables]]) -> Iterator[Message]:
        for number, tables in runs:
            if ROWS in tables:
                yield Batch(tables[ROWS], number)


class RowLaying(Laying):
    def __init__(self, layout: RowLayout, shards: int, home: int) -> None:
        self._layout, self._shards, self._home = layout, shards, home
        self._rows: list[pa.Table] = []
        self._seen = 0

    def take(self, rows: pa.Table, time: Ints | None = None) -> None:
        kept = rows.select(list(self._layout.columns))
        if self._layout.numbered:
            kept = kept.append_column(ROW, pa.array(np.arange(rows.num_rows) + self._seen))
        self._seen += rows.num_rows
        self._rows.append(kept)

    def finish(self) -> list[Tables]:
        if not self._rows:
            return [{} for _ in range(self._shards)]
        rows = pa.concat_tables(self._rows)
        if self._layout.route is None:
            return [{ROWS: rows} if shard == self._home else {} for shard in range(self._shards)]
        return by_shard(rows, self._layout.route, self._shards)


@dataclass(frozen=True)
class PartialLayout(Layout):
    """Partials by (group, pane): rows are reduced before they travel (TH 8.3.3)."""

    bucket: Bucket
    route: tuple[str, ...] | None
    by_window: bool = False
    """Whether the window decides the shard of a partial, because there are no groups."""
    table: int | None = None
    """Entries of the table that reduces rows. Without it a run is reduced as a whole."""
    live: bool = False
    """Whether the rows of a run travel, and not its partials, where its groups are sparse (density.py)."""

    @property
    def shared(self) -> bool:
        return self.table is None

    def open(self, shards: int, late: bool, home: int = 0) -> PartialLaying:
        return PartialLaying(self, shards, late)

    def messages(self, runs: Sequence[tuple[int, Tables]]) -> Iterator[Message]:
        parts = [part for _, tables in runs if (part := self._partials(tables)) is not None]
        alone = [tables[ROWS] for _, tables in runs if self._travels(tables)]
        rows = [tables[ROWS] for _, tables in runs if ROWS in tables and not self._travels(tables)]
        if alone:
            yield Batch(pa.concat_tables(alone))
        if parts:
            merged = merge(parts, self.bucket.algebras)
            yield Reduced(merged, pa.concat_tables(rows) if rows else None)

    def _travels(self, tables: Tables) -> bool:
        """Whether rows travel instead of partials, and not beside them."""
        return self.live and ROWS in tables and "partials" not in tables

    def _partials(self, tables: Tables) -> Grouped | None:
        """The partials of a run, distinct and sorted."""
        if "partials" in tables:
            return Grouped.of_tables(tables, self.bucket.algebras)
        if "parts" not in tables:
            return None
        packed = [unpack(part.as_buffer()) for part in tables["parts"].column("part")]
        rows = gather([Grouped.of_tables(part, self.bucket.algebras) for part in packed])
        return regroup(rows.keys, rows.group, rows.slot, rows.partials, self.bucket.algebras)

    def shard_of(self, part: Grouped, shards: int) -> Ints:
        """The shard of every partial."""
        if self.by_window:
            return route(pa.table({"slot": pa.array(part.slot)}), shards)
        return route(part.keys.select(list(self.route or ())), shards)[part.group]


class PartialLaying(Laying):
    def __init__(self, layout: PartialLayout, shards: int, late: bool) -> None:
        self._layout, self._shards, self._late = layout, shards, late
        self._bucket = layout.bucket
        self._parts: list[Grouped] = []
        self._packed: list[list[bytes]] = [[] for _ in range(shards)]
        self._rows: list[pa.Table] = []
        self._sparse = layout.live
        """Whether rows may travel instead of partials."""
        self._judged, self._seen = 0, 0
        self._table: SubAggregation | None = None
        if layout.table is not None:  # a run is short: nothing in the table gets too late
            self._table = SubAggregation(self._bucket, layout.table, Lazy(windows=None), by_slot=True)

    def take(self, rows: pa.Table, time: Ints | None = None) -> None:
        if self._late or self._sparse:
            self._rows.append(rows.select(self._bucket.what.schema.names))
        if self._table is not None:
            self._parts.append(self._table.take(rows, time).partials)
            if sum(len(part) for part in self._parts) > _MERGE_AFTER:
                self._pack()
            return
        self._parts.append(self._bucket.reduce(rows, time))
        if len(self._parts) > 1 and sum(len(part) for part in self._parts) > _MERGE_AFTER:
            self._parts = [merge(self._parts, self._bucket.algebras)]
        self._seen += rows.num_rows
        if self._sparse and self._seen >= max(_JUDGE_AFTER, 2 * self._judged):
            self._judge()

    def _judge(self) -> None:
        """Gives up the rows if the groups of the run are not sparse so far, so that a long run does not keep them."""
        self._judged = self._seen
        self._parts = [merge(self._parts, self._bucket.algebras)]
        read = [rows.select(list(self._bucket.what.columns)) for rows in self._rows]
        tup = sum(rows.nbytes for rows in read) / max(1, self._seen)
        self._sparse = bool(len(self._parts[0])) and Density.of(self._parts[0], tup).sparse
        if not self._sparse and not self._late:
            self._rows = []

    def _pack(self) -> None:
        """Packs the partials that the table has evicted. The shards merge them, so the source need not keep them."""
        whole = gather(self._parts)
        self._parts = []
        for packed, part in zip(self._packed, self._split(whole), strict=True):
            if len(part):
                packed.append(pack(part.tables(self._bucket.algebras)))

    def _split(self, whole: Grouped) -> list[Grouped]:
        if self._layout.by_window:
            return split_partials(whole, self._layout.shard_of(whole, self._shards), self._shards)
        return list(split(whole, route(whole.keys.select(list(self._layout.route or ())), self._shards), self._shards))

    def finish(self) -> list[Tables]:
        out: list[Tables] = [{} for _ in range(self._shards)]
        if self._sparse and self._parts:
            self._judge()
        if self._table is not None:
            self._parts.append(self._table.flush())
            self._pack()
            for tables, packed in zip(out, self._packed, strict=True):
                if packed:
                    tables["parts"] = pa.table({"part": pa.array(packed, pa.large_binary())})
        elif self._parts and not self._sparse:
            whole = merge(self._parts, self._bucket.algebras)
            for tables, part in zip(out, self._split(whole), strict=True):
                if len(part):
                    tables |= part.tables(self._bucket.algebras)
        if self._rows:
            rows = by_shard(pa.concat_tables(self._rows), self._layout.route, self._shards)
            for tables, own in zip(out, rows, strict=True):
                tables |= own
        return out


def by_shard(rows: pa.Table, key: Sequence[str] | None, shards: int) -> list[Tables]:
    """Splits rows by the shard of their key, in order of arrival. Without a key all rows go to the first shard."""
    keys = rows.select(list(key)) if key else without_columns(rows.num_rows)
    return [{ROWS: own} if own.num_rows else {} for own in parted(rows, route(keys, shards), shards)]


def split_partials(whole: Grouped, shard: Ints, shards: int) -> list[Grouped]:
    """Splits partials by shard, where partials of one group can go to several shards."""
    return [whole.where(shard == number) for number in range(shards)]
