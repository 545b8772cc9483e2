"""The time that each operator of a shard takes, without the time of the operators that it emits to.

An operator emits while it takes a message, and its follower takes that message at once. So a stack holds who is at
work. Time never becomes state and never decides anything: it is only reported.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import perf_counter_ns


class Activity:
    """Nanoseconds by operator, since the shard was opened."""

    def __init__(self, clock: Callable[[], int] = perf_counter_ns) -> None:
        self._clock = clock
        self._working: list[int] = []
        self._since = 0
        self.nanoseconds: dict[int, int] = {}

    @contextmanager
    def of(self, operator: int) -> Iterator[None]:
        """The time inside is that of an operator, but for what is inside again."""
        self._turn()
        self._working.append(operator)
        try:
            yield
        finally:
            self._turn()
            self._working.pop()

    def _turn(self) -> None:
        """Adds the time since the last turn to the operator that was at work."""
        now = self._clock()
        if self._working:
            at_work = self._working[-1]
            self.nanoseconds[at_work] = self.nanoseconds.get(at_work, 0) + now - self._since
        self._since = now
