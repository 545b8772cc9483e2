-- TH Q7-1: pairs of packets at most 2 minutes apart, counted per pair of times; joint punctuation ends the groups.

CREATE STREAM S0 (ts TIMESTAMP, srcIP STRING, srcPort INT, destIP STRING, destPort INT, len INT)
PROGRESS ts DISORDER 3 SECONDS
FROM packets OPTIONS (link 'Main1', rows 250, seconds 600, seed 1, hosts 12);
CREATE STREAM S1 (ts TIMESTAMP, srcIP STRING, srcPort INT, destIP STRING, destPort INT, len INT)
PROGRESS ts DISORDER 3 SECONDS
FROM packets OPTIONS (link 'Main2', rows 250, seconds 600, seed 1, hosts 12);

SELECT S0.ts AS syn, S1.ts AS ack, count(*)
FROM S0 [RANGE 2 minutes, WA ts], S1 [RANGE 2 minutes, WA ts]
WHERE S0.srcIP = S1.destIP and S0.destIP = S1.srcIP
GROUP BY S0.ts, S1.ts;
