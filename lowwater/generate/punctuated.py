"""Streams with punctuations among their tuples: the arrival patterns of the punctuated window join (PW 5.1, 6.1).

A punctuation on a join value promises that no later tuple carries that value. The tuples between two punctuations are a
segment. The paper names a pattern by the order of the punctuated values, the mean size of a segment, and the mean
percentage of a segment's tuples that carry the value of the punctuation which concludes it:

    cluster-[order]-[size]            all tuples of a segment carry it: tuples with the same value arrive successively
    punct-[order]-[size]-[match]      some carry it, the others carry values whose punctuation comes later

Values are 0, 1, ..., values - 1 in every pattern, each punctuated once. So two streams with the same number of values
and different seeds have all values in common. Where the paper leaves a choice, this module does the following:

- The size of a segment is 1 + Poisson(size - 1). A punctuation follows the last tuple with its value (PW 5.1), so no
  segment is empty; the mean is the one in the name, and with size 1 every tuple is followed by its punctuation, which
  is the paper's unique arrival.
- The tuples that do not match carry one of the next `ahead` values to be punctuated. If they were drawn from all open
  values, hardly any two of them would meet in a window.
- The last tuple of a segment is among those that match, if any tuple does.
- Gaps between arrivals are geometric: a Poisson process in whole ticks, so that times ascend strictly.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lowwater.generate.arrival import SECOND, START, TIMESTAMP, Band, Times

Keys = npt.NDArray[np.int64]

ORDERS = ("asc", "desc", "random")
PUNCTUATED = pa.schema({"ts": TIMESTAMP, "key": pa.int64(), "id": pa.int64(), "ends": pa.bool_()})
NAME = re.compile(
    r"cluster-(?P<cluster>[a-z]+)-(?P<clustersize>\d+)"
    r"|punct(?:uation)?-(?P<order>[a-z]+)-(?P<size>\d+)-(?P<match>\d+)"  # the paper writes it both ways
)


@dataclass(frozen=True)
class Arrival:
    """A pattern: the order of punctuated values, the mean tuples per segment, and the mean percentage that match.

    Without a percentage the pattern is clustered: all tuples of a segment match. That is not the same as `match=100`,
    where the percentage is drawn from Poisson(100), and about half the draws fall below.
    """

    order: str
    size: int
    match: int | None = None

    def __post_init__(self) -> None:
        if self.order not in ORDERS:
            raise ValueError(f"The order of punctuations must be one of {', '.join(ORDERS)}, not {self.order!r}.")
        if self.size < 1:
            raise ValueError(f"The mean size of a segment must be one tuple or more, not {self.size}.")
        if self.match is not None and not 0 <= self.match <= 100:
            raise ValueError(f"The match must be a percentage from 0 to 100, not {self.match}.")

    def __str__(self) -> str:
        clustered = f"cluster-{self.order}-{self.size}"
        return clustered if self.match is None else f"punct-{self.order}-{self.size}-{self.match}"


def pattern(name: str) -> Arrival:
    """The pattern with this name in the paper.

    >>> pattern("punct-asc-100-40")
    Arrival(order='asc', size=100, match=40)
    >>> print(pattern("cluster-random-50"))
    cluster-random-50
    """
    found = NAME.fullmatch(name)
    if found is None:
        raise ValueError(f"A pattern is named like cluster-asc-50 or punct-random-30-40, but this is {name!r}.")
    if found["cluster"]:
        return Arrival(found["cluster"], int(found["clustersize"]))
    return Arrival(found["order"], int(found["size"]), int(found["match"]))


@dataclass(frozen=True)
class Punctuated:
    """Tuples and punctuations in arrival order: ts, key, id, ends.

    A row with `ends` is not a tuple: it ends the value in `key`, has the ts of the tuple before it, and no id. Tuples
    have the ids 0, 1, ... as they arrive.
    """

    rows: pa.Table

    @property
    def tuples(self) -> pa.Table:
        """ts, key and id of the tuples alone."""
        return self.rows.filter(~self._ends).select(["ts", "key", "id"])

    @property
    def punctuations(self) -> pa.Table:
        """ts and key of the punctuations alone."""
        return self.rows.filter(self._ends).select(["ts", "key"])

    @property
    def _ends(self) -> npt.NDArray[np.bool_]:
        return np.asarray(self.rows["ends"], np.bool_)


def punctuated(
    arrival: Arrival | str,
    values: int,
    seed: int,
    *,
    every: float = 0.010,
    ahead: int = 10,
    within: int | None = None,
    irrelevant: bool = False,
    start: int = START,
) -> Punctuated:
    """A stream with this pattern, given as an `Arrival` or by name, in which `values` values end.

    every       mean seconds between two tuples
    ahead       tuples that do not match carry one of the next `ahead` values to be punctuated, or one of those left. In
                the last segment no value is left, so all its tuples match
    within      in random order, the largest distance between the place of a value in the order of punctuations and its
                place in ascending order. By default all orders are equally likely. If it is small, two streams share
                more open values
    irrelevant  whether punctuations come at the same places, but for values in [-values, 0), which no tuple has

    >>> stream = punctuated("cluster-desc-1", values=3, seed=1)
    >>> stream.rows["key"].to_pylist()
    [2, 2, 1, 1, 0, 0]
    >>> stream.rows["ends"].to_pylist()
    [False, True, False, True, False, True]
    >>> stream.rows["id"].to_pylist()
    [0, None, 1, None, 2, None]
    """
    shape = pattern(arrival) if isinstance(arrival, str) else arrival
    if values < 1 or ahead < 1:
        raise ValueError(f"A stream needs values = 1 or more and ahead = 1 or more, but has {values} and {ahead}.")
    rng = np.random.default_rng(seed)
    closing = _order(shape.order, values, within, rng)
    sizes = 1 + rng.poisson(shape.size - 1, values)
    segment = np.repeat(np.arange(values), sizes)
    keys = closing[segment]
    if shape.match is not None:
        other = ~_matching(sizes, segment, shape.match, rng)
        left = np.minimum(ahead, values - 1 - segment[other])
        keys[other] = closing[segment[other] + rng.integers(1, left, endpoint=True)]
    return _table(_times(len(keys), every, start, rng), keys, sizes, closing - values if irrelevant else closing)


def unpunctuated(rows: int, values: int, seed: int, *, every: float = 0.010, start: int = START) -> Punctuated:
    """A stream of tuples with values uniform in [0, values), without punctuation (PW 6.3).

    >>> stream = unpunctuated(1000, 15_000, seed=1)
    >>> stream.tuples.num_rows, stream.punctuations.num_rows
    (1000, 0)
    """
    if rows < 0 or values < 1:
        raise ValueError(f"A stream needs rows = 0 or more and values = 1 or more, but has {rows} and {values}.")
    rng = np.random.default_rng(seed)
    keys = rng.integers(0, values, rows)
    none = np.empty(0, np.int64)
    return _table(_times(rows, every, start, rng), keys, none, none)


def _order(order: str, values: int, within: int | None, rng: np.random.Generator) -> Keys:
    """The values in the order of their punctuations."""
    ascending = np.arange(values, dtype=np.int64)
    if order == "random":
        return rng.permutation(ascending) if within is None else Band(within).order(ascending, rng).astype(np.int64)
    return ascending if order == "asc" else ascending[::-1]


def _matching(sizes: Keys, segment: Keys, match: int, rng: np.random.Generator) -> npt.NDArray[np.bool_]:
    """A mask of the tuples that carry the last value of their segment: a Poisson(match) percentage of each segment."""
    share = np.minimum(rng.poisson(match, len(sizes)), 100) / 100
    # Rounded up with the probability of the fraction, so that the mean is right even in segments of few tuples.
    wanted = np.floor(sizes * share + rng.random(len(sizes)))
    wanted[-1] = sizes[-1]
    after = np.cumsum(sizes)
    priority = rng.random(len(segment))
    priority[after - 1] = -1  # the last tuple of a segment is chosen first
    chosen = np.empty(len(segment), np.bool_)
    chosen[np.lexsort((priority, segment))] = np.arange(len(segment)) - (after - sizes)[segment] < wanted[segment]
    return chosen


def _times(n: int, every: float, start: int, rng: np.random.Generator) -> Times:
    if every * SECOND < 1:
        raise ValueError(f"every must be at least a microsecond, not {every} seconds.")
    return start * SECOND + np.cumsum(rng.geometric(1 / (every * SECOND), n), dtype=np.int64)


def _table(ts: Times, keys: Keys, sizes: Keys, closing: Keys) -> Punctuated:
    """The tuples, with a punctuation after each segment."""
    after = np.cumsum(sizes)
    ends = np.insert(np.zeros(len(ts), np.bool_), after, True)
    number = np.insert(np.arange(len(ts)), after, -1)
    columns = [
        pa.array(np.insert(ts, after, ts[after - 1]), TIMESTAMP),
        pa.array(np.insert(keys, after, closing)),
        pa.array(number, mask=ends),
        pa.array(ends),
    ]
    return Punctuated(pa.Table.from_arrays(columns, schema=PUNCTUATED))
