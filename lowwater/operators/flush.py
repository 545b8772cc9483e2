"""Flush: when the answers of closed windows leave, so that a window with a million groups stalls no batch (TH 8.3.3).

    eager   all at once, when the window closes
    slow    so many answers a batch, the oldest windows first
    lazy    an answer leaves when a new row needs its entry of the table: answers go as their groups come again

Slow and lazy answers are late by `windows` further windows at most: what would be later goes at once. Which answers
come, and what they say, is the same for all three; nothing in them can change any more.

Answers wait as chunks, each an immutable segment that is written once; what has left a chunk under lazy flush is told
by a bitmap beside it, rewritten when it changes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lowwater.errors import LowwaterError
from lowwater.model.routing import route
from lowwater.operators.base import Load
from lowwater.state.segments import Segment

_CHUNK = 65_536
"""Answers of a chunk at most."""
_ENTRY = "__lw_entry"
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Flush:
    """A policy. `windows` bounds the delay; `rows` is the pace of slow flush, `entries` the table of lazy flush."""

    name: str = "eager"
    windows: int = 0
    rows: int = 0
    entries: int = 0

    def __str__(self) -> str:
        late = f"at most {self.windows} window{'s' * (self.windows != 1)} late"
        if self.name == "slow":
            return f"slow, {self.rows:,} answers a batch, {late}"
        return f"lazy, as entries of {self.entries:,} are needed again, {late}" if self.name == "lazy" else "eager"


EAGER = Flush()


def slow_flush(rows: int, windows: int = 2) -> Flush:
    """Answers of closed windows leave `rows` a batch, at most `windows` windows late."""
    return Flush("slow", _positive(windows, "windows"), rows=_positive(rows, "rows"))


def lazy_flush(windows: int = 2, entries: int = 1 << 16) -> Flush:
    """Answers of closed windows leave as their groups come again, at most `windows` windows late."""
    return Flush("lazy", _positive(windows, "windows"), entries=_positive(entries, "entries"))


def _positive(value: int, name: str) -> int:
    if value < 1:
        raise LowwaterError(f"{name}= of a flush must be at least 1, not {value}.")
    return value


@dataclass(frozen=True)
class Chunk:
    """Answers of one window, and which of them have left."""

    segment: Segment[pa.Table]
    wid: int
    gone: Mask
    entries: int = 0
    """The size of the table that the entries are of."""

    def left(self) -> pa.Table:
        rows = self.segment.value if not self.gone.any() else self.segment.value.filter(pa.array(~self.gone))
        return rows.drop_columns([_ENTRY])

    @property
    def waiting(self) -> int:
        return int(len(self.gone) - self.gone.sum())


class Flushing:
    """The answers that wait. One call of `pace` a micro-batch."""

    def __init__(self, policy: Flush, group_by: Sequence[str], shards: int = 1) -> None:
        self.policy = policy
        self._group_by = list(group_by)
        self._pace = -(-policy.rows // shards)
        self._chunks: list[Chunk] = []

    def push(self, answers: pa.Table) -> None:
        """Takes answers of closed windows, cut into chunks of one window each."""
        wids = answers.column("wid").to_numpy()
        order = np.argsort(wids, kind="stable")
        sorted_wids = wids[order]
        cuts = np.concatenate([[0], np.flatnonzero(np.diff(sorted_wids)) + 1, [len(order)]])
        for start, stop in zip(cuts[:-1].tolist(), cuts[1:].tolist(), strict=True):
            for at in range(start, stop, self._size):
                rows = answers.take(pa.array(order[at : min(at + self._size, stop)])).combine_chunks()
                gone = np.zeros(rows.num_rows, np.bool_)
                wid = int(sorted_wids[start])
                self._chunks.append(Chunk(self._written(rows), wid, gone, self.policy.entries))

    def _written(self, answers: pa.Table) -> Segment[pa.Table]:
        """Answers with the entries of their groups."""
        rows = answers.append_column(_ENTRY, pa.array(self.entries(answers).astype(np.int32)))
        return Segment.of(rows, {"answers": rows})

    @property
    def _size(self) -> int:
        """Chunks of slow flush make up what one batch may send, so that none is ever cut."""
        return self._pace // -(-self._pace // _CHUNK) if self._pace else _CHUNK

    def entries(self, rows: pa.Table) -> npt.NDArray[np.int64]:
        """The entry of each row's group in the table of lazy flush."""
        if not self.policy.entries:
            return np.zeros(rows.num_rows, np.int64)
        return np.asarray(route(rows.select(self._group_by), self.policy.entries), np.int64)

    def pace(self, opened: int, needed: npt.NDArray[np.int64]) -> list[pa.Table]:
        """The answers that leave with this batch: what is due, and what the policy lets go. `needed` are entries."""
        eager = self.policy == EAGER  # after a restart with another policy there may be answers that wait
        due = [chunk for chunk in self._chunks if eager or chunk.wid < opened - self.policy.windows]
        out = [chunk.left() for chunk in due]
        kept = self._chunks[len(due) :] if self._chunks[: len(due)] == due else _without(self._chunks, due)
        if self.policy.name == "slow":
            room = self._pace - sum(rows.num_rows for rows in out)
            while kept and room >= kept[0].waiting:
                out.append(kept[0].left())
                room -= kept[0].waiting
                kept = kept[1:]
        elif self.policy.name == "lazy" and kept and len(needed):
            wanted = np.zeros(self.policy.entries, np.bool_)
            wanted[needed] = True
            kept = [self._collided(chunk, wanted, out) for chunk in kept]
            kept = [chunk for chunk in kept if chunk.waiting]
        self._chunks = kept
        return out

    def _collided(self, chunk: Chunk, wanted: Mask, out: list[pa.Table]) -> Chunk:
        leaving = wanted[chunk.segment.value.column(_ENTRY).to_numpy()] & ~chunk.gone
        if not leaving.any():
            return chunk
        out.append(chunk.segment.value.filter(pa.array(leaving)).drop_columns([_ENTRY]))
        return Chunk(chunk.segment, chunk.wid, chunk.gone | leaving, chunk.entries)

    @property
    def rows(self) -> int:
        return sum(chunk.waiting for chunk in self._chunks)

    @property
    def bytes(self) -> int:
        return sum(chunk.segment.size for chunk in self._chunks)

    def snapshot(self) -> tuple[list[dict[str, Any]], list[Segment[Any]]]:
        """A head of plain values, and the segments."""
        head, segments = [], []
        for chunk in self._chunks:
            gone = Segment.of(chunk.gone, {"gone": pa.table({"gone": chunk.gone})}) if chunk.gone.any() else None
            saved = {"id": chunk.segment.id, "wid": chunk.wid, "gone": gone and gone.id}
            head.append(saved | {"entries": chunk.entries})
            segments += [chunk.segment, *([gone] if gone else [])]
        return head, segments

    def restore(self, head: Sequence[dict[str, Any]], load: Load) -> None:
        self._chunks = []
        for saved in head:
            segment, entries = load(saved["id"]), saved["entries"]
            if entries != self.policy.entries:  # the policy has changed, and with it the table
                segment, entries = self._written(segment.value.drop_columns([_ENTRY])), self.policy.entries
            gone = load(saved["gone"]).value if saved["gone"] else np.zeros(segment.value.num_rows, np.bool_)
            self._chunks.append(Chunk(segment, saved["wid"], gone, entries))

    @staticmethod
    def decode(tables: dict[str, pa.Table]) -> object:
        return np.asarray(tables["gone"].column("gone")) if "gone" in tables else tables["answers"]


def _without(chunks: list[Chunk], due: list[Chunk]) -> list[Chunk]:
    leaving = {id(chunk) for chunk in due}
    return [chunk for chunk in chunks if id(chunk) not in leaving]
