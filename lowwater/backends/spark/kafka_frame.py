"""Messages whose values are read in bulk, where rows are ingested: from_json is left with what is not plain.

    messages ── MessageRun ──> packed rows, and messages ── from_json ──> BehindRun ──> packed rows

Spark hands the bytes of the values to Python, where Arrow reads those that are plain (plain_json.py). The others go
back to Spark as they are, from_json reads them, and a second run of the same partition ingests them.

The second run is behind the first one. So that rows of a partition stay in their order, the first value that is not
plain and might be readable takes all values behind it with it, for the rest of the micro-batch. Values that certainly
cannot be read (tombstones, blanks, what begins with no bracket) have no progress value, and no place in the order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lowwater.backends.spark.backend import SparkBackend
from lowwater.backends.spark.frame import SparkFrame
from lowwater.backends.spark.handover import GATHERED, fixed_or_not, gathered, handed_over
from lowwater.backends.spark.host import IngestRun
from lowwater.backends.spark.message_values import SOURCE, UNREAD, Reading, read_rows
from lowwater.backends.spark.messages import MESSAGE, PACKED, SCHEMA, Packet
from lowwater.backends.spark.plain_json import PlainJson, PlainReader
from lowwater.backends.spark.read_once import IngestRuns
from lowwater.plan.plan import Plan

_MESSAGE = {"value": "binary", "topic": "string", "partition": "int", "offset": "bigint"}
_MESSAGE |= {"timestamp": "timestamp", "key": "binary"}
"""What is handed over of a message, as far as somebody reads it."""
_ARROW = {
    "binary": pa.binary(),
    "string": pa.string(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "timestamp": pa.timestamp("us", "UTC"),
}
_READS = {
    SOURCE: ("topic", "partition"),
    "kafka_topic": ("topic",),
    "kafka_partition": ("partition",),
    "kafka_offset": ("offset",),
    "kafka_timestamp": ("timestamp",),
    "kafka_key": ("key",),
    UNREAD: (),
}
UNREADABLE = r"^[ \t\r\n]*$|^[A-Za-z0-9\x22]"
"""Values that from_json never reads as an object."""
_PACKED = {"stage": "int", "shard": "int", "run": "bigint", "part": "int", "parts": "int", "blob": "binary"}
"""What differs among the packed rows of an ingest."""
_AS = "lw_packed_"
"""Before the names of the packed columns, so that they meet no user's."""
_IS_PACKED = _AS + "shard"
Ingesting: TypeAlias = IngestRun | IngestRuns
"""Ingest by one reading of the messages, or by several."""


@dataclass(frozen=True)
class KafkaFrame:
    """Messages of topics as a stream, with some columns of their rows. `refuse` fails a query at unreadable values."""

    messages: DataFrame
    reading: Reading = field(repr=False)
    plain: PlainJson
    progress: str | None
    refuse: bool
    topic: str | None
    """The topic, where there is one only. Then it is not handed over."""
    schema: pa.Schema
    how = "read by Arrow from plain JSON, and by from_json from all other values"

    @property
    def spark(self) -> SparkSession:
        return self.messages.sparkSession

    @property
    def backend(self) -> SparkBackend:
        return SparkBackend(self.spark)

    @property
    def streaming(self) -> bool:
        return self.messages.isStreaming

    @property
    def replays(self) -> bool:
        return True

    @property
    def pauses(self) -> bool:
        return False

    def dataframe(self) -> SparkFrame:
        """The same rows, all of them read by from_json."""
        rows = read_rows(self.messages, self.reading, self.progress, self.refuse, {})
        return SparkFrame(rows, how=left_to_spark("expressions on them are Spark's")).select(self.schema.names)

    scanned = dataframe

    def with_column(self, name: str, expression: str) -> SparkFrame:
        return self.dataframe().with_column(name, expression)

    def apply(self, function: Callable[[pa.Table], pa.Table], schema: pa.Schema) -> SparkFrame:
        return self.dataframe().apply(function, schema)

    def select(self, columns: Sequence[str]) -> KafkaFrame:
        return replace(self, schema=pa.schema([self.schema.field(name) for name in columns]))

    def first_rows(self, n: int) -> None:
        return None  # the brokers may be far away, and more messages come

    def arrived(self, columns: Sequence[str]) -> pa.Table:
        return self.dataframe().arrived(columns)

    def batch_rows(self, *others: KafkaFrame) -> int:
        return fixed_or_not(self.messages.schema, _of_all([self, *others])._handed())

    def size(self) -> int | None:
        return self.dataframe().size()

    def _handed(self) -> tuple[str, ...]:
        """The columns of Spark's source that its rows are made of."""
        read = {name for column in self.schema.names for name in _READS.get(column, ())}
        if self.refuse:  # the refusal names the place
            read |= {"topic", "partition", "offset"}
        read = (read | {"value"}) - ({"topic"} if self.topic else set())
        return tuple(name for name in _MESSAGE if name in read)

    @staticmethod
    def ingested(
        inputs: Sequence[Sequence[tuple[KafkaFrame, Sequence[int]]]], plan: Plan, shards: int, late: bool
    ) -> list[DataFrame]:
        found = []
        for readings in inputs:
            frame = _of_all([frame for frame, _ in readings])

            def runs(behind: bool, readings: Sequence[tuple[KafkaFrame, Sequence[int]]] = readings) -> Ingesting:
                each = [IngestRun(plan, entries, shards, late, behind) for _, entries in readings]
                names = [{name: name for name in own.schema.names} for own, _ in readings]
                return each[0] if len(each) == 1 else IngestRuns(each, names)

            found.append(frame._ingested(runs(behind=False), runs(behind=True)))
        return found

    def _ingested(self, plain: Ingesting, others: Ingesting) -> DataFrame:
        names, handed = self.schema.names, self._handed()
        packed = {_AS + name: type for name, type in _PACKED.items()}
        passes = packed | {name: _MESSAGE[name] for name in handed}
        first, schema = MessageRun(plain, self, passes), ", ".join(f"{name} {type}" for name, type in passes.items())
        passed = handed_over(self.messages, handed, first, schema, rows=1)  # MessageRun gathers what it has read
        known: dict[str, object] = {"topic": self.topic}
        absent = [F.lit(known.get(name)).cast(_MESSAGE[name]).alias(name) for name in _MESSAGE if name not in handed]
        rows = read_rows(passed.select("*", *absent), self.reading, self.progress, self.refuse, {}, list(packed))
        return handed_over(rows, [*packed, *names], BehindRun(others, names), PACKED)


