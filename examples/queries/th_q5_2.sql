-- TH Q5-2: the longest of the past 1000 packets from each source IP, every 10 packets from it.

CREATE STREAM Main (ts TIMESTAMP, srcIP STRING, srcPort INT, destIP STRING, destPort INT, len INT)
PROGRESS ts DISORDER 3 SECONDS
FROM packets OPTIONS (link 'Main1', rows 4000, seconds 600, seed 1, hosts 3);

SELECT srcIP, max(len) [RANGE 1000 rows, SLIDE 10 rows, WA row-num, PA srcIP] FROM Main;
