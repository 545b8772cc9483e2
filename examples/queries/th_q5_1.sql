-- TH Q5-1: as Q1-1, with WATTR.

CREATE STREAM Main (ts TIMESTAMP, srcIP STRING, srcPort INT, destIP STRING, destPort INT, len INT)
PROGRESS ts DISORDER 3 SECONDS
FROM packets OPTIONS (link 'Main1', rows 400, seconds 1800, seed 2, hosts 12);

Select srcIP, count(*) [RANGE 10 minutes, SLIDE 1 minute, WATTR ts] From Main Group By srcIP;
