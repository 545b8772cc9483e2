-- TH Q6-4: source IPs with at least 5 % of the packets of the past 10 minutes, every minute (heavy hitters).

CREATE STREAM Main (ts TIMESTAMP, srcIP STRING, srcPort INT, destIP STRING, destPort INT, len INT)
PROGRESS ts DISORDER 3 SECONDS
FROM packets OPTIONS (link 'Main1', rows 400, seconds 1800, seed 1, hosts 12);

SELECT heavy_hitters(srcIP, 0.05) [RANGE 10 minutes, SLIDE 1 minute, WA ts] AS hitters FROM Main;
