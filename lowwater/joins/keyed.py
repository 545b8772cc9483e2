"""Rows of one join side, laid out for search by value and by time: the state structure of PW 4.1 in columns.

Rows are sorted by (code, position). The code is a 64-bit hash of the key. The position is the time in ticks, or a
window number (spec.py). This order replaces the linked structure of the paper:

    value list     the rows of one value are adjacent, in order of time
    I-Node index   `codes`, the distinct codes in order, and `starts`, the index at which each list begins
    time list      `by_time`, the rows in order of time, computed on first use

A probe finds, for every probing row, the section of one value list that lies in its window. It takes two binary
searches in one array of integers, `packed`, which combines the number of the value with the position. The result is a
range of rows, so the cost of a probe is that of its results.

Two different keys may share a code. This is checked once per pair of lists that meet, not per pair of rows, by
comparing the first keys of both lists. Pairs of rows are compared only if that check fails, or if one list contains
several keys.

>>> stored = Keyed.of(pa.table({"k": ["a", "b", "a"]}), ("k",), np.array([5, 6, 1]))
>>> probing = Keyed.of(pa.table({"k": ["a", "c"]}), ("k",), np.array([4, 4]))
>>> theirs, ours = stored.probe(probing, probing.at - 2, probing.at + 2)
>>> [(probing.rows["k"][i].as_py(), int(stored.at[j])) for i, j in zip(theirs, ours)]
[('a', 5)]
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lowwater.aggregates.sorting import explode, order_of
from lowwater.model.columns import whole
from lowwater.model.routing import hashed

Ints = npt.NDArray[np.int64]
Codes = npt.NDArray[np.uint64]
Mask = npt.NDArray[np.bool_]
Among = Callable[[pa.Table], Mask]
"""A predicate on keys: from a table of keys to a mask."""
CODE, AT = "__lw_code", "__lw_at"


@dataclass(frozen=True, eq=False)
class Keyed:
    """Rows sorted by (code, position). Immutable."""

    rows: pa.Table
    on: tuple[str, ...]
    code: Codes
    at: Ints

    @staticmethod
    def of(rows: pa.Table, on: Sequence[str], at: Ints, code: Codes | None = None) -> Keyed:
        code = hashed(rows.select(list(on))) if code is None else code
        order = order_by(code, at)
        return Keyed(rows.take(pa.array(order)).combine_chunks(), tuple(on), code[order], at[order])

    @staticmethod
    def by_shard(rows: pa.Table, on: Sequence[str], at: Ints, shards: int) -> list[Keyed]:
        """The rows of every shard, from one sort by (shard, code, position)."""
        code = hashed(rows.select(list(on)))
        if shards == 1:
            return [Keyed.of(rows, on, at, code)]
        order = order_by(code, at, shards)
        rows, code, at = rows.take(pa.array(order)).combine_chunks(), code[order], at[order]
        cut = np.searchsorted(code % np.uint64(shards), np.arange(shards + 1, dtype=np.uint64))
        pairs = zip(cut[:-1].tolist(), cut[1:].tolist(), strict=True)
        return [Keyed(rows.slice(a, b - a), tuple(on), code[a:b], at[a:b]) for a, b in pairs]

    @staticmethod
    def merged(parts: Sequence[Keyed]) -> tuple[Keyed, Ints]:
        """Several merged into one, and the index that each row had in their concatenation."""
        code = np.concatenate([part.code for part in parts])
        at = np.concatenate([part.at for part in parts])
        order = order_by(code, at)
        rows = pa.concat_tables([part.rows for part in parts]).take(pa.array(order)).combine_chunks()
        return Keyed(rows, parts[0].on, code[order], at[order]), order

    def __len__(self) -> int:
        return len(self.at)

    def where(self, mask: Mask) -> Keyed:
        if mask.all():
            return self
        return Keyed(self.rows.filter(pa.array(mask)).combine_chunks(), self.on, self.code[mask], self.at[mask])

    @cached_property
    def widest(self) -> int:
        """The bytes of the longest text in a row. For nested values an estimate: 64 times the average."""
        width = 1
        for column in self.rows.columns:
            t = pa.types
            if t.is_string(column.type) or t.is_binary(column.type):
                width = max(width, pc.max(pc.binary_length(column)).as_py() or 0)
            elif t.is_nested(column.type):
                width = max(width, 64 * column.nbytes // max(1, len(self)))
        return width

    @cached_property
    def width(self) -> int:
        """The average bytes per row."""
        return max(1, int(self.rows.nbytes) // max(1, len(self)))

    @property
    def keys(self) -> pa.Table:
        return self.rows.select(list(self.on))

    # -- by value --------------------------------------------------------------------------------------------------

    @cached_property
    def starts(self) -> Ints:
        """The index at which each value list begins, and the end of the last list."""
        if not len(self):
            return np.zeros(1, np.int64)
        new = np.flatnonzero(self.code[1:] != self.code[:-1]) + 1
        return np.concatenate([[0], new, [len(self)]])

    @cached_property
    def codes(self) -> Codes:
        return self.code[self.starts[:-1]]

    def lists(self, codes: Codes) -> tuple[Ints, Ints]:
        """(which, list): the indices of the `codes` that occur here, and the number of the value list of each."""
        place = np.searchsorted(self.codes, codes)
        place[place == len(self.codes)] = 0
        here = self.codes[place] == codes if len(self.codes) else np.zeros(len(codes), np.bool_)
        return np.flatnonzero(here), place[here]

    def rows_of(self, lists: Ints) -> Ints:
        """All rows of the given value lists."""
        return explode(self.starts[lists], self.starts[lists + 1])

    def where_key(self, among: Among) -> Ints:
        """All rows whose key satisfies `among`, which is evaluated once per value list."""
        if self.mixed:
            return np.flatnonzero(among(self.keys))
        return self.rows_of(np.flatnonzero(among(pick(self.keys, self.starts[:-1]))))

    @cached_property
    def mixed(self) -> bool:
        """Whether a value list contains different keys."""
        if len(self) < 2 or self.exact:
            return False
        same = self.code[1:] == self.code[:-1]
        return bool((same & ~equal(self.keys.slice(1), self.keys.slice(0, len(self) - 1))).any())

    @cached_property
    def exact(self) -> bool:
        """Whether equal codes imply equal keys: no key column, or one fixed-width column, whose hash is one-to-one."""
        if not self.on:
            return True
        column = self.rows.column(self.on[0])
        t = pa.types
        fixed = t.is_integer(column.type) or t.is_timestamp(column.type) or t.is_date(column.type)
        return len(self.on) == 1 and fixed and not column.null_count

    # -- by time ---------------------------------------------------------------------------------------------------

    @cached_property
    def least(self) -> int:
        return int(self.at.min())

    @cached_property
    def most(self) -> int:
        return int(self.at.max())

    @cached_property
    def by_time(self) -> Ints:
        """The time list: rows in order of position."""
        return order_of(self.at - self.least, self.most - self.least + 1)

    def before(self, bound: int) -> int:
        """The number of rows with a position below `bound`. They are the first rows of the time list."""
        if not len(self) or bound <= self.least:
            return 0
        return len(self) if bound > self.most else int(np.count_nonzero(self.at < bound))

    # -- by both ---------------------------------------------------------------------------------------------------

    @cached_property
    def packed(self) -> tuple[Ints, int, Ints | None]:
        """(packed, bits, ranks): value number and position in one integer, and the number of bits of the position.

        If ticks need too many bits, ranks of positions are packed instead, and `ranks` holds the distinct positions.
        """
        number = np.repeat(np.arange(len(self.codes)), np.diff(self.starts))
        bits = int(self.most - self.least + 1).bit_length()
        if bits + len(self.codes).bit_length() <= 62:
            return number << bits | (self.at - self.least), bits, None
        ranks = np.unique(self.at)
        bits = len(ranks).bit_length()
        return number << bits | np.searchsorted(ranks, self.at), bits, ranks

    def probe(self, probing: Keyed, low: Ints, high: Ints) -> tuple[Ints, Ints]:
        """(theirs, ours): the pairs of a probing row and a row here with an equal key and a position in low..high."""
        which, lists = self._meeting(probing)
        rows, begin, found = self._ranges(probing, which, lists, low, high)
        theirs, ours = np.repeat(rows, found), explode(begin, begin + found)
        return self._verified(probing, which, lists, theirs, ours)

    def partners(self, probing: Keyed, low: Ints, high: Ints) -> Ints:
        """An upper bound on the number of pairs of each probing row. It is exact if no two keys share a code."""
        rows, _, found = self._ranges(probing, *self._meeting(probing), low, high)
        count = np.zeros(len(probing), np.int64)
        count[rows] = found
        return count

    def _meeting(self, probing: Keyed) -> tuple[Ints, Ints]:
        """(which, list): the value lists of `probing` whose code occurs here, and the matching list here."""
        none = np.empty(0, np.int64)
        return self.lists(probing.codes) if len(self) and len(probing) else (none, none)

    def _ranges(self, probing: Keyed, which: Ints, lists: Ints, low: Ints, high: Ints) -> tuple[Ints, Ints, Ints]:
        """(theirs, begin, count): for each probing row, the adjacent rows here that are in its low..high."""
        if not len(which):
            return which, which, which
        rows = probing.rows_of(which)
        number = np.repeat(lists, np.diff(probing.starts)[which])
        near = (low[rows] <= self.most) & (high[rows] >= self.least) & (low[rows] <= high[rows])
        rows, number = rows[near], number[near]
        packed, bits, ranks = self.packed
        if ranks is None:
            first = np.maximum(low[rows], self.least) - self.least
            last = np.minimum(high[rows], self.most) - self.least
        else:
            first = np.searchsorted(ranks, low[rows])
            last = np.searchsorted(ranks, high[rows], "right") - 1
        begin = np.searchsorted(packed, number << bits | first)
        stop = np.searchsorted(packed, (number << bits) + last, "right")
        return rows, begin, np.maximum(stop - begin, 0)

    def _verified(self, probing: Keyed, which: Ints, lists: Ints, theirs: Ints, ours: Ints) -> tuple[Ints, Ints]:
        """The pairs without those whose keys differ although their codes are equal."""
        if (self.exact and probing.exact) or not len(theirs):
            return theirs, ours
        first = equal(pick(probing.keys, probing.starts[which]), pick(self.keys, self.starts[lists]))
        if first.all() and not self.mixed and not probing.mixed:
            return theirs, ours
        same = equal(pick(probing.keys, theirs), pick(self.keys, ours))
        return theirs[same], ours[same]

    # -- as segments -----------------------------------------------------------------------------------------------

    def tables(self) -> dict[str, pa.Table]:
        """The tables of a segment: the rows, and what cannot be derived from them cheaply.

        Positions are stored unless a column of the rows contains them. Codes are stored unless the key is `exact`.
        """
        column = self._position
        index: dict[str, Ints | Codes] = {} if column is not None else {AT: self.at}
        if not self.exact:
            index[CODE] = self.code
        about = pa.table({"on": pa.array([self.on], pa.list_(pa.string())), "at": pa.array([column], pa.string())})
        return {"keyed": self.rows, "index": pa.table(index), "about": about}

    @property
    def _position(self) -> str | None:
        """The column that contains exactly the positions, such as the timestamp of a band join; None if none does."""
        for name, column in zip(self.rows.column_names, self.rows.columns, strict=True):
            values = _int64(column)
            if values is not None and np.array_equal(values, self.at):
                return str(name)
        return None

    @staticmethod
    def of_tables(tables: dict[str, pa.Table]) -> Keyed:
        rows, index = tables["keyed"].combine_chunks(), tables["index"]
        (about,) = tables["about"].to_pylist()
        known = {name: whole(index.column(name)).to_numpy() for name in index.column_names}
        code = known[CODE] if CODE in known else hashed(rows.select(about["on"]))
        at = known[AT] if about["at"] is None else _int64(rows.column(about["at"]))
        assert at is not None
        return Keyed(rows, tuple(about["on"]), code, at)


def _int64(column: pa.ChunkedArray) -> Ints | None:
    """The values of a column of 64-bit integers or timestamps, without a copy; None for other types and for nulls."""
    of_time = pa.types.is_timestamp(column.type)
    if column.null_count or not (of_time or pa.types.is_int64(column.type)):
        return None
    values: Ints = whole(column).view(pa.int64()).to_numpy()
    return values


def order_by(code: Codes, at: Ints, shards: int = 1) -> Ints:
    """The stable order by (shard of the code, code, position).

    Codes are first numbered in that order, so that number, position and row fit into one integer.
    """
    if not len(code):
        return np.empty(0, np.int64)
    least, most = int(at.min()), int(at.max())
    codes = np.sort(code)  # np.unique would hash the codes, which takes ten times as long if there are many
    codes = codes[np.append(True, codes[1:] != codes[:-1])]
    number = np.searchsorted(codes, code)
    if shards > 1:
        rank = np.empty(len(codes), np.int64)
        rank[np.argsort(codes % np.uint64(shards), kind="stable")] = np.arange(len(codes))
        number = rank[number]
    bits = (most - least).bit_length()
    if bits + len(codes).bit_length() <= 62:
        return order_of(number << bits | (at - least), len(codes) << bits)
    return np.lexsort((at, number))


def pick(keys: pa.Table, rows: Ints) -> pa.Table:
    return keys.take(pa.array(rows))


def equal(a: pa.Table, b: pa.Table) -> Mask:
    """Whether keys are equal, row by row. Null equals null and NaN equals NaN, as in GROUP BY."""
    same = np.ones(a.num_rows, np.bool_)
    for one, other in zip(a.columns, b.columns, strict=True):
        here = pc.or_(pc.fill_null(pc.equal(one, other), False), pc.and_(pc.is_null(one), pc.is_null(other)))
        if pa.types.is_floating(one.type):
            here = pc.or_(here, pc.fill_null(pc.and_(pc.is_nan(one), pc.is_nan(other)), False))
        same &= whole(here).to_numpy(zero_copy_only=False)
    return same
