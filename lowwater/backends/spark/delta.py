"""Results in a Delta table. Delta itself remembers, per application, the last version that it was given.

The application is the checkpoint and the output, and the version is the micro-batch: both are in the transaction that
adds the rows, so that a repeated micro-batch adds nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from lowwater.backends.spark.outputs import Destination, Output, Plain
from lowwater.errors import LowwaterError, NeedsConfiguration


@dataclass(frozen=True)
class Delta(Destination):
    """A Delta table, by its path or by its name in the catalog."""

    path: str | None
    table: str | None
    options: Mapping[str, Any] = field(default_factory=dict, repr=False)  # keys of a store may be among them

    def __post_init__(self) -> None:
        if (self.path is None) == (self.table is None):
            raise LowwaterError("to_delta() needs either a path or table=, the name of a table.")

    def check(self, spark: SparkSession) -> None:
        try:
            spark.read.format("delta").load(self.path or "/").schema  # noqa: B018  looks the format up
        except Exception as error:  # PySpark does not translate all; a table that is not there yet is fine
            if "DATA_SOURCE_NOT_FOUND" in str(error):
                raise NeedsConfiguration(
                    "Spark writes Delta tables by a package of its own; install delta-spark, and start the session as "
                    "its documentation describes."
                ) from error

    def opened(self, run: str, output: str) -> Output:
        return DeltaOutput(self, f"lowwater/{run}/{output}")


@dataclass(frozen=True)
class DeltaOutput(Plain):
    """One output of one checkpoint."""

    to: Delta
    application: str

    def write(self, rows: DataFrame, batch: int) -> None:
        once = {"txnAppId": self.application, "txnVersion": str(batch)}
        writer = rows.write.format("delta").mode("append").options(**self.to.options).options(**once)
        if self.to.table is not None:
            writer.saveAsTable(self.to.table)
        else:
            writer.save(self.to.path)
