-- WO Query 1: a join of three streams, in one operator.

CREATE STREAM Sensor1 (epoch BIGINT, reading DOUBLE) PROGRESS epoch DISORDER 5
FROM sensors OPTIONS (epochs 40, seed 5, delay 5, lost 0.1);
CREATE STREAM Sensor2 (epoch BIGINT, reading DOUBLE) PROGRESS epoch DISORDER 7
FROM sensors OPTIONS (epochs 40, seed 6, delay 7, lost 0.2);
CREATE STREAM Sensor3 (epoch BIGINT, reading DOUBLE) PROGRESS epoch DISORDER 9
FROM sensors OPTIONS (epochs 40, seed 7, delay 9, lost 0.3);

SELECT S1.epoch, S1.reading AS a, S2.reading AS b, S3.reading AS c
FROM Sensor1 S1, Sensor2 S2, Sensor3 S3
WHERE S1.epoch = S2.epoch AND S2.epoch = S3.epoch;
