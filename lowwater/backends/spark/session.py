"""What lowwater needs of a Spark session: set where it may be set, asked for in one sentence where not.

state store   transformWithState needs the RocksDB provider (a setting of the session, may be changed while running)
Arrow batch   larger record batches into Python: fewer crossings
package       executors that are other processes get lowwater shipped as a zip
"""

from __future__ import annotations

import io
import os
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import SparkSession

import lowwater
from lowwater.errors import NeedsConfiguration

ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
PROVIDER = "spark.sql.streaming.stateStore.providerClass"
CHANGELOG = "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled"
ARROW_ROWS = "spark.sql.execution.arrow.maxRecordsPerBatch"
PARTITIONS = "spark.sql.shuffle.partitions"

_shipped: set[str] = set()


def settings(shards: int | None = None) -> dict[str, str]:
    wanted = {PROVIDER: ROCKSDB, CHANGELOG: "true", ARROW_ROWS: "100000"}
    return wanted if shards is None else wanted | {PARTITIONS: str(shards)}


def configure(spark: SparkSession) -> None:
    """Sets what a query started later will need, and ships the package."""
    for name, value in settings().items():
        if name == ARROW_ROWS and spark.conf.get(name, "10000") != "10000":
            continue  # the user has chosen a size
        _set(spark, name, value)
    ship(spark)


@contextmanager
def configured(spark: SparkSession, shards: int) -> Iterator[None]:
    """As `configure`, for a query started inside; the session is given back as it was."""
    before = {name: spark.conf.get(name, None) for name in settings(shards)}
    for name, value in settings(shards).items():
        if name == ARROW_ROWS and (before[name] or "10000") != "10000":
            continue
        _set(spark, name, value)
    ship(spark)
    try:
        yield
    finally:
        for name, earlier in before.items():
            if earlier is None:
                spark.conf.unset(name)
            else:
                spark.conf.set(name, earlier)


def _set(spark: SparkSession, name: str, value: str) -> None:
    try:
        spark.conf.set(name, value)
    except Exception as error:  # a locked-down session: what kind of error depends on the deployment
        raise NeedsConfiguration(
            f"lowwater could not set {name}={value} on this Spark session; set it where the session is built."
        ) from error


def ship(spark: SparkSession) -> None:
    """Gives the package to executors that are other processes than the driver; once a Spark application."""
    context = spark.sparkContext
    master = str(context.master)
    if master == "local" or master.startswith("local["):
        # Workers are children of this process; unless told otherwise Spark starts whatever `python3` is on the PATH.
        if not {"PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"} & os.environ.keys():
            context.pythonExec = sys.executable
        return
    if context.applicationId in _shipped:
        return
    root = Path(lowwater.__file__).parent
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(root.rglob("*.py")):
            archive.write(path, Path(root.name) / path.relative_to(root))
    folder = tempfile.mkdtemp(prefix="lowwater-")
    file = os.path.join(folder, f"lowwater-{lowwater.__version__}.zip")
    Path(file).write_bytes(buffer.getvalue())
    context.addPyFile(file)
    _shipped.add(context.applicationId)
