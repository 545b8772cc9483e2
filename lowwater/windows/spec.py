"""What a window kind is: three functions over the tuples of a stream (TH 5.1.1).

    windows(T)    the ids of all windows that the tuples T give rise to
    extent(w, T)  which tuples of T are in window w: the judge of all semantics here
    wids(T)       for every tuple the ids it belongs to, as a range first..last: the exact inverse of extent

All times are int64 ticks of the progressing attribute (microseconds for timestamps, days for dates, the number
itself for integers). Arrival order is the order of `Tuples`; only kinds that say so look at it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from lowwater.errors import BadWindow

Times = npt.NDArray[np.int64]
Ids = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

OPEN_END = np.int64(np.iinfo(np.int64).max)
"""Last id of an open id range (landmark windows): it is compared, never enumerated."""


@dataclass(frozen=True)
class Tuples:
    """The logical T of the thesis: what the three functions may look at.

    `time` is the progressing attribute in arrival order, so a tuple's row-num is its position. `partition` is the
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

    The `wid` of `extent` and `wids` is, for context-free kinds, the id itself: `windows(T)` gives the consecutive ids
    that matter for T and any other integer is an id as well. For context-aware kinds it is a position in `windows(T)`,
    which gives what identifies the windows of T in ascending order: (partition, index) for partitioned windows, the
    end for slide-by-tuple, (partition, start, end) for sessions. Positions hold for one T only.

    `wids` gives first..last, both inclusive, one pair per tuple; first > last for a tuple in no window.
    """

    def windows(self, tuples: Tuples) -> npt.NDArray[np.generic]: ...

    def extent(self, wid: int, tuples: Tuples) -> Mask: ...

    def wids(self, tuples: Tuples) -> tuple[Ids, Ids]: ...


def positive(value: int, name: str) -> int:
    """A length in ticks or rows; zero and below define no window."""
    if value <= 0:
        raise BadWindow(f"{name} must be greater than zero, but is {value}.")
    if value >= 1 << 61:
        raise BadWindow(f"{name} must be below 2^61 ticks, but is {value}; longer windows would overflow.")
    return value
