-- TH Q5-5: the longest packet of the past 5 minutes, at every packet.

CREATE STREAM Main (ts TIMESTAMP, srcIP STRING, srcPort INT, destIP STRING, destPort INT, len INT)
PROGRESS ts DISORDER 3 SECONDS
FROM packets OPTIONS (link 'Main1', rows 400, seconds 600, seed 1, hosts 12);

SELECT max(len)

[RANGE 5 minutes, RATTR ts, SLIDE 1 row, SATTR row-num] FROM Main;
