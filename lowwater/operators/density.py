"""The density of groups, as the bytes that they take: as partials alone, and by the choice of AdaptWID (TH 6.3.1).

For a group with v tuples in f cells, pairs of group and pane, these are

    partials    key + aggr * f + grown * v
    adaptive    the less of that and tup * v, its rows

These are the two sides of Cond. 6.9 (threshold.py), with cells that are counted instead of expected. Groups are sparse
where the sum of the second is clearly less than that of the first. A choice between the two has a band in which it
stays as it is.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lowwater.aggregates.grouped import Grouped
from lowwater.operators.threshold import weights

SPARSE = 0.75
"""AdaptWID is chosen below this part of the bytes of partials alone. It counts every group, which takes time."""
DENSE = 0.9
"""AdaptWID is left above this part."""


@dataclass(frozen=True)
class Density:
    """Bytes of the same groups, kept in two ways."""

    partials: float
    adaptive: float

    @staticmethod
    def of(grouped: Grouped, tup: float) -> Density:
        """Of partials, for rows of `tup` bytes; count(*) leads the aggregates."""
        aggr, key, grown = weights(grouped)
        filled = np.bincount(grouped.group, minlength=grouped.keys.num_rows)
        volume = np.bincount(grouped.group, np.asarray(grouped.partials[0][0]), grouped.keys.num_rows)
        partials = key * (filled > 0) + aggr * filled + grown * volume
        return Density(float(partials.sum()), float(np.minimum(partials, tup * volume).sum()))

    @property
    def sparse(self) -> bool:
        return self.adaptive < SPARSE * self.partials

    @property
    def dense(self) -> bool:
        return self.adaptive > DENSE * self.partials
