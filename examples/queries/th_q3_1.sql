-- TH Q3-1: pairs of packets; Main1's wait 3 minutes for Main2's, which wait 2 minutes.

CREATE STREAM Main1 (ts TIMESTAMP, srcIP STRING, srcPort INT, destIP STRING, destPort INT, len INT)
PROGRESS ts DISORDER 3 SECONDS
FROM packets OPTIONS (link 'Main1', rows 250, seconds 600, seed 1, hosts 12);
CREATE STREAM Main2 (ts TIMESTAMP, srcIP STRING, srcPort INT, destIP STRING, destPort INT, len INT)
PROGRESS ts DISORDER 3 SECONDS
FROM packets OPTIONS (link 'Main2', rows 250, seconds 600, seed 1, hosts 12);

SELECT *
FROM Main1 [WA ts, RANGE 3 min],
Main2 [WA ts, RANGE 2 min]
WHERE Main1.srcIP = Main2.destIP;
