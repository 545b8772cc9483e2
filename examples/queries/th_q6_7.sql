-- TH Q6-7: bytes from each source IP per second.

CREATE STREAM Main (ts TIMESTAMP, srcIP STRING, srcPort INT, destIP STRING, destPort INT, len INT)
PROGRESS ts DISORDER 3 SECONDS GROUPS SKEWED
FROM packets OPTIONS (link 'Main1', rows 400, seconds 120, seed 1, hosts 60);

SELECT srcIP, sum(len) [RANGE 1 second, SLIDE 1 second, WA ts] FROM Main GROUP-BY srcIP;
