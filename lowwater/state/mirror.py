"""Segments as local files, which all workers of one machine share.

A shard moves between workers from batch to batch. A worker would fetch the segments that it lacks from the state store
through a socket. For a segment of many rows that takes longer than the rest of the batch; mapping a local file into
memory takes almost no time. The state store remains the only authority: if a file is missing, short or unreadable, the
segment is fetched from the store.

The name of a file is its content hash, and a file appears under its name only when it is complete.

>>> import tempfile
>>> mirror = Mirror(Path(tempfile.mkdtemp()) / "segments", least=3)
>>> mirror.put("a1", b"some bytes"), mirror.put("b2", b"--")
(None, None)
>>> bytes(mirror.get("a1", 10)), mirror.get("a1", 11), mirror.get("b2", 2)
(b'some bytes', None, None)
>>> mirror.drop("a1"), mirror.get("a1", 10)
(None, None)
"""

from __future__ import annotations

import mmap
import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4


@dataclass(frozen=True)
class Mirror:
    """A directory of segment files, up to about `budget` bytes. Segments below `least` bytes get no file."""

    directory: Path
    budget: int = 8 << 30
    least: int = 1 << 18

    def put(self, id: str, data: bytes) -> None:
        if len(data) < self.least:
            return
        with suppress(OSError):  # with a full disk, segments are read from the state store, which is only slower
            self.directory.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._make_room(len(data))
            beside = self.directory / f".{uuid4().hex}"
            beside.write_bytes(data)
            os.replace(beside, self.directory / id)

    def get(self, id: str, size: int) -> memoryview | None:
        """The bytes of a segment; None if its file is missing or has another size."""
        if size < self.least:
            return None
        with suppress(OSError, ValueError), (self.directory / id).open("rb") as file:
            mapped = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
            return mapped if len(mapped) == size else None
        return None

    def drop(self, id: str) -> None:
        with suppress(OSError):
            (self.directory / id).unlink()

    def _make_room(self, size: int) -> None:
        """Deletes the oldest files. If one of them is still in use, it is read once more from the state store."""
        files = [(entry.stat().st_mtime_ns, entry.stat().st_size, entry.path) for entry in os.scandir(self.directory)]
        held = sum(bytes for _, bytes, _ in files) + size
        for _, bytes, path in sorted(files):
            if held <= self.budget:
                return
            with suppress(OSError):
                os.unlink(path)
            held -= bytes
