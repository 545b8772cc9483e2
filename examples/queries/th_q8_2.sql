-- TH Q8-2: as Q8-1, of two links; M2 lags.

CREATE STREAM M1 (ts TIMESTAMP, srcIP STRING, srcPort INT, destIP STRING, destPort INT, len INT)
PROGRESS ts DISORDER 3 SECONDS
FROM packets OPTIONS (link 'Main1', rows 400, seconds 600, seed 1, hosts 12);
CREATE STREAM M2 (ts TIMESTAMP, srcIP STRING, srcPort INT, destIP STRING, destPort INT, len INT)
PROGRESS ts DISORDER 3 SECONDS
FROM packets OPTIONS (link 'Main2', rows 400, seconds 600, seed 1, hosts 12);

SELECT srcIP, destIP, count(*)
[RANGE 1 minute, SLIDE 1 minute, WA ts]
FROM M1 UNION M2
GROUP BY srcIP, destIP;
