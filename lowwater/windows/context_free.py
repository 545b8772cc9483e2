"""Sliding, tumbling, tuple-based and landmark windows, whose ids follow from the tuple (TH 5.1.2, 5.1.4; CF in 6.1.2).

Sliding  extent(w) = [origin + (w+1)*slide - range, origin + (w+1)*slide)
Landmark extent(w) = (-inf, origin + (w+1)*slide), or from the start of the period that holds the window's end

Ids are those of the thesis: window w ends at origin + (w+1)*slide. The thesis measures from min(T); here `origin` takes
its place, so ids can be any integers, with negative ones before the origin. `wids` follows the definition of extent and
not the printed Eq. 5.3 and 5.9, which are off by one at slide boundaries:

    sliding   floor((t-origin)/slide) <= w <= floor((t-origin+range)/slide) - 1      (empty in a gap of slide > range)
    landmark  floor((t-origin)/slide) <= w

>>> import numpy as np
>>> Sliding(600, 60).bounds(np.array([5, 60]))          # the thesis' worked example: 0..9
(array([0, 1]), array([ 9, 10]))
>>> Sliding(600, 60).interval(np.array([9, 10]))
(array([ 0, 60]), array([600, 660]))
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from math import gcd
from typing import TypeVar

import numpy as np

from lowwater.errors import BadWindow
from lowwater.model.ticks import positive
from lowwater.windows.spec import OPEN_END, Ids, Mask, Times, Tuples

Low = TypeVar("Low", int, Times)
"""One low-watermark, or one per source."""


@dataclass(frozen=True)
class ContextFree(ABC):
    """The base of context-free windows: all ends are on the grid origin + k*slide."""

    slide: int
    origin: int

    def closed_below(self, low_watermark: Low) -> Low:
        """The first id that is not complete. Windows with smaller ids end at or before the low-watermark."""
        return (low_watermark - self.origin) // self.slide

    def ends(self, wid: Ids) -> Times:
        return self.origin + (wid + 1) * self.slide

    def pane_of(self, time: Times) -> Ids:
        """The pane that contains a time. Panes are counted from the same origin."""
        return (time - self.origin) // self.pane

    def horizon(self, last: int) -> int:
        """The end of the first window that contains the time `last`. Landmark windows are answered up to it."""
        return int(self.ends(self.bounds(np.array([last]))[0])[0])

    @property
    @abstractmethod
    def pane(self) -> int:
        """The length of a pane: the longest interval that every window contains entirely or not at all."""

    @property
    def has_gaps(self) -> bool:
        """Whether a time can be in no window at all."""
        return False

    @abstractmethod
    def at(self, origin: int) -> ContextFree:
        """The same windows with another origin."""

    @abstractmethod
    def bounds(self, time: Times) -> tuple[Ids, Ids]:
        """The ids of the windows that contain each time, as first..last; empty if first > last."""

    @abstractmethod
    def pane_wids(self, pane: Ids) -> tuple[Ids, Ids]: ...

    @abstractmethod
    def window_panes(self, wid: Ids) -> tuple[Ids, Ids]: ...

    @abstractmethod
    def interval(self, wid: Ids) -> tuple[Times | None, Times]: ...

    def wids(self, tuples: Tuples) -> tuple[Ids, Ids]:
        return self.bounds(tuples.time)


@dataclass(frozen=True)
class Sliding(ContextFree):
    """RANGE r SLIDE s. Tumbling if they are equal, with gaps if s > r, tuple-based over row numbers (W3)."""

    range: int

    def __init__(self, range: int, slide: int | None = None, origin: int = 0) -> None:
        positive(range, "RANGE")
        object.__setattr__(self, "range", range)
        object.__setattr__(self, "slide", positive(range if slide is None else slide, "SLIDE"))
        object.__setattr__(self, "origin", origin)

    @property
    def pane(self) -> int:
        return gcd(self.range, self.slide)

    @property
    def has_gaps(self) -> bool:
        return self.slide > self.range

    @property
    def panes_per_window(self) -> int:
        return self.range // self.pane

    @property
    def panes_per_slide(self) -> int:
        return self.slide // self.pane

    def bounds(self, time: Times) -> tuple[Ids, Ids]:
        since = time - self.origin
        return since // self.slide, (since + self.range) // self.slide - 1

    def pane_wids(self, pane: Ids) -> tuple[Ids, Ids]:
        """The ids of the windows that contain a pane, as first..last. All tuples of the pane share them."""
        return pane // self.panes_per_slide, (pane + self.panes_per_window) // self.panes_per_slide - 1

    def window_panes(self, wid: Ids) -> tuple[Ids, Ids]:
        """The panes of a window as [first, stop)."""
        stop = (wid + 1) * self.panes_per_slide
        return stop - self.panes_per_window, stop

    def interval(self, wid: Ids) -> tuple[Times, Times]:
        ends = self.ends(wid)
        return ends - self.range, ends

    def at(self, origin: int) -> Sliding:
        return Sliding(self.range, self.slide, origin)

    def windows(self, tuples: Tuples) -> Ids:
        first, last = self.bounds(tuples.time)
        if not len(first):
            return first
        return np.arange(first.min(), last.max() + 1, dtype=np.int64)

    def extent(self, wid: int, tuples: Tuples) -> Mask:
        end = self.origin + (wid + 1) * self.slide
        return (tuples.time >= end - self.range) & (tuples.time < end)


class TupleBased(Sliding):
    """RANGE n rows SLIDE m rows over row-num: sliding windows whose time is the row number by arrival (W3).

    Row numbers count from 0 over the whole stream. No row is late, because rows are numbered as they arrive.
    """

    def at(self, origin: int) -> TupleBased:
        return TupleBased(self.range, self.slide, origin)


def tumbling(range: int, origin: int = 0) -> Sliding:
    """Windows with RANGE = SLIDE: extents neither overlap nor leave gaps."""
    return Sliding(range, range, origin)


def refuse_period(period: int, slide: int, written: tuple[object, object]) -> None:
    """Refuses a period that does not end with a window. `written` is how the user wrote both lengths."""
    if period % slide:
        raise BadWindow(
            f"PERIOD {written[0]!r} must be a multiple of SLIDE {written[1]!r}, so that it ends with a window."
        )


@dataclass(frozen=True)
class Landmark(ContextFree):
    """RANGE ALL SLIDE s: each extent contains everything before its end. With `period`, extents restart every period.

    Without a period, the id range of a tuple has no end. `OPEN_END` stands for that end and is never enumerated.
    """

    period: int | None

    def __init__(self, slide: int, origin: int = 0, period: int | None = None) -> None:
        positive(slide, "SLIDE")
        if period is not None:
            refuse_period(positive(period, "PERIOD"), slide, (period, slide))
        object.__setattr__(self, "slide", slide)
        object.__setattr__(self, "origin", origin)
        object.__setattr__(self, "period", period)

    @property
    def pane(self) -> int:
        return self.slide

    def bounds(self, time: Times) -> tuple[Ids, Ids]:
        first = (time - self.origin) // self.slide
        if self.period is None:
            return first, np.full(len(first), OPEN_END)
        return first, ((time - self.origin) // self.period + 1) * (self.period // self.slide) - 1

    def pane_wids(self, pane: Ids) -> tuple[Ids, Ids]:
        """The ids of the windows that contain a pane, as first..last.

        A pane is one slide long, and its number is the id of the first window that contains it.
        """
        if self.period is None:
            return pane, np.full(len(pane), OPEN_END)
        per = self.period // self.slide
        return pane, (pane // per + 1) * per - 1

    def window_panes(self, wid: Ids) -> tuple[Ids, Ids]:
        """The panes of a window as [first, stop). Without a period, `first` is the smallest int64."""
        if self.period is None:
            return np.full(len(wid), np.iinfo(np.int64).min), wid + 1
        per = self.period // self.slide
        return wid // per * per, wid + 1

    def interval(self, wid: Ids) -> tuple[Times | None, Times]:
        """The start and the end. Without a period there is no start (None)."""
        ends = self.ends(wid)
        if self.period is None:
            return None, ends
        return (ends - 1 - self.origin) // self.period * self.period + self.origin, ends

    def at(self, origin: int) -> Landmark:
        return Landmark(self.slide, origin, self.period)

    def windows(self, tuples: Tuples) -> Ids:
        """The ids from the first window with a tuple to the window in which the last tuple first appears.

        Without a period, all later windows would repeat that one. With a period, ids go on to the end of the period.
        """
        if not len(tuples):
            return np.empty(0, np.int64)
        first = (tuples.time - self.origin) // self.slide
        if self.period is None:
            return np.arange(first.min(), first.max() + 1, dtype=np.int64)
        return np.arange(first.min(), self.bounds(tuples.time)[1].max() + 1, dtype=np.int64)

    def extent(self, wid: int, tuples: Tuples) -> Mask:
        end = self.origin + (wid + 1) * self.slide
        before = tuples.time < end
        if self.period is None:
            return before
        start = (end - 1 - self.origin) // self.period * self.period + self.origin
        return before & (tuples.time >= start)
