"""Results that leave the last stage as typed rows, beside packed rows, so that no other Python worker unpacks them.

    stage, shard, run, kind, ... value     c0, c1, ...
    of a packed row                        null
    null                                   of a result

A stage has one output with one schema, so each row fills one of the two parts. Results go this way where a query is the
only one of its plan and Spark reads its rows at once. Timestamps travel as integers, which pandas and Spark's Python do
not convert. Nested values they would convert one by one, so results that have any travel packed (host.py: Unpack).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pandas as pd
import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from lowwater.backends.spark.messages import RESULT, SCHEMA, Packet, Pieces, batches, framed
from lowwater.backends.spark.versions import spark_schema
from lowwater.model.columns import whole
from lowwater.plan.plan import Plan
from lowwater.state.segments import unpack

_TIMES = pa.timestamp("us", "UTC")


@dataclass(frozen=True)
class Typed:
    """The results of one query as typed rows."""

    schema: pa.Schema

    @staticmethod
    def of(plan: Plan) -> Typed | None:
        """None where results travel packed."""
        if len(plan.roots) > 1:
            return None
        schema = plan.queries[0].shown_schema
        return Typed(schema) if all(_passes(f.type) for f in schema) else None

    @property
    def _arrow(self) -> pa.Schema:
        own = [pa.field(f"c{i}", pa.int64() if f.type == _TIMES else f.type) for i, f in enumerate(self.schema)]
        return pa.schema([*SCHEMA, *own])

    @property
    def output(self) -> StructType:
        """The columns of the last stage."""
        return spark_schema(self._arrow)

    def rows(self, output: DataFrame) -> DataFrame:
        """The results out of the output of the last stage."""
        columns = [self._column(i).alias(f.name) for i, f in enumerate(self.schema)]
        return output.where(F.col("kind").isNull()).select(*columns)

    def _column(self, i: int) -> Column:
        column = F.col(f"c{i}")
        return F.timestamp_micros(column) if self.schema.field(i).type == _TIMES else column

    def batches(self, packets: Iterable[Packet]) -> Iterator[pa.RecordBatch]:
        """What leaves the last stage. Other packets than results are few and small."""
        pieces, others = Pieces(), []
        for piece in packets:
            if piece.kind != RESULT:
                others.append(piece)
                continue
            packet = pieces.take(piece)
            if packet is not None:
                yield from self._results(unpack(packet.blob)["rows"])
        pieces.finish()
        for batch in batches(others):
            empty = [pa.nulls(batch.num_rows, f.type) for f in self._arrow][len(SCHEMA) :]
            yield pa.RecordBatch.from_arrays([*batch.columns, *empty], schema=self._arrow)

    def _results(self, table: pa.Table) -> Iterator[pa.RecordBatch]:
        rows = table.select(self.schema.names).cast(self.schema)
        if rows.num_rows:
            empty = [pa.nulls(rows.num_rows, f.type) for f in SCHEMA]
            columns = [whole(column) for column in rows.columns]
            times = [c.view(pa.int64()) if c.type == _TIMES else c for c in columns]
            yield pa.RecordBatch.from_arrays([*empty, *times], schema=self._arrow)

    def frames(self, packets: Iterable[Packet]) -> Iterator[pd.DataFrame]:
        """The same as frames."""
        yield from map(framed, self.batches(packets))


def _passes(type: pa.DataType) -> bool:
    """Whether pandas and Spark's Python pass values of this type as they are."""
    if pa.types.is_timestamp(type):
        return type in (_TIMES, pa.timestamp("us"))
    simple = (
        pa.types.is_boolean,
        pa.types.is_integer,
        pa.types.is_floating,
        pa.types.is_string,
        pa.types.is_binary,
        pa.types.is_date32,
        pa.types.is_decimal128,
    )
    return any(is_one(type) for is_one in simple)
