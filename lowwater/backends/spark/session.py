"""What lowwater needs of a Spark session: set where it may be set, asked for in one sentence where not.

state store   transformWithState needs the RocksDB provider (a setting of the session, may be changed while running)
Arrow batch   how many rows, and how many bytes at most, Spark hands to Python at once (handover.py)
package       executors that are other processes get lowwater shipped as a zip
"""

from __future__ import annotations

import os
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import SparkSession

import lowwater
from lowwater.backends.spark.connect import is_connect
from lowwater.backends.spark.handover import DEFAULT_ROWS
from lowwater.errors import NeedsConfiguration

ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
PROVIDER = "spark.sql.streaming.stateStore.providerClass"
CHANGELOG = "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled"
ARROW_ROWS = "spark.sql.execution.arrow.maxRecordsPerBatch"
ARROW_BYTES = "spark.sql.execution.arrow.maxBytesPerBatch"
NO_LIMIT = "2147483647"
"""The one value at which Spark does not look at the bytes of a batch."""
LIFTED = "spark.lowwater.byteLimitLifted"
"""A mark on the session: the limit in bytes was lifted by lowwater and not by the user."""
PARTITIONS = "spark.sql.shuffle.partitions"

_shipped: set[str] = set()


def settings(shards: int | None = None) -> dict[str, str]:
    wanted = {PROVIDER: ROCKSDB, CHANGELOG: "true"}
    return wanted if shards is None else wanted | {PARTITIONS: str(shards)}


def byte_limit(spark: SparkSession, of_batch: int, rows: int) -> dict[str, str | None]:
    """Settings that lift the limit of an Arrow batch in bytes for a query, or put it back where another query of ours
    has lifted it. It is lifted where the `of_batch` rows of a batch are no more than the `rows` that bound it safely.
    A limit that the user has chosen stays."""
    chosen = spark.conf.getAll
    ours = LIFTED in chosen
    if ARROW_BYTES in chosen and not ours:
        return {}
    if 0 < of_batch <= rows:
        return {ARROW_BYTES: NO_LIMIT, LIFTED: "true"}
    return {ARROW_BYTES: None, LIFTED: None} if ours else {}


def configure(spark: SparkSession, rows: int, partitions: int | None) -> None:
    """Sets what a query started later will need, and ships the package.

    Spark's default of 200 state partitions is for large clusters: where the user has chosen no number, it is set to
    `partitions`, if that is given.

    The settings stay on the session, where they hold for the user's own functions too. So the number of rows is left as
    it is, and the limit in bytes is lifted only where no more rows than Spark's default come in a batch.
    """
    of_batch = int(spark.conf.get(ARROW_ROWS) or 0)
    chosen = partitions if partitions is not None and PARTITIONS not in spark.conf.getAll else None
    _set(spark, {**settings(chosen), **byte_limit(spark, of_batch, min(rows, DEFAULT_ROWS))})
    ship(spark)


@contextmanager
def configured(spark: SparkSession, shards: int, rows: int) -> Iterator[None]:
    """Sets what a query started inside needs; the session is given back as it was. Spark copies the settings of the
    session when a query starts, and reads them in its tasks."""
    chosen = spark.conf.getAll
    of_batch = int(chosen.get(ARROW_ROWS, rows))
    limit = byte_limit(spark, of_batch, rows)
    wanted = {**settings(shards), ARROW_ROWS: str(of_batch), **limit}
    _set(spark, wanted)
    ship(spark)
    try:
        yield
    finally:
        _set(spark, {name: chosen.get(name) for name in wanted})


def _set(spark: SparkSession, wanted: Mapping[str, str | None]) -> None:
    """Sets what has a value and unsets what has none."""
    for name, value in wanted.items():
        try:
            if value is None:
                spark.conf.unset(name)
            else:
                spark.conf.set(name, value)
        except Exception as error:  # a locked-down session: what kind of error depends on the deployment
            raise NeedsConfiguration(
                f"lowwater could not set {name}={value} on this Spark session; set it where the session is built."
            ) from error


def ship(spark: SparkSession) -> None:
    """Gives the package to processes of Spark that are not children of this one; once per application or session."""
    if is_connect(spark):
        _once(str(spark.session_id), lambda file: spark.addArtifacts(file, pyfile=True))  # type: ignore[attr-defined]
        return
    context = spark.sparkContext
    master = str(context.master)
    if master == "local" or master.startswith("local["):
        # Workers are children of this process; unless told otherwise Spark starts whatever `python3` is on the PATH.
        if not {"PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"} & os.environ.keys():
            context.pythonExec = sys.executable
        return
    _once(context.applicationId, context.addPyFile)


def _once(to: str, give: Callable[[str], None]) -> None:
    if to in _shipped:
        return
    root = Path(lowwater.__file__).parent
    # A classic driver serves the file from where it is, for as long as the application runs.
    file = os.path.join(tempfile.mkdtemp(prefix="lowwater-"), f"lowwater-{lowwater.__version__}.zip")
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(root.rglob("*.py")):
            archive.write(path, Path(root.name) / path.relative_to(root))
    give(file)
    _shipped.add(to)
