"""The Spark session of all tests: small, quiet, and set up for queries of few rows that end after seconds."""

from __future__ import annotations

import os
import sys

from pyspark.sql import SparkSession

from tests.spark.quick import options

SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.session.timeZone": "UTC",
    "spark.executor.memory": "1g",
}


def session(master: str = "local[2]", memory: str = "3g", **more: str) -> SparkSession:
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.master(master).appName("lowwater-tests").config("spark.driver.memory", memory)
    executors = {"spark.executor.extraJavaOptions": options()}
    for name, value in (SETTINGS | executors | more).items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    return spark
