"""Auctions: bids come while their auction is open, and none after the row that closes it."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lowwater.generate import SECOND, START, TIMESTAMP, lateness
from lowwater.generate.auctions import HOUR, Auctions, auctions

Ints = npt.NDArray[np.int64]
STREAM = auctions(500, seed=1)
LATE = auctions(500, seed=1, disorder=60.0)


def ints(table: pa.Table, column: str) -> Ints:
    return np.asarray(table[column].cast(pa.int64()), np.int64)


def placed(stream: Auctions) -> pa.Table:
    """The bids without the rows that close."""
    return stream.bids.filter(pc.invert(stream.bids["closed"]))


def closings(stream: Auctions) -> pa.Table:
    return stream.bids.filter(stream.bids["closed"])


@pytest.mark.parametrize("options", [{}, {"disorder": 30.0}, {"closing": False}])
def test_the_seed_decides_the_streams(options: dict[str, Any]) -> None:
    assert auctions(50, 3, **options) == auctions(50, 3, **options)
    assert auctions(50, 3, **options) != auctions(50, 4, **options)


@given(
    st.integers(1, 40),
    st.integers(0, 2**32 - 1),
    st.floats(0, 10_000),
    st.floats(0, 20),
    st.floats(0, 3),
    st.floats(1e-6, 1000),
)
def test_no_bid_follows_the_row_that_closes_its_auction(
    n: int, seed: int, disorder: float, bids: float, zipf: float, shortest: float
) -> None:
    stream = auctions(n, seed, disorder=disorder, bids=bids, zipf=zipf, shortest=shortest, seconds=1000, longest=2000)
    ended: set[int] = set()
    for row in stream.bids.to_pylist():
        assert row["item_id"] not in ended
        if row["closed"]:
            ended.add(row["item_id"])
    assert ended == set(range(n))
    assert lateness(ints(stream.bids, "ts")).max() <= round(disorder * SECOND)


def test_without_disorder_every_stream_is_in_order() -> None:
    for table in (STREAM.persons, STREAM.auctions, STREAM.bids):
        assert (np.diff(ints(table, "ts")) >= 0).all()


def test_disorder_shuffles_the_bids_and_no_more() -> None:
    assert 30 * SECOND < lateness(ints(placed(LATE), "ts")).max() <= 60 * SECOND
    assert LATE.persons.equals(STREAM.persons)
    assert LATE.auctions.equals(STREAM.auctions)
    keys = [("ts", "ascending"), ("item_id", "ascending"), ("price", "ascending")]
    assert LATE.bids.sort_by(keys).equals(STREAM.bids.sort_by(keys))


@pytest.mark.parametrize("stream", [STREAM, LATE], ids=["ordered", "disordered"])
def test_bids_come_while_their_auction_is_open(stream: Auctions) -> None:
    item, ts = ints(placed(stream), "item_id"), ints(placed(stream), "ts")
    assert (ts >= ints(stream.auctions, "ts")[item]).all()
    assert (ts < ints(stream.auctions, "expires")[item]).all()


@pytest.mark.parametrize("stream", [STREAM, LATE], ids=["ordered", "disordered"])
def test_every_auction_is_closed_once_with_the_time_it_expires(stream: Auctions) -> None:
    item = ints(closings(stream), "item_id")
    assert sorted(item.tolist()) == list(range(500))
    assert (ints(closings(stream), "ts") == ints(stream.auctions, "expires")[item]).all()
    assert closings(stream)["bidder"].null_count == closings(stream)["price"].null_count == 500
    assert placed(stream)["bidder"].null_count == placed(stream)["price"].null_count == 0


@pytest.mark.parametrize("disorder", [0.0, 60.0])
def test_without_closing_the_same_bids_arrive_alone(disorder: float) -> None:
    alone = auctions(500, seed=1, disorder=disorder, closing=False).bids
    assert not pc.any(alone["closed"]).as_py()
    assert alone.equals(placed(LATE if disorder else STREAM))


@pytest.mark.parametrize("n", [20, 500])
def test_auctions_last_from_minutes_to_more_than_a_day(n: int) -> None:
    stream = auctions(n, seed=2)
    hours = (ints(stream.auctions, "expires") - ints(stream.auctions, "ts")) / SECOND / HOUR
    assert 5 / 60 <= hours.min() < 10 / 60
    assert 24 < hours.max() <= 36.1
    assert 0.1 < np.mean(hours > 12) < 0.3
    opens = ints(stream.auctions, "ts") - START * SECOND
    assert 0 <= opens.min() <= opens.max() < 48 * HOUR * SECOND


def test_bids_cluster_around_popular_auctions_and_leave_some_without() -> None:
    counts = np.bincount(ints(placed(STREAM), "item_id"), minlength=500)
    assert counts.sum() == 5000
    assert counts.max() > 20 * np.median(counts)
    assert (counts == 0).any()
    even = np.bincount(ints(placed(auctions(500, seed=1, zipf=0.0)), "item_id"), minlength=500)
    assert even.max() < 30


def test_popularity_says_nothing_about_opening_or_duration() -> None:
    counts = np.bincount(ints(placed(STREAM), "item_id"), minlength=500)
    rank = counts.argsort().argsort()
    lasts = ints(STREAM.auctions, "expires") - ints(STREAM.auctions, "ts")
    assert abs(np.corrcoef(rank, np.arange(500))[0, 1]) < 0.15
    assert abs(np.corrcoef(rank, np.log(lasts))[0, 1]) < 0.15


def test_prices_of_an_item_rise_with_time() -> None:
    bids = placed(LATE).sort_by([("item_id", "ascending"), ("ts", "ascending")])
    item, price = ints(bids, "item_id"), ints(bids, "price")
    assert (np.diff(price)[np.diff(item) == 0] > 0).all()
    assert price.min() > 0
    reserve = ints(STREAM.auctions, "reserve")
    last = np.flatnonzero(np.diff(item, append=-1))
    met = price[last] >= reserve[item[last]]
    assert 0.1 < met.mean() < 0.9


@given(st.integers(1, 30), st.integers(2, 20), st.integers(0, 2**32 - 1))
def test_sellers_and_bidders_have_registered_and_no_seller_bids(n: int, persons: int, seed: int) -> None:
    stream = auctions(n, seed, persons=persons)
    registered, seller = ints(stream.persons, "ts"), ints(stream.auctions, "seller")
    bids = placed(stream)
    assert (registered[seller] <= ints(stream.auctions, "ts")).all()
    assert (registered[ints(bids, "bidder")] <= ints(bids, "ts")).all()
    assert (ints(bids, "bidder") != seller[ints(bids, "item_id")]).all()


def test_columns_and_their_types() -> None:
    assert STREAM.persons.schema.names == ["ts", "id", "name", "city", "state"]
    assert STREAM.auctions.schema.names == ["ts", "item_id", "seller", "category", "reserve", "expires"]
    assert STREAM.bids.schema.names == ["ts", "item_id", "bidder", "price", "closed"]
    assert STREAM.auctions.schema.field("expires").type == TIMESTAMP
    assert STREAM.bids.schema.field("price").type == STREAM.bids.schema.field("bidder").type == pa.int64()
    assert ints(STREAM.auctions, "item_id").tolist() == list(range(500))
    assert ints(STREAM.persons, "id").tolist() == list(range(250))
    places = {(row["city"], row["state"]) for row in STREAM.persons.to_pylist()}
    assert len({city for city, _ in places}) == len(places)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"n_auctions": 0}, "two persons or more"),
        ({"persons": 1}, "two persons or more"),
        ({"shortest": 0.0}, "0 < shortest <= longest"),
        ({"shortest": 10.0, "longest": 5.0}, "0 < shortest <= longest"),
        ({"disorder": -1.0}, "must not be negative"),
    ],
)
def test_sales_that_cannot_be_are_refused(options: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        auctions(**{"n_auctions": 10, "seed": 1, **options})
