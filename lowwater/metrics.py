"""The metrics of a running query: one record, the same from every backend.

Sources may be many thousands, and most micro-batches are looked at by nobody. So they travel as columns, one table per
input, and become objects only where somebody asks for `Metrics.sources`.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

import pyarrow as pa


@dataclass(frozen=True)
class SourceProgress:
    """How far one source of one input has come. Values are shown in the progressing attribute's own type."""

    input: str
    source: str
    low_watermark: str | None
    largest_seen: str | None
    rows: int
    holds_back: bool = False
    """Whether it is at the minimum, so that all others wait for it."""


@dataclass(frozen=True)
class Sources:
    """The progress of all sources: a table per input, whose name is in the metadata of its schema.

    Columns: source, low_watermark and largest_seen (in the progressing attribute's own type, null before any progress),
    ended, rows, holds_back.
    """

    inputs: tuple[pa.Table, ...] = ()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sources) and self.objects == other.objects

    def tables(self) -> dict[str, pa.Table]:
        """As Arrow, to be packed."""
        return {str(port): table for port, table in enumerate(self.inputs)}

    @staticmethod
    def of_tables(tables: dict[str, pa.Table]) -> Sources:
        return Sources(tuple(tables[str(port)] for port in range(len(tables))))

    @cached_property
    def objects(self) -> list[SourceProgress]:
        return [
            SourceProgress(
                _input(table),
                row["source"],
                "end" if row["ended"] else _shown(row["low_watermark"]),
                _shown(row["largest_seen"]),
                row["rows"],
                row["holds_back"],
            )
            for table in self.inputs
            for row in table.to_pylist()
        ]

    @property
    def held_back_by(self) -> str | None:
        """The source at the minimum, the first where several are. Looks at the columns only."""
        for table in self.inputs:
            at = table.column("holds_back").index(True).as_py()
            if at >= 0:
                input, source = _input(table), table.column("source")[at].as_py()
                return source if input == source else f"{input}/{source}"
        return None


def _input(table: pa.Table) -> str:
    name: bytes = table.schema.metadata[b"input"]
    return name.decode()


def _shown(value: object) -> str | None:
    return None if value is None else str(value)


@dataclass(frozen=True)
class Metrics:
    """Totals since the query first started, and the state it holds now.

    `rows` counts all rows read from all inputs. Of these, `null_rows` have no progress value and `punctuations` are
    promises; no row is in both. The rest, rows - null_rows - punctuations, is data, whether or not a filter keeps it.
    """

    rows: int = 0
    null_rows: int = 0
    punctuations: int = 0
    """Rows that are punctuations and no data: those of `punctuated(when=)` without data=True, and of `ends(when=)`."""
    late_rows: int = 0
    dropped_rows: int = 0
    result_rows: int = 0
    state_rows: int = 0
    state_bytes: int = 0
    ended_values: int = 0
    """Values, and ranges of them, that inputs of a join have ended and that are remembered, beside the rows."""
    low_watermark: str | None = None
    closed_below: int | None = None
    """All window ids below this one are complete: nothing more will be said of them."""
    by_source: Sources = Sources()

    @property
    def sources(self) -> list[SourceProgress]:
        """The progress of every source of every input."""
        return self.by_source.objects

    @property
    def held_back_by(self) -> str | None:
        """The source at the minimum, the first where several are: everything waits for it. None once all have ended."""
        return self.by_source.held_back_by

    def numbers(self) -> dict[str, Any]:
        """Everything except the sources, as plain values."""
        named = {field.name: getattr(self, field.name) for field in fields(self) if field.name != "by_source"}
        return named | {"held_back_by": self.held_back_by}

    @staticmethod
    def of(numbers: dict[str, Any], by_source: Sources) -> Metrics:
        """The inverse of `numbers`, with the sources."""
        known = {field.name: numbers[field.name] for field in fields(Metrics) if field.name != "by_source"}
        return Metrics(**known, by_source=by_source)

    @staticmethod
    def total(shards: list[Metrics]) -> Metrics:
        """Shards together. Every shard sees the facts of the whole input, so what was read is not added up."""
        if not shards:
            return Metrics()
        summed = ("late_rows", "dropped_rows", "result_rows", "state_rows", "state_bytes", "ended_values")
        first = shards[0]
        return Metrics(
            rows=first.rows,
            null_rows=first.null_rows,
            punctuations=first.punctuations,
            low_watermark=first.low_watermark,
            closed_below=first.closed_below,
            by_source=first.by_source,
            **{name: sum(getattr(shard, name) for shard in shards) for name in summed},
        )
