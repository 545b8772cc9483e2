-- TH Q6-6: bytes from each source IP in the past 10 seconds, every second; most groups are sparse.

CREATE STREAM packets (ts TIMESTAMP, srcIP STRING, srcPort INT, destIP STRING, destPort INT, len INT)
PROGRESS ts DISORDER 3 SECONDS GROUPS SKEWED
FROM packets OPTIONS (link 'Main1', rows 400, seconds 120, seed 1, hosts 60);

SELECT srcIP, sum(len) [RANGE 10 seconds, SLIDE 1 second, WA ts] FROM packets GROUPBY srcIP;
