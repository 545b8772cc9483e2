"""Files below one directory, as the driver sees them: of a plain file system, or of any other that is in reach.

    PlainFiles     a plain file system, by paths
    SparkFiles     any file system that Spark's JVM knows; of classic sessions
    ArrowFiles     stores that Arrow knows and the JVM does not, and all stores on Spark Connect (arrow_files.py)
    ServerFiles    plain files or Arrow's, of a Spark Connect server: each step is an errand (reach.py)

A reader sees a file that is written here as a whole or not at all: it is written beside its place and renamed.

Plain files are handled in Python. Through Spark's JVM each step takes a call to another process, and a micro-batch has
dozens of steps (decision 0034).
"""

from __future__ import annotations

import filecmp
import os
import shutil
import uuid
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any

from lowwater.errors import LowwaterError


class Files(ABC):
    """Names are relative to the directory; the empty name is the directory itself."""

    def __init__(self, directory: str, qualified: str) -> None:
        self.directory, self.qualified = directory, qualified

    def __truediv__(self, name: str) -> str:
        return f"{self.directory}/{name}" if name else self.directory

    @property
    def direct(self) -> str | None:
        """The directory as Arrow opens it, if tasks can write to it by Arrow."""
        return None

    def write(self, name: str, text: str) -> None:
        folder, _, last = name.rpartition("/")
        beside = f"{folder}/.{last}.{uuid.uuid4().hex}".lstrip("/")
        self._create(beside, text)
        self.replace(beside, name)

    @abstractmethod
    def exists(self, name: str) -> bool: ...

    @abstractmethod
    def names(self, name: str = "") -> list[str]:
        """The names in a directory, in order; none if there is no such directory."""

    @abstractmethod
    def read(self, name: str) -> str | None:
        """The text of a file; None if there is no such file."""

    @abstractmethod
    def replace(self, name: str, by: str) -> None:
        """Renames a file. One that is there already gives way, on a plain file system in the same moment."""

    @abstractmethod
    def delete(self, name: str) -> None:
        """Deletes a file, or a directory with all that is in it, if it is there."""

    @abstractmethod
    def make(self, name: str) -> None:
        """Makes a directory, unless it is there."""

    @abstractmethod
    def same(self, one: str, other: str) -> bool:
        """Whether two files have the same bytes."""

    @abstractmethod
    def _create(self, name: str, text: str) -> None:
        """Writes a file in its place, and the directory that it is in."""


class PlainFiles(Files):
    """Files that this process can open by their paths."""

    @property
    def direct(self) -> str:
        return "/" + self.qualified.removeprefix("file:").lstrip("/")

    def _path(self, name: str) -> Path:
        return Path(self.direct) / name

    def exists(self, name: str) -> bool:
        return self._path(name).exists()

    def names(self, name: str = "") -> list[str]:
        path = self._path(name)
        return sorted(os.listdir(path)) if path.is_dir() else []

    def read(self, name: str) -> str | None:
        path = self._path(name)
        return path.read_text() if path.exists() else None

    def replace(self, name: str, by: str) -> None:
        os.replace(self._path(name), self._path(by))

    def delete(self, name: str) -> None:
        path = self._path(name)
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)

    def make(self, name: str) -> None:
        self._path(name).mkdir(parents=True, exist_ok=True)

    def same(self, one: str, other: str) -> bool:
        return filecmp.cmp(self._path(one), self._path(other), shallow=False)

    def _create(self, name: str, text: str) -> None:
        path = self._path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


class SparkFiles(Files):
    """Files of a file system that Spark's JVM can reach."""

    def __init__(self, directory: str, qualified: str, system: Any, jvm: Any) -> None:
        super().__init__(directory, qualified)
        self._system, self._jvm = system, jvm

    def _path(self, name: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(self / name)

    def exists(self, name: str) -> bool:
        return bool(self._system.exists(self._path(name)))

    def names(self, name: str = "") -> list[str]:
        if not self.exists(name):
            return []
        return sorted(str(found.getPath().getName()) for found in self._system.listStatus(self._path(name)))

    def read(self, name: str) -> str | None:
        if not self.exists(name):
            return None
        stream = self._system.open(self._path(name))
        try:
            return str(self._jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))
        finally:
            stream.close()

    def replace(self, name: str, by: str) -> None:
        self.delete(by)  # a rename does not replace
        if not self._system.rename(self._path(name), self._path(by)):
            raise LowwaterError(f"Cannot write {self / by}; check that the directory can be written to.")

    def delete(self, name: str) -> None:
        self._system.delete(self._path(name), True)

    def make(self, name: str) -> None:
        self._system.mkdirs(self._path(name))

    def same(self, one: str, other: str) -> bool:
        paths = [self._path(one), self._path(other)]
        if len({self._system.getFileStatus(path).getLen() for path in paths}) > 1:
            return False
        streams = [self._system.open(path) for path in paths]
        try:
            return bool(self._jvm.org.apache.commons.io.IOUtils.contentEquals(*streams))
        finally:
            for stream in streams:
                stream.close()

    def _create(self, name: str, text: str) -> None:
        stream = self._system.create(self._path(name))
        try:
            stream.write(bytearray(text.encode()))
        finally:
            stream.close()
