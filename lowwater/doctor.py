"""Whether this machine can run lowwater: each part looked at, each with what to do where it falls short.

    ok      as it should be
    note    works, but is not what lowwater is tested with
    fail    will not run

Nothing is started but a Java and a Python for a moment; `spark=True` runs a small streaming query as well.
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

import lowwater
from lowwater.errors import LowwaterError

JAVA = 17
PYTHON = (3, 11)
PACKAGES = ("pyspark", "pyarrow", "numpy", "pandas", "protobuf", "datasketches")
DISK_MB = 1000
MEMORY_MB = 3000
"""A JVM and two workers with the demo's data; the heap may grow to 4 GB where there is more."""


@dataclass(frozen=True)
class Finding:
    """One line. `advice` is empty when there is nothing to do."""

    part: str
    status: str
    found: str
    advice: str = ""


def examine(spark: bool = False) -> list[Finding]:
    """All findings; lowwater can run if none of them is a `fail`."""
    looks: list[Callable[[], Iterator[Finding]]] = [_java, _python, _packages, _worker, _disk, _cores, _memory]
    found = [finding for look in looks for finding in look()]
    if spark and able(found):
        found += _spark()
    return found


def able(findings: list[Finding]) -> bool:
    return all(finding.status != "fail" for finding in findings)


def java_version(said: str) -> int | None:
    """The major version in what `java -version` says; Java 8 calls itself 1.8.

    >>> java_version('openjdk version "17.0.15" 2025-04-15'), java_version('java version "1.8.0_402"')
    (17, 8)
    """
    match = re.search(r'version "(?:1\.)?(\d+)', said)
    return int(match[1]) if match else None


def _java() -> Iterator[Finding]:
    """The one that Spark will start: that of JAVA_HOME, or the one on the PATH."""
    home = os.environ.get("JAVA_HOME")
    program = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    where = "JAVA_HOME" if home else "the PATH"
    advice = f"Install a Java {JAVA} or newer (a headless JRE is enough) or point JAVA_HOME to one."
    if program is None:
        yield Finding("Java", "fail", "none on the PATH", advice)
        return
    try:
        said = subprocess.run([program, "-version"], capture_output=True, text=True, timeout=30)
    except (OSError, subprocess.TimeoutExpired):
        yield Finding("Java", "fail", f"{program} from {where} does not start", advice)
        return
    version = java_version(said.stderr + said.stdout)
    good = version is not None and version >= JAVA
    found = f"{'unknown version' if version is None else version} from {where}"
    yield Finding("Java", "ok" if good else "fail", found, "" if good else advice)


def _python() -> Iterator[Finding]:
    good = sys.version_info >= PYTHON
    wanted = ".".join(map(str, PYTHON))
    advice = "" if good else f"Install lowwater with Python {wanted} or newer."
    yield Finding("Python", "ok" if good else "fail", ".".join(map(str, sys.version_info[:3])), advice)


def _packages() -> Iterator[Finding]:
    pins = dict(pins_of(importlib.metadata.requires("lowwater") or []))
    for name in PACKAGES:
        pin = pins.get(name, "")
        install = f"Run pip install '{name}=={pin}'." if pin else f"Run pip install {name}."
        try:
            version = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            yield Finding(name, "fail", "missing", install)
            continue
        if not pin or version == pin:
            yield Finding(name, "ok", version)
        else:
            yield Finding(name, judged(name, version, pin), f"{version}, tested is {pin}", install)


def pins_of(requirements: list[str]) -> Iterator[tuple[str, str]]:
    """Names and versions of the exact requirements.

    >>> dict(pins_of(["pyspark==4.3.0", "pytest==9.2.0; extra == 'dev'", "typer>=1"]))
    {'pyspark': '4.3.0'}
    """
    for requirement in requirements:
        match = re.fullmatch(r"([A-Za-z0-9_.-]+)==([^;\s]+)", requirement.strip())
        if match:
            yield match[1], match[2]


