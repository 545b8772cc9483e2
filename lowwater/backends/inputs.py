"""The inputs of a plan as a shard knows them: how far each source is, and how much has been read.

Facts about progress go to every shard, so all shards know the same of all inputs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lowwater.errors import CheckpointMismatch
from lowwater.metrics import Sources
from lowwater.model.policy import Int
from lowwater.model.progress import Facts, Progress
from lowwater.model.ticks import END, NEVER, Ticks
from lowwater.operators.base import Load
from lowwater.query.plan import Planned
from lowwater.state.segments import Segment


class Counted(Protocol):
    """A run of one input, as far as progress goes: its facts, rows read, rows without a time, and punctuations."""

    @property
    def port(self) -> int: ...

    @property
    def facts(self) -> Facts: ...

    @property
    def counted(self) -> tuple[int, int, int]: ...


class Inputs:
    """See the module text. One progress for every port."""

    def __init__(self, plan: Planned) -> None:
        self.names = [i.name for i in plan.inputs]
        self.progress: list[Progress] = [i.progress() for i in plan.inputs]
        self.started: str | None = None
        self.read = 0
        self.nulls = 0
        self.punctuations = 0

    def begin(self, started: str | None) -> None:
        """A micro-batch; the first one of a start of the query finds that the query has been down."""
        if started != self.started:
            self.wake()
            self.started = started

    def wake(self) -> None:
        """The query has been down; see `Progress.wake`."""
        for progress in self.progress:
            progress.wake()

    def learn(self, runs: Sequence[Counted], clock: int | None) -> None:
        for progress in self.progress:
            if clock is not None:
                progress.hear(clock)
        for run in runs:
            read, nulls, punctuations = run.counted
            self.read += read
            self.nulls += nulls
            self.punctuations += punctuations
            self.progress[run.port].learn(run.facts)

    def tick(self, clock: int | None) -> None:
        """After all rows of the micro-batch; see `Progress.tick`."""
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

    def snapshot(self) -> tuple[dict[str, Any], list[Segment[Any]]]:
        progress = [Segment.of(tables, tables) for tables in (p.tables() for p in self.progress)]
        ids = [segment.id for segment in progress]
        counted = [self.read, self.nulls, self.punctuations]
        return {"progress": ids, "started": self.started, "counted": counted}, progress

    def restore(self, head: dict[str, Any], load: Load) -> None:
        for progress, id in zip(self.progress, head["progress"], strict=True):
            progress.restore(load(id).value)
        self.started = head["started"]
        self.read, self.nulls, self.punctuations = head["counted"]

    def sources(self, ticks: Sequence[Ticks]) -> Sources:
        """All sources, in the ticks of each port. The slowest hold back the others, until all have ended."""
        least = min((int(p.bound.min()) for p in self.progress if len(p.bound)), default=END)
        return Sources(
            tuple(
                pa.table(
                    {
                        "source": p.source,
                        "low_watermark": _values(p.bound, how),
                        "ended": p.bound == END,
                        "largest_seen": _values(p.most, how),
                        "rows": p.rows,
                        "holds_back": (p.bound == least) & (least < END),
                    }
                ).replace_schema_metadata({"input": name})
                for name, p, how in zip(self.names, self.progress, ticks, strict=True)
            )
        )


def _values(ticks: Int, how: Ticks) -> pa.Array:
    """Ticks in the attribute's own type; null before any progress and at the end."""
    known = (ticks > NEVER) & (ticks < END)
    return pc.if_else(pa.array(known), how.decode(np.where(known, ticks, 0)), None)


def shown(ticks: int, how: Ticks) -> str | None:
    """A low-watermark for people: in the attribute's own type; None before any progress."""
    if ticks <= NEVER:
        return None
    return "end" if ticks == END else str(how.decode(np.array([ticks]))[0].as_py())


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
