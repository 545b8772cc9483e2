-- TH Q6-1: as Q1-1.

CREATE STREAM Main (ts TIMESTAMP, srcIP STRING, srcPort INT, destIP STRING, destPort INT, len INT)
PROGRESS ts DISORDER 3 SECONDS
FROM packets OPTIONS (link 'Main2', rows 400, seconds 1800, seed 3, hosts 12);

Select srcIP, count(*) [RANGE 10 minutes, SLIDE 1 minute, WA ts] From Main Group By srcIP;
