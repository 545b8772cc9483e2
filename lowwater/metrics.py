"""The metrics of a running query: one record, the same for every backend.

A query can have many thousands of sources, and the metrics of most micro-batches are never read. So the progress of
sources travels as columns, one table per input, and becomes objects only when `Metrics.sources` is read.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from datetime import datetime
from functools import cached_property
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc


@dataclass(frozen=True)
class SourceProgress:
    """The progress of one source of one input. Values have the type of the progressing attribute, as text."""

    input: str
    source: str
    low_watermark: str | None
    largest_seen: str | None
    rows: int
    holds_back: bool = False
    """Whether its low-watermark is the minimum, so that all other sources wait for it."""
    low_watermark_time: datetime | None = None
    """The low-watermark, if the stream progresses on a timestamp; None before any progress and at the end."""
    largest_seen_time: datetime | None = None


@dataclass(frozen=True)
class InputDisorder:
    """The disorder of one input in its last rows, over all its sources in order of arrival (model/monitors.py)."""

    input: str
    scrambling_factor: int
    """k of WO 2.2, rounded up: in large micro-batches by up to two 1024ths of a run."""
    late_by: int
    """The largest lateness in ticks, rounded up in the same way."""
    suggested: str | int
    """The smallest round `disorder=` under which none of these rows would have been late."""
    multiplicity: int = 1
    """The most rows with one value (WO 3.2); in large micro-batches, of rows that come near each other."""
    rate: float = 0.0
    """Rows per micro-batch, over the last micro-batches."""
    lag: int = 0
    """How many rows are ahead of the slowest other input (WO 2.6), in steps of about a thousandth of them."""


@dataclass(frozen=True)
class Sources:
    """The progress of all sources: one table per input, with the name of the input in the metadata of its schema.

    Columns: source, low_watermark and largest_seen (in the type of the progressing attribute, null before any
    progress), ended, rows, and `bound`, the low-watermark in ticks.
    """

    inputs: tuple[pa.Table, ...] = ()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sources) and self.objects == other.objects

    def tables(self) -> dict[str, pa.Table]:
        """The Arrow tables by number of the input, for packing."""
        return {str(port): table for port, table in enumerate(self.inputs)}

    @staticmethod
    def of_tables(tables: dict[str, pa.Table]) -> Sources:
        return Sources(tuple(tables[str(port)] for port in range(len(tables))))

    @property
    def counts(self) -> list[int]:
        """Rows read, rows without a time, and punctuations, summed over all inputs."""
        each = [json.loads(table.schema.metadata[b"counts"]) for table in self.inputs]
        return [sum(counts[i] for counts in each) for i in range(3)]

    @property
    def by_name(self) -> dict[str, pa.Table]:
        """The table of each input, by its name."""
        return {_input(table): table for table in self.inputs}

    @property
    def disorder(self) -> list[InputDisorder]:
        """The disorder of the inputs that have sent rows."""
        each = [(_input(table), json.loads(table.schema.metadata[b"disorder"])) for table in self.inputs]
        return [InputDisorder(name, *found) for name, (rows, *found) in each if rows]

    @cached_property
    def objects(self) -> list[SourceProgress]:
        return [
            SourceProgress(
                _input(table),
                row["source"],
                "end" if row["ended"] else _shown(row["low_watermark"]),
                _shown(row["largest_seen"]),
                row["rows"],
                row["bound"] == self.least,
                _time(row["low_watermark"]),
                _time(row["largest_seen"]),
            )
            for table in self.inputs
            for row in table.to_pylist()
        ]

    @cached_property
    def least(self) -> int | None:
        """The low-watermark of the slowest source, in ticks; None if all sources have ended."""
        open_ = [table.filter(pc.invert(table.column("ended"))).column("bound") for table in self.inputs]
        return min((pc.min(bounds).as_py() for bounds in open_ if len(bounds)), default=None)

    @property
    def low_watermark(self) -> str | None:
        """The low-watermark of the slowest input, as text; None before any progress."""
        lows = [json.loads(table.schema.metadata[b"low"]) for table in self.inputs]
        return min(lows, key=lambda low: low[0])[1] if lows else None

    @property
    def low_watermark_time(self) -> datetime | None:
        """The low-watermark of the slowest input, if that progresses on a timestamp; None also at the end."""
        if not self.inputs:
            return None
        slowest = min(self.inputs, key=lambda table: json.loads(table.schema.metadata[b"low"])[0])
        timed = pa.types.is_timestamp(slowest.schema.field("low_watermark").type)
        text = self.low_watermark if timed else None
        return None if text is None or text == "end" else datetime.fromisoformat(text)

    @property
    def held_back_by(self) -> str | None:
        """The first source at the minimum. Reads only columns and creates no objects."""
        if self.least is None:
            return None
        for table in self.inputs:
            at = table.column("bound").index(self.least).as_py()
            if at >= 0:
                input, source = _input(table), table.column("source")[at].as_py()
                return source if input == source else f"{input}/{source}"
        return None


def _input(table: pa.Table) -> str:
    name: bytes = table.schema.metadata[b"input"]
    return name.decode()


def _time(value: object) -> datetime | None:
    return value if isinstance(value, datetime) else None


def _shown(value: object) -> str | None:
    return None if value is None else str(value)


def _line(name: str, values: dict[str, Any], always: Sequence[str]) -> str:
    """Values in one line, without those that are zero or None."""
    return f"{name}({', '.join(f'{key}={value!r}' for key, value in values.items() if value or key in always)})"


@dataclass(frozen=True, repr=False)
class OperatorMetrics:
    """The metrics of one operator: totals since the query first started, and the state that it holds now."""

    number: int
    name: str
    late_rows: int = 0
    """Late rows. In a window aggregation, those that missed at least one of their windows."""
    dropped_rows: int = 0
    """Late rows that count nowhere."""
    result_rows: int = 0
    state_rows: int = 0
    state_bytes: int = 0
    ended_values: int = 0
    lost_to_disorder: int = 0
    """Of a join without a window: rows that came when their partners may have left, because a stream was more scrambled
    than assumed. They are among the late rows."""
    lost_to_memory: int = 0
    """Of a join with a memory limit: rows that came when their partners may have been evicted."""
    lost_to_multiplicity: int = 0
    """Of a join with expected multiplicities: rows that came when the others of their key had left, because there are
    more of them than expected. They are among the late rows."""
    beyond_rows: dict[str, int] = field(default_factory=dict)
    """The same rows, by input."""
    evicted_rows: int = 0
    """Rows that were evicted because the memory was full."""
    lost_results: int = 0
    """The estimated number of results that were lost for all these reasons."""
    aside_rows: int = 0
    """Rows that wait on disk until their partners come near; they are among the rows of the state."""
    memory_bytes: int = 0
    """The bytes of rows in memory, at most, of a join that may have a memory limit."""
    adaptive_shards: int = 0
    """Of windows: shards that keep sparse groups as rows now, by AdaptWID."""
    switches: int = 0
    """How often shards have chosen or left AdaptWID while running."""
    nanoseconds: int = field(default=0, compare=False)
    """Time at work, over all shards: since the start in this process, on Spark in the last micro-batch."""
    over_bound: int = field(default=0, compare=False)
    """Shards that hold more than the bound of `explain()` allows. On Spark only counted where it is asked for."""

    def __repr__(self) -> str:
        return _line("OperatorMetrics", asdict(self), ("number", "name"))

    @property
    def output_accuracy(self) -> float:
        """WO Eq. 1, estimated: results over results and lost results. `lowwater.testing.output_accuracy` is exact."""
        return self.result_rows / max(1, self.result_rows + self.lost_results) if self.lost_results else 1.0


BEYOND_ROWS = "lost_to_multiplicity"
"""The metric of an operator that is also known by input."""
SUMMED = ("late_rows", "dropped_rows", "result_rows", "state_rows", "state_bytes", "ended_values")
"""The metrics of an operator that are summed over shards, and over operators for the query."""
LOST = (
    "lost_to_disorder",
    "lost_to_memory",
    "lost_to_multiplicity",
    "evicted_rows",
    "lost_results",
    "aside_rows",
    "memory_bytes",
)
"""The metrics of joins without a window, in the order of `Lost` of operators/base.py."""
ADAPTING = ("adaptive_shards", "switches")
"""The metrics of windows that may be kept by AdaptWID, in the order of `Adapting` of operators/base.py."""
MEASURED = (*LOST, *ADAPTING, "nanoseconds", "over_bound")
"""The metrics of an operator that are summed over shards alone."""
PER_OPERATOR = (*SUMMED, *MEASURED)


@dataclass(frozen=True, repr=False)
class Metrics:
    """The metrics of a query: totals since it first started, and the state that it holds now.

    `rows` counts all rows read from all inputs. Of these, `null_rows` have no progress value and `punctuations` are
    promises; no row is in both. The rest, rows - null_rows - punctuations, is data, whether or not a filter keeps it.
    `late_rows`, `dropped_rows`, `state_rows`, `state_bytes` and `ended_values` are sums over all operators.
    `result_rows` counts the results of the last operator, which are the results of the query.
    """

    rows: int = 0
    null_rows: int = 0
    punctuations: int = 0
    """Rows that are punctuations and not data: of `punctuated(when=)` without data=True, and of `ends(when=)`."""
    late_rows: int = 0
    dropped_rows: int = 0
    result_rows: int = 0
    state_rows: int = 0
    state_bytes: int = 0
    ended_values: int = 0
    """Values and ranges of values that the inputs of joins have ended and that are still remembered; of joins without a
    window also keys of which as many rows as expected have come."""
    low_watermark: str | None = None
    closed_below: int | None = None
    """All windows with an id below this one are closed: no further result for them comes."""
    closed_by: Mapping[int, int] = field(default_factory=dict)
    """The same for each query of several that run together, by the number of its last operator."""
    by_source: Sources = Sources()
    operators: tuple[OperatorMetrics, ...] = ()

    @property
    def sources(self) -> list[SourceProgress]:
        """The progress of every source of every input."""
        return self.by_source.objects

    @property
    def low_watermark_time(self) -> datetime | None:
        """The low-watermark as a datetime, as those of `sources`. None before any progress and at the end."""
        return self.by_source.low_watermark_time

    @property
    def disorder(self) -> list[InputDisorder]:
        """How disordered each input is, and a `disorder=` that fits it."""
        return self.by_source.disorder

    @property
    def held_back_by(self) -> str | None:
        """The source that all others wait for: the first one at the minimum. None if all sources have ended."""
        return self.by_source.held_back_by

    def __repr__(self) -> str:
        shown = {one.name: getattr(self, one.name) for one in fields(self) if one.name != "by_source"}
        shown |= {"held_back_by": self.held_back_by, "operators": len(shown.pop("operators"))}
        return _line("Metrics", shown, ("rows", "low_watermark", "closed_below"))

    def numbers(self) -> dict[str, Any]:
        """All metrics except those of sources, as plain values."""
        named = {one.name: getattr(self, one.name) for one in fields(self) if one.name != "by_source"}
        named["closed_by"] = dict(self.closed_by)
        operators = [asdict(operator) for operator in self.operators]
        return named | {"operators": operators, "held_back_by": self.held_back_by}

    @staticmethod
    def of_operators(
        operators: Sequence[OperatorMetrics], roots: Sequence[int], by_source: Sources, **facts: Any
    ) -> Metrics:
        """The metrics of a query from those of its operators and its inputs, or of several queries with a root each."""
        rows, nulls, punctuations = by_source.counts
        facts |= {"low_watermark": by_source.low_watermark}
        facts |= {"rows": rows, "null_rows": nulls, "punctuations": punctuations, "by_source": by_source}
        sums = {name: sum(getattr(one, name) for one in operators) for name in SUMMED if name != "result_rows"}
        of_root = {one.number: one.result_rows for one in operators}
        results = sum(of_root.get(root, 0) for root in roots)
        return Metrics(**sums, result_rows=results, operators=tuple(operators), **facts)

    def part(self, labels: Mapping[int, str], root: int, inputs: Collection[str]) -> Metrics:
        """The metrics of one of several queries: of these operators and inputs. `labels` are its names of operators."""
        return Metrics.of_operators(
            [replace(one, name=labels[one.number]) for one in self.operators if one.number in labels],
            [root],
            Sources(tuple(table for name, table in self.by_source.by_name.items() if name in inputs)),
            closed_below=self.closed_by.get(root, self.closed_below),
        )

    @staticmethod
    def total(shards: Sequence[Metrics], roots: Sequence[int]) -> Metrics:
        """The metrics over all shards and stages. Facts about inputs are equal in every shard and are not summed."""
        if not shards:
            return Metrics()
        together: dict[int, OperatorMetrics] = {}
        for shard in shards:
            for one in shard.operators:
                known = together.get(one.number, OperatorMetrics(one.number, one.name))
                sums = {name: getattr(known, name) + getattr(one, name) for name in PER_OPERATOR}
                beyond = {name: known.beyond_rows.get(name, 0) + n for name, n in one.beyond_rows.items()}
                together[one.number] = OperatorMetrics(one.number, one.name, beyond_rows=beyond, **sums)
        inputs: dict[str, pa.Table] = {}
        for shard in shards:
            for name, table in shard.by_source.by_name.items():
                inputs.setdefault(name, table)
        return Metrics.of_operators(
            [together[number] for number in sorted(together)],
            roots,
            closed_below=next((s.closed_below for s in shards if s.closed_below is not None), None),
            closed_by={root: wid for shard in reversed(shards) for root, wid in shard.closed_by.items()},
            by_source=Sources(tuple(inputs.values())),
        )
