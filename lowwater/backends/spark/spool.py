"""Blobs that a task has made and not yet handed to Spark: in memory while they are few, in a file beyond that.

An operator emits results through a callback, piece by piece, in the middle of a call; Spark takes them when the call
is over. What does not fit comfortably in memory waits in a file of the task, which is gone when it is closed.

>>> spool = Spool(memory=8)
>>> for blob in (b"one", b"two", b"a longer one"):
...     spool.put("result", blob)
>>> list(spool)
[('result', b'one'), ('result', b'two'), ('result', b'a longer one')]
"""

from __future__ import annotations

import struct
import tempfile
from collections.abc import Iterator

_HEAD = struct.Struct("<HQ")


class Spool:
    """See the module text. Blobs come back once, in the order in which they were put."""

    def __init__(self, memory: int = 64 << 20) -> None:
        self._file = tempfile.SpooledTemporaryFile(max_size=memory)  # noqa: SIM115  closed when it has been read

    def put(self, kind: str, blob: bytes) -> None:
        name = kind.encode()
        self._file.write(_HEAD.pack(len(name), len(blob)))
        self._file.write(name)
        self._file.write(blob)

    def __iter__(self) -> Iterator[tuple[str, bytes]]:
        with self._file as file:
            file.seek(0)
            while head := file.read(_HEAD.size):
                name, size = _HEAD.unpack(head)
                kind = file.read(name).decode()
                yield kind, file.read(size)
