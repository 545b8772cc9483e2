"""A running query: its outputs, its checkpoint, and what it tells about itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lowwater.backends.spark import compile
from lowwater.backends.spark.checkpoint import Checkpoint
from lowwater.backends.spark.messages import LATE, RESULT, WROTE
from lowwater.backends.spark.written import Outlet, outlet, part_of, qualified
from lowwater.errors import LowwaterError
from lowwater.metrics import Metrics
from lowwater.plan.plan import Plan

Sink = str | Callable[[DataFrame, int], None]

PROGRESS = "input string, source string, low_watermark string, largest_seen string, rows long, holds_back boolean"


@dataclass(frozen=True)
class Sinks:
    """Splits a micro-batch into results, late rows and progress. Called by foreachBatch.

    What has an outlet is written by the tasks of the stateful stage; all else is an action of its own. That stage must
    run once, and in all shards: also where there are several actions, or a function that looks at few of its rows.
    """

    plan: Plan
    results: Sink
    late: Sink | None
    progress: Sink | None
    outlets: Mapping[str, Outlet]

    def __call__(self, host: DataFrame, batch: int) -> None:
        actions = list(self._actions(host))
        if not self.outlets and len(actions) == 1 and not callable(self.results):
            ((rows, sink),) = actions
            _write(rows(), sink, batch)
            return
        if actions:
            host.persist()
        try:
            for outlet in self.outlets.values():
                outlet.begin(batch)
            told = host.where(F.col("kind") == WROTE).select("blob").collect()
            wrote = [bytes(row.blob).decode().split("/") for row in told]
            for kind, outlet in self.outlets.items():
                outlet.complete(batch, [name for of, name in wrote if of == kind])
            for rows, sink in actions:
                _write(rows(), sink, batch)
        finally:
            if actions:
                host.unpersist()

    def _actions(self, host: DataFrame) -> Iterator[tuple[Callable[[], DataFrame], Sink]]:
        if RESULT not in self.outlets:
            yield lambda: compile.results(self.plan, host), self.results
        if self.late is not None and LATE not in self.outlets:
            yield lambda: compile.late_rows(self.plan, host), self.late
        if self.progress is not None:
            yield lambda: _progress(host), self.progress


def check_apart(spark: SparkSession, **directories: Sink | None) -> None:
    """Outputs clear their part of a directory for every micro-batch, so none may have the directory of another."""
    seen: dict[str, str] = {}
    for name, directory in directories.items():
        if isinstance(directory, str):
            other = seen.setdefault(qualified(spark, directory).rstrip("/"), name)
            if other != name:
                raise LowwaterError(
                    f"start() needs a directory for each of its outputs, but {other} and {name} are both {directory}."
                )


def outlets(spark: SparkSession, plan: Plan, results: Sink, late: Sink | None) -> dict[str, Outlet]:
    """Results and late rows that go to a directory which Arrow can reach."""
    wanted = [(LATE, late, plan.late_schema)]
    if not plan.outside:  # else Spark evaluates the last steps on the results
        wanted.append((RESULT, results, plan.result_schema))
    found = {kind: outlet(spark, sink, schema) for kind, sink, schema in wanted if isinstance(sink, str)}
    return {kind: out for kind, out in found.items() if out is not None}


def _write(rows: DataFrame, sink: Sink, batch: int) -> None:
    if callable(sink):
        sink(rows, batch)
    else:
        rows.write.mode("overwrite").parquet(part_of(sink, batch))


def _progress(host: DataFrame) -> DataFrame:
    """One row a source: how far it is, and whether it holds the others back."""
    told = compile.sources(host).objects
    rows = [(s.input, s.source, s.low_watermark, s.largest_seen, s.rows, s.holds_back) for s in told]
    return host.sparkSession.createDataFrame(rows, PROGRESS)


class RunningQuery:
    """A started query. `spark` is Spark's own handle; what is not here is there."""

    def __init__(
        self,
        plan: Plan,
        launch: Callable[..., Any],
        checkpoint: Checkpoint,
        observed: str,
        trigger: Mapping[str, Any] | None = None,
    ) -> None:
        """`trigger` is None where micro-batches run as soon as there is input."""
        self._plan = plan
        self._trigger = trigger
        self._observed = observed
        self._launch = launch
        self._checkpoint = checkpoint
        self._last: Metrics | None = None
        self.spark = launch()

    @property
    def active(self) -> bool:
        return bool(self.spark.isActive)

    def metrics(self) -> Metrics:
        """Rows read, late and dropped, state held, low-watermark of every source and which one holds back."""
        for progress in self._events():
            observed = (progress.observedMetrics or {}).get(self._observed)
            metrics = None if observed is None else compile.observed(observed, self._plan)
            if metrics is not None:
                self._last = metrics
                break
        return self._last or Metrics()

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
        if self._has_heartbeat:
            raise LowwaterError(
                "A query with idle= has a heartbeat and so always more to process; use finish() or stop()."
            )
        self.spark.processAllAvailable()

    @property
    def _has_heartbeat(self) -> bool:
        return any(i.idle is not None for i in self._plan.inputs)

    def stop(self) -> None:
        self.metrics()
        self.spark.stop()

    def finish(self) -> None:
        """Ends all inputs: what has come is processed, every window that is still open is answered, the query stops.

        A query that has failed is not finished: mend it, start it again, then finish it.
        """
        if self.spark.exception() is not None:
            raise LowwaterError("The query has failed and cannot be finished; start it again once its cause is mended.")
        if self.active and self._trigger is None and not self._has_heartbeat:
            self.spark.processAllAvailable()
            self._checkpoint.command("end")
            self.spark.processAllAvailable()
            self.stop()
            if self.metrics().low_watermark != "end":  # a file system may show the command later
                self._drain()
        else:  # the next micro-batch may be far away, or there is always one more
            if self.active and self._trigger is not None and {"availableNow", "once"} & self._trigger.keys():
                self.spark.awaitTermination()
            if self.active:
                self.stop()
            self._drain()
            self._checkpoint.command("end")
            self._drain()
        self._checkpoint.finished()

    def _drain(self) -> None:
        """Everything that is there now, then stops: also what came since the query last looked."""
        self.metrics()
        self.spark = self._launch({"availableNow": True})
        self.spark.awaitTermination()
        self.metrics()
