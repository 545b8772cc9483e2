-- IO, the query of Figure 1: item types that both readers have seen within 10 minutes, at every new pair.

CREATE STREAM SensorReadings1Rows PROGRESS ts DISORDER 3 SECONDS
FROM keyed OPTIONS (rows 150, seconds 1200, keys 6, seed 1, max_delay 3);
CREATE VIEW SensorReadings1 AS SELECT ts, key AS ItemType, val AS Reading FROM SensorReadings1Rows;
CREATE STREAM SensorReadings2Rows PROGRESS ts DISORDER 9 SECONDS
FROM keyed OPTIONS (rows 150, seconds 1200, keys 6, seed 2, max_delay 9);
CREATE VIEW SensorReadings2 AS SELECT ts, key AS ItemType, val AS Reading FROM SensorReadings2Rows;

SELECT COUNT(DISTINCT S.ItemType) FROM SensorReadings1 S, SensorReadings2 T WHERE S.ItemType = T.ItemType WINDOW 10 minutes;
