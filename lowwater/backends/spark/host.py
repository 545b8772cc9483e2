"""The host: one shard of a plan inside Spark's stateful operator, and the stages before and after it.

    IngestRun   mapInArrow, per input partition: rows -> one packed message a shard
    Host        transformWithState, one group a shard: messages -> packed results, late rows, numbers; state in segments
                (what has an outlet is written right there instead, see written.py)
    Unpack      mapInArrow: packed tables -> typed rows

State in Spark: `head`, one small JSON value, and `segments`, a map from content hash to bytes. A batch writes the
head and the segments it made and removes those it made dead. All of it is one version of Spark's state store: it is
committed with the batch or not at all.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark import SparkFiles, TaskContext
from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from lowwater.backends.opening import Running, open_ingest, open_shard
from lowwater.backends.spark.sharding import shard_key
from lowwater.backends.spark.written import Outlet
from lowwater.query.plan import Planned
from lowwater.state.mirror import Mirror
from lowwater.state.segments import CACHE, Segment, Stored, pack, unpack

MESSAGE = "shard int, run int, blob binary"
TOTALS = ("late_rows", "dropped_rows", "result_rows", "state_rows", "state_bytes", "ended_values")
"""Numbers that add up over shards. All else in the metrics is the same in every shard, so that only the first sends it:
plain values in `shared`, as JSON, and the sources packed in the blob."""
PACKED = "kind string, blob binary, shared string, " + ", ".join(f"{name} long" for name in TOTALS)
RESULT, LATE, METRICS, WROTE = "result", "late", "metrics", "wrote"
"""Kinds of packed rows; the last has for a blob the kind and the name of a file that is written already."""
_CHUNK = 200_000
"""Rows of a packed result: keeps a single value far below Spark's limits."""

_messages = pa.schema([("shard", pa.int32()), ("run", pa.int32()), ("blob", pa.binary())])


class IngestRun:
    """Ingest of one input, for each of its partitions."""

    def __init__(self, plan: Planned, port: int, shards: int, late: bool) -> None:
        self._plan, self._port, self._shards, self._late = plan, port, shards, late

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        ingest = open_ingest(self._plan, self._port, self._shards, self._late)
        yield from addressed(ingest.run(batches), run_number(self._port, TaskContext.get()))


def run_number(port: int, context: TaskContext | None) -> int:
    """Orders the runs of a micro-batch: by input, then by partition."""
    return port << 24 | (context.partitionId() if context is not None else 0)


class ControlRun:
    """The control stream: heartbeats (`clock`, in microseconds) and the end of all inputs, to every shard."""

    def __init__(self, shards: int) -> None:
        self._shards = shards

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        commands = [batch for batch in batches if batch.num_rows]
        if commands:
            yield from addressed([pack({"control": pa.Table.from_batches(commands)})] * self._shards, -1)


def addressed(blobs: list[bytes], run: int) -> Iterator[pa.RecordBatch]:
    """A row a shard, each a batch of its own: the limit of 2 GB then holds for a message and not for all of them."""
    for shard, blob in enumerate(blobs):
        row = {"shard": [shard_key(shard)], "run": [run], "blob": [blob]}
        yield pa.RecordBatch.from_pydict(row, schema=_messages)


def _of_job(name: str) -> str | None:
    """What Spark tells a task about the job that it is part of."""
    context = TaskContext.get()
    return None if context is None else context.getLocalProperty(name)


def _started() -> str | None:
    """Which start of the query this is: Spark runs its jobs under the run's id."""
    return _of_job("spark.jobGroup.id")


def _batch() -> int:
    number = _of_job("streaming.sql.batchId")
    assert number is not None, "Spark numbers the micro-batches of a streaming query"
    return int(number)


def _mirror() -> Mirror:
    """Beside the files that Spark keeps for this application on this machine, and removes with it."""
    return Mirror(Path(SparkFiles.getRootDirectory()) / "lowwater-segments")


def _packed(kind: str, **values: Any) -> Row:
    empty: dict[str, Any] = {"blob": None, "shared": None, **dict.fromkeys(TOTALS)}
    return Row(kind=kind, **(empty | values))


