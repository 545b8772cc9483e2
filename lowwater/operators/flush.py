"""Flush: when the answers of closed windows leave, so that a window with a million groups stalls no batch (TH 8.3.3).

    eager   all at once, when the window closes
    slow    so many answers a batch, the oldest windows first
    lazy    an answer leaves when a new row needs its entry of the table: answers go as their groups come again

Slow and lazy answers are late by `windows` further windows at most: what would be later goes at once. Which answers
come, and what they say, is the same for all three; nothing in them can change any more.

Answers wait as chunks, each an entry of the state that is written once; which answers have left a chunk under lazy
flush is told by a bitmap beside it, rewritten when it changes. The operator is in flushing.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lowwater.errors import LowwaterError
from lowwater.model.routing import route
from lowwater.state.store import Entry, OneTable, Store

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


class Bitmap:
    """The codec of a mask."""

    def encode(self, value: Mask) -> dict[str, pa.Table]:
        return {"mask": pa.table({"mask": value})}

    def decode(self, tables: dict[str, pa.Table]) -> Mask:
        return np.asarray(tables["mask"].column("mask"), np.bool_)


class Chunks:
    """The answers that wait: chunks of one window each, and which answers of each chunk have left."""

    def __init__(self, policy: Flush, group_by: Sequence[str], shards: int, store: Store) -> None:
        self.policy = policy
        self._group_by = list(group_by)
        self._pace = -(-policy.rows // shards)
        self._answers = store.slots("answers", OneTable())
        self._gone = store.slots("gone", Bitmap())
        for chunk in self._answers:
            if chunk.meta["entries"] != policy.entries:  # the policy has changed, and with it the table
                meta = chunk.meta | {"entries": policy.entries}
                self._answers.put(chunk.name, self._placed(chunk.value.drop_columns([_ENTRY])), **meta)

    def push(self, answers: pa.Table) -> None:
        """Takes answers of closed windows, cut into chunks of one window each."""
        wids = answers.column("wid").to_numpy()
        order = np.argsort(wids, kind="stable")
        sorted_wids = wids[order]
        cuts = np.concatenate([[0], np.flatnonzero(np.diff(sorted_wids)) + 1, [len(order)]])
        for start, stop in zip(cuts[:-1].tolist(), cuts[1:].tolist(), strict=True):
            for at in range(start, stop, self._size):
                rows = answers.take(pa.array(order[at : min(at + self._size, stop)])).combine_chunks()
                meta = {"wid": int(sorted_wids[start]), "rows": rows.num_rows, "entries": self.policy.entries}
                self._answers.add(self._placed(rows), **meta)

    def _placed(self, answers: pa.Table) -> pa.Table:
        """Answers with the entries of their groups."""
        return answers.append_column(_ENTRY, pa.array(self.entries(answers).astype(np.int32)))

    @property
    def _size(self) -> int:
        """Chunks of slow flush make up what one batch may send, so that none is ever cut."""
        return self._pace // -(-self._pace // _CHUNK) if self._pace else _CHUNK

    def entries(self, rows: pa.Table) -> npt.NDArray[np.int64]:
        """The entry of each row's group in the table of lazy flush."""
        if not self.policy.entries:
            return np.zeros(rows.num_rows, np.int64)
        return np.asarray(route(rows.select(self._group_by), self.policy.entries), np.int64)

    def pace(self, opened: int, needed: npt.NDArray[np.int64]) -> Iterator[pa.Table]:
        """The answers that leave with this batch: those that are due, and those that the policy releases. `needed` are
        entries of the table."""
        eager = self.policy == EAGER  # after a restart with another policy there may be answers that wait
        sent = 0
        for chunk in self._answers:
            if eager or chunk.meta["wid"] < opened - self.policy.windows:
                sent += chunk.meta["rows"]
                yield self._leave(chunk)
        if self.policy.name == "slow":
            for chunk in self._answers:
                sent += chunk.meta["rows"]
                if sent > self._pace:
                    return
                yield self._leave(chunk)
        elif self.policy.name == "lazy" and len(needed):
            wanted = np.zeros(self.policy.entries, np.bool_)
            wanted[needed] = True
            for chunk in self._answers:
                yield from self._collided(chunk, wanted)

    def _gone_of(self, chunk: Entry[pa.Table]) -> Mask:
        if chunk.name in self._gone:
            return self._gone[chunk.name].value
        return np.zeros(chunk.value.num_rows, np.bool_)

    def _leave(self, chunk: Entry[pa.Table]) -> pa.Table:
        """All of a chunk that is still there."""
        rows = chunk.value.filter(pa.array(~self._gone_of(chunk))) if chunk.name in self._gone else chunk.value
        self._answers.drop(chunk.name)
        self._gone.drop(chunk.name)
        return rows.drop_columns([_ENTRY])

    def _collided(self, chunk: Entry[pa.Table], wanted: Mask) -> Iterator[pa.Table]:
        gone = self._gone_of(chunk)
        leaving = wanted[chunk.value.column(_ENTRY).to_numpy()] & ~gone
        n = int(leaving.sum())
        if n == chunk.meta["rows"]:
            yield self._leave(chunk)
        elif n:
            self._gone.put(chunk.name, gone | leaving)
            chunk.meta["rows"] -= n
            yield chunk.value.filter(pa.array(leaving)).drop_columns([_ENTRY])

    @property
    def rows(self) -> int:
        return self._answers.rows

    @property
    def oldest(self) -> int | None:
        """The first window of which an answer waits."""
        return min((chunk.meta["wid"] for chunk in self._answers), default=None)
