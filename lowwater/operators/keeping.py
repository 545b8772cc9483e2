"""Keeping: what a window aggregation keeps between windows (window_aggregate.py is its driver)."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lowwater.aggregates.grouped import Grouped
from lowwater.operators.aggregation import Closed
from lowwater.operators.base import Adapting, StreamProperties
from lowwater.operators.group_lows import Advance, Frontier, Reached


class Keeping(ABC):
    """What is kept between windows."""

    takes_rows = False
    """Whether it wants rows as they come instead of partials."""
    takes_partials = False
    """Whether it takes partials, too, where rows were reduced before they came."""

    def absorb(self, grouped: Grouped, opened: Reached) -> None:
        """Takes partials; ids below `opened`, of all or of each row, are closed and must not be touched again."""
        raise TypeError(f"{type(self).__name__} takes rows, not partials.")

    def buffer(self, rows: pa.Table, time: npt.NDArray[np.int64]) -> None:
        raise TypeError(f"{type(self).__name__} takes partials, not rows.")

    def arrived(self, rows: pa.Table) -> pa.Table:
        """All rows of a batch in arrival order, before late ones are taken out; where they count, they are marked."""
        return rows

    def monitor(self, properties: StreamProperties) -> None:
        """How the sources stand, before each punctuation; for tactics that adapt to it."""
        return None

    @abstractmethod
    def close(self, opened: int, stop: int) -> Closed | None:
        """Answers of all windows opened <= id < stop that hold anything."""

    @abstractmethod
    def expire(self, stop: int) -> None:
        """Forgets what no window from `stop` on will read."""

    def close_own(self, step: Advance) -> Closed | None:
        """Answers of the windows of each group that a step closes, by its own source."""
        raise TypeError(f"{type(self).__name__} closes all groups together.")

    def expire_own(self, step: Advance) -> None:
        """Forgets what no window will read that a step leaves open."""
        raise TypeError(f"{type(self).__name__} closes all groups together.")

    def least_own(self, frontier: Frontier) -> int | None:
        """The last window of the oldest thing kept of those whose windows are all closed; None if there are none."""
        raise TypeError(f"{type(self).__name__} closes all groups together.")

    def span_own(self) -> int:
        """As `span`, of the group where it is largest."""
        return self.span()

    @abstractmethod
    def least(self) -> int | None:
        """The last window that the oldest thing kept is in; None if nothing is kept, or windows do not say."""

    def span(self) -> int:
        """The slots between the oldest and the newest thing kept, where the bound is a number of slots per group."""
        return 0

    def excess(self) -> str | None:
        """A sentence if it keeps what it has no use for."""
        return None

    @property
    def adapting(self) -> Adapting:
        """Whether sparse groups are kept as rows now, and how often that has changed."""
        return Adapting()

    @property
    @abstractmethod
    def rows(self) -> int: ...
