"""The data sets DS1 to DS5 of TH Table 6-2: streams whose groups are small, medium and large.

In every window extent, a small group has one tuple, a medium group 15 on average, and a large group 300. The small
groups have 1, 3, 5, 7 or 9 percent of the tuples, the medium groups 20, and the large groups the rest. The table prints
the resulting percentages of groups. Both are rounded to whole numbers in the thesis. A mean of 15.5 and, for DS5, a
share of 9.45 % are within that rounding and reproduce the table to one percentage point.

Medium and large groups occur in every extent, with new random sizes. A small group occurs in one extent only.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

SMALL_SHARE = {"DS1": 0.01, "DS2": 0.03, "DS3": 0.05, "DS4": 0.07, "DS5": 0.0945}
"""The share of the tuples that are in small groups."""
MEDIUM_SHARE = 0.2
MEDIUM = (11, 20)
LARGE = (200, 400)
"""The smallest and the largest size of a group in an extent. All sizes between are equally likely."""
TABLE = {"DS1": (39, 51, 10), "DS2": (66, 28, 6), "DS3": (77, 19, 4), "DS4": (82, 15, 3), "DS5": (87, 11, 2)}
"""The percentages of small, medium and large groups, as printed in the thesis."""

SCHEMA = pa.schema({"ts": pa.int64(), "srcIP": pa.int64(), "len": pa.int32()})


@dataclass(frozen=True)
class Counts:
    """The number of groups of each kind in an extent."""

    small: int
    medium: int
    large: int

    @staticmethod
    def of(name: str, tuples: int) -> Counts:
        small = SMALL_SHARE[name]
        return Counts(
            round(tuples * small),
            round(tuples * MEDIUM_SHARE / np.mean(MEDIUM)),
            round(tuples * (1 - small - MEDIUM_SHARE) / np.mean(LARGE)),
        )

    @property
    def percent(self) -> tuple[float, float, float]:
        groups = self.small + self.medium + self.large
        return 100 * self.small / groups, 100 * self.medium / groups, 100 * self.large / groups


def data_set(name: str, tuples: int, extents: int, length: int, seed: int, first_group: int = 0) -> pa.Table:
    """Packets in order of time: `extents` extents of `length` ticks with about `tuples` each.

    >>> data_set("DS1", 1000, 2, 100, seed=1).column_names
    ['ts', 'srcIP', 'len']
    """
    rng = np.random.default_rng(seed)
    n = Counts.of(name, tuples)
    again = n.medium + n.large
    sizes = np.concatenate(
        [
            rng.integers(*MEDIUM, (extents, n.medium), endpoint=True),
            rng.integers(*LARGE, (extents, n.large), endpoint=True),
            np.ones((extents, n.small), np.int64),
        ],
        axis=1,
    )
    once = again + np.arange(extents * n.small).reshape(extents, n.small)
    groups = np.concatenate([np.tile(np.arange(again), (extents, 1)), once], axis=1)
    group = np.repeat(groups.ravel(), sizes.ravel())
    extent = np.repeat(np.arange(extents), sizes.sum(axis=1))
    ts = extent * length + rng.integers(0, length, len(group))
    order = np.argsort(ts, kind="stable")
    columns = [ts[order], first_group + group[order], rng.integers(40, 1500, len(group))]
    return pa.table([pa.array(c, f.type) for c, f in zip(columns, SCHEMA, strict=True)], schema=SCHEMA)
