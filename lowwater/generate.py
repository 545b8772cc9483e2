"""Seeded streams that arrive late, out of order and out of step: the same seed always gives the same stream.

A stream is a set of tuples with data time ts and an arrival order. Times are int64 ticks, microseconds in the tables.
The model everywhere is

    arrival(i) = ts(i) + lag(source of i) + delay(i),      0 <= delay(i) <= D

and tuples arrive in order of arrival(i), ties in order of ts. A tuple that has overtaken i, so that ts(j) > ts(i) while
arrival(j) <= arrival(i), is ahead of it by

    ts(j) - ts(i) <= lag(i) - lag(j) + delay(i) - delay(j) <= D + (max lag - min lag)

Hence the lateness of i, the distance to the largest ts that arrived before it, never exceeds D within one source and
D plus the spread of the lags in a union. With a slack of that much, no tuple is late.

The two other patterns, band and block-sorted disorder, are those of TH 6.1.5.1.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

Times = npt.NDArray[np.int64]
Order = npt.NDArray[np.intp]
"""A permutation: the i-th tuple to arrive is tuple order[i]."""

SECOND = 1_000_000
"""Ticks in a second."""
START = 1_700_000_000
"""Data time zero of generated tables, in seconds since the epoch."""

TIMESTAMP = pa.timestamp("us", "UTC")
PACKET = pa.schema(
    {
        "ts": TIMESTAMP,
        "link": pa.string(),
        "srcIP": pa.string(),
        "srcPort": pa.int32(),
        "destIP": pa.string(),
        "destPort": pa.int32(),
        "len": pa.int32(),
    }
)
KEYED = pa.schema({"ts": TIMESTAMP, "key": pa.int64(), "val": pa.float64()})


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
    """Block-sorted disorder: blocks [b*length, (b+1)*length) arrive in order, the tuples of a block shuffled.

    As from a router that collects records and empties its cache once in `length` ticks. Lateness is below `length`,
    and no slack shorter than that fits, though a window that ends with a block is complete as soon as the block is.
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
    """Tuples by arrival; those that arrive at the same tick in order of their times."""
    return np.lexsort((times, arrival))


def lateness(times: Times) -> Times:
    """For times in arrival order: max(0, max{t(j) : j < i} - t(i)), how far each tuple is behind the newest before it.

    >>> lateness(np.array([10, 30, 25, 40, 10]))
    array([ 0,  0,  5,  0, 30])
    """
    return np.maximum.accumulate(times) - times


@dataclass(frozen=True)
class Packets:
    """Packets in arrival order, and the largest lateness (in ticks) that occurs in the union and on each link."""

    table: pa.Table
    disorder: int
    disorder_of_link: dict[str, int]


