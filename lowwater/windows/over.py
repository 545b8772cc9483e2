"""OVER windows: every tuple has its own window, a frame of its partition around the tuple (beyond the papers).

    ROWS   extent(t) = the `preceding` tuples before t, t, and the `following` tuples after it, by (time, arrival)
    RANGE  extent(t) = the tuples u of the partition with t.time - preceding <= u.time <= t.time + following

None means unbounded. `windows(T)` returns the positions in T of the tuples by (partition, time, arrival). In `extent`
and `wids`, a window is identified by its position in that result, so that the windows of a tuple are adjacent.

>>> import numpy as np
>>> T = Tuples(np.array([10, 40, 20, 30]))
>>> Over("rows", 1, 0).windows(T)
array([0, 2, 3, 1])
>>> Over("rows", 1, 0).extent(1, T)                          # the tuple at 20 and the one before it
array([ True, False,  True, False])
>>> Over("range", None, 10).wids(T)
(array([0, 2, 0, 1]), array([3, 3, 3, 3]))
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from lowwater.errors import BadWindow
from lowwater.windows.context_aware import one_of_orders
from lowwater.windows.spec import Ids, Mask, Tuples

Frame = Literal["rows", "range"]
FAR = 1 << 62


@dataclass(frozen=True)
class Over:
    """A frame of rows or of time around each tuple, both ends closed."""

    frame: Frame
    preceding: int | None
    following: int | None = 0

    def __post_init__(self) -> None:
        one_of_orders(self.frame, get_args(Frame))
        for name, length in (("PRECEDING", self.preceding), ("FOLLOWING", self.following)):
            if length is not None and (not isinstance(length, int) or not 0 <= length < 1 << 61):
                raise BadWindow(f"{name} must be a whole number, zero or more and below 2^61, but is {length!r}.")
        if self.following is None:
            raise BadWindow("UNBOUNDED FOLLOWING would answer no row before the stream ends; give FOLLOWING a bound.")

    @property
    def reach(self) -> tuple[int, int]:
        """(preceding, following), with a very large number for unbounded."""
        assert self.following is not None
        return FAR if self.preceding is None else self.preceding, self.following

    def windows(self, tuples: Tuples) -> Ids:
        return np.lexsort((tuples.time, tuples.partitions)).astype(np.int64)

    def extent(self, wid: int, tuples: Tuples) -> Mask:
        order = self.windows(tuples)
        at = order[wid]
        inside = tuples.partitions == tuples.partitions[at]
        back, ahead = self.reach
        if self.frame == "range":
            since = tuples.time - tuples.time[at]
        else:
            position = np.empty(len(tuples), np.int64)
            position[order] = np.arange(len(tuples))
            since = position - wid
        return np.asarray(inside & (since >= -back) & (since <= ahead))

    def wids(self, tuples: Tuples) -> tuple[Ids, Ids]:
        """The inverse of a frame: u is in the windows of the tuples from `following` before it to `preceding` after it.

        Both ends are found by position or by time, and limited to the partition.
        """
        order = self.windows(tuples)
        partition, time = tuples.partitions[order], tuples.time[order]
        begin, end = np.searchsorted(partition, partition, "left"), np.searchsorted(partition, partition, "right")
        back, ahead = self.reach
        if self.frame == "rows":
            at = np.arange(len(order))
            first, stop = np.maximum(at - ahead, begin), np.minimum(at + back + 1, end)
        else:
            first = within(time, begin, end, time - ahead, "left")
            stop = within(time, begin, end, time + back, "right")
        out = np.empty((2, len(order)), np.int64)
        out[0, order], out[1, order] = first, stop - 1
        return out[0], out[1]


def within(values: Ids, begin: Ids, end: Ids, wanted: Ids, side: Literal["left", "right"]) -> Ids:
    """searchsorted of each wanted value in its own section values[begin:end]. Each section must be sorted.

    All binary searches run at once. The number of steps is the logarithm of the longest section.
    """
    low, high = begin.astype(np.int64), end.astype(np.int64)
    while (low < high).any():
        middle = (low + high) // 2
        probe = values[np.minimum(middle, len(values) - 1)]
        right = (probe < wanted) if side == "left" else (probe <= wanted)
        live = low < high
        low = np.where(live & right, middle + 1, low)
        high = np.where(live & ~right, middle, high)
    return low
