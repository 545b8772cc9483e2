-- TH Q8-5: count the packets of three links for the past 5 minutes, every minute.

CREATE STREAM C (ts TIMESTAMP, srcIP STRING, srcPort INT, destIP STRING, destPort INT, len INT)
PROGRESS ts DISORDER 3 SECONDS
FROM packets OPTIONS (link 'Control', rows 400, seconds 600, seed 1, hosts 12, quiet 0.05);
CREATE STREAM M1 (ts TIMESTAMP, srcIP STRING, srcPort INT, destIP STRING, destPort INT, len INT)
PROGRESS ts DISORDER 3 SECONDS
FROM packets OPTIONS (link 'Main1', rows 400, seconds 600, seed 1, hosts 12, quiet 0.05);
CREATE STREAM M2 (ts TIMESTAMP, srcIP STRING, srcPort INT, destIP STRING, destPort INT, len INT)
PROGRESS ts DISORDER 3 SECONDS
FROM packets OPTIONS (link 'Main2', rows 400, seconds 600, seed 1, hosts 12, quiet 0.05);

SELECT count(*)
[RANGE 5 minutes, SLIDE 1 minute, WA ts]
FROM M1 UNION M2 UNION C;
