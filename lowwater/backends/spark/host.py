"""The host: one stage of a plan inside Spark, one group per shard, and ingest in front of it.

    IngestRun     mapInArrow, per input partition: rows -> packed messages, some for each shard
    Host          transformWithStateInPandas: messages -> packed results, late rows, messages for later stages, numbers.
                  sealed.py is what Spark gets of it
    FiniteHost    applyInArrow: the same for a batch DataFrame, which needs no state
    Unpack        mapInArrow: packed tables -> typed rows

State in Spark: `directory`, a map from paths to small texts, and `segments`, a map from (path, content hash) to bytes.
A batch writes what it changed. All of it is one version of Spark's state store: it is committed with the batch or not
at all. What has an outlet is written right in the task instead of travelling on (written.py).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from pyspark import TaskContext
from pyspark.sql.streaming.stateful_processor import MapState

from lowwater.backends.spark.collection import freeze_modules
from lowwater.backends.spark.messages import (
    BEYOND,
    CONTROL,
    FACTS,
    LATE,
    MESSAGE,
    METRICS,
    OUT,
    OUTSIDE,
    RESULT,
    WROTE,
    Packet,
    Pieces,
    batches,
    frames,
    packets_in,
    packets_of,
)
from lowwater.backends.spark.sharding import shard_key, shard_of
from lowwater.backends.spark.spool import Spool
from lowwater.backends.spark.typed import Typed
from lowwater.backends.spark.written import Outlet, Writing
from lowwater.errors import LowwaterError
from lowwater.metrics import PER_OPERATOR
from lowwater.plan.plan import Plan
from lowwater.runtime.graph import Graph, Run
from lowwater.runtime.ingest import Ingest, Together
from lowwater.state.mirror import Mirror
from lowwater.state.segments import CACHE, pack, unpack
from lowwater.state.store import Changes, Store, segment_sizes

_CHUNK = 200_000
"""Rows of a packed result: keeps a single value far below Spark's limits."""
_BYTES = 32 << 20
BOUNDS = "spark.lowwater.bounds"
"""The setting of a session that has bounds on state checked after each micro-batch: "count" or "raise"."""
BATCH = "spark.lowwater.batch"
"""The setting by which the sinks number a micro-batch. Spark hands settings of a session to the tasks of its jobs.

Spark has a number of its own for tasks, but on Spark Connect the jobs of foreachBatch come from elsewhere and lack it.
"""
_SEQUENCE = 1 << 20
"""Messages of one run, at most."""


class IngestRun:
    """Ingest of the entries of one frame and one stage, for each of its partitions.

    A partition has a second run where some of its rows are ingested `behind` the others."""

    def __init__(self, plan: Plan, entries: Sequence[int], shards: int, late: bool, behind: bool = False) -> None:
        self._plan, self._entries, self._shards, self._late = plan, tuple(entries), shards, late
        self._behind = behind

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return self.sent(self.read(batches))

    def read(self, rows: Iterable[pa.RecordBatch], together: Together | None = None) -> Ingest:
        """The run of this partition, with all its rows."""
        ingest = self.opened(together)
        ingest.read(rows)
        return ingest

    def opened(self, together: Together | None = None) -> Ingest:
        """The run of this partition, without rows."""
        freeze_modules()
        home = _partition() % self._shards
        return Ingest(self._plan, self._entries, self._shards, self._late, home, together)

    def sent(self, ingest: Ingest) -> Iterator[pa.RecordBatch]:
        """The messages of a run."""
        entry = self._plan.entries[self._entries[0]]
        run = entry.frame << 24 | self._behind << 23 | _partition()
        yield from batches(addressed(ingest.messages(), entry.stage, run))


def _partition() -> int:
    context = TaskContext.get()
    return context.partitionId() if context is not None else 0


