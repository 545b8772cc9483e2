-- TH Q6-3: count the packets from each source IP for the past 4 minutes, every minute.

CREATE STREAM packets (ts TIMESTAMP, srcIP STRING, srcPort INT, destIP STRING, destPort INT, len INT)
PROGRESS ts DISORDER 3 SECONDS
FROM packets OPTIONS (link 'Main1', rows 400, seconds 600, seed 1, hosts 12);

SELECT count(*) [RANGE 4 minutes, SLIDE 1 minute, WA ts] FROM packets GROUP BY srcIP;
