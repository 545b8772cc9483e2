-- TH Q8-1: count the packets of each pair of IPs per minute.

CREATE STREAM Main (ts TIMESTAMP, srcIP STRING, srcPort INT, destIP STRING, destPort INT, len INT)
PROGRESS ts DISORDER 3 SECONDS
FROM packets OPTIONS (link 'Main1', rows 400, seconds 600, seed 1, hosts 12);

SELECT srcIP, destIP, count(*) [RANGE 1 minute, SLIDE 1 minute, WA ts]
FROM Main
GROUP BY srcIP, destIP;
