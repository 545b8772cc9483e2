-- TH Q1-1: count the packets from each source IP for the past 10 minutes, every minute.

CREATE STREAM M (ts TIMESTAMP, srcIP STRING, srcPort INT, destIP STRING, destPort INT, len INT)
PROGRESS ts DISORDER 3 SECONDS
FROM packets OPTIONS (link 'Main1', rows 400, seconds 1800, seed 1, hosts 12);

SELECT srcIP, count(*) [RANGE 10 minutes, SLIDE 1 minute, WA ts] FROM M GROUP BY srcIP;
