"""A query that is stopped while `finish()` waits: `finish()` gives up, and the checkpoint is not marked as finished."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

import lowwater as lw
from lowwater.backends.spark.running import RunningQuery


class Checkpoint:
    """One that only remembers what was done to it."""

    clock = ending = marked = False

    def end(self) -> None:
        self.ending = True

    def finished(self) -> None:
        self.marked = True


class Handle:
    """Spark's handle of a query that another thread stops as soon as somebody waits for its end."""

    isActive = True

    def __init__(self, query: Any) -> None:
        self._query = query

    def exception(self) -> None:
        return None

    def awaitTermination(self, seconds: float | None = None) -> bool:
        self._query.stop()
        return True

    def stop(self) -> None:
        self.isActive = False


class Stopped(RunningQuery):
    """A query that never comes to the end of its inputs."""

    def __init__(self, checkpoint: Checkpoint, replays: bool) -> None:
        self.launches = 0
        plan: Any = SimpleNamespace(name="stopped")
        kept: Any = checkpoint
        super().__init__(plan, self.launched, kept, "observed", None, replays)

    def launched(self, again: Any = None) -> Handle:
        self.launches += 1
        return Handle(self)

    def metrics(self) -> Any:
        return SimpleNamespace(low_watermark=None, rows=7)

    def rest(self, timeout: float | None = None) -> None:
        pass


@pytest.mark.parametrize(("replays", "launches"), [(True, 2), (False, 1)], ids=["files", "socket"])
def test_a_stop_ends_a_finish_that_waits(replays: bool, launches: int) -> None:
    checkpoint = Checkpoint()
    query = Stopped(checkpoint, replays)
    with pytest.raises(lw.LowwaterError, match="was stopped before finish"):
        query.finish(timeout=600)
    assert query.launches == launches
    assert not checkpoint.marked


def test_a_stop_behind_the_command_ends_it_too() -> None:
    checkpoint = Checkpoint()
    checkpoint.ending = True
    query = Stopped(checkpoint, replays=True)
    with pytest.raises(lw.LowwaterError, match="was stopped before finish"):
        query.finish()
    assert (query.launches, checkpoint.marked) == (2, False)
