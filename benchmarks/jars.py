"""Jars that tests and benchmarks need beside PySpark's own: `python -m benchmarks.jars` fetches them once, by Maven.

They are kept in a cache folder, one directory per set: `$LOWWATER_JARS`, or `lowwater/jars` in the user's cache. A set
is complete when its directory is there, because the directory appears by a rename.

Spark's connector to Kafka must not be newer than Spark itself. The registry does not have every version of every part,
so the versions are named one by one, without what Maven would add to them.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from lowwater.errors import NeedsConfiguration


@dataclass(frozen=True)
class Jars:
    """A set of artifacts of Maven. `whole` adds all that they depend on."""

    name: str
    artifacts: tuple[str, ...]
    whole: bool = False

    @property
    def directory(self) -> Path:
        return place() / f"{self.name}-{hashlib.sha256(' '.join(self.artifacts).encode()).hexdigest()[:8]}"

    @property
    def there(self) -> bool:
        return self.directory.is_dir()

    @property
    def files(self) -> list[str]:
        """The paths of the jars; refuses where they are absent."""
        if not self.there:
            raise NeedsConfiguration(missing(self))
        return sorted(str(path) for path in self.directory.glob("*.jar"))


BROKER = Jars("broker", ("org.apache.kafka:kafka_2.13:4.1.0",), whole=True)
"""A Kafka broker, which runs in a JVM of its own."""
CONNECTOR = Jars(
    "connector",
    (
        "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0",
        "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.0.0",
        "org.apache.kafka:kafka-clients:4.1.0",
        "org.apache.commons:commons-pool2:2.12.0",
    ),
)
"""Spark's source and sink for Kafka."""
AVRO = Jars("avro", ("org.apache.spark:spark-avro_2.13:4.1.1",))
SQLITE = Jars("sqlite", ("org.xerial:sqlite-jdbc:3.50.3.0",))
DELTA = Jars(
    "delta",
    (
        "io.delta:delta-spark_4.2_2.13:4.4.0",
        "io.delta:delta-storage:4.4.0",
        "io.delta:delta-kernel-api:4.4.0",
        "io.delta:delta-kernel-defaults:4.4.0",
        "io.delta:delta-kernel-unitycatalog:4.4.0",
    ),
)
"""Delta Lake for Spark 4.2, the newest that it supports."""
ALL = (BROKER, CONNECTOR, AVRO, SQLITE, DELTA)


def place() -> Path:
    """The cache folder."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return Path(os.environ.get("LOWWATER_JARS") or cache / "lowwater" / "jars")


def missing(*sets: Jars) -> str:
    """What is not there, and how to get it."""
    names = ", ".join(artifact for one in sets if not one.there for artifact in one.artifacts)
    return f"The jars of {names} are not in {place()}; `make jars` fetches them with Maven and a network."


def spark_jars(*sets: Jars) -> dict[str, str]:
    """The setting of a Spark session that has these sets, as far as they are there."""
    files = [file for one in sets if one.there for file in one.files]
    return {"spark.jars": ",".join(files)} if files else {}


def fetch(sets: Iterable[Jars] = ALL) -> None:
    """Fetches the sets that are absent. Processes that ask at the same time wait for each other."""
    place().mkdir(parents=True, exist_ok=True)
    with (place() / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for one in sets:
            if not one.there:
                _fetch(one)


def _fetch(jars: Jars) -> None:
    maven = shutil.which("mvn")
    if maven is None:
        raise NeedsConfiguration(f"Maven (`mvn`) is not on the PATH. {missing(jars)}")
    with tempfile.TemporaryDirectory(dir=place(), prefix=".") as work:
        (Path(work) / "pom.xml").write_text(_project(jars))
        goal = ["dependency:copy-dependencies", "-DoutputDirectory=jars", "-DincludeScope=runtime"]
        done = subprocess.run([maven, "--batch-mode", "--quiet", *goal], cwd=work, capture_output=True, text=True)
        if done.returncode:
            errors = [line for line in done.stdout.splitlines() if "ERROR" in line] or ["Maven failed"]
            raise NeedsConfiguration(f"{errors[0]} {missing(jars)}")
        (Path(work) / "jars").rename(jars.directory)


def _project(jars: Jars) -> str:
    """A Maven project that depends on the artifacts."""
    alone = "<exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions>"
    dependencies = "".join(
        f"<dependency><groupId>{group}</groupId><artifactId>{name}</artifactId><version>{version}</version>"
        f"{'' if jars.whole else alone}</dependency>"
        for group, name, version in (artifact.split(":") for artifact in jars.artifacts)
    )
    return (
        '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>'
        f"<groupId>lowwater</groupId><artifactId>jars</artifactId><version>1</version>"
        f"<dependencies>{dependencies}</dependencies></project>"
    )


def main() -> int:
    try:
        fetch()
    except NeedsConfiguration as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
