"""The definition of a window kind: three functions over the tuples of a stream (TH 5.1.1).

    windows(T)    the ids of all windows that the tuples T define
    extent(w, T)  the tuples of T in window w. All other semantics are tested against it
    wids(T)       for every tuple, the ids of its windows, as a range first..last: the exact inverse of extent

All times are int64 ticks of the progressing attribute (microseconds for timestamps, days for dates, the number
itself for integers). Arrival order is the order of `Tuples`; only kinds that are defined by arrival use it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

Times = npt.NDArray[np.int64]
Ids = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

OPEN_END = np.int64(np.iinfo(np.int64).max)
"""The last id of an open id range (landmark windows). It is compared, never enumerated."""


@dataclass(frozen=True)
class Tuples:
    """The T of the thesis: the input of the three functions.

    `time` is the progressing attribute in arrival order, so the row-num of a tuple is its position. `partition` is the
    code of its partitioning attribute (0 everywhere for kinds without one).
    """

    time: Times
    partition: Ids | None = None

    def __len__(self) -> int:
        return len(self.time)

    @property
    def partitions(self) -> Ids:
        return np.zeros(len(self.time), np.int64) if self.partition is None else self.partition


class Window(Protocol):
    """A window kind.

    For context-free kinds, the `wid` of `extent` and `wids` is the id itself: `windows(T)` returns the consecutive ids
    that matter for T, and every other integer is an id, too. For context-aware kinds it is a position in `windows(T)`,
    which returns descriptors in ascending order: (partition, index) for partitioned windows, the end for
    slide-by-tuple, (partition, start, end) for sessions. Positions hold for one T only.

    `wids` returns first..last, both inclusive, one pair per tuple; first > last for a tuple in no window.
    """

    def windows(self, tuples: Tuples) -> npt.NDArray[np.generic]: ...

    def extent(self, wid: int, tuples: Tuples) -> Mask: ...

    def wids(self, tuples: Tuples) -> tuple[Ids, Ids]: ...
