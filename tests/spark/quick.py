"""Makes Spark start quickly: `python -m tests.spark.quick` prepares it once, and tests use it when it is there.

The tests start many JVMs and many Python workers that live for seconds. Two things cost more than the queries:

- Workers import PySpark from the zip file in SPARK_HOME, and Python compiles what it imports from a zip file every time
  anew. A SPARK_HOME without that file makes them import the installed package.
- A JVM reads thousands of Spark's classes from jars and checks them. An archive of loaded classes spares it that.

Together they save 40 % of the CPU time of tests/spark/test_composed.py.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

PLACE = Path(sys.prefix) / "quick-spark"
HOME = PLACE / "home"
CLASSES = PLACE / "classes.jsa"

# The first of Java's two compilers only: JVMs that live for minutes would spend half of their time in the second. Java
# then gives compiled code so little room that it soon throws some out all the time and compiles it again.
_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=256m"


def options() -> str:
    """The options of every JVM of the tests, drivers and executors."""
    return f"{_OPTIONS} -XX:SharedArchiveFile={CLASSES} -Xlog:cds=off" if CLASSES.exists() else _OPTIONS


def use() -> None:
    """Sets the environment of the JVMs that this process starts."""
    os.environ.setdefault("SPARK_SUBMIT_OPTS", options())
    if CLASSES.exists():
        os.environ.setdefault("SPARK_HOME", str(HOME))


def home() -> Path:
    """The home without the zip file, made if it is not there."""
    import pyspark

    HOME.mkdir(parents=True, exist_ok=True)
    for part in ("bin", "jars"):
        link, target = HOME / part, Path(pyspark.__file__).parent / part
        if not link.is_symlink() or link.resolve() != target:
            link.unlink(missing_ok=True)
            link.symlink_to(target)
    return HOME


def prepare() -> None:
    """Makes the home and runs a stream of every step that tests take; its JVM writes the archive when it ends."""
    home()
    CLASSES.unlink(missing_ok=True)
    os.environ["SPARK_HOME"] = str(HOME)
    os.environ["SPARK_SUBMIT_OPTS"] = f"{_OPTIONS} -XX:ArchiveClassesAtExit={CLASSES} -Xlog:cds=off"
    _run_a_stream()


def _run_a_stream() -> None:
    import tempfile

    import lowwater as lw
    from tests.spark.small import session

    spark = session()
    with tempfile.TemporaryDirectory() as place:
        rows = spark.createDataFrame([(i * 1_000_000, i % 3, float(i)) for i in range(60)], "ts long, k long, v double")
        rows.write.parquet(f"{place}/rows")
        arriving = spark.readStream.schema(rows.schema).parquet(f"{place}/rows")
        stream = lw.stream(arriving, progress="ts", disorder=lw.ordered())
        counted = stream.window(10_000_000).group_by("k").agg(n=lw.count(), total=lw.sum("v"))
        places = {"checkpoint": f"{place}/checkpoint", "results": f"{place}/out"}
        running = counted.start(**places, trigger={"availableNow": True})
        running.finish()
        assert spark.read.parquet(f"{place}/out").count() == 18
    jvm = spark.sparkContext._gateway.proc
    spark.stop()
    jvm.stdin.close()  # the JVM ends with its input
    jvm.wait()  # it writes the archive as it ends, and the tests must not start without


if __name__ == "__main__":
    prepare()
