"""Results as messages of Kafka, each with an id by which a consumer drops repeats.

Spark's sink sends every message at least once: a micro-batch that is repeated is sent again, in whole or in part. The
id of a message follows from the checkpoint, the micro-batch and the row, and equal rows of a micro-batch are numbered.
So a repeated message has the id of the first one, and two results never share one. Only the last micro-batch can be
repeated: a consumer has to remember the ids of one micro-batch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from lowwater.backends.spark.kafka import Topics
from lowwater.backends.spark.outputs import Destination, Output, Plain
from lowwater.errors import LowwaterError

HEADER = "lowwater-id"
WHOLE = {
    "ignoreNullFields": "false",
    "timeZone": "UTC",
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
}
"""JSON with all that a row has. Spark would leave out nulls and microseconds, and write times in the session's zone."""


@dataclass(frozen=True)
class KafkaTopic(Destination):
    """A topic. `key` are columns that become the key of a message, as JSON."""

    servers: str
    topic: str
    key: tuple[str, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict, repr=False)

    def check(self, spark: SparkSession) -> None:
        """Refuses a topic that is not there: Kafka may create it, with one partition."""
        own = {name: value for name, value in self.options.items() if name.lower().startswith("kafka.")}
        Topics.of(spark, self.servers, self.topic, own).partitions()

    def opened(self, run: str, output: str) -> Output:
        return KafkaOutput(self, f"{run[:8]}-{output}")


@dataclass(frozen=True)
class KafkaOutput(Plain):
    """One output of one checkpoint."""

    to: KafkaTopic
    run: str

    def write(self, rows: DataFrame, batch: int) -> None:
        unknown = [name for name in self.to.key if name not in rows.columns]
        if unknown:
            raise LowwaterError(f"key={unknown[0]!r} of to_kafka() is no column of {', '.join(rows.columns)}.")
        options = {name: str(value) for name, value in self.to.options.items()}
        writer = self.messages(rows, batch).write.format("kafka").options(**options)
        writer.option("kafka.bootstrap.servers", self.to.servers).option("topic", self.to.topic).save()

    def messages(self, rows: DataFrame, batch: int) -> DataFrame:
        """Key, value and header of every row."""
        key = [F.to_json(F.struct(*self.to.key), WHOLE).alias("chosen")] if self.to.key else []
        texts = rows.select(F.to_json(F.struct("*"), WHOLE).alias("value"), *key)
        number = F.row_number().over(Window.partitionBy("value").orderBy(F.lit(1)))
        id = F.concat_ws("-", F.lit(f"{self.run}-{batch:08d}"), F.md5("value"), number)
        header = F.array(F.struct(F.lit(HEADER).alias("key"), F.col("id").cast("binary").alias("value")))
        chosen = F.col("chosen" if self.to.key else "id")
        return texts.withColumn("id", id).select(chosen.alias("key"), "value", header.alias("headers"))
