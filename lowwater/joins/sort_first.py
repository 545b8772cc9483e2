"""Memory-sort first (WO 4.1): the rows of one input that wait in memory until no smaller one can come.

A row waits until more than k rows have come behind a row as large, so at most k rows wait. Released rows have their
values as positions: in sorted order, the buffer of the join is FIFO by value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
import pyarrow as pa

from lowwater.joins.keyed import Ints, Keyed
from lowwater.joins.part import KeyedRows, memory_of
from lowwater.operators.base import Batch, Emit, Message
from lowwater.state.store import Store

Time = Callable[[pa.Table], Ints]


class SortFirst:
    """The waiting rows of one input, with their arrival positions. `time` returns the values of rows."""

    def __init__(self, time: Time, store: Store) -> None:
        self._time = time
        self._slots = store.slots("waiting", KeyedRows())
        self._parts = [entry.value for entry in self._slots]
        self._changed = False
        store.settling(self._settle)

    def add(self, keyed: Keyed) -> None:
        if len(keyed):
            self._parts.append(keyed)
            self._changed = True

    def release(self, upto: int) -> Keyed | None:
        """The waiting rows with values up to `upto`, with their arrival positions; None if there are none."""
        if not self._parts:
            return None
        keyed = self._parts[0] if len(self._parts) == 1 else Keyed.merged(self._parts)[0]
        due = self._time(keyed.rows) <= upto
        self._parts = [keyed]
        if not due.any():
            return None
        rest, self._changed = keyed.where(~due), True
        self._parts = [rest] if len(rest) else []
        return keyed.where(due)

    def middle(self) -> int:
        """The value of a waiting row that half of them do not exceed."""
        values = np.concatenate([self._time(part.rows) for part in self._parts])
        half = (len(values) - 1) // 2
        return int(np.partition(values, half)[half])

    @property
    def rows(self) -> int:
        return sum(len(part) for part in self._parts)

    @property
    def memory(self) -> int:
        return sum(memory_of(part.rows.nbytes, len(part)) for part in self._parts)

    def _settle(self) -> None:
        """Writes the waiting rows to the state. They are few, and most of them are new in every micro-batch."""
        if self._changed:
            self._slots.clear()
            for part in self._parts:
                self._slots.add(part)
            self._changed = False


@contextmanager
def in_order(emit: Emit, time: str | None) -> Iterator[Emit]:
    """Collects results and emits them in order of a column when all have come; without a column emits them at once."""
    if time is None:
        yield emit
        return
    found: list[pa.Table] = []

    def take(message: Message) -> None:
        if isinstance(message, Batch):
            found.append(message.rows)
        else:
            emit(message)

    yield take
    if found:
        rows = pa.concat_tables(found)
        emit(Batch(rows.sort_by(time) if time in rows.column_names else rows))
