"""Persons, auctions and bids of an online auction, after NEXMark (Tucker et al.), as in the example of PW 1.2.

Each stream is a table in arrival order. An auction is open in [ts, expires), and its bids have ts in that interval.
When it is over, the bid stream contains a row that is a punctuation and not a bid: no bid for this `item_id` follows.

With a `disorder` of D, bids arrive at ts + delay, 0 <= delay <= D. The row that closes an auction arrives at
expires + D, because the source waits as long as a bid can be delayed. For every bid of the item

    ts + delay <= ts + D < expires + D

so the promise holds for any delays, and lateness in the bid stream is at most D. Persons and auctions arrive in order.
A query that keeps 12 hours of auctions meets some auctions that end before they leave its window, and some that are
open for longer.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lowwater.generate.arrival import SECOND, START, TIMESTAMP, Delay, Times, arrival_order

Ints = npt.NDArray[np.int64]

HOUR = 3600
PERSON = pa.schema({"ts": TIMESTAMP, "id": pa.int64(), "name": pa.string(), "city": pa.string(), "state": pa.string()})
AUCTION = pa.schema(
    {
        "ts": TIMESTAMP,
        "item_id": pa.int64(),
        "seller": pa.int64(),
        "category": pa.int64(),
        "reserve": pa.int64(),
        "expires": TIMESTAMP,
    }
)
BID = pa.schema(
    {"ts": TIMESTAMP, "item_id": pa.int64(), "bidder": pa.int64(), "price": pa.int64(), "closed": pa.bool_()}
)

FIRST = ("Ada", "Ben", "Clara", "David", "Emma", "Felix", "Grace", "Hugo", "Iris", "Jonas", "Kate", "Leo")
LAST = ("Adams", "Baker", "Carter", "Dixon", "Ellis", "Foster", "Grant", "Hughes", "Irving", "Jones", "Keller")
PLACES = (
    ("Phoenix", "AZ"),
    ("Los Angeles", "CA"),
    ("San Francisco", "CA"),
    ("Boise", "ID"),
    ("Bend", "OR"),
    ("Portland", "OR"),
    ("Kent", "WA"),
    ("Seattle", "WA"),
    ("Cheyenne", "WY"),
)
CATEGORIES = 10


@dataclass(frozen=True)
class Auctions:
    """Three streams, each in arrival order. Ids are int64, money is in cents.

    persons    ts, id, name, city, state
    auctions   ts, item_id, seller, category, reserve, expires
    bids       ts, item_id, bidder, price, closed; a row with `closed` is a punctuation with ts = expires of the auction
               and neither bidder nor price
    """

    persons: pa.Table
    auctions: pa.Table
    bids: pa.Table


def auctions(
    n_auctions: int,
    seed: int,
    *,
    seconds: float = 48 * HOUR,
    persons: int | None = None,
    bids: float = 10.0,
    zipf: float = 1.0,
    shortest: float = 300.0,
    longest: float = 36 * HOUR,
    disorder: float = 0.0,
    closing: bool = True,
    start: int = START,
) -> Auctions:
    """Auctions that open uniformly over `seconds`, with their persons and bids.

    Duration  log-uniform between `shortest` and `longest` seconds, one from each of n_auctions equal shares of that
              range, so that even a few auctions last from minutes to more than a day
    Bids      `bids` per auction on average; the auction of popularity rank r gets a share ~ r**-zipf of all, at times
              uniform while it is open. Each bid on an item is higher than the one before it in ts
    Persons   by default half as many as auctions, but at least two. Two exist at the start, the others register
              uniformly over `seconds`. Sellers and bidders have registered before, and no seller bids on their own item
    Disorder  min(Exp(disorder / 6), disorder) seconds of delay for each bid
    Closing   whether the bid stream has punctuations. The bids and their order are the same without them

    >>> stream = auctions(100, seed=1)
    >>> stream.bids.num_rows, stream.bids["closed"].to_pylist().count(True)
    (1100, 100)
    >>> [table.num_rows for table in (stream.persons, stream.auctions)]
    [50, 100]
    """
    known = max(2, n_auctions // 2) if persons is None else persons
    if n_auctions < 1 or known < 2:
        raise ValueError(f"A sale needs an auction and two persons or more, but has {n_auctions} and {known}.")
    if not 0 < shortest <= longest:
        raise ValueError(f"Auctions last 0 < shortest <= longest seconds, but these are {shortest} and {longest}.")
    if seconds < 0 or bids < 0 or disorder < 0:
        raise ValueError(f"seconds, bids and disorder must not be negative: {seconds}, {bids} and {disorder}.")
    rng = np.random.default_rng(seed)
    registered = _uniform(known, seconds, rng)
    registered[:2] = 0  # so that there is always a bidder who is not the seller
    opens = _uniform(n_auctions, seconds, rng)
    share = (rng.permutation(n_auctions) + rng.random(n_auctions)) / n_auctions
    # Rounded up, an auction lasts a tick or more and has room for bids.
    lasts = np.ceil(shortest * (longest / shortest) ** share * SECOND).astype(np.int64)
    seller = _below(np.searchsorted(registered, opens, "right"), rng)
    reserve = rng.lognormal(np.log(5000), 1, n_auctions).astype(np.int64) + 100
    sale = _Sale(registered, opens, opens + lasts, seller, reserve)
    return Auctions(
        _persons(registered + start * SECOND, rng),
        sale.table(start * SECOND, rng),
        sale.bids(round(n_auctions * bids), zipf, round(disorder * SECOND), closing, start * SECOND, rng),
    )


@dataclass(frozen=True)
class _Sale:
    """Persons by id and auctions by item_id, both by ascending time. Times are ticks since `zero`, which tables add."""

    registered: Times
    opens: Times
    expires: Times
    seller: Ints
    reserve: Ints

    def table(self, zero: int, rng: np.random.Generator) -> pa.Table:
        columns = [
            pa.array(self.opens + zero, TIMESTAMP),
            pa.array(np.arange(len(self.opens))),
            pa.array(self.seller),
            pa.array(rng.integers(0, CATEGORIES, len(self.opens))),
            pa.array(self.reserve),
            pa.array(self.expires + zero, TIMESTAMP),
        ]
        return pa.Table.from_arrays(columns, schema=AUCTION)

    def bids(self, n: int, zipf: float, most: int, closing: bool, zero: int, rng: np.random.Generator) -> pa.Table:
        """n bids, delayed by at most `most`, and the rows that close their auctions."""
        popularity = rng.permutation(np.arange(1, len(self.opens) + 1)) ** -float(zipf)
        item = np.sort(rng.choice(len(self.opens), n, p=popularity / popularity.sum()))
        ts = self.opens[item] + _below((self.expires - self.opens)[item], rng)
        ts = ts[np.lexsort((ts, item))]  # the bids on an item in order of time, as prices need them
        bidder = _below(np.searchsorted(self.registered, ts, "right") - 1, rng)
        bidder += bidder >= self.seller[item]  # drawn from all but the seller
        price = _prices(item, self.reserve, rng)
        arrival = ts + Delay(most // 6, most).draw(n, rng)

        over = self.expires if closing else self.expires[:0]
        absent = np.zeros(len(over), np.int64)
        closed = np.repeat([False, True], [n, len(over)])
        ts = np.append(ts, over)
        columns = [
            pa.array(ts + zero, TIMESTAMP),
            pa.array(np.append(item, np.arange(len(over)))),
            pa.array(np.append(bidder, absent), mask=closed),
            pa.array(np.append(price, absent), mask=closed),
            pa.array(closed),
        ]
        rows = pa.Table.from_arrays(columns, schema=BID)
        return rows.take(arrival_order(ts, np.append(arrival, over + most)))


def _uniform(n: int, seconds: float, rng: np.random.Generator) -> Times:
    """Draws ticks uniformly in [0, seconds), in ascending order."""
    return np.sort((rng.random(n) * seconds * SECOND).astype(np.int64))


def _below(ends: Ints, rng: np.random.Generator) -> Ints:
    """Draws, for each end, a uniform number in [0, end)."""
    return rng.integers(0, ends, dtype=np.int64)


def _prices(item: Ints, reserve: Ints, rng: np.random.Generator) -> Ints:
    """Prices of bids sorted by item and ts: each raises the one before it by up to a tenth of the item's reserve.

    The first bid raises half of the reserve, so that some auctions stay below their reserve and others exceed it.
    """
    raised = np.cumsum(1 + _below(reserve[item] // 10, rng))
    before = np.insert(raised, 0, 0)[np.searchsorted(item, item)]  # raises on all items before this one
    return reserve[item] // 2 + raised - before


def _persons(registered: Times, rng: np.random.Generator) -> pa.Table:
    n = len(registered)
    names = pa.array([f"{first} {last}" for first in FIRST for last in LAST])
    cities, states = (pa.array(column) for column in zip(*PLACES, strict=True))
    place = pa.array(rng.integers(0, len(PLACES), n))
    columns = [
        pa.array(registered, TIMESTAMP),
        pa.array(np.arange(n)),
        names.take(pa.array(rng.integers(0, len(names), n))),
        cities.take(place),
        states.take(place),
    ]
    return pa.Table.from_arrays(columns, schema=PERSON)