def packets(
    rows: int,
    seconds: float,
    seed: int,
    links: Sequence[str] = ("Control", "Main1", "Main2"),
    *,
    quiet: float = 0.001,
    skew: float = 5.0,
    max_delay: float = 3.0,
    lull: tuple[float, float, float] = (0.5, 0.7, 0.8),
    hosts: int = 1000,
    zipf: float = 1.3,
    start: int = START,
) -> Packets:
    """Network packets on three links for the queries of the thesis (Q1-2, Q3-1, Q6-8).

    Rates   the first link carries the fraction `quiet` of all rows (at least one), the others share the rest equally
    Skew    link i lags by skew * max(0, i - 1) seconds: the first two are in step, the third is `skew` behind
    Delay   min(Exp(max_delay / 6), max_delay) seconds for each packet, so lateness is at most
            max_delay on a link and max_delay + skew * (links - 2) in the union
    Lull    with lull = (a, b, c), fractions of the whole: the first link has no ts in [a, c), all have none in [b, c)
    Hosts   srcIP has rank (Z - 1) mod hosts, P(Z = z) ~ z**-zipf; destIP is uniform over the same hosts

    Nothing arrives from b*seconds + (largest lag) + max_delay to c*seconds, if that is not empty.

    >>> stream = packets(1000, 600, seed=1)
    >>> stream.table.num_rows, stream.disorder <= 8 * SECOND
    (1000, True)
    """
    a, b, c = lull
    if not 0 <= a <= b <= c < 1:
        raise ValueError(f"A lull needs fractions 0 <= a <= b <= c < 1 of the whole, but is {lull}.")
    if rows < len(links) or len(links) < 2:
        raise ValueError(f"Packets need two links or more and a row for each, but have {len(links)} and {rows}.")
    rng = np.random.default_rng(seed)
    busy = len(links) - 1
    control = min(max(1, round(rows * quiet)), rows - busy)
    counts = [control, *((rows - control + i) // busy for i in range(busy))]
    link = np.repeat(np.arange(len(links)), counts)
    silent_from = np.where(link == 0, a, b)
    # Uniform over the active time, then moved past the silence: ts never falls into it.
    at = rng.random(rows) * (1 - (c - silent_from))
    at += np.where(at < silent_from, 0, c - silent_from)
    ts = (at * seconds * SECOND).astype(np.int64)

    most = round(max_delay * SECOND)
    lag = np.round(skew * np.maximum(0, link - 1) * SECOND).astype(np.int64)
    order = arrival_order(ts, ts + lag + Delay(most // 6, most).draw(rows, rng))
    ts, link = ts[order], link[order]

    address = pa.array([f"10.{h >> 16 & 255}.{h >> 8 & 255}.{h & 255}" for h in range(hosts)])
    short = rng.random(rows) < 0.4  # acknowledgements and the like
    length = np.where(short, rng.integers(40, 100, rows), rng.integers(576, 1500, rows, endpoint=True))
    columns = [
        pa.array(ts + start * SECOND, TIMESTAMP),
        pa.array(links).take(pa.array(link)),
        address.take(pa.array((rng.zipf(zipf, rows) - 1) % hosts)),
        pa.array(rng.integers(32768, 61000, rows), pa.int32()),
        address.take(pa.array(rng.integers(0, hosts, rows))),
        pa.array(rng.choice([443, 80, 53, 22, 8080], rows, p=[0.5, 0.2, 0.15, 0.1, 0.05]), pa.int32()),
        pa.array(length, pa.int32()),
    ]
    return Packets(
        pa.Table.from_arrays(columns, schema=PACKET),
        int(lateness(ts).max()),
        {name: int(lateness(ts[link == i]).max()) for i, name in enumerate(links)},
    )


def keyed(
    rows: int,
    seconds: float,
    keys: int,
    seed: int,
    max_delay: float = 3.0,
    start: int = START,
) -> pa.Table:
    """Measurements with a skewed key, in arrival order: ts ~ U[0, seconds), key = Z mod keys, val ~ N(0, 1).

    P(Z = z) ~ z**-1.3; arrival = ts + min(Exp(0.5 s), max_delay), so lateness is at most max_delay seconds.

    >>> keyed(3, 60, keys=10, seed=1).column_names
    ['ts', 'key', 'val']
    """
    rng = np.random.default_rng(seed)
    ts = np.sort((rng.uniform(0, seconds, rows) * SECOND).astype(np.int64))
    ts = ts[disorder(ts, rng, Delay(most=round(max_delay * SECOND)))]
    columns = [
        pa.array(ts + start * SECOND, TIMESTAMP),
        pa.array(rng.zipf(1.3, rows) % keys, pa.int64()),
        pa.array(rng.normal(size=rows)),
    ]
    return pa.Table.from_arrays(columns, schema=KEYED)


def write_files(table: pa.Table, directory: str | os.PathLike[str], files: int, first: int = 0) -> list[Path]:
    """Cut a table in arrival order into parquet files that Spark's file source reads in that order.

    The source takes files by modification time, so file i gets the time `START + i`. Each appears under its name only
    when complete: a name that begins with a dot is not read. A directory that holds parquet files already is refused,
    since a source would read them too, unless these files go on after them, from number `first`.
    """
    if files < 1:
        raise ValueError(f"A table is written as one file or more, but files is {files}.")
    into = Path(directory)
    into.mkdir(parents=True, exist_ok=True)
    if len(list(into.glob("*.parquet"))) != first:
        raise ValueError(f"{into} does not hold {first} parquet files; give an empty directory, or go on after them.")
    cuts = [table.num_rows * i // files for i in range(files + 1)]
    written = []
    for i, (begin, stop) in enumerate(pairwise(cuts), start=first):
        path = into / f"part-{i:05d}.parquet"
        hidden = into / f".{path.name}"
        pq.write_table(table.slice(begin, stop - begin), hidden)
        os.utime(hidden, (START + i, START + i))
        written.append(hidden.rename(path))
    return written
