-- TH Q5-8: pairs of packets: Main1's follow within 2 minutes, Main2's within 3 minutes.

CREATE STREAM Main1 (ts TIMESTAMP, srcIP STRING, srcPort INT, destIP STRING, destPort INT, len INT)
PROGRESS ts DISORDER 3 SECONDS
FROM packets OPTIONS (link 'Main1', rows 250, seconds 600, seed 1, hosts 12);
CREATE STREAM Main2 (ts TIMESTAMP, srcIP STRING, srcPort INT, destIP STRING, destPort INT, len INT)
PROGRESS ts DISORDER 3 SECONDS
FROM packets OPTIONS (link 'Main2', rows 250, seconds 600, seed 1, hosts 12);

SELECT Main1.srcIP, Main1.destIP, Main2.srcIP, Main2.destIP, Main2.ts FROM Main1 [RANGE 3 minutes, WA ts], Main2 [RANGE 2 minutes, WA ts] WHERE Main1.srcIP = Main2.destIP;