def _of_all(frames: Sequence[KafkaFrame]) -> KafkaFrame:
    """The messages with the columns that any of these readings has."""
    fields = {f.name: f for frame in frames for f in frame.schema}
    return replace(frames[0], schema=pa.schema(fields.values()))


def left_to_spark(reason: str) -> str:
    return f"read by from_json, because {reason}"


class MessageRun:
    """Ingest of the messages of one partition whose values are plain. Others pass, and so do those behind them.

    Values are read in the batches that come, which fit the cache of a processor. Their columns are much smaller, and
    are gathered for the ingest.
    """

    def __init__(self, ingest: Ingesting, frame: KafkaFrame, passes: Mapping[str, str]) -> None:
        self._ingest, self._plain, self._schema, self._topic = ingest, frame.plain, frame.schema, frame.topic
        self._passes = pa.schema([pa.field(name, _ARROW[type]) for name, type in passes.items()])

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        ingest: Any = self._ingest.opened()
        reader, ended, read = PlainReader(self._plain), False, list[pa.RecordBatch]()
        for batch in batches:
            if ended:
                yield self._passed(batch)
                continue
            value = batch.column("value")
            is_plain, values = reader.read(value)
            upto = _first_to_wait_for(value, is_plain)
            ended = upto < batch.num_rows
            plain = _kept(batch[:upto], is_plain[:upto])
            if plain.num_rows:
                read += self._rows(plain, values[: plain.num_rows])
            if sum(rows.num_rows for rows in read) >= GATHERED:
                ingest.read(gathered(read, GATHERED))
                read = []
            for others in (_kept(batch[:upto], pc.invert(is_plain[:upto])), batch[upto:]):
                if others.num_rows:
                    yield self._passed(others)
        ingest.read(gathered(read, GATHERED))
        for messages in self._ingest.sent(ingest):
            yield self._passed(messages, _AS)

    def _rows(self, messages: pa.RecordBatch, values: pa.Table) -> list[pa.RecordBatch]:
        """Messages with the columns of their values."""
        n = messages.num_rows

        def column(name: str) -> pa.Array | pa.ChunkedArray:
            if name == SOURCE:
                partition = messages.column("partition")
                if self._topic is not None and len(one := partition.unique()) == 1:  # a task reads one partition
                    return pa.repeat(f"{self._topic}-{one[0]}", n)
                return pc.binary_join_element_wise(column("kafka_topic"), partition.cast(pa.string()), "-")
            if name == "kafka_topic" and self._topic is not None:
                return pa.repeat(self._topic, n)
            if name == UNREAD:
                return pa.nulls(n, pa.binary())
            return messages.column(_READS[name][0]) if name in _READS else values.column(name)

        rows = pa.table([column(name) for name in self._schema.names], names=self._schema.names)
        return rows.combine_chunks().to_batches()  # type: ignore[no-any-return]

    def _passed(self, rows: pa.RecordBatch, prefix: str = "") -> pa.RecordBatch:
        there = {prefix + name: rows.column(name) for name in rows.schema.names}
        columns = [there.get(f.name, pa.nulls(rows.num_rows, f.type)) for f in self._passes]
        return pa.RecordBatch.from_arrays(columns, schema=self._passes)


class BehindRun:
    """Ingest of the messages of one partition that from_json has read; packed rows pass."""

    def __init__(self, ingest: Ingesting, names: Sequence[str]) -> None:
        self._ingest, self._names, self._packet = ingest, list(names), Packet(0, 0, MESSAGE)

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        ingest: Any = self._ingest.opened()
        for batch in batches:
            is_packed = pc.is_valid(batch.column(_IS_PACKED))
            packed, rows = batch.filter(is_packed), batch.filter(pc.invert(is_packed))
            if packed.num_rows:
                yield self._unfolded(packed)
            ingest.read([rows.select(self._names)])
        yield from self._ingest.sent(ingest)

    def _unfolded(self, packed: pa.RecordBatch) -> pa.RecordBatch:
        same = self._packet.values()
        columns = [
            packed.column(_AS + f.name)
            if f.name in _PACKED
            else pa.repeat(pa.scalar(same[f.name], f.type), len(packed))
            for f in SCHEMA
        ]
        return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)


def _kept(batch: pa.RecordBatch, keep: pa.BooleanArray) -> pa.RecordBatch:
    """The rows of a mask. All or none of them are not copied."""
    if keep.true_count in (0, len(keep)):
        return batch if keep.true_count else batch[:0]
    return batch.filter(keep)


def _first_to_wait_for(value: pa.BinaryArray, is_plain: pa.BooleanArray) -> int:
    """The place of the first value that from_json might read, or the number of values."""
    if is_plain.true_count == len(is_plain):
        return len(is_plain)
    unreadable = pc.fill_null(pc.match_substring_regex(value, UNREADABLE), True)
    first: int = pc.index(pc.or_(is_plain, unreadable), False).as_py()
    return len(is_plain) if first < 0 else first
