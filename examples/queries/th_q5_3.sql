-- TH Q5-3: of the past 1000 packets the longest from each source IP, every 10 packets.

CREATE STREAM Main (ts TIMESTAMP, srcIP STRING, srcPort INT, destIP STRING, destPort INT, len INT)
PROGRESS ts DISORDER 3 SECONDS
FROM packets OPTIONS (link 'Main1', rows 4000, seconds 600, seed 1, hosts 3);

SELECT srcIP, max(len) [RANGE 1000 rows, SLIDE 10 rows, WA row-num] FROM Main GROUP-BY srcIP;
