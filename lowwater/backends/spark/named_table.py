"""Results in a table of Spark's catalog that consists of files.

The table is partitioned by checkpoint and micro-batch, and a micro-batch overwrites its own partition. So a repeated
one replaces what was written of it. While it is being repeated, a reader may miss its rows.
"""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lowwater.backends.spark.outputs import Destination, Output, Plain
from lowwater.backends.spark.quoting import quoted
from lowwater.errors import LowwaterError

RUN, BATCH = "lw_run", "lw_batch"
FILES = ("parquet", "orc", "json", "csv", "avro")
"""Formats whose partitions can be overwritten one by one."""
_ROWS = "lowwater_rows"


@dataclass(frozen=True)
class NamedTable(Destination):
    """A table by its name. It is created by the first micro-batch if it is not there."""

    name: str
    format: str

    def __post_init__(self) -> None:
        if self.format not in FILES:
            raise LowwaterError(
                f"to_table() writes tables of files ({', '.join(FILES)}), not {self.format!r}; use to_delta(table=...) "
                "for Delta, or give start() a function."
            )

    def check(self, spark: SparkSession) -> None:
        if not spark.catalog.tableExists(self.name):
            return
        described = spark.sql(f"DESCRIBE TABLE EXTENDED {self.name}").collect()
        format = next((row.data_type.lower() for row in described if row.col_name == "Provider"), "unknown")
        if format not in FILES:
            raise LowwaterError(
                f"{self.name} is a table of the format {format!r}, and to_table() writes those of files "
                f"({', '.join(FILES)}); use to_delta(table=...) for Delta, or give start() a function."
            )
        parts = [column.name for column in spark.catalog.listColumns(self.name) if column.isPartition]
        if parts != [RUN, BATCH]:
            raise LowwaterError(
                f"{self.name} must be partitioned by ({RUN}, {BATCH}), so that a repeated micro-batch can replace "
                f"itself; its partition columns are: {', '.join(parts) or 'none'}. Name another table, or let the "
                "query create it."
            )

    def opened(self, run: str, output: str) -> Output:
        return TableOutput(self, f"{run}-{output}")


@dataclass(frozen=True)
class TableOutput(Plain):
    """One output of one checkpoint: partitions of the table."""

    to: NamedTable
    run: str

    def write(self, rows: DataFrame, batch: int) -> None:
        spark = rows.sparkSession
        if not spark.catalog.tableExists(self.to.name):
            parts = {RUN: F.lit(self.run), BATCH: F.lit(batch).cast("long")}
            empty = rows.limit(0).withColumns(parts).write.format(self.to.format)
            empty.partitionBy(RUN, BATCH).saveAsTable(self.to.name)
        names = [column.name for column in spark.catalog.listColumns(self.to.name) if not column.isPartition]
        if sorted(names) != sorted(rows.columns):
            raise LowwaterError(
                f"{self.to.name} has the columns {', '.join(names)}, but the rows have {', '.join(rows.columns)}; "
                "name another table."
            )
        rows.createOrReplaceTempView(_ROWS)
        columns = ", ".join(quoted(name) for name in names)
        part = f"PARTITION ({RUN} = '{self.run}', {BATCH} = {batch})"
        spark.sql(f"INSERT OVERWRITE TABLE {self.to.name} {part} SELECT {columns} FROM {_ROWS}")
