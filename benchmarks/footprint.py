"""The memory of this process and of all processes that it started, including the JVM and its Python workers.

It is read from /proc, so it is known on Linux only; elsewhere the peak is 0. Pages that forked workers share are
counted in each of them, and a JVM returns its heap late. So the number is the resident memory, not the memory that is
needed.
"""

from __future__ import annotations

import os
import threading
from pathlib import Path
from types import TracebackType

PROC = Path("/proc")


class Footprint:
    """A context manager that samples the resident memory of the process tree. `peak_mb` is the largest sum."""

    def __init__(self, every: float = 0.2) -> None:
        self.peak_mb = 0.0
        self._every = every
        self._left = threading.Event()
        self._thread = threading.Thread(target=self._sample, daemon=True)

    def __enter__(self) -> Footprint:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._left.set()
        self._thread.join()

    def _sample(self) -> None:
        while True:
            self.peak_mb = max(self.peak_mb, resident_mb(os.getpid()))
            if self._left.wait(self._every):
                return


def resident_mb(root: int) -> float:
    """The current resident memory of a process and its descendants."""
    if not PROC.is_dir():
        return 0.0
    children: dict[int, list[int]] = {}
    for entry in PROC.iterdir():
        if entry.name.isdigit():
            children.setdefault(_parent(entry), []).append(int(entry.name))
    total, waiting = 0.0, [root]
    while waiting:
        process = waiting.pop()
        total += resident(PROC / str(process))
        waiting += children.get(process, [])
    return total / 1024


def _parent(entry: Path) -> int:
    """The parent of a process. Its name can contain parentheses, so fields are read after the last one."""
    try:
        return int((entry / "stat").read_text().rpartition(")")[2].split()[1])
    except (OSError, IndexError, ValueError):  # the process has ended in the meantime
        return -1


def resident(entry: Path) -> int:
    try:
        for line in (entry / "status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1])
    except OSError:
        pass
    return 0
