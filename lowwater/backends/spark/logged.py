"""One line in Python's log per micro-batch of a query, as `name=value` pairs (docs/operations.md)."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)

from lowwater.metrics import Metrics

LOGGER = "lowwater.query"
NUMBERS = ("rows", "late_rows", "dropped_rows", "result_rows", "state_rows", "state_bytes")
"""The metrics in a line, by their names in `Metrics`."""


class BatchLog(StreamingQueryListener):
    """Logs the micro-batches of one query, also after a restart from the same checkpoint.

    A micro-batch is logged at the level INFO, and a failure of the query at the level ERROR.
    """

    def __init__(self, query: str, id: str, read: Callable[[Any], Metrics | None], logger: logging.Logger) -> None:
        self._query, self._id, self._read, self._logger = query, id, read, logger

    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        pass

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        progress = event.progress
        if str(progress.id) == self._id:
            seconds = progress.durationMs.get("triggerExecution", 0) / 1000
            self._logger.info(line(self._query, progress.batchId, seconds, self._read(progress)))

    def onQueryIdle(self, event: QueryIdleEvent) -> None:
        pass

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        if str(event.id) == self._id and event.exception:
            self._logger.error("query=%s failed: %s", quoted(self._query), event.exception.strip().splitlines()[0])


def line(query: str, batch: int, seconds: float, metrics: Metrics | None) -> str:
    """The line of a micro-batch. Without metrics, no shard had anything to do.

    >>> line("link counts", 7, 0.5, Metrics(rows=20, late_rows=1, low_watermark="2026-01-01 12:00:00+00:00"))[:70]
    'query="link counts" batch=7 seconds=0.500 rows=20 late_rows=1 dropped_'
    """
    pairs = {"query": query, "batch": str(batch), "seconds": f"{seconds:.3f}"}
    if metrics is not None:
        pairs |= {name: str(getattr(metrics, name)) for name in NUMBERS}
        pairs |= {"low_watermark": metrics.low_watermark or "", "held_back_by": metrics.held_back_by or ""}
    return " ".join(f"{name}={quoted(value)}" for name, value in pairs.items())


def quoted(value: str) -> str:
    """A value, in quotes if it is empty or has a blank, a quote or = in it."""
    if value and not set(value) & set(' "=\n'):
        return value
    escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'
