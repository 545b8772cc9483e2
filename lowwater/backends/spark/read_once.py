"""One scan for several readings of an input: queries that run together read a stream once, each in its own way.

    source ── the steps of all readings, by Spark ── mapInArrow: the ingest of each reading gets its columns

A reading is a frame: the rows of the input, and the steps over them (filters that mark rows, columns that are derived,
functions). Columns that no step of a reading has changed are handed over once for all readings; the others are its own
and travel under other names. Spark sees one source and one scan, so that all readings get the same rows in a
micro-batch.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from lowwater.backends.spark.handover import Run, by_number
from lowwater.backends.spark.host import IngestRun
from lowwater.backends.spark.quoting import quoted
from lowwater.backends.spark.versions import spark_schema
from lowwater.model.columns import KEEP
from lowwater.operators.rowwise import RowFunction, mapped_where
from lowwater.runtime.ingest import Ingest

if TYPE_CHECKING:
    from lowwater.backends.spark.frame import SparkFrame

_GIVEN, _OWN = "__lw_given_", "__lw_own_{}_"
"""Before the names of columns that the input has, and of those that a reading has made."""


class Step(Protocol):
    """A step over the rows of an input. `carried` are columns that are none of its business and stay."""

    @property
    def makes(self) -> frozenset[str]:
        """The columns that it adds or replaces."""

    def __call__(self, df: DataFrame, carried: Sequence[str]) -> DataFrame: ...


@dataclass(frozen=True)
class WithColumn:
    """A column added or replaced."""

    name: str
    expression: str

    @property
    def makes(self) -> frozenset[str]:
        return frozenset([self.name])

    def __call__(self, df: DataFrame, carried: Sequence[str]) -> DataFrame:
        return df.withColumn(self.name, F.expr(self.expression))


@dataclass(frozen=True)
class Select:
    """Some columns."""

    columns: tuple[str, ...]
    makes = frozenset[str]()

    def __call__(self, df: DataFrame, carried: Sequence[str]) -> DataFrame:
        return df.select(*map(_column, (*self.columns, *carried)))


@dataclass(frozen=True)
class Apply:
    """A user's function over Arrow batches, inside Spark; marks of a filter are carried around it, too."""

    function: RowFunction
    schema: pa.Schema

    @property
    def makes(self) -> frozenset[str]:
        return frozenset(self.schema.names)

    def __call__(self, df: DataFrame, carried: Sequence[str]) -> DataFrame:
        around = [*([KEEP] if KEEP in df.columns else []), *carried]
        out = spark_schema(self.schema)
        for name in around:
            out = out.add(df.schema[name])
        return by_number(df, ApplyRun(self.function, self.schema, carried), out)


class ApplyRun:
    """Calls the function with the visible columns."""

    def __init__(self, function: RowFunction, schema: pa.Schema, carried: Sequence[str] = ()) -> None:
        self._function, self._schema, self._carried = function, schema, list(carried)

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            table = pa.Table.from_batches([batch])
            rows = mapped_where(table.drop_columns(self._carried), KEEP, self._function, self._schema)
            for name in self._carried:  # there are as many rows, in the same order
                rows = rows.append_column(table.schema.field(name), table.column(name))
            yield from rows.combine_chunks().to_batches()


@dataclass(frozen=True)
class ReadOnce:
    """The columns of all readings in one DataFrame, and for each reading its own names of them."""

    df: DataFrame
    columns: tuple[dict[str, str], ...]

    @staticmethod
    def of(frames: Sequence[SparkFrame]) -> ReadOnce:
        """The frames are of one input: the rows that they begin with are the same."""
        if len(frames) == 1:
            return ReadOnce(frames[0].df, ({name: name for name in frames[0].df.columns},))
        begun = frames[0].df if frames[0].begun is None else frames[0].begun
        given = begun.columns
        carried = [_GIVEN + name for name in given]
        df = begun.select(*(_column(name).alias(_GIVEN + name) for name in given))
        found: dict[int, dict[str, str]] = {}
        for number, frame in enumerate(frames):
            if id(frame) in found:
                continue
            df = df.select(*(_column(_GIVEN + name).alias(name) for name in given), *map(_column, carried))
            for step in frame.steps:
                df = step(df, carried)
            made = frozenset[str]().union(*(step.makes for step in frame.steps))
            own = _OWN.format(number)
            of = {name: (own if name in made else _GIVEN) + name for name in df.columns if name not in carried}
            new = [name for name in of if name in made]
            df = df.select(*map(_column, carried), *(_column(name).alias(of[name]) for name in new))
            carried += [of[name] for name in new]
            found[id(frame)] = of
        used = {name for of in found.values() for name in of.values()}
        return ReadOnce(
            df.select(*(_column(name) for name in carried if name in used)), tuple(found[id(one)] for one in frames)
        )

    def run(self, runs: Sequence[IngestRun]) -> Run:
        """What ingests the rows, for each reading."""
        return runs[0] if len(runs) == 1 else IngestRuns(runs, self.columns)


class IngestRuns:
    """Ingest of the same rows by several readings, each with its own names of their columns."""

    def __init__(self, runs: Sequence[IngestRun], columns: Sequence[Mapping[str, str]]) -> None:
        self._runs, self._columns = tuple(runs), tuple(columns)

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        ingests = self.opened()
        ingests.read(batches)
        yield from self.sent(ingests)

    def opened(self) -> Ingests:
        """The runs of this partition, without rows."""
        return Ingests([run.opened() for run in self._runs], self._columns)

    def sent(self, ingests: Ingests) -> Iterator[pa.RecordBatch]:
        """The messages of all runs."""
        for run, ingest in zip(self._runs, ingests.each, strict=True):
            yield from run.sent(ingest)


@dataclass(frozen=True)
class Ingests:
    """One run of each reading."""

    each: Sequence[Ingest]
    columns: Sequence[Mapping[str, str]]

    def read(self, batches: Iterable[pa.RecordBatch]) -> None:
        for batch in batches:
            for ingest, columns in zip(self.each, self.columns, strict=True):
                own = [batch.column(name) for name in columns.values()]
                ingest.read([pa.RecordBatch.from_arrays(own, list(columns))])


def _column(name: str) -> Column:
    return F.col(quoted(name))
