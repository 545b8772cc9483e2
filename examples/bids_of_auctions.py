"""Counts the bids of each auction within 12 hours of its opening, and answers as soon as the auction is over (PWJoin).

An item is auctioned once, so bids are not kept. A row with `closed` ends its item. The state has only open auctions.

Prints:

    after 3 bids: [], 4 rows held
    180 is closed: [(180, 2)], 2 rows held
    past the 12 hours of 181: [(181, 1)], 2 rows held
    a bid for 180 after its end: its input has ended this value
"""

import pyarrow as pa

import lowwater as lw

OPENED = pa.schema([("hour", pa.int64()), ("item", pa.int64())])
BID = pa.schema([*OPENED, ("price", pa.int64()), ("closed", pa.bool_())])

auctions = lw.stream(OPENED.empty_table(), name="auctions", progress="hour", disorder=lw.ordered()).unique("item")
bids = lw.stream(BID.empty_table(), name="bids", progress="hour", disorder=1).ends("item", when="closed")
query = auctions.join(bids, on="item", within=(0, 12)).group_by("item").agg(n=lw.count()).start()


def bid(hour: int, item: int, price: int | None = None) -> dict[str, object]:
    return {"hour": hour, "item": item, "price": price, "closed": price is None}


def counts(rows: pa.Table) -> str:
    return f"{[(row['item'], row['n']) for row in rows.to_pylist()]}, {query.metrics().state_rows} rows held"


query.push([{"hour": 1, "item": 180}, {"hour": 2, "item": 181}], port=0)
print("after 3 bids:", counts(query.push([bid(3, 180, 50), bid(3, 181, 9), bid(4, 180, 60)], port=1)))
print("180 is closed:", counts(query.push([bid(5, 180)], port=1)))
query.push([bid(6, 180, 70)], port=1)
query.push([{"hour": 20, "item": 182}], port=0)
print("past the 12 hours of 181:", counts(query.push([bid(20, 182, 1)], port=1)))
print("a bid for 180 after its end:", query.late_output()["late_reason"][0])
