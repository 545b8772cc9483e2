-- TH Q1-2: count the packets of three links per minute. Control has a long lull, and Main2 lags.

CREATE STREAM Control (ts TIMESTAMP, srcIP STRING, srcPort INT, destIP STRING, destPort INT, len INT)
PROGRESS ts DISORDER 3 SECONDS
FROM packets OPTIONS (link 'Control', rows 400, seconds 600, seed 1, hosts 12, quiet 0.05);
CREATE STREAM Main1 (ts TIMESTAMP, srcIP STRING, srcPort INT, destIP STRING, destPort INT, len INT)
PROGRESS ts DISORDER 3 SECONDS
FROM packets OPTIONS (link 'Main1', rows 400, seconds 600, seed 1, hosts 12, quiet 0.05);
CREATE STREAM Main2 (ts TIMESTAMP, srcIP STRING, srcPort INT, destIP STRING, destPort INT, len INT)
PROGRESS ts DISORDER 3 SECONDS
FROM packets OPTIONS (link 'Main2', rows 400, seconds 600, seed 1, hosts 12, quiet 0.05);

SELECT count (*) [RANGE 1 minute, SLIDE 1 minute, WA ts] FROM Control union Main1 union Main2;
