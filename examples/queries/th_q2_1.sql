-- TH Q2-1: count the packets of two source IPs per instant; the groups end as time passes.

CREATE STREAM Main1 (ts TIMESTAMP, srcIP STRING, srcPort INT, destIP STRING, destPort INT, len INT)
PROGRESS ts DISORDER 3 SECONDS
FROM packets OPTIONS (link 'Main1', rows 400, seconds 60, seed 1, hosts 12);

SELECT srcIP, ts, count (*)
FROM Main1
WHERE srcIP = '10.0.0.0' or srcIP = '10.0.0.1'
GROUP BY srcIP, ts;
