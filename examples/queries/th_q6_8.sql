-- TH Q6-8: count the packets of three links from each source IP in the past 10 seconds, every second.

CREATE STREAM Control (ts TIMESTAMP, srcIP STRING, srcPort INT, destIP STRING, destPort INT, len INT)
PROGRESS ts DISORDER 3 SECONDS
FROM packets OPTIONS (link 'Control', rows 400, seconds 120, seed 1, hosts 12, quiet 0.05);
CREATE STREAM Main1 (ts TIMESTAMP, srcIP STRING, srcPort INT, destIP STRING, destPort INT, len INT)
PROGRESS ts DISORDER 3 SECONDS
FROM packets OPTIONS (link 'Main1', rows 400, seconds 120, seed 1, hosts 12, quiet 0.05);
CREATE STREAM Main2 (ts TIMESTAMP, srcIP STRING, srcPort INT, destIP STRING, destPort INT, len INT)
PROGRESS ts DISORDER 3 SECONDS
FROM packets OPTIONS (link 'Main2', rows 400, seconds 120, seed 1, hosts 12, quiet 0.05);

SELECT count(*)
[RANGE 10 sec, SLIDE 1 sec, WA ts]
FROM (Main2 UNION (Main1 UNION Control))
GROUP-BY srcIP;
