"""The inputs of a stage, as every shard keeps them: the progress of each source, and the number of rows read.

Facts about progress go to every shard, so all shards have the same progress for all inputs.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lowwater.errors import CheckpointMismatch
from lowwater.metrics import Sources
from lowwater.model.monitors import StreamMonitor, Summary
from lowwater.model.policy import Int
from lowwater.model.progress import Facts, Progress
from lowwater.model.report import suggested
from lowwater.model.ticks import END, NEVER, Ticks
from lowwater.operators.group_lows import GroupLows
from lowwater.plan.inputs import Input
from lowwater.state.store import NamedTables, Store


class Counted(Protocol):
    """The part of a run that counts for progress: its facts, rows read, rows without a time, and punctuations."""

    @property
    def facts(self) -> Facts | None: ...

    @property
    def read(self) -> int: ...

    @property
    def nulls(self) -> int: ...

    @property
    def punctuations(self) -> int: ...

    @property
    def disorder(self) -> Summary | None: ...


@dataclass
class Known:
    """The current start of the query. Per input: rows read, rows without a time, punctuations."""

    started: str | None = None
    counts: list[list[int]] = field(default_factory=list)


class Inputs:
    """The progress of every input of a stage. See the module text."""

    def __init__(self, inputs: Sequence[Input], store: Store) -> None:
        self.names = [i.name for i in inputs]
        self.progress: list[Progress] = [i.progress() for i in inputs]
        self._known = store.record("known", Known(counts=[[0, 0, 0] for _ in inputs]))
        self._slots = store.slots("progress", NamedTables())
        self._monitored = store.slots("disorder", NamedTables())
        self.monitors = [StreamMonitor() for _ in inputs]
        """The disorder of each input; only the first shard learns it."""
        for port, progress in enumerate(self.progress):
            if str(port) in self._slots:
                progress.restore(self._slots[str(port)].value)
            if str(port) in self._monitored:
                self.monitors[port].restore(self._monitored[str(port)].value)
        store.settling(self._settle)

    def _settle(self) -> None:
        for port, progress in enumerate(self.progress):
            self._slots.put(str(port), progress.tables())
            if self.monitors[port].rows:
                self._monitored.put(str(port), self.monitors[port].tables())

    def begin(self, started: str | None) -> None:
        """Begins a micro-batch. `started` differs from the last one if the query has been down in between."""
        if started != self._known.started:
            self.wake()
            self._known.started = started

    def wake(self) -> None:
        """Called when the query has been down; see `Progress.wake`."""
        for progress in self.progress:
            progress.wake()

    def learn(self, runs: Sequence[tuple[int, Counted]], clock: int | None) -> None:
        """Folds in the facts of runs, given as (index of the input, run)."""
        for progress in self.progress:
            if clock is not None:
                progress.hear(clock)
        for place, run in runs:
            known = self._known.counts[place]
            for i, count in enumerate((run.read, run.nulls, run.punctuations)):
                known[i] += count
            if run.facts is not None:
                self.progress[place].learn(run.facts)
            if run.disorder is not None:
                self.monitors[place].read([run.disorder], self._reached)

    @property
    def _reached(self) -> int | None:
        """The value that all inputs have reached: lags need only the ranks of larger ones."""
        return min((m.most for m in self.monitors if m.most is not None), default=None)

    def tick(self, clock: int | None) -> None:
        """Called after all rows of the micro-batch; see `Progress.tick`."""
        for monitor in self.monitors:
            monitor.end()
        for progress in self.progress:
            if clock is not None:
                progress.tick(clock)

    def end(self) -> None:
        for progress in self.progress:
            progress.end()

    def low_watermarks(self) -> Iterator[tuple[int, int]]:
        """(port, low-watermark) of the inputs that have made progress."""
        for port, progress in enumerate(self.progress):
            if progress.low_watermark > NEVER:
                yield port, progress.low_watermark

    def lows(self, port: int, attribute: str, column: str) -> GroupLows | None:
        """The low-watermark of each source of an input; None before there are any, and at the end of the input."""
        progress = self.progress[port]
        if progress.ended or not len(progress.source):
            return None
        return GroupLows(attribute, column, progress.source, progress.bound.copy())  # learning changes it in place

    def sources(self, ticks: Sequence[Ticks]) -> Sources:
        """All sources of the inputs that this stage reads, in the ticks of each input."""
        return Sources(
            tuple(
                pa.table(
                    {
                        "source": p.source,
                        "low_watermark": _values(p.bound, how),
                        "ended": p.bound == END,
                        "largest_seen": _values(p.most, how),
                        "rows": p.rows,
                        "bound": p.bound,
                    }
                ).replace_schema_metadata(
                    {
                        "input": name,
                        "counts": json.dumps(counts),
                        "low": json.dumps([p.low_watermark, shown(p.low_watermark, how)]),
                        "disorder": json.dumps([m.rows, *about(m, how, others)]),
                    }
                )
                for name, p, m, how, counts in zip(
                    self.names, self.progress, self.monitors, ticks, self._known.counts, strict=True
                )
                for others in [[o for o, unit in zip(self.monitors, ticks, strict=True) if unit.type == how.type]]
            )
        )


def about(monitor: StreamMonitor, how: Ticks, others: Sequence[StreamMonitor]) -> tuple[int | float | str, ...]:
    """The facts of `InputDisorder`, in its order. `others` are the inputs that progress on the same type."""
    late, lags = monitor.late_by, [monitor.lag(other) for other in others if other is not monitor and other.rows]
    return monitor.factor, late, suggested(late, how), monitor.multiplicity, monitor.rate, max(lags, default=0)


def _values(ticks: Int, how: Ticks) -> pa.Array:
    """Ticks in the attribute's own type; null before any progress and at the end."""
    known = (ticks > NEVER) & (ticks < END)
    return pc.if_else(pa.array(known), how.decode(np.where(known, ticks, 0)), None)


def shown(ticks: int, how: Ticks) -> str | None:
    """A low-watermark as text, in the attribute's own type; None before any progress."""
    if ticks <= NEVER:
        return None
    return "end" if ticks == END else str(how.decode(np.array([ticks]))[0].as_py())


@dataclass
class Stamp:
    """The owner of a state: the query, the number of shards, and the stage."""

    query: str | None = None
    shards: int = 0
    stage: int = 0

    def check(self, ours: dict[str, Any], stage: int) -> None:
        """Refuses the state of another query or stage. Stamps a new state."""
        if self.query is not None:
            check_fingerprint({"query": self.query, "shards": self.shards}, ours)
            if self.stage != stage:
                raise CheckpointMismatch(
                    f"The state of stage {self.stage + 1} was given to stage {stage + 1}: the stages of this query "
                    "have changed; use a new checkpoint directory or the version of lowwater that made this one."
                )
        self.query, self.shards, self.stage = ours["query"], ours["shards"], stage


def check_fingerprint(stored: dict[str, Any], ours: dict[str, Any]) -> None:
    if stored["query"] != ours["query"]:
        raise CheckpointMismatch(
            "This checkpoint belongs to another query (window, groups, aggregates or inputs differ); "
            "use a new checkpoint directory or restore the query it was made with."
        )
    if stored["shards"] != ours["shards"]:
        raise CheckpointMismatch(
            f"This checkpoint was made with {stored['shards']} shards, the query now asks for {ours['shards']}; "
            f"start it with shards={stored['shards']} or use a new checkpoint directory."
        )
