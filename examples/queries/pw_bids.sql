-- PW 1.2: the number of bids on each auction within 12 hours of its opening. A punctuation ends the bids on an auction.

CREATE STREAM Auction (ts TIMESTAMP, item_id BIGINT, seller BIGINT)
PROGRESS ts ORDERED UNIQUE item_id
FROM auctions OPTIONS (auctions 40, seed 1, disorder 60);

CREATE STREAM Bid (ts TIMESTAMP, item_id BIGINT, price BIGINT, closed BOOLEAN)
PROGRESS ts DISORDER 1 MINUTE ENDS item_id WHEN closed
FROM bids OPTIONS (auctions 40, seed 1, disorder 60);

SELECT Auction.item_id, count(*)
FROM Auction [RANGE 12 hours, WA ts], Bid [RANGE UNBOUNDED]
WHERE Auction.item_id = Bid.item_id
GROUP BY Auction.item_id;
