"""Generators of streams that arrive late, out of order and out of step: network packets, and keyed measurements."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lowwater.generate.arrival import SECOND, START, TIMESTAMP, Delay, arrival_order, disorder, lateness

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


@dataclass(frozen=True)
class Packets:
    """Packets in arrival order, with the largest lateness (in ticks) in the union and on each link."""

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
    # Uniform over the active time, then shifted past the lull, so that no ts is in the lull.
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
