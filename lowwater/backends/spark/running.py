"""A running query: its metrics, and how it ends."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from lowwater.backends.spark import compile
from lowwater.backends.spark.checkpoint import Checkpoint
from lowwater.backends.spark.connect import by_name
from lowwater.backends.spark.logged import LOGGER, BatchLog
from lowwater.errors import LowwaterError
from lowwater.metrics import Metrics
from lowwater.plan.plan import Plan
from lowwater.watching import SOURCES, MetricsServer, QueryMetrics, write

AVAILABLE = {"availableNow": True}
IN_ONE = {"once": True}
SOON = 0.02
"""Seconds between two looks whether a micro-batch is committed."""
POLL = 0.1
"""Seconds between two looks at a query that is to take the end of its inputs."""


class RunningQuery:
    """A running query. `.spark` is Spark's own handle, for everything that this class does not offer."""

    def __init__(
        self,
        plan: Plan,
        launch: Callable[..., Any],
        checkpoint: Checkpoint,
        observed: str,
        streams: Any,
        replays: bool = True,
        in_place: bool = False,
    ) -> None:
        """`streams`: the queries of the session. `replays`: the sources can be read again. `in_place`: micro-batches
        follow each other until nothing is left to read, so that the query can be ended while it runs."""
        self._plan = plan
        self._observed = observed
        self._launch = launch
        self._streams = streams
        self._checkpoint = checkpoint
        self._replays, self._in_place = replays, in_place
        self._last: Metrics | None = None
        self._stopped = False
        self.spark = launch()

    def __repr__(self) -> str:
        return f"<RunningQuery {self._plan.name}, checkpoint {self._checkpoint.directory}>"

    @property
    def active(self) -> bool:
        return bool(self.spark.isActive)

    def metrics(self, query: str | None = None) -> Metrics:
        """Rows read, late and dropped, state held, low-watermark of every source and which one holds back.

        Of several queries that run together all, or those of one by its name.
        """
        found = self._metrics()
        return found if query is None else self._plan.metrics_of(self._plan.number_of(query), found)

    def _metrics(self) -> Metrics:
        for progress in self._events():
            metrics = self.observed(progress)
            if metrics is not None:
                self._last = metrics
                break
        if self._last is None:  # no micro-batch since the start: those of the last one before it
            remembered = self._checkpoint.remembered()
            self._last = None if remembered is None else compile.observed(remembered, self._plan)
        return self._last or Metrics()

    def observed(self, progress: Any) -> Metrics | None:
        """The metrics in one of Spark's progress events; None where there are none."""
        observed = (progress.observedMetrics or {}).get(self._observed)
        return None if observed is None else compile.observed(by_name(observed), self._plan)

    @property
    def name(self) -> str:
        """The name that start() was given, or that of the stream."""
        return str(self.spark.name or self._plan.name)

    def serve_metrics(self, port: int, address: str = "127.0.0.1", sources: int = SOURCES) -> MetricsServer:
        """Serves the metrics for Prometheus over HTTP. With port 0 the system chooses one: `.port` of the result.

        The slowest `sources` sources have time series of their own. Close the server before the session is stopped.
        """
        return MetricsServer(QueryMetrics(self.name, self.metrics, sources), port, address)

    def write_metrics(self, file: str | Path, sources: int = SOURCES) -> None:
        """Writes the same metrics to a file, as the textfile collector of the node exporter reads it."""
        write(QueryMetrics(self.name, self.metrics, sources), file)

    def log_batches(self, logger: str | logging.Logger = LOGGER) -> BatchLog:
        """Logs one line per micro-batch, from now on. `spark.streams.removeListener` of the result ends it."""
        found = logging.getLogger(logger) if isinstance(logger, str) else logger
        log = BatchLog(self.name, str(self.spark.id), self.observed, found)
        self._streams.addListener(log)
        return log

    def _events(self) -> Iterator[Any]:
        """Progress events, the newest first. The older ones are parsed only where the last carries no metrics."""
        if self.spark.lastProgress is not None:
            yield self.spark.lastProgress
            yield from reversed(self.spark.recentProgress)

    def await_termination(self, timeout: float | None = None) -> bool:
        """Waits until the query ends (as it does with availableNow); raises what made it fail."""
        if timeout is not None:
            return bool(self.spark.awaitTermination(timeout))
        self.spark.awaitTermination()
        return True

    def process_available(self) -> None:
        """Waits until all input that is there now has been processed."""
        if not self.active:
            return
        if self._checkpoint.clock:
            raise LowwaterError(
                "A query with idle= has a heartbeat and so always more to process; use finish() or stop()."
            )
        self.spark.processAllAvailable()

    def rest(self, timeout: float | None = 60) -> None:
        """Waits, at most so long, until the micro-batch that runs is committed, so that a stop interrupts nothing.

        To stop a query in the middle of a micro-batch is safe but wasteful, and Spark prints a stack trace of a
        thousand lines if its thread waits for Python at that moment.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        before = self._committed()
        while self.active and self.spark.status["isTriggerActive"] and self._committed() == before:
            left = _left(deadline)
            if (left is not None and left <= SOON) or self.await_termination(SOON):
                return

    def _committed(self) -> int:
        """The last micro-batch that Spark has reported."""
        last = self.spark.lastProgress
        return -1 if last is None else int(last.batchId)

    def stop(self) -> None:
        """Stops the query. A `finish()` that waits in another thread gives up, and can be called again."""
        self._stopped = True
        self._halt()

    def _halt(self) -> None:
        self.metrics()
        self.spark.stop()

    def _end(self) -> None:
        """Gives the command that ends all inputs. All rows must be read before, so that none is late."""
        self._refuse_stopped()
        if not self._checkpoint.ending:
            self._checkpoint.end()

    def _refuse_stopped(self) -> None:
        """Ends a `finish()` that waits while another thread stops the query."""
        if self._stopped and self.metrics().low_watermark != "end":
            raise _given_up()

    def finish(self, timeout: float | None = None) -> None:
        """Ends all inputs: what is there now is processed, every window that is open is answered, the query stops.

        Sources that never pause are read up to where they are at the call. So is a directory into which files are
        written all the time, if there is a `timeout`; without one, `finish()` reads until no new file is there. After
        `timeout` seconds an error is raised; all micro-batches that are done stay done, and `finish()` can be called
        again to go on.

        A query that has failed is not finished: mend it, start it again, then finish it.
        """
        if self.spark.exception() is not None:
            raise LowwaterError("The query has failed and cannot be finished; start it again once its cause is mended.")
        deadline = None if timeout is None else time.monotonic() + timeout
        self._stopped = False
        if self.active and self._in_place and timeout is None and not self._checkpoint.clock:
            self._end_in_place()
        elif self._replays:
            self._end_replayed(deadline)
        else:
            self._end_running(deadline)
        self._refuse_stopped()  # before the mark: a query that was stopped has windows to answer
        self._checkpoint.finished()

    def _end_in_place(self) -> None:
        """Lets the query read all there is, then the end. A launch costs more than a micro-batch."""
        self.spark.processAllAvailable()
        self._end()
        self.spark.processAllAvailable()
        self._halt()
        if self.metrics().low_watermark != "end":  # a file system may show the command later
            self._drain(IN_ONE, None)

    def _end_replayed(self, deadline: float | None) -> None:
        """Stops the query and launches it again, to read up to where the sources are and no further.

        The end comes with the last micro-batch, which takes everything that has come meanwhile. If it came with the
        first of several, as a limit per micro-batch would have it, rows of the others would be late.
        """
        if self.active:
            self.rest(_left(deadline))
            self._halt()
        if not self._checkpoint.ending:
            self._drain(AVAILABLE, deadline)
            self._end()
        self._drain(IN_ONE, deadline)
        if self.metrics().low_watermark != "end":  # that one was a micro-batch that had been interrupted
            self._drain(IN_ONE, deadline)

    def _drain(self, trigger: dict[str, Any], deadline: float | None) -> None:
        self.metrics()
        self._refuse_stopped()
        self.spark = self._launch(trigger)
        if self._stopped:  # while it was launched
            self._halt()
        if not self.await_termination(_left(deadline)):
            self._halt()
            raise _timed_out("The query is stopped", "nothing is lost: call finish() again", self.metrics())
        self.metrics()
        self._refuse_stopped()

    def _end_running(self, deadline: float | None) -> None:
        """Ends a query while it runs, because its source forgets what it has sent: no other launch could read it."""
        if not self.active:
            raise LowwaterError(
                "The query reads a socket, which cannot be read again, and has stopped, so that it cannot be finished; "
                "call finish() while it runs, or read from a source that can be replayed."
            )
        self._end()
        while self.metrics().low_watermark != "end":
            left = _left(deadline)
            if left is not None and left <= POLL:
                more = "lines that come from now on are late: call finish() again to wait for the end"
                raise _timed_out("The query goes on to its end", more, self.metrics())
            if self.await_termination(POLL) and self.metrics().low_watermark != "end":
                raise _given_up()
        self._halt()


def _left(deadline: float | None) -> float | None:
    """Seconds until the deadline, more than none: Spark takes no other time-out."""
    return None if deadline is None else max(1e-3, deadline - time.monotonic())


def _given_up() -> LowwaterError:
    return LowwaterError("The query was stopped before finish() came to the end; start it again to go on.")


def _timed_out(state: str, more: str, metrics: Metrics) -> LowwaterError:
    return LowwaterError(
        f"finish() has not come to the end within its time-out, after {metrics.rows} rows in all. {state} and {more}, "
        "with a longer timeout= if a single micro-batch needs it."
    )
