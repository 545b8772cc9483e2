-- WO Query 2: two joins of three streams under a join.

CREATE STREAM Sensor1 (epoch BIGINT, reading DOUBLE) PROGRESS epoch DISORDER 5
FROM sensors OPTIONS (epochs 40, seed 9, delay 5, lost 0.1);
CREATE STREAM Sensor2 (epoch BIGINT, reading DOUBLE) PROGRESS epoch DISORDER 7
FROM sensors OPTIONS (epochs 40, seed 10, delay 7, lost 0.2);
CREATE STREAM Sensor3 (epoch BIGINT, reading DOUBLE) PROGRESS epoch DISORDER 9
FROM sensors OPTIONS (epochs 40, seed 11, delay 9, lost 0.3);
CREATE STREAM Sensor4 (epoch BIGINT, reading DOUBLE) PROGRESS epoch DISORDER 11
FROM sensors OPTIONS (epochs 40, seed 12, delay 11, lost 0.4);
CREATE STREAM Sensor5 (epoch BIGINT, reading DOUBLE) PROGRESS epoch DISORDER 13
FROM sensors OPTIONS (epochs 40, seed 13, delay 13, lost 0.5);
CREATE STREAM Sensor6 (epoch BIGINT, reading DOUBLE) PROGRESS epoch DISORDER 15
FROM sensors OPTIONS (epochs 40, seed 14, delay 15, lost 0.6);

WITH J1 AS (
    SELECT S1.epoch, S1.reading AS a, S2.reading AS b, S3.reading AS c FROM Sensor1 S1, Sensor2 S2, Sensor3 S3
    WHERE S1.epoch = S2.epoch AND S2.epoch = S3.epoch),
J2 AS (
    SELECT S4.epoch, S4.reading AS d, S5.reading AS e, S6.reading AS f FROM Sensor4 S4, Sensor5 S5, Sensor6 S6
    WHERE S4.epoch = S5.epoch AND S5.epoch = S6.epoch)
SELECT J1.epoch, a, b, c, d, e, f FROM J1, J2 WHERE J1.epoch = J2.epoch;
