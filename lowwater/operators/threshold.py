"""The threshold of AdaptWID: from how many tuples on a group takes less memory as partials (TH 6.3.1, 6.3.2).

For a group of winVol active tuples the two alternatives hold, in bytes,

    lazy     tup * winVol                              its rows, as they are buffered
    eager    aggr * filled + grown * winVol            its partials, one for each pane that has a tuple

and eager is preferred (Cond. 6.9) when

    winVol > aggr * filled / (tup - grown) + sum of vol_K * offset_K over the sources K

filled   the panes that winVol tuples fill of the P = wed / pane that live at a time: P * (1 - (1 - 1/P)^winVol) if they
         fall evenly. The thesis counts all wed / SLIDE windows, since a tuple is in many of them; it is in one pane
wed      how long an extent lives: the high-watermark at its end less the low-watermark when its first tuple came;
         RANGE until the first extent has closed, then that of the last one closed
grown    what a tuple adds to the partials of holistic aggregates; nothing for bounded ones
offset   how far a source is behind the one in front; vol_K, its share of the group's tuples per unit of time, is taken
         from the rows of all groups, since nobody counts them by group and source

winVol counts what is really held. So offsets only make the switch more careful while one source is ahead of another;
they double the threshold at most. A group goes back to lazy below a somewhat lower volume, so that a group that
fluctuates between the two thresholds stays as it is.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lowwater.aggregates.base import Column
from lowwater.aggregates.grouped import Grouped
from lowwater.model.ticks import END, NEVER
from lowwater.operators.base import StreamProperties
from lowwater.windows.context_free import Sliding

RETURN = 0.75
"""The lower threshold as a part of the upper one."""
CAREFUL = 0.5
"""The least part of a group's tuples that offsets leave to be counted."""
STEPS = 50
"""Enough to solve the condition for winVol, which stands on both sides."""
PLACE = 16
"""Bytes of a partial's group and slot."""

Ints = npt.NDArray[np.int64]


class Threshold:
    """Monitored properties and the two thresholds. State: a few numbers, and when the open extents started."""

    def __init__(self, window: Sliding, range: int, sharing: int) -> None:
        """`sharing` is the number of panes of a group that share its key in the state."""
        self._window = window
        self._sharing = sharing
        self._upto = np.empty(0, np.int64)  # extents up to this id, and after the one before, have started
        self._since = np.empty(0, np.int64)  # while the low-watermark was this
        self.low = NEVER
        self.high = NEVER
        self.wed = range
        self.spread = 0.0
        self.tup = 0.0
        self.aggr = 0.0
        self.key = 0.0
        self.grown = 0.0

    # -- what is told ----------------------------------------------------------------------------------------------

    def arrived(self, rows: pa.Table, time: Ints) -> None:
        """Rows that are kept; extents that they are the first of start now."""
        self.tup = rows.nbytes / rows.num_rows
        self.high = max(self.high, int(time.max()))
        self.reached(int(self._window.bounds(time.max(keepdims=True))[1][0]))

    def reached(self, last: int) -> None:
        """Extents up to this id have started."""
        if len(self._upto) and last <= self._upto[-1]:
            return
        if len(self._upto) and self._since[-1] == self.low:
            self._upto = np.append(self._upto[:-1], last)
        else:
            self._upto, self._since = np.append(self._upto, last), np.append(self._since, self.low)

    def weigh(self, grouped: Grouped) -> None:
        """Partials as they are kept."""
        self.aggr, self.key, self.grown = weights(grouped)

    def hear(self, properties: StreamProperties) -> None:
        """How the sources stand to each other."""
        if NEVER < properties.low_watermark < END:
            self.low = max(self.low, properties.low_watermark)
        heard = properties.rows > 0
        if heard.any():
            high, rows = properties.high_watermarks[heard], properties.rows[heard]
            self.high = max(self.high, int(high.max()))
            self.spread = float(((high.max() - high) * (rows / rows.sum())).sum())

    def closed(self, stop: int) -> None:
        """All extents below `stop` are complete."""
        if len(self._upto):
            at = int(np.searchsorted(self._upto, min(stop - 1, int(self._upto[-1]))))
            if self._since[at] > NEVER:
                self.wed = max(1, self.high - int(self._since[at]))
            still = self._upto >= stop
            self._upto, self._since = self._upto[still], self._since[still]
        self.low = max(self.low, int(self._window.ends(np.array([stop - 1]))[0]))

    # -- what follows ----------------------------------------------------------------------------------------------

    @property
    def panes(self) -> float:
        """How many panes a group holds that has tuples in all of them."""
        return max(1.0, self.wed / self._window.pane)

    @property
    def upper(self) -> float:
        """A lazy group of more tuples becomes eager."""
        aggr = self.aggr + self.key / min(self.panes, self._sharing)
        gain = (self.tup - self.grown) * max(1 - self.spread / self.wed, CAREFUL)
        if gain <= 0:
            return math.inf
        if aggr <= gain:  # the partial of a tuple alone is no larger than the tuple
            return 0.0
        volume = most = aggr / gain * self.panes
        for _ in range(STEPS):  # comes down to where both cost the same
            volume = most * (1 - (1 - 1 / self.panes) ** volume)
        return volume

    @property
    def lower(self) -> float:
        """An eager group of fewer tuples becomes lazy again."""
        return RETURN * self.upper

    # -- state -----------------------------------------------------------------------------------------------------

    def tables(self) -> dict[str, pa.Table]:
        """As tables of the state."""
        numbers = pa.table({name: [getattr(self, name)] for name in _NUMBERS})
        return {"threshold": numbers, "started": pa.table({"upto": self._upto, "since": self._since})}

    def restore(self, tables: dict[str, pa.Table]) -> None:
        for name in _NUMBERS:
            setattr(self, name, tables["threshold"].column(name)[0].as_py())
        self._upto, self._since = (tables["started"].column(name).to_numpy() for name in ("upto", "since"))


_NUMBERS = ("low", "high", "wed", "spread", "tup", "aggr", "key", "grown")


def weights(grouped: Grouped) -> tuple[float, float, float]:
    """Bytes of a partial without its key, of the key of a group, and of what a tuple adds to the partials."""
    tuples = int(grouped.partials[0][0].sum())
    parts = [_weight(column) for partial in grouped.partials for column in partial]
    aggr = PLACE + sum(fixed for fixed, _ in parts) / len(grouped)
    return aggr, grouped.keys.nbytes / grouped.keys.num_rows, sum(values for _, values in parts) / tuples


def _weight(column: Column) -> tuple[float, float]:
    """Bytes of a column of partials: those that do not depend on the number of tuples, and those that do."""
    if isinstance(column, pa.LargeListArray):
        return 8.0 * len(column), float(column.flatten().nbytes)
    return float(column.nbytes), 0.0
