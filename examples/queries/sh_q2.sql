-- SH Q2: the largest temperature and humidity per location in the last hour.

CREATE STREAM TemperatureRows PROGRESS ts DISORDER 3 SECONDS
FROM keyed OPTIONS (rows 150, seconds 14400, keys 6, seed 1, max_delay 3);
CREATE VIEW Temperature AS SELECT ts, key AS LocationId, val AS Value FROM TemperatureRows;
CREATE STREAM HumidityRows PROGRESS ts DISORDER 9 SECONDS
FROM keyed OPTIONS (rows 150, seconds 14400, keys 6, seed 2, max_delay 9);
CREATE VIEW Humidity AS SELECT ts, key AS LocationId, val AS Value FROM HumidityRows;

SELECT A.LocationId, MAX(A.Value), MAX(B.Value)
FROM Temperature A, Humidity B
WHERE A.LocationId = B.LocationId
GROUP BY A.LocationId
WINDOW 1 hour;
