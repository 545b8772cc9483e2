-- SH Q1: the number of locations above both thresholds in the last minute.

CREATE STREAM TemperatureRows PROGRESS ts DISORDER 3 SECONDS
FROM keyed OPTIONS (rows 150, seconds 1200, keys 6, seed 1, max_delay 3);
CREATE VIEW Temperature AS SELECT ts, key AS LocationId, val AS Value FROM TemperatureRows;
CREATE STREAM HumidityRows PROGRESS ts DISORDER 9 SECONDS
FROM keyed OPTIONS (rows 150, seconds 1200, keys 6, seed 2, max_delay 9);
CREATE VIEW Humidity AS SELECT ts, key AS LocationId, val AS Value FROM HumidityRows;

SELECT COUNT(DISTINCT A.LocationId)
FROM Temperature A, Humidity B
WHERE A.LocationId = B.LocationId and
A.Value > 0.2 and B.Value > -0.5
WINDOW 1 min;
