"""Sliding, tumbling, tuple-based and landmark windows: ids from the tuple alone (TH 5.1.2, 5.1.4; CF in TH 6.1.2).

Sliding  extent(w) = [origin + (w+1)*slide - range, origin + (w+1)*slide)
Landmark extent(w) = (-inf, origin + (w+1)*slide), or from the start of the period that holds the window's end

The ids of the thesis are kept: window w ends at origin + (w+1)*slide. Where the thesis measures from min(T), `origin`
stands; ids are then any integers, negative ones before the origin. `wids` follows extent, not the printed Eq. 5.3, 5.9
(off by one at slide boundaries):

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

import numpy as np

from lowwater.errors import BadWindow
from lowwater.windows.spec import OPEN_END, Ids, Mask, Times, Tuples, positive


@dataclass(frozen=True)
class ContextFree(ABC):
    """What all context-free kinds share: ends on the grid origin + k*slide."""

    slide: int
    origin: int

    def closed_below(self, low_watermark: int) -> int:
        """All ids below the returned one are complete: their end is at or before the low-watermark."""
        return (low_watermark - self.origin) // self.slide

    def ends(self, wid: Ids) -> Times:
        return self.origin + (wid + 1) * self.slide

    def pane_of(self, time: Times) -> Ids:
        """The pane a time falls into; panes are numbered on the same origin."""
        return (time - self.origin) // self.pane

    def horizon(self, last: int) -> int:
        """The end of the first window that holds the time `last`: landmark windows are answered up to it."""
        return int(self.ends(self.bounds(np.array([last]))[0])[0])

    @property
    @abstractmethod
    def pane(self) -> int:
        """The length of a pane: the longest stretch on which all windows agree."""

    @property
    def has_gaps(self) -> bool:
        """Whether a time can be in no window at all."""
        return False

    @abstractmethod
    def at(self, origin: int) -> ContextFree:
        """The same windows on another origin."""

    @abstractmethod
    def bounds(self, time: Times) -> tuple[Ids, Ids]:
        """The ids of each time, first..last; empty where first > last."""

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
    """RANGE r SLIDE s; tumbling when they are equal, with gaps when s > r. Over row numbers it is tuple-based (W3)."""

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
        """Ids that contain a pane, first..last. All tuples of a pane share them: that is what makes it a pane."""
        return pane // self.panes_per_slide, (pane + self.panes_per_window) // self.panes_per_slide - 1

    def window_panes(self, wid: Ids) -> tuple[Ids, Ids]:
        """Panes of a window as [first, stop)."""
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
    """RANGE n rows SLIDE m rows over row-num: sliding windows whose time is the number of arrival (W3).

    Row numbers count from 0 over the whole stream. Nothing is late here: a row's number is its arrival.
    """

    def at(self, origin: int) -> TupleBased:
        return TupleBased(self.range, self.slide, origin)


def tumbling(range: int, origin: int = 0) -> Sliding:
    """RANGE = SLIDE: extents neither overlap nor leave gaps."""
    return Sliding(range, range, origin)


@dataclass(frozen=True)
class Landmark(ContextFree):
    """RANGE ALL SLIDE s: each extent holds all before its end. With `period` it starts anew every period (cumulate).

    The id range of a tuple is open at the end without a period; `OPEN_END` marks it and is never enumerated.
    """

    period: int | None

    def __init__(self, slide: int, origin: int = 0, period: int | None = None) -> None:
        positive(slide, "SLIDE")
        if period is not None and positive(period, "PERIOD") % slide:
            raise BadWindow(f"PERIOD {period} must be a multiple of SLIDE {slide}, so that it ends with a window.")
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
        """Ids that contain a pane, first..last; a pane is one slide and carries the id of the first window it is in."""
        if self.period is None:
            return pane, np.full(len(pane), OPEN_END)
        per = self.period // self.slide
        return pane, (pane // per + 1) * per - 1

    def window_panes(self, wid: Ids) -> tuple[Ids, Ids]:
        """Panes of a window as [first, stop); without a period the first is the first of all."""
        if self.period is None:
            return np.full(len(wid), np.iinfo(np.int64).min), wid + 1
        per = self.period // self.slide
        return wid // per * per, wid + 1

    def interval(self, wid: Ids) -> tuple[Times | None, Times]:
        """Start and end; the start of a landmark without period is unbounded (None)."""
        ends = self.ends(wid)
        if self.period is None:
            return None, ends
        return (ends - 1 - self.origin) // self.period * self.period + self.origin, ends

    def at(self, origin: int) -> Landmark:
        return Landmark(self.slide, origin, self.period)

    def windows(self, tuples: Tuples) -> Ids:
        """From the first window that holds a tuple to the one that holds the last; later ones repeat it for ever."""
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
