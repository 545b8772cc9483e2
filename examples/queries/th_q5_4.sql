-- TH Q5-4: count the packets from each source IP since the beginning, every minute.

CREATE STREAM Main1 (ts TIMESTAMP, srcIP STRING, srcPort INT, destIP STRING, destPort INT, len INT)
PROGRESS ts DISORDER 3 SECONDS
FROM packets OPTIONS (link 'Main1', rows 400, seconds 600, seed 1, hosts 12);

SELECT srcIP, count(*) [RANGE ALL, SLIDE 1 minute, WA ts]

FROM Main1 GROUP BY srcIP;
