"""Files of the stores that Arrow knows: S3, Google Cloud Storage, Azure, HDFS.

Arrow takes credentials and endpoints from the environment of its process, not from Spark's settings.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.fs as pafs

from lowwater.backends.spark.files import Files
from lowwater.errors import LowwaterError

_ARROWS = {"s3a": "s3", "s3n": "s3"}
"""Schemes of Hadoop that Arrow has another name for."""
_CHUNK = 1 << 20


def opened(path: str) -> tuple[pafs.FileSystem, str]:
    """The file system and name of a path as Spark writes it: with a scheme, and nothing in it escaped."""
    scheme, colon, rest = path.partition(":")
    if not colon or scheme == "file":
        return pafs.LocalFileSystem(), "/" + (rest if colon else path).lstrip("/")
    try:
        system, name = pafs.FileSystem.from_uri(f"{_ARROWS.get(scheme, scheme)}:{rest}")
        return system, str(name)
    except (pa.ArrowInvalid, OSError) as error:
        raise LowwaterError(f"Arrow cannot open {path} here; let Spark read or write it instead.") from error


class ArrowFiles(Files):
    """Files that Arrow reaches by the address of their directory. On object stores a rename is a copy."""

    @property
    def direct(self) -> str:
        return self.qualified

    def _at(self, name: str) -> tuple[pafs.FileSystem, str]:
        system, path = opened(self.qualified)
        return system, f"{path}/{name}" if name else path

    def _is(self, name: str) -> pafs.FileType:
        system, path = self._at(name)
        return system.get_file_info(path).type

    def exists(self, name: str) -> bool:
        return bool(self._is(name) != pafs.FileType.NotFound)

    def names(self, name: str = "") -> list[str]:
        system, path = self._at(name)
        found = system.get_file_info(pafs.FileSelector(path, allow_not_found=True))
        return sorted(one.base_name for one in found)

    def read(self, name: str) -> str | None:
        if self._is(name) != pafs.FileType.File:
            return None
        system, path = self._at(name)
        with system.open_input_stream(path) as stream:
            return str(stream.read().decode())

    def replace(self, name: str, by: str) -> None:
        system, path = self._at(name)
        system.move(path, self._at(by)[1])

    def delete(self, name: str) -> None:
        system, path = self._at(name)
        found = self._is(name)
        if found == pafs.FileType.Directory:
            system.delete_dir(path)
        elif found == pafs.FileType.File:
            system.delete_file(path)

    def make(self, name: str) -> None:
        system, path = self._at(name)
        system.create_dir(path, recursive=True)

    def same(self, one: str, other: str) -> bool:
        (system, left), (_, right) = self._at(one), self._at(other)
        sizes = {info.size for info in system.get_file_info([left, right])}
        if len(sizes) > 1:
            return False
        with system.open_input_stream(left) as first, system.open_input_stream(right) as second:
            while block := first.read(_CHUNK):
                if block != second.read(_CHUNK):
                    return False
        return True

    def _create(self, name: str, text: str) -> None:
        system, path = self._at(name)
        system.create_dir(path.rpartition("/")[0], recursive=True)
        with system.open_output_stream(path) as stream:
            stream.write(text.encode())
