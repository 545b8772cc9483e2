"""Parquet files read by Arrow instead of Spark's scan, with outputs for results, late rows and progress.

Prints:

    50000 rows, 234 late, 75 results
    late: 81 bytes on Main2, all its windows are closed
    late: 1378 bytes on Main2, all its windows are closed
"""

import tempfile
from pathlib import Path

from pyspark.sql import SparkSession

import lowwater as lw
from lowwater import generate

spark = SparkSession.builder.master("local[2]").config("spark.sql.shuffle.partitions", 2).getOrCreate()
spark.sparkContext.setLogLevel("OFF")
place = Path(tempfile.mkdtemp())
generate.write_files(generate.packets(50_000, 300, seed=2).table, place / "in", files=3)

files = lw.parquet_files(spark, str(place / "in"), maxFilesPerTrigger=2)
packets = lw.stream(files, name="packets", progress="ts", disorder="1 second")  # too short: some rows will be late
traffic = packets.window(range="10 seconds").group_by("link").agg(bytes=lw.sum("len"), hosts=lw.count_distinct("srcIP"))

outputs = {name: str(place / name) for name in ("results", "late", "progress", "checkpoint")}
query = traffic.start(**outputs)
query.finish()
metrics = query.metrics()
print(f"{metrics.rows} rows, {metrics.late_rows} late, {metrics.result_rows} results")
for row in spark.read.parquet(outputs["late"]).orderBy("ts").limit(2).collect():
    print(f"late: {row['len']} bytes on {row['link']}, {row['late_reason']}")
spark.stop()
