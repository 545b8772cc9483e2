-- TH Q6-2: the longest packet of the past 4 minutes, every minute; panes share the work.

CREATE STREAM Main (ts TIMESTAMP, srcIP STRING, srcPort INT, destIP STRING, destPort INT, len INT)
PROGRESS ts DISORDER 3 SECONDS
FROM packets OPTIONS (link 'Main1', rows 400, seconds 600, seed 1, hosts 12);

SELECT max(len) [RANGE 4 minutes, SLIDE 1 minute, WA ts] FROM Main;
