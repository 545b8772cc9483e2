"""The auction query of the paper: bids of each auction within 12 hours of its opening, counted when it closes."""

from __future__ import annotations

from dataclasses import dataclass, field

import pyarrow as pa
import pytest

import lowwater as lw
from lowwater.generate.auctions import HOUR, Auctions, auctions

WINDOW = 12 * HOUR * 10**6


def micros(table: pa.Table, name: str) -> list[int]:
    return list(table[name].cast(pa.int64()).to_pylist())


@dataclass
class Sale:
    """What has come of an auction stream, and what a plain computation says of it."""

    data: Auctions
    disorder: int
    opened: dict[int, int] = field(default_factory=dict)
    bids: list[tuple[int, int]] = field(default_factory=list)
    closed: dict[int, int] = field(default_factory=dict)
    """Item -> how many pushes had come when it closed."""

    def counts(self) -> dict[int, int]:
        """Bids of each auction within its first 12 hours."""
        found: dict[int, int] = {}
        for item, ts in self.bids:
            if 0 <= ts - self.opened[item] <= WINDOW:
                found[item] = found.get(item, 0) + 1
        return found

    def low(self) -> int:
        """How far the bids are."""
        return max(ts for _, ts in self.bids) - self.disorder if self.bids else -(10**18)

    def open(self) -> set[int]:
        """Auctions that have not closed and are younger than 12 hours."""
        return {i for i, ts in self.opened.items() if i not in self.closed and ts + WINDOW >= self.low()}

    def ahead(self) -> int:
        """Bids that are newer than all auctions, for one that opened so long ago that this is forgotten."""
        newest = max(self.opened.values())
        old = min(newest, self.low()) - 2 * WINDOW
        return sum(ts >= newest and self.opened[item] < old and item not in self.closed for item, ts in self.bids)


@pytest.mark.parametrize("shards", [1, 2])
@pytest.mark.parametrize("disorder", [0, 1800])
def test_bids_of_an_auction_are_counted_when_it_closes_and_only_open_auctions_are_kept(
    shards: int, disorder: int
) -> None:
    data = auctions(60, seed=7, bids=6, disorder=disorder)
    opened = lw.stream(data.auctions.schema.empty_table(), name="auctions", progress="ts", disorder=lw.ordered())
    bids = lw.stream(data.bids.schema.empty_table(), name="bids", progress="ts", disorder=f"{disorder} seconds")
    joined = opened.unique("item_id").join(
        bids.ends("item_id", when="closed"), on="item_id", within=("0 seconds", "12 hours")
    )
    query = joined.group_by("item_id").agg(n=lw.count()).start(shards=shards)
    sale = Sale(data, disorder * 10**6)
    answered: dict[int, int] = {}
    before_the_window_was_over = exactly = pushes = 0
    for n, (port, table) in enumerate(interleaved(data)):
        if n % 7 == 3:
            query.restart()
        out = query.push(table, port)
        hears(sale, port, table, n)
        for row in out.to_pylist():
            assert row["item_id"] not in answered, "each group once"
            answered[row["item_id"]] = row["n"]
            before_the_window_was_over += sale.opened[row["item_id"]] + WINDOW >= sale.low()
        # An auction is over when it has closed or 12 hours have passed: what was counted then is the answer.
        counts = sale.counts()
        due = {item: count for item, count in counts.items() if item not in sale.open()}
        assert answered == due
        needed = len(sale.open()) + len(counts.keys() - due.keys())
        assert needed <= query.metrics().state_rows <= needed + sale.ahead()
        exactly, pushes = exactly + (query.metrics().state_rows == needed), pushes + 1
    assert before_the_window_was_over > 20
    assert exactly > 0.9 * pushes
    query.finish()
    for row in query.result().to_pylist():
        answered[row["item_id"]] = row["n"]
    assert answered == sale.counts()
    assert (query.metrics().late_rows, query.metrics().state_rows) == (0, 0)


def interleaved(data: Auctions) -> list[tuple[int, pa.Table]]:
    """Both streams cut at the same hours of arrival, auctions first: a bid follows its auction."""
    out = []
    newest = 0
    arrival = []
    for ts in micros(data.bids, "ts"):
        newest = max(newest, ts)
        arrival.append(newest)
    opens = micros(data.auctions, "ts")
    start, step = opens[0], 2 * HOUR * 10**6
    for hour in range(start, max(arrival) + step, step):
        for port, (times, table) in enumerate(((opens, data.auctions), (arrival, data.bids))):
            some = [n for n, ts in enumerate(times) if hour <= ts < hour + step]
            if some:
                out.append((port, table.slice(some[0], len(some))))
    return out


def hears(sale: Sale, port: int, table: pa.Table, n: int) -> None:
    items, times = table["item_id"].to_pylist(), micros(table, "ts")
    if port == 0:
        sale.opened |= dict(zip(items, times, strict=True))
        return
    for item, ts, closed in zip(items, times, table["closed"].to_pylist(), strict=True):
        if closed:
            sale.closed[item] = n
        else:
            sale.bids.append((item, ts))
