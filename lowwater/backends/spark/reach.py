"""The files of a directory, by what reaches them: by paths, through Spark's JVM, by Arrow, or on a Connect server.

classic session    a plain file system by paths; others through Spark's JVM; what the JVM does not know by Arrow
Spark Connect      in a task of the server: a plain file system by paths, all others by Arrow
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from tempfile import mkdtemp
from typing import Any

from pyspark.sql import SparkSession

from lowwater.backends.spark.arrow_files import ArrowFiles, opened
from lowwater.backends.spark.connect import errand, is_connect, qualified
from lowwater.backends.spark.files import Files, PlainFiles, SparkFiles
from lowwater.backends.spark.session import ship

_UNKNOWN = re.compile(r"No FileSystem for scheme|Class \S+ not found")
"""How Hadoop reports a file system that it does not have: no class is named for it, or the class is in no jar."""


class ServerFiles(Files):
    """Files of a Spark Connect server, for its client. Sent to the server, they are the files themselves."""

    def __init__(self, spark: SparkSession, there: Files) -> None:
        super().__init__(there.directory, there.qualified)
        self._spark, self._there = spark, there

    def __reduce__(self) -> tuple[Any, ...]:
        return _itself, (self._there,)

    @property
    def direct(self) -> str | None:
        return self._there.direct

    def _ask(self, step: str, *arguments: str) -> Any:
        return errand(self._spark, _step, self._there, step, *arguments)

    def write(self, name: str, text: str) -> None:
        self._ask("write", name, text)

    def exists(self, name: str) -> bool:
        return bool(self._ask("exists", name))

    def names(self, name: str = "") -> list[str]:
        return list(self._ask("names", name))

    def read(self, name: str) -> str | None:
        found: str | None = self._ask("read", name)
        return found

    def replace(self, name: str, by: str) -> None:
        self._ask("replace", name, by)

    def delete(self, name: str) -> None:
        self._ask("delete", name)

    def make(self, name: str) -> None:
        self._ask("make", name)

    def same(self, one: str, other: str) -> bool:
        return bool(self._ask("same", one, other))

    def _create(self, name: str, text: str) -> None:
        self._ask("_create", name, text)


def _itself(files: Files) -> Files:
    return files


def _step(files: Files, step: str, *arguments: str) -> Any:
    return getattr(files, step)(*arguments)


def files_of(spark: SparkSession, directory: str) -> Files:
    """The files below a directory, which need not be there yet."""
    directory = directory.rstrip("/") or "/"
    if is_connect(spark):
        ship(spark)
        return ServerFiles(spark, _by_python(directory, qualified(spark, directory).rstrip("/")))
    jvm: Any = spark._jvm
    path = jvm.org.apache.hadoop.fs.Path(directory)
    try:
        system = path.getFileSystem(spark._jsc.hadoopConfiguration())
    except Exception as error:  # py4j's, which a client of Spark Connect alone does not have
        if not _UNKNOWN.search(str(error)):
            raise
        return _by_python(directory, directory)
    found = qualified(spark, directory).rstrip("/")
    return PlainFiles(directory, found) if found.startswith("file:") else SparkFiles(directory, found, system, jvm)


def _by_python(directory: str, qualified: str) -> Files:
    if qualified.startswith("file:"):
        return PlainFiles(directory, qualified)
    opened(qualified)  # refuses what Arrow does not know, either
    return ArrowFiles(directory, qualified)


@contextmanager
def temporary(spark: SparkSession, prefix: str) -> Iterator[str]:
    """A directory where the session has its files, for the time of a with block."""
    place = str(errand(spark, mkdtemp, None, prefix))
    try:
        yield place
    finally:
        files_of(spark, f"file:{place}").delete("")
