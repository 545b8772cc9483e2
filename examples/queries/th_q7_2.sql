-- TH Q7-2: count the pairs of packets per minute that are of one NetFlow, in opposite directions.

CREATE STREAM M1 (ts TIMESTAMP, srcIP STRING, srcPort INT, destIP STRING, destPort INT, len INT)
PROGRESS ts DISORDER 3 SECONDS
FROM packets OPTIONS (link 'Main1', rows 400, seconds 600, seed 1, hosts 12);
-- the answers to the packets of the link: the other direction of each flow
CREATE STREAM Sent (ts TIMESTAMP, srcIP STRING, srcPort INT, destIP STRING, destPort INT, len INT)
PROGRESS ts DISORDER 3 SECONDS
FROM packets OPTIONS (link 'Main1', rows 400, seconds 600, seed 1, hosts 12);
CREATE VIEW M2 AS
SELECT ts, destIP AS srcIP, destPort AS srcPort, srcIP AS destIP, srcPort AS destPort, len FROM Sent;

SELECT count(*) [RANGE 1 minute, SLIDE 1 minute, WA M1.ts] FROM M1 [RANGE 9 seconds, WA ts], M2 [RANGE 9 seconds, WA ts]
WHERE M1.srcIP = M2.destIP and M1.destIP = M2.srcIP and M1.srcPort = M2.destPort and M1.destPort = M2.srcPort;
