-- WO, the location query: readings of four sensors of the same epoch, with which a target is located.

CREATE STREAM Sensor1 (epoch BIGINT, reading DOUBLE) PROGRESS epoch DISORDER 5
FROM sensors OPTIONS (epochs 20, seed 1, delay 5, lost 0.1);
CREATE STREAM Sensor2 (epoch BIGINT, reading DOUBLE) PROGRESS epoch DISORDER 7
FROM sensors OPTIONS (epochs 20, seed 2, delay 7, lost 0.2);
CREATE STREAM Sensor3 (epoch BIGINT, reading DOUBLE) PROGRESS epoch DISORDER 9
FROM sensors OPTIONS (epochs 20, seed 3, delay 9, lost 0.3);
CREATE STREAM Sensor4 (epoch BIGINT, reading DOUBLE) PROGRESS epoch DISORDER 11
FROM sensors OPTIONS (epochs 20, seed 4, delay 11, lost 0.4);

SELECT * FROM Sensor1 S1, Sensor2 S2,
Sensor3 S3, Sensor4 S4
WHERE S1.epoch = S2.epoch
AND S2.epoch = S3.epoch
AND S3.epoch = S4.epoch;