def judged(name: str, version: str, pin: str) -> str:
    """Another PySpark has another protocol with its workers, and it does not take pandas 3; else a note will do.

    >>> judged("pyspark", "4.3.1", "4.3.0"), judged("pyspark", "4.0.0", "4.3.0"), judged("pandas", "3.0.1", "2.3.3")
    ('note', 'fail', 'fail')
    """
    parts = {"pyspark": 2, "pandas": 1}.get(name, 0)
    return "note" if version.split(".")[:parts] == pin.split(".")[:parts] else "fail"


def _worker() -> Iterator[Finding]:
    """Spark starts PYSPARK_PYTHON where it is set; it must be the same Python and must find the packages."""
    program = os.environ.get("PYSPARK_PYTHON") or sys.executable
    code = "import sys, pyspark.worker, pyarrow, lowwater.runtime.graph; print('%d.%d' % sys.version_info[:2])"
    advice = "Set PYSPARK_PYTHON to the Python that lowwater is installed in, or unset it."
    try:
        done = subprocess.run([program, "-c", code], capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        yield Finding("Python worker", "fail", f"{program} does not start", advice)
        return
    ours = f"{sys.version_info[0]}.{sys.version_info[1]}"
    said = (done.stdout if done.returncode == 0 else done.stderr).strip().splitlines() or ["no output"]
    good = done.returncode == 0 and said[-1] == ours
    found = "starts" if good else f"{program}: {said[-1]}"
    yield Finding("Python worker", "ok" if good else "fail", found, "" if good else advice)


def _disk() -> Iterator[Finding]:
    """Spark's shuffles and state go to the temporary directory unless told otherwise."""
    place = os.environ.get("SPARK_LOCAL_DIRS", tempfile.gettempdir()).split(",")[0]
    try:
        free = shutil.disk_usage(place).free // 1_000_000
    except OSError:
        yield Finding("disk", "fail", f"{place} is not there", "Point SPARK_LOCAL_DIRS or TMPDIR to a directory.")
        return
    good = free >= DISK_MB
    advice = "" if good else f"Free some space or point SPARK_LOCAL_DIRS to a disk with {DISK_MB} MB."
    yield Finding("disk", "ok" if good else "fail", f"{free:,} MB free in {place}", advice)


def _cores() -> Iterator[Finding]:
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    advice = "" if count > 1 else "It runs on one core; a second one about doubles the speed."
    yield Finding("cores", "ok" if count > 1 else "note", str(count), advice)


def _memory() -> Iterator[Finding]:
    """What the system says is available; where it does not say, nothing is held against it."""
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
    except OSError:
        yield Finding("memory", "ok", "unknown on this system")
        return
    free = next((int(line.split()[1]) // 1000 for line in lines if line.startswith("MemAvailable:")), 0)
    good = free >= MEMORY_MB
    advice = "" if good else f"Close something: the demo and the benchmark want {MEMORY_MB} MB."
    yield Finding("memory", "ok" if good else "note", f"{free:,} MB available", advice)


def _spark() -> Iterator[Finding]:
    """A session, and one small query through all stages."""
    from lowwater.backends.spark import launch

    try:
        with launch.session(name="lowwater-doctor") as spark:
            rows = spark.createDataFrame([(i, i % 3) for i in range(30)], "ts long, key long")
            windows = lowwater.stream(rows, name="rows", progress="ts", disorder=0).window(range=10).group_by("key")
            answers = windows.agg(n=lowwater.count()).collect()
    except LowwaterError as error:
        yield Finding("Spark query", "fail", str(error), "Look at the lines above.")
    except Exception as error:  # whatever Spark throws is what the doctor is asked about
        first = (str(error).strip().splitlines() or [type(error).__name__])[0]
        yield Finding("Spark query", "fail", first, "A window query did not run; the text left is Spark's own.")
    else:
        right = answers.column("n").to_pylist() == [4, 3, 3, 3, 4, 3, 3, 3, 4]
        found = "runs and answers right" if right else "runs but answers wrong"
        yield Finding("Spark query", "ok" if right else "fail", found, "" if right else "Report it, please.")
