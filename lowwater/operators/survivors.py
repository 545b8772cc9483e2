"""Survivors: of the rows of each key in order of time, those that are more than `within` after the survivor before.

in_order       rows by (key, time, values), and the ties among them
apart          the survivors of sorted rows, given how far the last survivor of each key reaches
LastSurvivors  the last survivor of each key, in hash buckets of the state
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lowwater.aggregates.grouped import Grouped, gather, matched
from lowwater.aggregates.row_order import order_of_rows
from lowwater.aggregates.sorting import by_group
from lowwater.model.ticks import NEVER
from lowwater.operators.buckets import Buckets
from lowwater.state.store import Store

Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


class LastSurvivors(Buckets):
    """The time of the last survivor of each key."""

    def __init__(self, store: Store) -> None:
        super().__init__((), latest, store=store)

    def of_keys(self, keys: pa.Table) -> tuple[Ints, Mask]:
        """For each key the time of its last survivor, where `known`."""
        there = self.touched(keys)
        if there is None:
            return np.full(keys.num_rows, NEVER), np.zeros(keys.num_rows, bool)
        self.absorb(there)
        time = np.empty(there.keys.num_rows, np.int64)
        time[there.group] = there.slot
        at = matched(keys, there.keys)
        return time[at], at >= 0


def latest(parts: Sequence[Grouped]) -> Grouped:
    """Of each group the row with the largest slot."""
    rows = gather(parts)
    order = np.lexsort((rows.slot, rows.group))
    group = rows.group[order]
    return rows.take(order[np.append(group[1:] != group[:-1], True)])


def in_order(rows: pa.Table, group: Ints, time: Ints, groups: int) -> tuple[Ints, Mask]:
    """Rows that come in order of time by (group, time, values), and which of them follow a row of the same two."""
    order, _ = by_group(group, groups)
    g, t = group[order], time[order]
    again = np.zeros(len(order), bool)
    again[1:] = (g[1:] == g[:-1]) & (t[1:] == t[:-1])
    if again.any():
        tied = again.copy()
        tied[:-1] |= again[1:]
        some = order[tied]
        order[tied] = some[order_of_rows(rows.take(pa.array(some)), np.cumsum(~again)[tied])]
    return order, again


def apart(group: Ints, time: Ints, reach: Ints, known: Mask, within: int) -> Mask:
    """Which rows survive, of rows sorted by (group, time). A group that is `known` has a survivor that reaches `reach`.

    Each row points to the first row of its group that is beyond its reach. Rows on the path from the first survivor of
    a group survive. Paths are followed in steps that double: there are as many passes as the longest path has binary
    digits.

    >>> group, time = np.array([0, 0, 0, 0, 1]), np.array([1, 3, 4, 8, 2])
    >>> apart(group, time, np.array([0, 5]), np.array([False, True]), within=2).tolist()
    [True, False, True, True, False]
    """
    n = len(group)
    times = np.unique(time)
    width = len(times) + 1
    code = group * width + np.searchsorted(times, time)
    stop = np.searchsorted(group, group, "right")
    step = np.searchsorted(code, group * width + np.searchsorted(times, time + within, "right"))
    jump = np.append(np.where(step < stop, step, n), n)  # n is the end of every path
    each = np.arange(len(reach))
    begin = np.searchsorted(code, each * width + np.where(known, np.searchsorted(times, reach, "right"), 0))
    begin = begin[begin < np.searchsorted(group, each, "right")]
    reached = np.zeros(n + 1, bool)
    reached[begin] = True
    while (jump < n).any():
        reached[jump[reached]] = True
        jump = jump[jump]
    return reached[:n]
