"""The Spark session of all tests: small, quiet, and set up for queries of few rows that end after seconds."""

from __future__ import annotations

import os
import sys
from importlib.util import find_spec
from pathlib import Path

import pyspark
from pyspark.sql import SparkSession

from benchmarks.jars import AVRO, CONNECTOR, DELTA, SQLITE, spark_jars
from lowwater.backends.spark.host import BOUNDS
from tests.spark.quick import options
from tests.spark.server import REMOTE

SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.session.timeZone": "UTC",
    "spark.executor.memory": "1g",
}

COMPILED = {"spark.sql.codegen.factoryMode": "FALLBACK", "spark.sql.codegen.wholeStage": "true"}
"""As users have it."""
INTERPRETED = {"spark.sql.codegen.factoryMode": "NO_CODEGEN", "spark.sql.codegen.wholeStage": "false"}
"""Compiles no code for each query, which would run over a few rows: 17 % of the CPU time of Java."""

_PACKAGE = "org.apache.spark.sql.execution.streaming"
if not pyspark.__version__.startswith("4.0."):
    _PACKAGE += ".checkpointing"
CHEAP = {
    "spark.sql.streaming.checkpointFileManagerClass": f"{_PACKAGE}.FileSystemBasedCheckpointFileManager",
    "spark.sql.streaming.checkpoint.fileChecksum.enabled": "false",
    "spark.sql.streaming.pollingDelay": "50ms",
}
"""Writes checkpoints without starting a process (`readlink`) for each file, as Spark's own choice for local disks does,
and without a second file with the checksum of each; and a query that waits for rows looks for them less often.

The first saves 16 % of the CPU time of tests/spark/test_composed.py, the others 9 % of that of Java there.
"""

ROOT = Path(__file__).parents[2]
WARM = {"spark.python.daemon.module": "tests.spark.daemon"}
"""Python workers that need not import everything (daemon.py). Their Spark finds the tests by the PYTHONPATH."""

WITH_DELTA = find_spec("delta") is not None and DELTA.there
"""Delta supports no Spark that is as new as ours: `make delta` runs its tests in an environment of their own."""
JARS = (CONNECTOR, AVRO, SQLITE) if pyspark.__version__ >= "4.2" else (SQLITE,)
"""A Spark that is older than its connectors fails where it lists them."""
IF_DELTA = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.databricks.delta.snapshotPartitions": "1",  # otherwise each commit reads the small log in 50 tasks
}


def with_jars() -> dict[str, str]:
    """Settings with the jars that are there, and with Delta where it is tested."""
    return spark_jars(*JARS, *([DELTA] if WITH_DELTA else [])) | (IF_DELTA if WITH_DELTA else {})


def session(master: str = "local[2]", memory: str = "3g", killed: bool = False, **more: str) -> SparkSession:
    """The session: a classic one, or one of the Spark Connect server that LOWWATER_REMOTE names.

    One that is to be killed writes its checkpoints as those of users do.
    """
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if REMOTE in os.environ:
        connected = SparkSession.builder.remote(os.environ[REMOTE]).create()
        connected.conf.set(BOUNDS, "raise")
        return connected
    builder = SparkSession.builder.master(master).appName("lowwater-tests").config("spark.driver.memory", memory)
    settings = SETTINGS | INTERPRETED | with_jars() | {"spark.executor.extraJavaOptions": options()}
    if not killed:
        settings |= CHEAP
    if master.startswith("local["):
        paths = os.environ.get("PYTHONPATH", "").split(os.pathsep)
        if str(ROOT) not in paths:
            os.environ["PYTHONPATH"] = os.pathsep.join([str(ROOT), *filter(None, paths)])
        settings |= WARM
    for name, value in (settings | more).items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    spark.conf.set(BOUNDS, "raise")  # the bound of EXPLAIN is checked in every micro-batch
    return spark
