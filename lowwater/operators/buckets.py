"""State by group in hash buckets, each an entry of the state.

For state that no order of time cuts into pieces: what is kept of a group stays until the group itself moves on. A batch
rewrites the buckets of its groups and a punctuation those in which something is due; of all others not a row is looked
at. With many groups a batch that brings few of them writes few of the buckets.

What a batch brings waits beside the buckets until it is asked for: most of it is often due at once and need not be
sorted into buckets and written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lowwater.aggregates.base import Algebra
from lowwater.aggregates.grouped import Grouped, GroupedCodec, gather, merge
from lowwater.model.routing import route
from lowwater.operators.group_lows import Reached, each
from lowwater.state.store import Store

BUCKETS = 16

Ints = npt.NDArray[np.int64]
Join = Callable[[Sequence[Grouped]], Grouped]
"""One table of several, sorted by (group, slot). All rows of a group are in the tables given."""
Due = Callable[[Grouped], Ints]
"""For every row when it is due, on an axis that the caller defines."""
Upto = Callable[[pa.Table], Reached]
"""How far time is for each group."""


def slots(grouped: Grouped) -> Ints:
    return grouped.slot


class Buckets:
    """Partials by group; all rows of a group are in one bucket.

    `join` says what becomes of new rows and those that are there (by default rows of one (group, slot) are combined),
    `due` when a row is to be taken out (by default its slot).
    """

    def __init__(
        self,
        algebras: Sequence[Algebra],
        join: Join | None = None,
        due: Due = slots,
        buckets: int = BUCKETS,
        store: Store | None = None,
    ) -> None:
        self._algebras = algebras
        self._join: Join = join or (lambda parts: merge(parts, algebras))
        self._due = due
        self._n = buckets
        store = store or Store()
        self._buckets = store.slots("buckets", GroupedCodec(algebras))
        self._waiting: list[Grouped] = []
        store.settling(self.settle)

    def of(self, keys: pa.Table) -> Ints:
        """The bucket of every group: by bits of its hash that do not tell its shard."""
        return route(keys, 1 << 32) * self._n >> 32

    def absorb(self, grouped: Grouped) -> None:
        if len(grouped):
            self._waiting.append(grouped)

    def settle(self) -> None:
        """Joins what is waiting with what is there, and sorts it into its buckets."""
        if not self._waiting:
            return
        parts, self._waiting = self._waiting, []
        before = self._taken(np.concatenate([self.of(part.keys) for part in parts]))
        joined = self._join([*before, *parts])
        of_row = self.of(joined.keys)[joined.group]
        by_bucket = np.argsort(of_row, kind="stable")  # rows of a bucket stay in order
        numbers, starts = np.unique(of_row[by_bucket], return_index=True)
        for b, rows in zip(numbers.tolist(), np.split(by_bucket, starts[1:]), strict=True):
            self._put(b, joined.take(rows))

    def touched(self, keys: pa.Table) -> Grouped | None:
        """All rows of the buckets that these groups are in, taken out: what is still wanted is absorbed again.

        Other groups of these buckets are among them.
        """
        self.settle()
        return _together(self._taken(self.of(keys)))

    def extract(self, upto: int, of: Upto | None = None) -> Grouped | None:
        """Takes out the rows that are due at `upto` or before; with `of`, at what it has for their groups, which is
        `upto` at most. Buckets whose least is later are left alone."""
        found = []
        for b, bucket, is_due in list(self._due_in(upto, of)):
            found.append(bucket.where(is_due))
            self._buckets.drop(str(b))
            if not is_due.all():
                self._put(b, bucket.where(~is_due))
        return _together(found)

    def overdue(self, upto: int, of: Upto | None = None) -> bool:
        """Whether `extract` would take out anything."""
        return next(self._due_in(upto, of), None) is not None

    def _due_in(self, upto: int, of: Upto | None) -> Iterator[tuple[int, Grouped, npt.NDArray[np.bool_]]]:
        """The buckets with rows that are due, and which rows are."""
        self.settle()
        for b in sorted(int(entry.name) for entry in self._buckets if entry.meta["least"] <= upto):
            bucket = self._buckets[str(b)].value
            is_due = self._due(bucket) <= (upto if of is None else each(of(bucket.keys), bucket.group))
            if is_due.any():
                yield b, bucket, is_due

    def _taken(self, numbers: Ints) -> list[Grouped]:
        return [self._take(b) for b in np.unique(numbers).tolist() if str(b) in self._buckets]

    def _take(self, b: int) -> Grouped:
        bucket = self._buckets[str(b)].value
        self._buckets.drop(str(b))
        return bucket

    def _put(self, b: int, bucket: Grouped) -> None:
        self._buckets.put(str(b), bucket, rows=len(bucket), least=int(self._due(bucket).min()))

    @property
    def rows(self) -> int:
        self.settle()
        return self._buckets.rows

    @property
    def keys(self) -> int:
        """How many groups have rows."""
        self.settle()
        return sum(entry.value.keys.num_rows for entry in self._buckets)

    @property
    def least(self) -> int | None:
        """When the first row is due."""
        self.settle()
        return min((entry.meta["least"] for entry in self._buckets), default=None)


def _together(parts: list[Grouped]) -> Grouped | None:
    """Rows of different buckets share no group, so putting them one after the other keeps them sorted."""
    if not parts:
        return None
    return parts[0] if len(parts) == 1 else gather(parts)
