"""Streams with punctuations among their tuples: the arrival patterns of the punctuated window join (PW 5.1, 6.1).

A punctuation of a join value says that no tuple after it carries that value. The tuples between two punctuations are a
segment. The paper names a pattern by the order of the punctuated values, the mean size of a segment, and the mean
percentage of a segment's tuples that carry the value of the punctuation which concludes it:

    cluster-[order]-[size]            all of them do: tuples with the same value arrive successively
    punct-[order]-[size]-[match]      some do, the others carry values whose punctuation is still to come

Values are 0, 1, ..., values - 1 in every pattern, each punctuated once, so that two streams made with the same number
of values and different seeds have all of them in common. What the paper leaves open is settled thus:

- The size of a segment is 1 + Poisson(size - 1). A punctuation follows the last tuple with its value (PW 5.1), so no
  segment is empty; the mean is the one in the name, and with size 1 every tuple is followed by its punctuation, which
  is the paper's unique arrival.
- The tuples that do not match carry one of the next `ahead` values to be punctuated. Were they drawn from all that is
  still open, hardly any two of them would meet in a window.
- The last tuple of a segment is among those that match, if there are any.
- Gaps between arrivals are geometric, which is the Poisson process counted in whole ticks: the times ascend strictly.
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
    """A pattern: the order of punctuated values, mean tuples a segment, and mean percentage of them that match.

    Without a percentage the pattern is clustered: all tuples of a segment match. That is not the same as `match=100`,
    where the percentage is drawn from Poisson(100), and about half the draws fall below.
    """

    order: str
    size: int
    match: int | None = None

    def __post_init__(self) -> None:
        if self.order not in ORDERS:
            raise ValueError(f"Punctuations arrive in the order {', '.join(ORDERS)}, but {self.order!r} is asked for.")
        if self.size < 1:
            raise ValueError(f"A segment has a mean size of one tuple or more, but {self.size} is asked for.")
        if self.match is not None and not 0 <= self.match <= 100:
            raise ValueError(f"A match is a percentage from 0 to 100, but {self.match} is asked for.")

    def __str__(self) -> str:
        clustered = f"cluster-{self.order}-{self.size}"
        return clustered if self.match is None else f"punct-{self.order}-{self.size}-{self.match}"


def pattern(name: str) -> Arrival:
    """The pattern that the paper gives this name.

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
    """A stream with this pattern, or the pattern of this name, in which `values` values come to their end.

    every       mean seconds between two tuples
    ahead       tuples that do not match carry one of the next `ahead` values to be punctuated, or of those left; the
                last segment, where none is left, matches wholly
    within      in random order, no value is punctuated more than so many places from its place in ascending order; any
                order is as likely as any other if this is not said. Two streams share more open values if it is small
    irrelevant  punctuations come when they would, but for values in [-values, 0), which no tuple of any stream has

    >>> stream = punctuated("cluster-desc-1", values=3, seed=1)
    >>> stream.rows["key"].to_pylist()
    [2, 2, 1, 1, 0, 0]
    >>> stream.rows["ends"].to_pylist()
    [False, True, False, True, False, True]
    >>> stream.rows["id"].to_pylist()
    [0, None, 1, None, 2, None]
    """
    asked = pattern(arrival) if isinstance(arrival, str) else arrival
    if values < 1 or ahead < 1:
        raise ValueError(f"A stream needs values = 1 or more and ahead = 1 or more, but has {values} and {ahead}.")
    rng = np.random.default_rng(seed)
    closing = _order(asked.order, values, within, rng)
    sizes = 1 + rng.poisson(asked.size - 1, values)
    segment = np.repeat(np.arange(values), sizes)
    keys = closing[segment]
    if asked.match is not None:
        other = ~_matching(sizes, segment, asked.match, rng)
        left = np.minimum(ahead, values - 1 - segment[other])
        keys[other] = closing[segment[other] + rng.integers(1, left, endpoint=True)]
    return _table(_times(len(keys), every, start, rng), keys, sizes, closing - values if irrelevant else closing)


def unpunctuated(rows: int, values: int, seed: int, *, every: float = 0.010, start: int = START) -> Punctuated:
    """Tuples whose values are uniform in [0, values), and no punctuation at all (PW 6.3).

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
    """Which tuples carry the value that their segment ends with: a Poisson(match) percentage of each segment."""
    share = np.minimum(rng.poisson(match, len(sizes)), 100) / 100
    # Rounded up as often as the fraction says: even in segments of few tuples the mean is the one asked for.
    wanted = np.floor(sizes * share + rng.random(len(sizes)))
    wanted[-1] = sizes[-1]
    after = np.cumsum(sizes)
    turn = rng.random(len(segment))
    turn[after - 1] = -1  # the last tuple of a segment is the first to be chosen
    chosen = np.empty(len(segment), np.bool_)
    chosen[np.lexsort((turn, segment))] = np.arange(len(segment)) - (after - sizes)[segment] < wanted[segment]
    return chosen


def _times(n: int, every: float, start: int, rng: np.random.Generator) -> Times:
    if every * SECOND < 1:
        raise ValueError(f"Tuples are a microsecond or more apart on average, but every is {every} seconds.")
    return start * SECOND + np.cumsum(rng.geometric(1 / (every * SECOND), n), dtype=np.int64)


def _table(ts: Times, keys: Keys, sizes: Keys, closing: Keys) -> Punctuated:
    """The tuples, and after each segment its punctuation."""
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
