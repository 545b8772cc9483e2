"""Streams with a chosen scrambling factor, multiplicity, rate and lag, for joins without windows (WO 5).

Values are 0, 1, 2, ... in order, each `multiplicity` times. Tuples arrive by a Poisson process with virtual seconds, or
evenly spaced. Evenly spaced streams lag behind each other by exactly the tuples asked for; the lag of Poisson streams
varies around it. While a spell lasts, the rate is multiplied by its factor: below 1 suppresses the stream, above 1 is a
burst. The values go on in the same order, so that the stream runs behind or ahead of others. A lag delays the whole
stream.

Disorder is local: the order is that of position + delay, and delays are drawn from 0 to k. If the factor
is then below k, one tuple is put k places late, so that the factor measured by Definition 2.2 is the one asked for.

>>> stream = scrambled(1000, seed=1, factor=40, multiplicity=2)
>>> from lowwater.model.scrambling import Scrambling, multiplicity
>>> Scrambling.of(stream.values).factor, multiplicity(stream.values)
(40, 2)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lowwater.model.scrambling import Scrambling

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Spell:
    """From `start` on, for `seconds`, the rate is multiplied by `factor`."""

    start: float
    seconds: float
    factor: float


@dataclass(frozen=True, eq=False)
class Scrambled:
    """A stream: values in order of arrival, and the virtual second at which each arrives."""

    values: Ints
    arrival: npt.NDArray[np.float64]

    def table(self, **columns: object) -> pa.Table:
        """The stream as rows with the columns `epoch`, and `at` in microseconds of arrival."""
        return pa.table({"epoch": self.values, "at": np.round(self.arrival * 1e6).astype(np.int64), **columns})


def scrambled(
    rows: int,
    seed: int,
    *,
    factor: int = 0,
    multiplicity: int = 1,
    mean_gap: float = 0.02,
    lag: float = 0.0,
    spells: Sequence[Spell] = (),
    poisson: bool = True,
) -> Scrambled:
    """A stream of so many tuples.

    factor         the scrambling factor k of Definition 2.2; at least multiplicity - 1, and below `rows`
    multiplicity   how many tuples have each value
    mean_gap       the mean time between two arrivals, in seconds
    lag            seconds by which the stream begins later
    spells         times of another rate
    poisson        whether the gaps between arrivals are exponential; otherwise they are equal
    """
    least = min(multiplicity, rows) - 1
    if not least <= factor < max(1, rows):
        raise ValueError(
            f"A stream of {rows} rows with multiplicity {multiplicity} has a scrambling factor of {least} to "
            f"{max(0, rows - 1)}, not {factor}."
        )
    rng = np.random.default_rng(seed)
    values = np.arange(rows) // multiplicity
    order = _order(values, factor, rng)
    steps = np.cumsum(rng.exponential(1.0, rows) if poisson else np.ones(rows))
    return Scrambled(values[order], lag + _arrivals(steps, mean_gap, spells))


def _order(values: Ints, factor: int, rng: np.random.Generator) -> Ints:
    """An order of arrival whose scrambling factor is exactly `factor`.

    Sorting by position + delay moves a tuple behind another only if that one is at most the largest delay before it, so
    with delays up to d the factor is at most d + (what equal values add). The largest d is searched that stays within
    k, and then one tuple is moved back until the factor is k.
    """
    n = len(values)
    delay = rng.random(n)
    low, high = 0, factor
    order = np.arange(n)
    while low <= high:
        spread = (low + high) // 2
        tried = np.argsort(np.arange(n) + delay * spread, kind="stable")
        if Scrambling.of(values[tried]).factor <= factor:
            order, low = tried, spread + 1
        else:
            high = spread - 1
    return _moved(values, order, factor)


def _moved(values: Ints, order: Ints, factor: int) -> Ints:
    """The order with one tuple moved back, so that its distance from the first value as large is `factor`."""
    if not len(order) or Scrambling.of(values[order]).factor == factor:
        return order
    for first in range(len(order) - factor):
        moved = np.concatenate([order[:first], order[first + 1 : first + factor + 1], order[first : first + 1]])
        tried = np.concatenate([moved, order[first + factor + 1 :]])
        if Scrambling.of(values[tried]).factor == factor:
            return tried
    raise AssertionError(f"no order of {len(order)} tuples has the scrambling factor {factor}")


def _arrivals(steps: npt.NDArray[np.float64], mean_gap: float, spells: Sequence[Spell]) -> npt.NDArray[np.float64]:
    """Arrivals of a process whose rate changes: steps of the integral of the rate, mapped back to time."""
    edges = sorted({0.0, *(spell.start for spell in spells), *(spell.start + spell.seconds for spell in spells)})
    rates = [
        np.prod([s.factor for s in spells if s.start <= edge < s.start + s.seconds], initial=1.0) / mean_gap
        for edge in edges
    ]
    passed = np.concatenate([[0.0], np.cumsum(np.diff(edges) * rates[:-1])])
    piece = np.searchsorted(passed, steps, "right") - 1
    return np.asarray(np.array(edges)[piece] + (steps - passed[piece]) / np.array(rates)[piece], np.float64)
