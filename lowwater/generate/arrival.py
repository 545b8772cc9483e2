"""Patterns of disorder: the order in which delayed tuples arrive, and the lateness that results.

A stream is a set of tuples with data time ts and an arrival order. Times are int64 ticks, microseconds in the tables.
The model is

    arrival(i) = ts(i) + lag(source of i) + delay(i),      0 <= delay(i) <= D

and tuples arrive in order of arrival(i), ties in order of ts. If tuple j overtakes tuple i, that is ts(j) > ts(i) and
arrival(j) <= arrival(i), then j is ahead of i by

    ts(j) - ts(i) <= lag(i) - lag(j) + delay(i) - delay(j) <= D + (max lag - min lag)

The lateness of i is its distance to the largest ts that arrived before it. So it never exceeds D within one source, and
D plus the spread of the lags in a union. With a slack of that length, no tuple is late.

The two other patterns, band and block-sorted disorder, are those of TH 6.1.5.1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Times = npt.NDArray[np.int64]
Order = npt.NDArray[np.intp]
"""A permutation: the i-th tuple to arrive is tuple order[i]."""

SECOND = 1_000_000
"""Ticks in a second."""
START = 1_700_000_000
"""Data time zero of generated tables, in seconds since the epoch."""

TIMESTAMP = pa.timestamp("us", "UTC")


class Disorder(Protocol):
    """A pattern of disorder: the order in which tuples with these times arrive."""

    def order(self, times: Times, rng: np.random.Generator) -> Order: ...


@dataclass(frozen=True)
class Delay:
    """Bounded random delay: delay = min(Exp(mean), most), in ticks. Lateness is at most `most`."""

    mean: int = SECOND // 2
    most: int = 3 * SECOND

    def draw(self, n: int, rng: np.random.Generator) -> Times:
        return rng.exponential(self.mean, n).clip(0, self.most).astype(np.int64)

    def order(self, times: Times, rng: np.random.Generator) -> Order:
        return arrival_order(times, times + self.draw(len(times), rng))


@dataclass(frozen=True)
class Band:
    """Band disorder: every tuple arrives at most k positions away from its place in the order of times.

    Tuple number i sorts by i + U[0, k + 1). All numbers below i - k sort before it and all above i + k after it, so
    its position lies within [i - k, i + k].
    """

    k: int

    def order(self, times: Times, rng: np.random.Generator) -> Order:
        number = np.arange(len(times)) + rng.random(len(times)) * (self.k + 1)
        return np.argsort(times, kind="stable")[np.argsort(number, kind="stable")]


@dataclass(frozen=True)
class Blocks:
    """Block-sorted disorder: blocks [b*length, (b+1)*length) arrive in order, and the tuples of a block in any order.

    A router that collects records and flushes its cache every `length` ticks behaves like this. Lateness is below
    `length`, and a shorter slack is not enough. But a window that ends with a block is complete when the block is.
    """

    length: int

    def order(self, times: Times, rng: np.random.Generator) -> Order:
        return np.lexsort((rng.random(len(times)), times // self.length))


def disorder(times: Times, rng: np.random.Generator, kind: Disorder | None = None) -> Order:
    """The arrival order of tuples with these times (in any order), by default after a `Delay` of up to 3 seconds.

    >>> rng = np.random.default_rng(1)
    >>> times = np.arange(8, dtype=np.int64)
    >>> times[disorder(times, rng, Band(2))]
    array([0, 2, 1, 4, 3, 5, 7, 6])
    >>> times[disorder(times, rng, Blocks(4))]
    array([1, 3, 0, 2, 6, 4, 7, 5])
    """
    return (kind or Delay()).order(times, rng)


def arrival_order(times: Times, arrival: Times) -> Order:
    """The order of tuples by arrival. Tuples that arrive at the same tick are ordered by their times."""
    return np.lexsort((times, arrival))


def lateness(times: Times) -> Times:
    """The lateness of each tuple, for times in arrival order: max(0, max{t(j) : j < i} - t(i)).

    >>> lateness(np.array([10, 30, 25, 40, 10]))
    array([ 0,  0,  5,  0, 30])
    """
    return np.maximum.accumulate(times) - times
