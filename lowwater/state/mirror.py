"""Segments as files of one machine, so that its workers share what one of them has written.

A shard moves between workers from batch to batch. What a worker lacks it would fetch from the state store, through a
socket, which for a segment of many rows takes longer than all else in the batch. A file beside, mapped into memory, is
there at once. The state store alone is the truth: a file that is missing, short or unreadable is not missed.

Names are content hashes, and a file appears under its name only when it is complete.

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
    """Files in a directory of their own, at most about `budget` bytes; segments below `least` are not worth a file."""

    directory: Path
    budget: int = 8 << 30
    least: int = 1 << 18

    def put(self, id: str, data: bytes) -> None:
        if len(data) < self.least:
            return
        with suppress(OSError):  # a full disk costs time, nothing else
            self.directory.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._make_room(len(data))
            beside = self.directory / f".{uuid4().hex}"
            beside.write_bytes(data)
            os.replace(beside, self.directory / id)

    def get(self, id: str, size: int) -> memoryview | None:
        """The bytes of a segment, where they are here and as many as they should be."""
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
        """The oldest go first: what is in use is read again from the state store, once."""
        files = [(entry.stat().st_mtime_ns, entry.stat().st_size, entry.path) for entry in os.scandir(self.directory)]
        held = sum(bytes for _, bytes, _ in files) + size
        for _, bytes, path in sorted(files):
            if held <= self.budget:
                return
            with suppress(OSError):
                os.unlink(path)
            held -= bytes
