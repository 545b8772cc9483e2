"""Partial aggregates by (group, slot): the table that ingest fills, shuffles carry, state keeps and windows read.

A slot is an integer on the time axis: a pane of Paned-WID, or a window id of WID. Rows are distinct and sorted by
(group, slot), so that a window of a group is a contiguous range of rows. Group keys of any type are kept once, in
`keys`, and rows refer to them by position.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lowwater.aggregates.base import Algebra, Partial, concat, from_arrow, take, to_arrow
from lowwater.aggregates.sorting import by_group, order_of
from lowwater.model.columns import whole

Codes = npt.NDArray[np.int64]
Slots = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Grouped:
    """Partials by (group, slot). `keys` holds each group once; without GROUP BY it has one row and no column."""

    keys: pa.Table
    group: Codes
    slot: Slots
    partials: tuple[Partial, ...]

    def __len__(self) -> int:
        return len(self.group)

    def where(self, keep: npt.NDArray[np.bool_]) -> Grouped:
        """The rows of a mask. Groups without rows are dropped, so that silent groups leave the state."""
        return self if keep.all() else self.take(np.flatnonzero(keep))

    def take(self, rows: npt.NDArray[np.intp]) -> Grouped:
        """The given rows, in order."""
        group = self.group[rows]
        used = np.zeros(self.keys.num_rows, bool)
        used[group] = True
        renumber = np.cumsum(used) - 1
        keys = self.keys if used.all() else pick(self.keys, np.flatnonzero(used))
        partials = tuple(tuple(take(column, rows) for column in partial) for partial in self.partials)
        return Grouped(keys, renumber[group], self.slot[rows], partials)

    def tables(self, algebras: Sequence[Algebra]) -> dict[str, pa.Table]:
        """Arrow tables for shuffles and state."""
        columns: dict[str, pa.Array] = {"group": pa.array(self.group), "slot": pa.array(self.slot)}
        for i, (algebra, partial) in enumerate(zip(algebras, self.partials, strict=True)):
            for j, (field, column) in enumerate(zip(algebra.fields, partial, strict=True)):
                columns[f"{i}.{j}"] = to_arrow(column, field)
        return {"keys": self.keys, "partials": pa.table(columns)}

    @staticmethod
    def of_tables(tables: dict[str, pa.Table], algebras: Sequence[Algebra]) -> Grouped:
        rows = tables["partials"]
        partials = tuple(
            tuple(from_arrow(rows.column(f"{i}.{j}"), field) for j, field in enumerate(algebra.fields))
            for i, algebra in enumerate(algebras)
        )
        return Grouped(tables["keys"], ints(rows.column("group")), ints(rows.column("slot")), partials)


@dataclass(frozen=True)
class GroupedCodec:
    """Turns partials into tables of the state, and back."""

    algebras: Sequence[Algebra]

    def encode(self, value: Grouped) -> dict[str, pa.Table]:
        return value.tables(self.algebras)

    def decode(self, tables: dict[str, pa.Table]) -> Grouped:
        return Grouped.of_tables(tables, self.algebras)


def ints(column: pa.ChunkedArray) -> npt.NDArray[np.int64]:
    return np.asarray(column.to_numpy(), np.int64)


def lift(
    keys: pa.Table, slot: Slots, values: Sequence[pa.Array | None], time: Slots, algebras: Sequence[Algebra]
) -> Grouped:
    """Reduces rows to one partial per (group, slot): the low-level sub-aggregation of TH 8.3.3."""
    group, distinct = factorise(keys)
    cell, group, slot, _ = _cells(group, slot)
    partials = tuple(algebra.lift(v, time, cell, len(group)) for algebra, v in zip(algebras, values, strict=True))
    return Grouped(distinct, group, slot, partials)


def merge(parts: Sequence[Grouped], algebras: Sequence[Algebra]) -> Grouped:
    """Merges several tables. Rows of the same (group, slot) are combined; the order of parts does not matter."""
    if len(parts) == 1:
        return parts[0]
    together = gather(parts)
    return regroup(together.keys, together.group, together.slot, together.partials, algebras)


def regroup(
    keys: pa.Table, group: Codes, slot: Slots, partials: Sequence[Partial], algebras: Sequence[Algebra]
) -> Grouped:
    """Combines rows of the same (group, slot), and sorts them."""
    cell, cell_group, cell_slot, is_distinct = _cells(group, slot)
    if is_distinct:  # there is nothing to combine, so only the order changes
        at = np.empty(len(cell), np.intp)
        at[cell] = np.arange(len(cell))
        reduced = tuple(tuple(take(column, at) for column in partial) for partial in partials)
    else:
        reduced = tuple(a.combine(p, cell, len(cell_group)) for a, p in zip(algebras, partials, strict=True))
    return Grouped(keys, cell_group, cell_slot, reduced)


def gather(parts: Sequence[Grouped]) -> Grouped:
    """The rows of all parts with a common numbering of the groups, neither combined nor sorted."""
    keys = stack([part.keys for part in parts])
    code, distinct = factorise(keys)
    offsets = np.cumsum([0] + [part.keys.num_rows for part in parts])
    group = np.concatenate([code[part.group + offset] for part, offset in zip(parts, offsets, strict=False)])
    columns: list[Partial] = []
    for of_parts in zip(*(part.partials for part in parts), strict=True):
        columns.append(tuple(concat(column) for column in zip(*of_parts, strict=True)))
    return Grouped(distinct, group, np.concatenate([part.slot for part in parts]), tuple(columns))


def split(grouped: Grouped, shard: Codes, shards: int) -> list[Grouped]:
    """Splits a table by shard. `shard` contains the shard of each group. Groups without rows are left out.

    Rows and groups are sorted by shard once, and each shard gets a slice of both.
    """
    if shards == 1:
        return [grouped]
    used = np.zeros(grouped.keys.num_rows, bool)
    used[grouped.group] = True
    groups = np.flatnonzero(used)
    order, key = by_group(shard[groups], shards)
    groups = groups[order]
    number = np.empty(grouped.keys.num_rows, np.int64)
    number[groups] = np.arange(len(groups)) - key[shard[groups]]
    keys = pick(grouped.keys, groups)
    rows, row = by_group(shard[grouped.group], shards)
    group, slot = number[grouped.group[rows]], grouped.slot[rows]
    partials = [[take(column, rows) for column in partial] for partial in grouped.partials]
    return [
        Grouped(
            keys.slice(key[i], key[i + 1] - key[i]) if keys.num_columns else without_columns(key[i + 1] - key[i]),
            group[row[i] : row[i + 1]],
            slot[row[i] : row[i + 1]],
            tuple(tuple(column[row[i] : row[i + 1]] for column in partial) for partial in partials),
        )
        for i in range(shards)
    ]


def _cells(group: Codes, slot: Slots) -> tuple[npt.NDArray[np.intp], Codes, Slots, bool]:
    """Numbers the distinct (group, slot) pairs in sorted order.

    Returns the cell of each row, the group and the slot of each cell, and whether all pairs are distinct. If the pairs
    are dense, a table of all possible cells replaces the sort.
    """
    n = len(group)
    if not n:
        return np.empty(0, np.intp), group, slot, True
    low = int(slot.min())
    width = int(slot.max()) - low + 1
    space = (int(group.max()) + 1) * width
    if space <= max(8 * n, 1 << 16):
        code = group * width + (slot - low)
        seen = np.zeros(space, bool)
        seen[code] = True
        cells = np.flatnonzero(seen)
        number = np.empty(space, np.intp)
        number[cells] = np.arange(len(cells))
        return number[code], cells // width, cells % width + low, len(cells) == n
    if space < 1 << 62:
        code = group * width + (slot - low)
        order = order_of(code, space)
        ascending = code[order]
        new = np.concatenate([[True], ascending[1:] != ascending[:-1]])
        cell = np.empty(n, np.intp)
        cell[order] = np.cumsum(new) - 1
        cells = ascending[new]
        return cell, cells // width, cells % width + low, len(cells) == n
    order = np.lexsort((slot, group))
    g, s = group[order], slot[order]
    new = np.concatenate([[True], (g[1:] != g[:-1]) | (s[1:] != s[:-1])])
    cell = np.empty(n, np.intp)
    cell[order] = np.cumsum(new) - 1
    return cell, g[new], s[new], bool(new.all())


def factorise(keys: pa.Table) -> tuple[Codes, pa.Table]:
    """Codes 0..g-1 of the rows of a table and its distinct rows, numbered as they first occur.

    Null is a value, NaN equals NaN, and -0.0 equals 0.0. Because of the numbering, tables that are sorted by group and
    share no group stay sorted when they are put one after the other.
    """
    if not keys.num_columns:
        return np.zeros(keys.num_rows, np.int64), keys.slice(0, 1)
    code: Codes | None = None
    dictionaries: list[pa.Array] = []
    for column in keys.columns:
        indices, distinct = _encode(whole(column))
        dictionaries.append(distinct)
        if code is None:
            code = indices
            combined: list[Codes] = [np.arange(len(distinct))]
        else:
            code, pairs = _encode(pa.array(code * max(1, len(distinct)) + indices))
            before, here = np.divmod(pairs.to_numpy(zero_copy_only=False), max(1, len(distinct)))
            combined = [c[before] for c in combined] + [here]
    assert code is not None
    arrays = [dictionary.take(pa.array(at)) for dictionary, at in zip(dictionaries, combined, strict=True)]
    return code, pa.table(arrays, schema=keys.schema)


def _encode(values: pa.Array) -> tuple[Codes, pa.Array]:
    """Codes of the values, and the distinct values. Integers that lie close together need no hash table."""
    if pa.types.is_integer(values.type) and len(values) and not values.null_count:
        found = _close_together(values.to_numpy())
        if found is not None:
            return found[0], pa.array(found[1])
    if pa.types.is_floating(values.type):
        values = pc.add(values, pa.scalar(0.0, values.type))
        values = pc.if_else(pc.fill_null(pc.is_nan(values), False), pa.scalar(float("nan"), values.type), values)
    encoded = values.dictionary_encode(null_encoding="encode")
    return encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64), encoded.dictionary


def _close_together(values: npt.NDArray[np.integer[Any]]) -> tuple[Codes, npt.NDArray[np.integer[Any]]] | None:
    """Codes of integers and the distinct ones, by a table of all between the smallest and the largest; or None."""
    low, high = int(values.min()), int(values.max())
    if high - low > max(2 * len(values), 1 << 12) or high > np.iinfo(np.int64).max:
        return None
    place = values.astype(np.int64, copy=False) - low
    first = np.full(high - low + 1, -1)
    first[place[::-1]] = np.arange(len(place) - 1, -1, -1)  # of equal values the first is written last
    distinct = np.flatnonzero(first >= 0)
    distinct = distinct[np.argsort(first[distinct])]
    number = np.empty(len(first), np.int64)
    number[distinct] = np.arange(len(distinct))
    return number[place], (distinct + low).astype(values.dtype)


def cover(
    group: Codes, slot: Slots, wids: Callable[[Slots], tuple[Slots, Slots]], first: int | Slots, stop: int | Slots
) -> tuple[Codes, Slots]:
    """The distinct (group, window) pairs with first <= window < stop that hold at least one of the sorted rows.

    `first` and `stop` are the same for all, or one for each row (the same for all rows of a group). Slots ascend within
    a group and so do their id ranges: row i brings in only the ids after those of row i-1. The work is in proportion to
    the pairs found, however sparse the groups are.
    """
    low, high = wids(slot)
    before = np.full(len(slot), np.iinfo(np.int64).min)
    same = group[1:] == group[:-1]
    before[1:][same] = high[:-1][same]
    low = np.maximum(np.maximum(low, np.minimum(before, stop) + 1), first)
    high = np.minimum(high, stop - 1)
    count = np.maximum(high - low + 1, 0)
    start = np.cumsum(count) - count
    wid = np.arange(int(count.sum())) + np.repeat(low - start, count)
    return np.repeat(group, count), wid


def runs(
    grouped: Grouped, group: Codes, first: Slots, stop: Slots
) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
    """For each (group, [first, stop)), the contiguous rows [lo, hi) whose slots are in that range."""
    low, high = int(grouped.slot.min()), int(grouped.slot.max())
    slot, first, stop = grouped.slot - low, np.clip(first, low, high + 1) - low, np.clip(stop, low, high + 1) - low
    width = high - low + 2
    if (grouped.keys.num_rows + 1) * width >= 1 << 62:  # slots are too sparse for one integer code, so use their ranks
        known = np.unique(slot)
        slot, first, stop = np.searchsorted(known, slot), np.searchsorted(known, first), np.searchsorted(known, stop)
        width = len(known) + 1
    code = grouped.group * width + slot
    base = group * width
    return np.searchsorted(code, base + first), np.searchsorted(code, base + stop)


def matched(keys: pa.Table, known: pa.Table) -> Codes:
    """For each row of `keys`, its position among the distinct rows of `known`, or -1 if it is not among them."""
    code, _ = factorise(stack([known, keys]))
    if not len(code):
        return code
    position = np.full(int(code.max()) + 1, -1, np.int64)
    position[code[: known.num_rows]] = np.arange(known.num_rows)
    return position[code[known.num_rows :]]


def pick(keys: pa.Table, at: npt.NDArray[np.int64]) -> pa.Table:
    """Rows of a key table by position. The table can have no columns, only a number of rows."""
    return keys.take(pa.array(at)) if keys.num_columns else without_columns(len(at))


def stack(keys: Sequence[pa.Table]) -> pa.Table:
    """The concatenation of key tables."""
    return pa.concat_tables(keys) if keys[0].num_columns else without_columns(sum(key.num_rows for key in keys))


def without_columns(rows: int) -> pa.Table:
    """A table with this number of rows and no columns: the keys of a query without GROUP BY."""
    return pa.table({"": pa.nulls(rows)}).select([])
