"""The shared buffer of AdaptWID: rows of lazy groups in immutable parts, each an entry (TH 6.3.4.2, buffer B).

A batch adds one part; where it and the newest part are small, the two become one, since every segment has a head of
its own. Rows leave when their windows have passed, and when their group has become eager. Those lie scattered over all
parts, and taking out each at once would rewrite the whole buffer with every batch. A part is therefore cleared of the
rows of eager groups only when they are an eighth of it: what is rewritten stays in proportion to what leaves. Until
then they are rows like the others, and are counted in every answer.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lowwater.aggregates.grouped import Codes
from lowwater.operators.waiting import Timed
from lowwater.state.store import Codec, Entry, Store

SMALL = 4096
"""Rows of a part that is rewritten without a second thought; its head is then within a few percent of its size."""
SHARE = 8
"""A larger part is cleared when one in so many rows is of an eager group."""

Times = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Part:
    """Rows with their times and the numbers of their groups. Numbers are not state: they follow from the keys."""

    rows: pa.Table
    time: Times
    group: Codes
    entry: Entry[Timed] | None = None
    """Where it is in the state, once it is there."""

    def __len__(self) -> int:
        return len(self.time)

    def where(self, keep: Mask) -> Part:
        return self if keep.all() else Part(self.rows.filter(pa.array(keep)), self.time[keep], self.group[keep])


def joined(parts: list[Part]) -> Part:
    """Several parts as one."""
    if len(parts) == 1:
        return parts[0]
    rows = pa.concat_tables([part.rows for part in parts]).combine_chunks()
    return Part(rows, np.concatenate([part.time for part in parts]), np.concatenate([part.group for part in parts]))


class LazyRows:
    """Parts in order of arrival. Those of a state that was opened are unnumbered yet."""

    def __init__(self, codec: Codec[Timed], store: Store) -> None:
        self._slots = store.slots("lazy", codec)
        none = np.empty(0, np.int64)
        self.parts = [Part(*entry.value, none, entry) for entry in self._slots]
        store.settling(self._settle)

    def __len__(self) -> int:
        return sum(len(part) for part in self.parts)

    def append(self, part: Part) -> None:
        self._set([*self.parts, part])

    def take(self, eager: Mask) -> Part | None:
        """Takes out rows of eager groups, from the parts that are worth it."""
        taken, left = [], []
        for part in self.parts:
            rows = eager[part.group]
            leaving = int(rows.sum())
            if leaving and (len(part) <= SMALL or leaving * SHARE >= len(part)):
                taken.append(part.where(rows))
                left.append(part.where(~rows))
            else:
                left.append(part)
        if not taken:
            return None
        self._set(left)
        return joined(taken)

    def expire(self, before: int) -> Codes:
        """Drops rows before a time; the group of each row dropped."""
        dropped, left = [np.empty(0, np.int64)], []
        for part in self.parts:
            rows = part.time >= before
            dropped.append(part.group[~rows])
            left.append(part.where(rows))
        self._set(left)
        return np.concatenate(dropped)

    def renumber(self, number: Codes) -> None:
        """Groups have new numbers."""
        self.parts = [replace(part, group=number[part.group]) for part in self.parts]

    def _set(self, parts: list[Part]) -> None:
        """Neighbours that are small together become one part."""
        packed: list[list[Part]] = []
        size = SMALL
        for part in parts:
            if not len(part):
                continue
            if size + len(part) <= SMALL:
                packed[-1].append(part)
                size += len(part)
            else:
                packed.append([part])
                size = len(part)
        self.parts = [joined(run) for run in packed]

    def clear(self) -> None:
        self.parts = []

    def _settle(self) -> None:
        """Puts parts that are new into the state, and takes out those that are gone."""
        entries = [part.entry or self._slots.add((part.rows, part.time), rows=len(part)) for part in self.parts]
        self.parts = [replace(part, entry=entry) for part, entry in zip(self.parts, entries, strict=True)]
        self._slots.arrange(entries)
