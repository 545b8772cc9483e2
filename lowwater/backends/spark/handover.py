"""The handover of rows from Spark's scan to Python: what it costs, and what bounds a batch (decision 0023).

Spark asks the Arrow writer for its size after every row, which is two thirds of the cost of the handover. With
`spark.sql.execution.arrow.maxBytesPerBatch` at 2147483647 Spark skips that check. Then only the number of rows bounds a
batch:

    all columns of fixed width      20,000 rows
    n columns of variable width     40,000 / n rows, at most 10,000: Spark's own default

So a batch with text in it stays below 256 MB while its values have less than 6.7 kB on average. More rows in a batch
gain nothing: ingest puts small batches together before it works on them.

Spark knows one value of each setting per query, so both hold for the packed messages and results too. Their blobs may
have many MB each, so they travel in pieces of 32 kB (messages.py): a batch of them has 640 MB at most.

Timestamps travel as integers, which Spark writes faster, and become timestamps again without a copy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import (
    BooleanType,
    DataType,
    DateType,
    DayTimeIntervalType,
    DecimalType,
    NumericType,
    StructType,
    TimestampNTZType,
    TimestampType,
    YearMonthIntervalType,
)

from lowwater.backends.spark.quoting import quoted

ROWS = 20_000
"""Rows of a batch of fixed width."""
GATHERED = 100_000
"""Rows of the batches that ingest works on, because work per batch is not free."""
DEFAULT_ROWS = 10_000
"""Spark's own limit, which was its only one before there was a limit in bytes."""
_TEXTS = 40_000
"""Values of variable width in a batch."""
_BYTES = 1 << 26
_TIMES = pa.timestamp("us", "UTC")
_FIXED = (
    BooleanType,
    DateType,
    DayTimeIntervalType,
    DecimalType,
    NumericType,
    TimestampNTZType,
    TimestampType,
    YearMonthIntervalType,
)

Run = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


def rows_of_batch(types: Iterable[DataType]) -> int:
    """The rows of a batch of these columns where no number of bytes bounds it.

    >>> from pyspark.sql.types import LongType, StringType
    >>> [rows_of_batch([LongType(), *[StringType()] * n]) for n in (0, 1, 4, 8)]
    [20000, 10000, 10000, 5000]
    """
    varying = sum(not isinstance(type, _FIXED) for type in types)
    return min(DEFAULT_ROWS, max(1, _TEXTS // varying)) if varying else ROWS


def handed_over(df: DataFrame, columns: Sequence[str], run: Run, schema: str, rows: int = GATHERED) -> DataFrame:
    """`run` over these columns of a DataFrame. It gets them in their own types, timestamps in UTC, and `rows` at once.

    Columns travel by number, because mapInArrow takes a dot in a name for a field of a struct.
    """
    types = {name: df.schema[name].dataType for name in columns}
    times = tuple(name for name, type in types.items() if isinstance(type, TimestampType))
    handed = [_handed(name, name in times).alias(f"c{i}") for i, name in enumerate(columns)]
    return df.select(*handed).mapInArrow(Restored(run, tuple(columns), times, rows), schema)


def fixed_or_not(schema: StructType, columns: Sequence[str]) -> int:
    """`rows_of_batch` of some columns of a schema."""
    return rows_of_batch(schema[name].dataType for name in columns)


def by_number(df: DataFrame, run: Run, schema: Any) -> DataFrame:
    """`mapInArrow` that takes any names of columns: those with a dot or a backtick travel by number."""
    if not any(mark in name for name in df.columns for mark in ".`"):
        return df.mapInArrow(run, schema)
    return df.toDF(*(f"c{i}" for i in range(len(df.columns)))).mapInArrow(Numbered(run, tuple(df.columns)), schema)


class Numbered:
    """A run over columns that get their names back."""

    def __init__(self, run: Run, names: tuple[str, ...]) -> None:
        self._run, self._names = run, list(names)

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return self._run(batch.rename_columns(self._names) for batch in batches)


def _handed(name: str, is_time: bool) -> Column:
    return F.unix_micros(quoted(name)) if is_time else F.col(quoted(name))


class Restored:
    """A run over batches as they were before the handover: own names, timestamps instead of integers, large batches."""

    def __init__(self, run: Run, names: Sequence[str], times: Sequence[str], rows: int = GATHERED) -> None:
        self._run, self._names, self._times, self._rows = run, list(names), frozenset(times), rows

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return self._run(self._timed(batch) for batch in gathered(batches, self._rows))

    def _timed(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        columns = [
            column.view(_TIMES) if name in self._times else column
            for name, column in zip(self._names, batch.columns, strict=True)
        ]
        return pa.RecordBatch.from_arrays(columns, self._names)


def gathered(batches: Iterable[pa.RecordBatch], rows: int) -> Iterator[pa.RecordBatch]:
    """The same rows in batches of `rows` rows and more, or of 64 MB, because work per batch is not free.

    >>> small = [pa.record_batch({"v": [n]}) for n in range(5)]
    >>> [batch["v"].to_pylist() for batch in gathered(small, 2)]
    [[0, 1], [2, 3], [4]]
    """
    waiting: list[pa.RecordBatch] = []
    count = size = 0
    for batch in batches:
        waiting.append(batch)
        count, size = count + batch.num_rows, size + batch.nbytes
        if count >= rows or size >= _BYTES:
            yield from _together(waiting)
            waiting, count, size = [], 0, 0
    yield from _together(waiting)


def _together(batches: list[pa.RecordBatch]) -> list[pa.RecordBatch]:
    if len(batches) < 2:
        return batches
    together: list[pa.RecordBatch] = pa.Table.from_batches(batches).combine_chunks().to_batches()
    return together
