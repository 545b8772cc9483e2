-- TH Q6-5: count the packets from each source IP for the past 5 minutes, every minute.

CREATE STREAM M1 (ts TIMESTAMP, srcIP STRING, srcPort INT, destIP STRING, destPort INT, len INT)
PROGRESS ts DISORDER 3 SECONDS
FROM packets OPTIONS (link 'Main1', rows 400, seconds 600, seed 1, hosts 12);

SELECT srcIP, count(*) [RANGE 5 minutes, SLIDE 1 minute, WA ts] FROM M1 GROUP BY srcIP;
