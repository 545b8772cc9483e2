"""Checks whether this machine can run lowwater: one finding per part, with advice if something is missing.

    ok      as it should be
    note    works, but lowwater is not tested with it
    fail    will not run

The checks start Java and Python for a moment and nothing else. With `spark=True` they also run a small query on Spark.
"""

from __future__ import annotations

import importlib.metadata
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

import lowwater
from lowwater.errors import LowwaterError

JAVA = 17
PYTHON = (3, 11)
PACKAGES = ("pyspark", "pyarrow", "numpy", "pandas", "protobuf", "datasketches")
DISK_MB = 1000
MEMORY_MB = 3000
"""Memory for a JVM and two workers with the data of the demo. The heap can grow to 4 GB if there is more memory."""


@dataclass(frozen=True)
class Finding:
    """The result of one check. `advice` is empty if there is nothing to do."""

    part: str
    status: str
    found: str
    advice: str = ""


def examine(spark: bool = False) -> list[Finding]:
    """All findings. lowwater can run if none of them is a `fail`."""
    checks: list[Callable[[], Iterator[Finding]]] = [_java, _python, _packages, _worker, _disk, _cores, _memory]
    found = [finding for check in checks for finding in check()]
    if spark and able(found):
        found += _spark()
    return found


def able(findings: list[Finding]) -> bool:
    return all(finding.status != "fail" for finding in findings)


def java_version(output: str) -> int | None:
    """The major version in the output of `java -version`. Java 8 prints 1.8.

    >>> java_version('openjdk version "17.0.15" 2025-04-15'), java_version('java version "1.8.0_402"')
    (17, 8)
    """
    match = re.search(r'version "(?:1\.)?(\d+)', output)
    return int(match[1]) if match else None


def _java() -> Iterator[Finding]:
    """Checks the Java that Spark would start: that of JAVA_HOME, or the one on the PATH."""
    home = os.environ.get("JAVA_HOME")
    program = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    where = "JAVA_HOME" if home else "the PATH"
    advice = f"Install a Java {JAVA} or newer (a headless JRE is enough) or point JAVA_HOME to one."
    if program is None:
        yield Finding("Java", "fail", "none on the PATH", advice)
        return
    try:
        done = subprocess.run([program, "-version"], capture_output=True, text=True, timeout=30)
    except (OSError, subprocess.TimeoutExpired):
        yield Finding("Java", "fail", f"{program} from {where} does not start", advice)
        return
    version = java_version(done.stderr + done.stdout)
    good = version is not None and version >= JAVA
    found = f"{'unknown version' if version is None else version} from {where}"
    yield Finding("Java", "ok" if good else "fail", found, "" if good else advice)


def _python() -> Iterator[Finding]:
    good = sys.version_info >= PYTHON
    wanted = ".".join(map(str, PYTHON))
    advice = "" if good else f"Install lowwater with Python {wanted} or newer."
    yield Finding("Python", "ok" if good else "fail", ".".join(map(str, sys.version_info[:3])), advice)


def _packages() -> Iterator[Finding]:
    wanted = dict(ranges_of(importlib.metadata.requires("lowwater") or []))
    for name in PACKAGES:
        range = wanted.get(name, SpecifierSet())
        install = f"Run pip install '{name}{range}'."
        try:
            version = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            yield Finding(name, "fail", "missing", install)
            continue
        status = judged(version, range)
        yield Finding(
            name,
            status,
            version if status == "ok" else f"{version}, tested with {range}",
            "" if status == "ok" else install,
        )


def ranges_of(requirements: list[str]) -> Iterator[tuple[str, SpecifierSet]]:
    """Names and ranges of what queries need: the requirements without an extra, and those of the extra `spark`.

    >>> texts = ["pandas<3,>=2.2", "pyspark<4.4,>=4.0; extra == 'spark'", "pytest; extra == 'dev'"]
    >>> {name: str(range) for name, range in ranges_of(texts)}
    {'pandas': '<3,>=2.2', 'pyspark': '<4.4,>=4.0'}
    """
    for text in requirements:
        requirement = Requirement(text)
        if requirement.marker is None or requirement.marker.evaluate({"extra": "spark"}):
            yield requirement.name, requirement.specifier


