"""How values of the state become tables, where decoded values are cached, and files for values that are put aside."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Protocol, TypeVar
from weakref import finalize

import pyarrow as pa

T = TypeVar("T")


class Codec(Protocol[T]):
    """Turns a value into named tables, and back."""

    def encode(self, value: T) -> dict[str, pa.Table]: ...

    def decode(self, tables: dict[str, pa.Table]) -> T: ...


class OneTable:
    """The codec of a table."""

    def encode(self, value: pa.Table) -> dict[str, pa.Table]:
        return {"rows": value}

    def decode(self, tables: dict[str, pa.Table]) -> pa.Table:
        return tables["rows"]


class NamedTables:
    """The codec of a value that consists of named tables already."""

    def encode(self, value: dict[str, pa.Table]) -> dict[str, pa.Table]:
        return value

    def decode(self, tables: dict[str, pa.Table]) -> dict[str, pa.Table]:
        return tables


class Cache(Protocol):
    """Decoded values by path and id."""

    def get(self, path: str, id: str, size: int, load: Callable[[], object]) -> object: ...

    def put(self, path: str, id: str, size: int, value: object) -> None: ...


class NoCache:
    """Caches nothing. An entry keeps its decoded value as long as its store lives."""

    def get(self, path: str, id: str, size: int, load: Callable[[], object]) -> object:
        return load()

    def put(self, path: str, id: str, size: int, value: object) -> None:
        return None


class Files:
    """A directory of this process for values that are put aside until a commit, and beyond it where none comes.

    It is made with the first file. It is deleted with this object, and a file with the object that it belongs to.
    """

    def __init__(self) -> None:
        self._directory: tempfile.TemporaryDirectory[str] | None = None
        self._written = 0

    def write(self, data: bytes, owner: object) -> Path:
        if self._directory is None:
            self._directory = tempfile.TemporaryDirectory(prefix="lowwater-aside-")
        self._written += 1
        path = Path(self._directory.name) / str(self._written)
        path.write_bytes(data)
        finalize(owner, _remove, path)
        return path


def _remove(path: Path) -> None:
    if path.exists():
        os.unlink(path)
