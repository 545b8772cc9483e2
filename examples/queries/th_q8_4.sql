-- TH Q8-4: pairs of one NetFlow in the same minute; one side is a union with a late link.

CREATE STREAM M1 (ts TIMESTAMP, srcIP STRING, srcPort INT, destIP STRING, destPort INT, len INT)
PROGRESS ts DISORDER 3 SECONDS
FROM packets OPTIONS (link 'Main1', rows 400, seconds 600, seed 1, hosts 12);
CREATE STREAM Sent (ts TIMESTAMP, srcIP STRING, srcPort INT, destIP STRING, destPort INT, len INT)
PROGRESS ts DISORDER 3 SECONDS
FROM packets OPTIONS (link 'Main1', rows 400, seconds 600, seed 1, hosts 12);
CREATE VIEW M2 AS
SELECT ts, destIP AS srcIP, destPort AS srcPort, srcIP AS destIP, srcPort AS destPort, len FROM Sent;
CREATE STREAM SentC (ts TIMESTAMP, srcIP STRING, srcPort INT, destIP STRING, destPort INT, len INT)
PROGRESS ts DISORDER 3 SECONDS
FROM packets OPTIONS (link 'Control', rows 400, seconds 600, seed 1, hosts 12, quiet 0.05);
CREATE VIEW C AS
SELECT ts, destIP AS srcIP, destPort AS srcPort, srcIP AS destIP, srcPort AS destPort, len FROM SentC;

SELECT M1.srcIP, M1.destIP, M1.ts
FROM M1, M2 Union C as M3
[RANGE TUMBLING 1 minute, WA ts]
WHERE M1.srcIP = M3.destIP and M1.destIP = M3.srcIP and M1.srcPort = M3.destPort and M1.destPort = M3.srcPort;
