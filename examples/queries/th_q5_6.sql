-- TH Q5-6: count the packets of the past 5 minutes, at every 5th packet in order of ts.

CREATE STREAM Main (ts TIMESTAMP, srcIP STRING, srcPort INT, destIP STRING, destPort INT, len INT)
PROGRESS ts DISORDER 3 SECONDS
FROM packets OPTIONS (link 'Main1', rows 400, seconds 600, seed 1, hosts 12);

SELECT count(*)

[RANGE 5 minutes, RATTR ts, SLIDE 5 rows, SATTR rank(ts)] FROM Main;
