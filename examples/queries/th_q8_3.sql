-- TH Q8-3: pairs of one NetFlow in the same 10 seconds, from two unions of links.

CREATE STREAM A (ts TIMESTAMP, srcIP STRING, srcPort INT, destIP STRING, destPort INT, len INT)
PROGRESS ts DISORDER 3 SECONDS
FROM packets OPTIONS (link 'Main1', rows 400, seconds 120, seed 1, hosts 12);
CREATE STREAM B (ts TIMESTAMP, srcIP STRING, srcPort INT, destIP STRING, destPort INT, len INT)
PROGRESS ts DISORDER 3 SECONDS
FROM packets OPTIONS (link 'Main2', rows 400, seconds 120, seed 1, hosts 12);
CREATE STREAM SentA (ts TIMESTAMP, srcIP STRING, srcPort INT, destIP STRING, destPort INT, len INT)
PROGRESS ts DISORDER 3 SECONDS
FROM packets OPTIONS (link 'Main1', rows 400, seconds 120, seed 1, hosts 12);
CREATE VIEW C AS
SELECT ts, destIP AS srcIP, destPort AS srcPort, srcIP AS destIP, srcPort AS destPort, len FROM SentA;
CREATE STREAM SentB (ts TIMESTAMP, srcIP STRING, srcPort INT, destIP STRING, destPort INT, len INT)
PROGRESS ts DISORDER 3 SECONDS
FROM packets OPTIONS (link 'Main2', rows 400, seconds 120, seed 1, hosts 12);
CREATE VIEW D AS
SELECT ts, destIP AS srcIP, destPort AS srcPort, srcIP AS destIP, srcPort AS destPort, len FROM SentB;

SELECT M1.srcIP, M1.destIP, M1.ts
FROM A UNION B as M1, C UNION D as M2
[RANGE TUMBLING 10 seconds, WA ts],
WHERE M1.srcIP = M2.destIP and M1.destIP = M2.srcIP and M1.srcPort = M2.destPort and M1.destPort = M2.srcPort;