class ControlRun:
    """The control stream: heartbeats (`clock`, in microseconds) and the end of all inputs, to every shard."""

    def __init__(self, shards: int) -> None:
        self._shards = shards

    def __call__(self, rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        commands = [batch for batch in rows if batch.num_rows]
        if commands:
            blob = pack({"control": pa.Table.from_batches(commands)})
            yield from batches(Packet(0, shard_key(shard), CONTROL, blob) for shard in range(self._shards))


def addressed(shards: Sequence[Sequence[bytes]], stage: int, run: int) -> Iterator[Packet]:
    """Messages on their way to the shards of a stage."""
    for shard, blobs in enumerate(shards):
        for sequence, blob in enumerate(blobs):
            yield Packet(stage, shard_key(shard), MESSAGE, blob, run * _SEQUENCE + sequence)


def _of_job(name: str) -> str | None:
    """What Spark tells a task about the job that it is part of."""
    context = TaskContext.get()
    return None if context is None else context.getLocalProperty(name)


def _started(starts: Sequence[int]) -> str | None:
    """Which start of the query a micro-batch belongs to: that which planned it, also where another one repeats it.

    If nobody knows, it is the start that runs it: Spark runs its jobs under the run's id.
    """
    if not starts:
        return _of_job("spark.jobGroup.id")
    return str(max(start for start in starts if start <= _batch()))


def _batch() -> int:
    number = _of_job(BATCH)
    assert number is not None, "the sinks number the micro-batches of a query"
    return int(number)


def _mirror() -> Mirror:
    """A directory next to Spark's files of this application; Spark deletes it when the application ends."""
    from pyspark import SparkFiles  # a client of Spark Connect alone does not have it

    return Mirror(Path(SparkFiles.getRootDirectory()) / "lowwater-segments")


@dataclass
class Mail:
    """What came to a shard in a micro-batch: its own messages and the control; the rest passes."""

    runs: list[Run] = field(default_factory=list)
    control: list[Packet] = field(default_factory=list)
    clock: int | None = None
    end: bool = False
    pieces: Pieces = field(default_factory=Pieces)

    def take(self, packets: Iterable[Packet], plan: Plan, stage: int) -> Iterator[Packet]:
        """Keeps what is for this stage; returns what passes."""
        for piece in packets:
            if piece.stage != stage:
                yield piece
                continue
            packet = self.pieces.take(piece)
            if packet is None:
                continue
            if packet.kind == MESSAGE:
                self.runs.append(Run.of(packet.run, packet.blob, plan))
            else:
                assert packet.kind == CONTROL
                self.control.append(packet)
                table = unpack(packet.blob)["control"]
                ticks = [t for t in table.column("clock").to_pylist() if t is not None]
                self.clock = max([*ticks, *([] if self.clock is None else [self.clock])], default=None)
                self.end = self.end or any(table.column("end").to_pylist())


class StageRun:
    """One shard of one stage in one micro-batch, whatever hosts it."""

    def __init__(
        self,
        plan: Plan,
        stage: int,
        shards: int,
        outlets: Mapping[str, Outlet],
        starts: Sequence[int] = (),
        bounds: str | None = None,
        typed: Typed | None = None,
    ) -> None:
        self.plan, self.stage, self.shards, self.outlets = plan, stage, shards, dict(outlets)
        self.starts, self.bounds, self.typed = tuple(starts), bounds, typed

    def packets(
        self, number: int, mail: Mail, graph: Graph, finite: bool, batch: int | None, commit: Callable[[], None]
    ) -> Iterator[Packet]:
        """Applies a micro-batch, commits the state, and yields what leaves the shard."""
        spool, key = Spool(), shard_key(number)
        writing: dict[str, Writing] = {}

        def deliver(kind: str, rows: pa.Table) -> None:
            if kind in self.outlets:
                assert batch is not None
                if kind not in writing:
                    writing[kind] = self.outlets[kind].open(batch, self.stage, number)
                writing[kind].write(rows)
                return
            step = max(1, min(_CHUNK, _BYTES * rows.num_rows // max(1, rows.nbytes)))
            for at in range(0, rows.num_rows, step):
                spool.put(kind, pack({"rows": rows.slice(at, step)}))

        later = graph.apply(mail.runs, deliver, mail.clock, mail.end or finite, _started(self.starts))
        over = self._over_bound(graph)
        commit()
        first = self.stage * _SEQUENCE
        for place, (kind, blob) in enumerate(spool, start=first):
            if kind.startswith(OUTSIDE):
                yield Packet(OUT, key, OUTSIDE, blob, place, int(kind.removeprefix(OUTSIDE)))
            else:
                yield Packet(OUT, key, kind, blob, place)
        for kind, written in writing.items():
            yield Packet(OUT, key, WROTE, f"{kind}/{written.close()}".encode())
        run = (1 << 30) + self.stage * self.shards + number
        for stage, messages in later.items():
            yield from addressed(messages, stage, run)
        if self.stage + 1 < self.plan.stages:
            for packet in mail.control:
                yield Packet(self.stage + 1, key, CONTROL, packet.blob)
        yield from self._metrics(number, graph, over)

    def _over_bound(self, graph: Graph) -> dict[int, str]:
        """The operators that hold more than their bounds allow, if the session asks: to look reads all of the state."""
        found = graph.excesses() if self.bounds else {}
        if found and self.bounds == "raise":
            raise LowwaterError(f"Query over {self.plan.name!r}: {'; '.join(found.values())}")
        return found

    def _metrics(self, number: int, graph: Graph, over: Mapping[int, str]) -> Iterator[Packet]:
        metrics, key = graph.metrics(over), shard_key(number)
        for one in metrics.operators:
            for kind, numbers in (
                (METRICS, [getattr(one, name) for name in PER_OPERATOR]),
                (BEYOND, one.beyond_rows.values()),
            ):
                for part, value in enumerate(numbers):
                    if value:
                        yield Packet(OUT, key, kind, operator=one.number, part=part, value=value)
        if not number:  # the facts are the same in every shard
            text = pa.table({"json": [json.dumps(metrics.numbers())]})
            yield Packet(OUT, key, FACTS, pack({"numbers": text, **metrics.by_source.tables()}), operator=self.stage)


class Host:
    """A stage of a streaming query. See the module text."""

    def __init__(self, run: StageRun) -> None:
        self._run = run

    def attach(self, directory: MapState, segments: MapState) -> None:
        """Sets Spark's state; they hold what belongs to the shard whose rows are handled."""
        self._directory, self._segments = directory, segments

    def handle(self, key: Any, rows: Iterator[Any]) -> Iterator[pd.DataFrame]:
        """The rows of one shard in one micro-batch."""
        freeze_modules()
        packets, typed = self._handled(shard_of(int(key[0]), self._run.shards), rows), self._run.typed
        yield from frames(packets) if typed is None else typed.frames(packets)

    def _handled(self, number: int, rows: Iterator[pd.DataFrame]) -> Iterator[Packet]:
        run, mail = self._run, Mail()
        for frame in rows:
            yield from mail.take(packets_in(frame), run.plan, run.stage)
        mail.pieces.finish()
        store = self._restored()
        graph = Graph(run.plan, run.stage, number, run.shards, store)
        batch = _batch() if run.outlets else None
        yield from run.packets(number, mail, graph, False, batch, lambda: self._commit(store.commit()))

    def _restored(self) -> Store:
        entries = {path: text for (path,), (text,) in self._directory.iterator()}
        sizes = segment_sizes(entries)

        def read(path: str, id: str) -> bytes | memoryview:
            here = _mirror().get(id, sizes[path, id])
            if here is not None:
                return here
            (data,) = self._segments.getValue((path, id)) or (b"",)
            return bytes(data)

        return Store.open(entries, read, CACHE.of(f"{self._run.plan.query}/{self._run.stage}"))

    def _commit(self, changes: Changes) -> None:
        for (path, id), data in changes.written.items():
            self._segments.updateValue((path, id), (data,))
            _mirror().put(id, data)
        for path, id in changes.dropped:
            self._segments.removeKey((path, id))
            _mirror().drop(id)
        for path, text in changes.entries.items():
            if text is None:
                self._directory.removeKey((path,))
            else:
                self._directory.updateValue((path,), (text,))


class FiniteHost:
    """A stage of a query over batch DataFrames: each shard is called once and sees all there will ever be."""

    def __init__(self, run: StageRun) -> None:
        self._run = run

    def apply(self, key: tuple[pa.Scalar, ...], rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        freeze_modules()
        packets, typed = self._handled(shard_of(key[0].as_py(), self._run.shards), rows), self._run.typed
        yield from batches(packets) if typed is None else typed.batches(packets)

    def _handled(self, number: int, rows: Iterator[pa.RecordBatch]) -> Iterator[Packet]:
        run, mail = self._run, Mail()
        for batch in rows:
            yield from mail.take(packets_of(batch), run.plan, run.stage)
        mail.pieces.finish()
        graph = Graph(run.plan, run.stage, number, run.shards)
        yield from run.packets(number, mail, graph, True, None, lambda: None)


class Unpack:
    """Rows of one kind out of the packed output."""

    def __init__(self, kind: str, schema: pa.Schema) -> None:
        self._kind, self._schema = kind, schema

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        freeze_modules()
        pieces = Pieces()
        for batch in batches:
            own = batch.filter(pc.equal(batch.column("kind"), self._kind))
            for piece in packets_of(own):
                packet = pieces.take(piece)
                if packet is not None:
                    rows = unpack(packet.blob)["rows"].select(self._schema.names)
                    yield from rows.cast(self._schema).combine_chunks().to_batches()
        pieces.finish()


__all__ = ["LATE", "METRICS", "RESULT", "WROTE", "FiniteHost", "Host", "IngestRun", "Unpack"]