class Host(StatefulProcessor):
    """See the module text. `finite` says that this call sees all there will ever be (a batch DataFrame)."""

    def __init__(self, plan: Planned, shards: int, finite: bool, outlets: Mapping[str, Outlet] | None = None) -> None:
        self._plan, self._shards, self._finite = plan, shards, finite
        self._outlets = dict(outlets or {})
        self._query = plan.fingerprint(shards)["query"]

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._head = handle.getValueState("head", "json string")
        self._segments = handle.getMapState("segments", "id string", "data binary")

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any = None) -> Iterator[Row]:
        number = self._number(int(key[0]))
        shard = open_shard(self._plan, number, self._shards)
        stored = self._restore(shard)
        runs, clock, end = self._messages(rows, shard)
        out = shard.apply(runs, clock, end or self._finite, _started())
        if not self._finite:
            self._store(shard, stored)
        for kind, tables in ((RESULT, out.results), (LATE, out.late)):
            yield from self._given_out(kind, number, tables)
        yield self._metrics(shard)

    def _given_out(self, kind: str, number: int, tables: Sequence[pa.Table]) -> Iterator[Row]:
        if kind in self._outlets:
            name = self._outlets[kind].put(_batch(), number, tables)
            if name is not None:
                yield _packed(kind=WROTE, blob=f"{kind}/{name}".encode())
            return
        for table in tables:
            for at in range(0, table.num_rows, _CHUNK):
                yield _packed(kind=kind, blob=pack({"rows": table.slice(at, _CHUNK)}))

    def _number(self, key: int) -> int:
        for number in range(self._shards):
            if shard_key(number) == key:
                return number
        raise ValueError(f"{key} is not a shard key")

    def _messages(self, rows: Iterator[Row], shard: Running) -> tuple[list[Any], int | None, bool]:
        """Runs in the order of their partitions, so that a repeated batch folds in the same order."""
        runs: list[tuple[int, Any]] = []
        clock: int | None = None
        end = False
        for row in rows:
            if row.run >= 0:
                runs.append((row.run, shard.run_of(bytes(row.blob))))
                continue
            control = unpack(bytes(row.blob))["control"]
            ticks = [t for t in control.column("clock").to_pylist() if t is not None]
            clock = max([*ticks, *([] if clock is None else [clock])], default=None)
            end = end or any(control.column("end").to_pylist())
        return [run for _, run in sorted(runs, key=lambda pair: pair[0])], clock, end

    def _restore(self, shard: Running) -> set[str]:
        if self._finite or not self._head.exists():
            return set()
        (text,) = self._head.get() or ("",)
        saved = json.loads(text)
        head, sizes = saved["head"], saved["segments"]

        def load(id: str) -> Segment[Any]:
            def value() -> object:
                return CACHE.get(self._cached(id), sizes[id], lambda: shard.decode(unpack(self._data(id, sizes[id]))))

            return Stored(id, None, sizes[id], value)

        shard.restore(head, load)
        return set(sizes)

    def _cached(self, id: str) -> str:
        """Queries share a worker's cache; the same bytes may mean different things to two of them."""
        return f"{self._query}/{id}"

    def _data(self, id: str, size: int) -> bytes | memoryview:
        here = _mirror().get(id, size)
        if here is not None:
            return here
        (data,) = self._segments.getValue((id,)) or (b"",)
        return bytes(data)

    def _store(self, shard: Running, stored: set[str]) -> None:
        snapshot = shard.snapshot()
        for id, segment in snapshot.segments.items():
            if id not in stored:
                assert segment.data is not None
                self._segments.updateValue((id,), (segment.data,))
                _mirror().put(id, segment.data)
                CACHE.put(self._cached(id), segment.size, segment.value)
        for id in stored - snapshot.segments.keys():
            self._segments.removeKey((id,))
            _mirror().drop(id)
        sizes = {id: segment.size for id, segment in snapshot.segments.items()}
        self._head.update((json.dumps({"head": snapshot.head, "segments": sizes}),))

    def _metrics(self, shard: Running) -> Row:
        m = shard.metrics()
        totals = {name: getattr(m, name) for name in TOTALS}
        if shard.number:
            return _packed(kind=METRICS, **totals)
        return _packed(kind=METRICS, shared=json.dumps(m.numbers()), blob=pack(m.by_source.tables()), **totals)

    def close(self) -> None:
        pass


class Unpack:
    """Rows of one kind out of the host's packed output."""

    def __init__(self, kind: str, schema: pa.Schema) -> None:
        self._kind, self._schema = kind, schema

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for kind, blob in zip(batch.column("kind"), batch.column("blob"), strict=True):
                if kind.as_py() == self._kind:
                    rows = unpack(blob.as_buffer())["rows"].select(self._schema.names)
                    yield from rows.cast(self._schema).combine_chunks().to_batches()
