"""A local Spark session for the demo, the benchmark and the doctor. Users bring their own session; these have none.

It is quiet: Spark's progress bar writes over ours, and what the JVM and its Python workers say on their way up would
end up between the lines of a table or inside a JSON object. So the JVM is started with another standard output.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import IO, TypeAlias

from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession

from lowwater.errors import LowwaterError, NeedsConfiguration

Session: TypeAlias = SparkSession
"""For modules that pass a session on and import nothing of Spark."""
MEMORY = "4g"


def local(cores: int | None = None, name: str = "lowwater", more: Mapping[str, str] | None = None) -> SparkSession:
    """A session in this process with `cores` cores, by default all that this process may use; `more` are settings."""
    if SparkSession.getActiveSession() is not None:
        raise LowwaterError("A Spark session is already running in this process; stop it or run this in another one.")
    # Workers must be this interpreter, not whatever `python3` is on the PATH; and a machine whose own name does not
    # resolve can still talk to itself.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    count = cores or available_cores()
    builder = SparkSession.builder.master(f"local[{count}]").appName(name)
    for key, value in (settings(count) | dict(more or {})).items():
        builder = builder.config(key, value)
    with tempfile.TemporaryFile() as said:
        try:
            with _children_write_to(said):
                spark = builder.getOrCreate()
        except Exception as error:  # a missing or an old Java shows in many shapes
            said.seek(0)
            lines = said.read().decode(errors="replace").strip().splitlines() or [str(error).splitlines()[0]]
            raise NeedsConfiguration(
                f"Spark could not start ({lines[-1].strip()}); `lowwater doctor` says what is missing."
            ) from error
    spark.sparkContext.setLogLevel("OFF")
    # PySpark logs the stack trace of every error of Spark, on standard error and with whatever the error shows.
    PySparkLogger.getLogger("SQLQueryContextLogger").disabled = True
    return spark


@contextmanager
def session(
    cores: int | None = None, name: str = "lowwater", more: Mapping[str, str] | None = None
) -> Iterator[SparkSession]:
    """As `local`, stopped at the end."""
    spark = local(cores, name, more)
    try:
        yield spark
    finally:
        spark.stop()


@contextmanager
def _children_write_to(file: IO[bytes]) -> Iterator[None]:
    """Processes started inside inherit this file as standard output and error; this process has its own back after."""
    sys.stdout.flush()
    sys.stderr.flush()
    kept = {number: os.dup(number) for number in (1, 2)}
    try:
        for number in kept:
            os.dup2(file.fileno(), number)
        yield
    finally:
        for number, before in kept.items():
            os.dup2(before, number)
            os.close(before)


def settings(cores: int) -> dict[str, str]:
    """As many shuffle partitions as cores: more would only add tasks that wait for each other."""
    return {
        "spark.driver.memory": MEMORY,
        "spark.log.level": "OFF",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": str(cores),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }


def available_cores() -> int:
    """Cores this process may run on; fewer than the machine has when it is confined."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
