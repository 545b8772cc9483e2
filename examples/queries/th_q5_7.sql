-- TH Q5-7: pairs of packets of the same 5 minutes.

CREATE STREAM Main1 (ts TIMESTAMP, srcIP STRING, srcPort INT, destIP STRING, destPort INT, len INT)
PROGRESS ts DISORDER 3 SECONDS
FROM packets OPTIONS (link 'Main1', rows 250, seconds 600, seed 1, hosts 12);
CREATE STREAM Main2 (ts TIMESTAMP, srcIP STRING, srcPort INT, destIP STRING, destPort INT, len INT)
PROGRESS ts DISORDER 3 SECONDS
FROM packets OPTIONS (link 'Main2', rows 250, seconds 600, seed 1, hosts 12);

SELECT Main1.srcIP, Main1.destIP, Main2.srcIP, Main2.destIP, Main2.ts FROM Main1, Main2

[RANGE TUMBLING 5 minutes, WA ts], WHERE Main1.srcIP = Main2.destIP;
