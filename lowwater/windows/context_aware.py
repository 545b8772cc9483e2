"""Partitioned, slide-by-tuple and session windows, whose windows depend on the tuples (TH 5.1.3, 5.1.5).

    Partitioned   extent((i, p)) = tuples of partition p with rank in [(i+1)*slide - range, (i+1)*slide)     Eq. 5.5
    SlideByTuple  extent(w)      = (w - range, w], w the time of an every-th tuple                 Eq. 5.11, 5.14, 5.17
    Session       extent((p, a)) = tuples of partition p from a on, up to the first pause of at least `gap`

`windows(T)` returns descriptors, sorted so that the windows of a tuple are adjacent. In `extent` and `wids`, a window
is identified by its position in that result. A late tuple can add, move or merge windows, so positions hold for one T
only.

>>> import numpy as np
>>> T = Tuples(np.array([10, 40, 20, 30]))
>>> SlideByTuple(15, every=2).windows(T), SlideByTuple(15, every=2, order="rank").windows(T)
(array([30, 40]), array([20, 40]))
>>> SlideByTuple(15, every=2).wids(T)                     # first > last: the tuple at 10 is in no window
(array([0, 1, 0, 0]), array([-1,  1,  0,  1]))
>>> Session(15).windows(Tuples(T.time, np.array([1, 1, 1, 2])))
array([(1, 10, 35), (1, 40, 55), (2, 30, 45)],
      dtype=[('partition', '<i8'), ('start', '<i8'), ('end', '<i8')])
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt

from lowwater.errors import BadWindow
from lowwater.model.ticks import positive
from lowwater.windows.context_free import Sliding
from lowwater.windows.spec import Ids, Mask, Times, Tuples

Descriptors = npt.NDArray[np.void]

PARTITIONED = np.dtype([("partition", np.int64), ("index", np.int64)])
SESSION = np.dtype([("partition", np.int64), ("start", np.int64), ("end", np.int64)])

PartitionOrder = Literal["arrival", "time"]
SlideOrder = Literal["row-num", "rank"]


@dataclass(frozen=True)
class Partitioned:
    """RANGE r rows SLIDE s rows PA p: every partition is a separate stream with tuple-based sliding windows (W4).

    Ranks count from 0 within the partition, in arrival order or by time (ties by arrival). A partition has the windows
    from 0 to the last one that contains a tuple; the last ones are not full yet.
    """

    range: int
    slide: int
    order: PartitionOrder = "arrival"

    def __post_init__(self) -> None:
        positive(self.range, "RANGE")
        positive(self.slide, "SLIDE")
        one_of_orders(self.order, get_args(PartitionOrder))

    @property
    def over_ranks(self) -> Sliding:
        """The windows within one partition."""
        return Sliding(self.range, self.slide)

    def windows(self, tuples: Tuples) -> Descriptors:
        partition, members = np.unique(tuples.partitions, return_counts=True)
        count = self._windows_of(members)
        found = np.empty(count.sum(), PARTITIONED)
        found["partition"] = np.repeat(partition, count)
        found["index"] = np.arange(len(found)) - np.repeat(np.cumsum(count) - count, count)
        return found

    def extent(self, wid: int, tuples: Tuples) -> Mask:
        window = self.windows(tuples)[wid]
        inside = self.over_ranks.extent(int(window["index"]), Tuples(self.ranks(tuples)))
        inside &= tuples.partitions == int(window["partition"])
        return inside

    def wids(self, tuples: Tuples) -> tuple[Ids, Ids]:
        _, code, members = np.unique(tuples.partitions, return_inverse=True, return_counts=True)
        count = self._windows_of(members)
        start = (np.cumsum(count) - count)[code]
        first, last = self.over_ranks.bounds(self.ranks(tuples))
        return start + first, start + last

    def ranks(self, tuples: Tuples) -> Ids:
        """rank(t, attr, p, T), counted from 0. Arrival needs no sort key, because lexsort is stable."""
        partitions = tuples.partitions
        keys = (partitions,) if self.order == "arrival" else (tuples.time, partitions)
        by_partition = np.lexsort(keys)
        position = np.arange(len(tuples), dtype=np.int64)
        new = np.ones(len(tuples), np.bool_)
        new[1:] = np.diff(partitions[by_partition]) != 0
        ranks = np.empty(len(tuples), np.int64)
        ranks[by_partition] = position - np.maximum.accumulate(np.where(new, position, 0))
        return ranks

    def _windows_of(self, members: Ids) -> Ids:
        """The number of windows of a partition: the last window of its last rank, plus one."""
        return self.over_ranks.bounds(members - 1)[1] + 1


@dataclass(frozen=True)
class SlideByTuple:
    """RANGE r over the time, SLIDE n rows: every n-th tuple ends a window of length r (W6, W7, W8).

    Tuples n, 2n, 3n, ... are counted from 1 by arrival (row-num) or by time (rank). The descriptors are the distinct
    times of these tuples: equal times define one window. The partition is ignored.
    """

    range: int
    every: int = 1
    order: SlideOrder = "row-num"

    def __post_init__(self) -> None:
        positive(self.range, "RANGE")
        positive(self.every, "SLIDE")
        one_of_orders(self.order, get_args(SlideOrder))

    def windows(self, tuples: Tuples) -> Ids:
        """The times of the n-th tuples, ascending. Ties in rank do not matter, because tied tuples have one time."""
        counted = np.sort(tuples.time) if self.order == "rank" else tuples.time
        return np.unique(counted[self.every - 1 :: self.every])

    def extent(self, wid: int, tuples: Tuples) -> Mask:
        end = int(self.windows(tuples)[wid])
        return (tuples.time > end - self.range) & (tuples.time <= end)

    def wids(self, tuples: Tuples) -> tuple[Ids, Ids]:
        """t <= w < t + range (Eq. 5.12, 5.15, 5.18), as positions among the ends."""
        ends = self.windows(tuples)
        first = np.searchsorted(ends, tuples.time, "left")
        last = np.searchsorted(ends, tuples.time + self.range, "left") - 1
        return first.astype(np.int64), last.astype(np.int64)

    # For operators, before it is known which times end a window: every time is the id of a window that may exist.

    def pane_of(self, time: Times) -> Ids:
        """The pane of a time is the time itself, because tuples with equal times share all their windows."""
        return time

    def bounds(self, time: Times) -> tuple[Ids, Ids]:
        """The range that contains the ids of a tuple (TH 6.1.4). Not every id in it is a window."""
        return time, time + self.range - 1

    def pane_wids(self, pane: Ids) -> tuple[Ids, Ids]:
        return self.bounds(pane)

    def window_panes(self, wid: Ids) -> tuple[Ids, Ids]:
        """The times in a window as [first, stop)."""
        return wid - self.range + 1, wid + 1

    def interval(self, wid: Ids) -> tuple[Times, Times]:
        """The start (exclusive) and the end (inclusive)."""
        return wid - self.range, wid

    def closed_below(self, low_watermark: int) -> int:
        return low_watermark

    def horizon(self, last: int) -> int:
        return last + 1


@dataclass(frozen=True)
class Session:
    """Tuples of one partition with pauses shorter than `gap` (W10). The end is exclusive: its last tuple + gap."""

    gap: int

    def __post_init__(self) -> None:
        positive(self.gap, "GAP")

    def windows(self, tuples: Tuples) -> Descriptors:
        """(partition, start, end), ascending."""
        by_time, new = self._sessions(tuples)
        starts, lasts = by_time[new], by_time[np.roll(new, -1)]
        found = np.empty(len(starts), SESSION)
        found["partition"] = tuples.partitions[starts]
        found["start"] = tuples.time[starts]
        found["end"] = tuples.time[lasts] + self.gap
        return found

    def extent(self, wid: int, tuples: Tuples) -> Mask:
        """The tuples of the partition in [start, end). The next tuple of the partition is at the end or later."""
        window = self.windows(tuples)[wid]
        inside = (tuples.time >= int(window["start"])) & (tuples.time < int(window["end"]))
        inside &= tuples.partitions == int(window["partition"])
        return inside

    def wids(self, tuples: Tuples) -> tuple[Ids, Ids]:
        """Exactly one window per tuple: first = last."""
        by_time, new = self._sessions(tuples)
        position = np.empty(len(tuples), np.int64)
        position[by_time] = np.cumsum(new) - 1
        return position, position

    def _sessions(self, tuples: Tuples) -> tuple[Ids, Mask]:
        """The tuples by partition and time, and a mask of those that start a session (the first always does)."""
        by_time = np.lexsort((tuples.time, tuples.partitions))
        new = np.ones(len(tuples), np.bool_)
        new[1:] = np.diff(tuples.partitions[by_time]) != 0
        new[1:] |= np.diff(tuples.time[by_time]) >= self.gap
        return by_time, new


def one_of_orders(order: str, known: tuple[str, ...]) -> None:
    if order not in known:
        raise BadWindow(f"The order of rows must be one of {', '.join(known)}, but is {order}.")
