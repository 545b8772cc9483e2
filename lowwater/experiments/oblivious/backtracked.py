"""The optimal buffers of a join without a window, by backtracking over whole streams (WO 5.1).

For each result of the batch join, with tau the arrival of its last tuple, the buffer of stream i must reach back to the
tuple s_i of the result:

    need_i = N_i(tau) - PI(s_i) + 1, and 0 for the stream whose tuple arrives at tau: that tuple probes the others

N_i(tau) counts the tuples of i that have arrived, and PI counts from 1. Three definitions follow from the needs:

    optimal    the largest need of the results of a second: what the paper draws
    least      the least FIFO buffer at a moment from which all later results can be made. A tuple must stay from its
               arrival to its last result, so `least` at a moment is never below the need of a result made then
    W-Join     a window of W_i tuples gives exactly the results with need_i <= W_i for all i, and a window of time those
               whose tuples have all come so shortly before tau

Results are a stream as well, in the order in which single tuples make them, so a join over joins needs nothing more.
Nothing of the operators is used here. This is their judge.

>>> one = Arrived(np.array([1, 2, 3]), np.array([0.1, 0.2, 0.9]))
>>> other = Arrived(np.array([2, 1]), np.array([0.5, 1.4]))
>>> found = backtracked([one, other])
>>> found.values.tolist(), found.at.tolist(), found.need.tolist()
([2, 1], [0.5, 1.4], [[1, 0], [3, 0]])
>>> found.optimal(2).tolist()
[[1, 0], [3, 0]]
>>> least(found, np.array([0.3, 1.0, 2.0])).tolist()
[[2, 0], [3, 0], [0, 0]]
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Arrived:
    """A stream: values in order of arrival, and the second at which each arrives."""

    values: Ints
    at: Floats

    def until(self, second: float) -> Arrived:
        n = int(np.searchsorted(self.at, second, "right"))
        return Arrived(self.values[:n], self.at[:n])


@dataclass(frozen=True, eq=False)
class Results(Arrived):
    """The results of a join in the order in which they are made. Rows are results, columns are streams."""

    streams: tuple[Arrived, ...]
    place: Ints
    """The position of each tuple in its stream, counted from 0."""
    need: Ints

    def __len__(self) -> int:
        return len(self.values)

    def optimal(self, seconds: int) -> Ints:
        """The largest need per second and stream; 0 for a second without results."""
        most = np.zeros((seconds, len(self.streams)), np.int64)
        np.maximum.at(most, np.minimum(self.at.astype(np.int64), seconds - 1), self.need)
        return most

    def within(self, tuples: Sequence[float]) -> Results:
        """The results of W-Join with windows of so many tuples."""
        return self._where(np.all(self.need <= np.asarray(tuples), axis=1))

    def lasting(self, seconds: float) -> Results:
        """The results of W-Join with a window of so many seconds on all streams, by arrival."""
        oldest = np.min([stream.at[own] for stream, own in zip(self.streams, self.place.T, strict=True)], axis=0)
        return self._where(self.at - oldest <= seconds)

    def _where(self, found: Mask) -> Results:
        return Results(self.values[found], self.at[found], self.streams, self.place[found], self.need[found])


def backtracked(streams: Sequence[Arrived]) -> Results:
    """All results of the streams on equal values, with the buffers that each needs."""
    values, place = combinations([stream.values for stream in streams])
    arrival = np.stack([stream.at[own] for stream, own in zip(streams, place.T, strict=True)], axis=1)
    last = arrival.argmax(axis=1)
    tau = np.take_along_axis(arrival, last[:, None], 1)[:, 0]
    come = np.stack([np.searchsorted(stream.at, tau, "right") for stream in streams], axis=1)
    need = np.where(np.arange(len(streams)) == last[:, None], 0, come - place)
    order = np.lexsort((*place.T[::-1], tau))
    return Results(values[order], tau[order], tuple(streams), place[order], need[order])


def combinations(columns: Sequence[Ints]) -> tuple[Ints, Ints]:
    """(value, places): all combinations of one place per column that have the same value."""
    common = columns[0]
    for column in columns:
        common = np.intersect1d(common, column)
    value, places = common, np.empty((len(common), 0), np.int64)
    for column in columns:
        order = np.argsort(column, kind="stable")
        first, stop = (np.searchsorted(column, value, side, sorter=order) for side in ("left", "right"))
        times = stop - first
        row = np.repeat(np.arange(len(value)), times)
        nth = np.arange(len(row)) - np.repeat(np.cumsum(times) - times, times)
        value, places = value[row], np.column_stack([places[row], order[first[row] + nth]])
    return value, places


def least(results: Results, moments: Floats) -> Ints:
    """The least FIFO buffer per moment and stream after which no result is lost."""
    found = []
    for i, stream in enumerate(results.streams):
        used = np.full(len(stream.at), -np.inf)
        waits = results.need[:, i] > 0
        np.maximum.at(used, results.place[waits, i], results.at[waits])
        first = np.searchsorted(np.maximum.accumulate(used), moments, "right")  # the first tuple with a later result
        found.append(np.maximum(0, np.searchsorted(stream.at, moments, "right") - first))
    return np.stack(found, axis=1)