def judged(version: str, range: SpecifierSet) -> str:
    """The status of a package: older than the range does not run, newer is not tested.

    >>> [judged(version, SpecifierSet(">=4.0,<4.4")) for version in ("3.5.9", "4.0.0", "4.3.1", "4.4.0")]
    ['fail', 'ok', 'ok', 'note']
    """
    if range.contains(version, prereleases=True):
        return "ok"
    lower = SpecifierSet(",".join(str(one) for one in range if one.operator == ">="))
    return "note" if lower.contains(version, prereleases=True) else "fail"


def _worker() -> Iterator[Finding]:
    """Checks the Python of Spark's workers: PYSPARK_PYTHON must be the same version and have the packages."""
    program = os.environ.get("PYSPARK_PYTHON") or sys.executable
    code = "import sys, pyspark.worker, pyarrow, lowwater.runtime.graph; print('%d.%d' % sys.version_info[:2])"
    advice = "Set PYSPARK_PYTHON to the Python that lowwater is installed in, or unset it."
    try:
        done = subprocess.run([program, "-c", code], capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        yield Finding("Python worker", "fail", f"{program} does not start", advice)
        return
    ours = f"{sys.version_info[0]}.{sys.version_info[1]}"
    output = (done.stdout if done.returncode == 0 else done.stderr).strip().splitlines() or ["no output"]
    good = done.returncode == 0 and output[-1] == ours
    found = "starts" if good else f"{program}: {output[-1]}"
    yield Finding("Python worker", "ok" if good else "fail", found, "" if good else advice)


def _disk() -> Iterator[Finding]:
    """Checks the disk for Spark's shuffles and state: SPARK_LOCAL_DIRS, or the temporary directory."""
    place = os.environ.get("SPARK_LOCAL_DIRS", tempfile.gettempdir()).split(",")[0]
    try:
        free = shutil.disk_usage(place).free // 1_000_000
    except OSError:
        yield Finding("disk", "fail", f"{place} does not exist", "Point SPARK_LOCAL_DIRS or TMPDIR to a directory.")
        return
    good = free >= DISK_MB
    advice = "" if good else f"Free some space or point SPARK_LOCAL_DIRS to a disk with {DISK_MB} MB."
    yield Finding("disk", "ok" if good else "fail", f"{free:,} MB free in {place}", advice)


def _cores() -> Iterator[Finding]:
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    advice = "" if count > 1 else "It runs on one core; a second one about doubles the speed."
    yield Finding("cores", "ok" if count > 1 else "note", str(count), advice)


def _memory() -> Iterator[Finding]:
    """Checks the available memory. It is not a fault if the system does not report it."""
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
    except OSError:
        yield Finding("memory", "ok", "unknown on this system")
        return
    free = next((int(line.split()[1]) // 1000 for line in lines if line.startswith("MemAvailable:")), 0)
    good = free >= MEMORY_MB
    advice = "" if good else f"Close other programs: the demo and the benchmarks need {MEMORY_MB} MB."
    yield Finding("memory", "ok" if good else "note", f"{free:,} MB available", advice)


def _spark() -> Iterator[Finding]:
    """Starts a session and runs one small query."""
    try:
        from lowwater.backends.spark import launch

        with launch.session(name="lowwater-doctor") as spark:
            rows = spark.createDataFrame([(i, i % 3) for i in range(30)], "ts long, key long")
            windows = lowwater.stream(rows, name="rows", progress="ts", disorder=0).window(range=10).group_by("key")
            answers = windows.agg(n=lowwater.count()).collect()
    except LowwaterError as error:
        yield Finding("Spark query", "fail", str(error), "Look at the lines above.")
    except Exception as error:  # any error of Spark is a finding
        first = (str(error).strip().splitlines() or [type(error).__name__])[0]
        yield Finding("Spark query", "fail", first, "A window query did not run; the text on the left is from Spark.")
    else:
        right = answers.column("n").to_pylist() == [4, 3, 3, 3, 4, 3, 3, 3, 4]
        found = "runs, with the right answer" if right else "runs, but with a wrong answer"
        yield Finding("Spark query", "ok" if right else "fail", found, "" if right else "Please report this.")
