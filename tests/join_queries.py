"""Joins to ask: random windows, conditions, streams and cuts, each as a query and as its definition."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from hypothesis import assume
from hypothesis import strategies as st

import lowwater as lw
from lowwater.backends.local import LocalQuery
from lowwater.joins import keyed
from lowwater.joins.window_join import JoinSpec
from tests.compare import EPOCH
from tests.join_oracle import band_join, flatten, grid_join
from tests.join_scenarios import CONDITIONS, KEY_KINDS, JoinScenario, bands, grids, join_scenarios

Row = dict[str, Any]
Result = tuple[Any, ...]
"""Rows of both sides, or None for one, and over a grid also start and end."""
Lows = Sequence[int | None]

TIMES = ("ts", "l_ts", "r_ts", "window_start", "window_end")
STAMP = pa.timestamp("us", "UTC")

SQL = {"less": "l_v < r_v", "near": "abs(l_v - r_v) <= 1", "own": "own0 != own1"}
FUNCTIONS: dict[str, Callable[[pa.Table], pa.Array]] = {
    "less": lambda pairs: pc.less(pairs["l_v"], pairs["r_v"]),
    "near": lambda pairs: pc.less_equal(pc.abs(pc.subtract(pairs["l_v"], pairs["r_v"])), 1),
    "own": lambda pairs: pc.not_equal(pairs["own0"], pairs["own1"]),
}


def length(n: int, stamps: bool) -> Any:
    return dt.timedelta(microseconds=n) if stamps else n


@dataclass(frozen=True)
class Band:
    lower: int
    upper: int
    bounds: str = "[]"

    @property
    def waits(self) -> tuple[int, int]:
        """How long rows of each side wait; an open end is a tick less."""
        return self.upper - (self.bounds[1] == ")"), -self.lower - (self.bounds[0] == "(")

    def options(self, stamps: bool) -> Row:
        return {"within": (length(self.lower, stamps), length(self.upper, stamps)), "bounds": self.bounds}

    def join(self, left: list[Row], right: list[Row], on: Any, how: str, **more: Any) -> list[Result]:
        return list(band_join(left, right, on, self.lower, self.upper, how, self.bounds, **more))

    def waiting(self, side: int, row: Row, low: int | None) -> int:
        """In how many windows a row may still meet one of the other side, which is as far as `low`."""
        return int(low is None or row["ts"] + self.waits[side] >= low)

    def open(self, side: int, result: Result, low: int | None) -> bool:
        return self.waiting(side, result[side] or result[0], low) > 0


@dataclass(frozen=True)
class Grid:
    range: int
    slide: int
    origin: int = 0

    def options(self, stamps: bool) -> Row:
        origin = EPOCH + dt.timedelta(microseconds=self.origin) if stamps else self.origin
        return {"window": length(self.range, stamps), "slide": length(self.slide, stamps), "origin": origin}

    def join(self, left: list[Row], right: list[Row], on: Any, how: str, **more: Any) -> list[Result]:
        return list(grid_join(left, right, on, self.range, self.slide, self.origin, how, **more))

    def ends(self, time: int) -> list[int]:
        """The ends of the windows that hold a time."""
        newest = self.origin + (time - self.origin) // self.slide * self.slide
        return [start + self.range for start in range(newest, time - self.range, -self.slide)]

    def waiting(self, side: int, row: Row, low: int | None) -> int:
        return sum(low is None or end > low for end in self.ends(row["ts"]))

    def open(self, side: int, result: Result, low: int | None) -> bool:
        return low is None or result[3] > low


Window = Band | Grid


@dataclass(frozen=True)
class Case:
    """All that happens. `restarts` are the pushes before which the query is stopped and started."""

    scenario: JoinScenario
    window: Window
    how: str
    condition: str | None
    sql: bool
    null_safe: bool
    stamps: bool
    shards: int
    restarts: frozenset[int]

    def streams(self, disorder: Sequence[int] | None = None) -> list[lw.Stream]:
        declared = self.scenario.disorder if disorder is None else disorder
        return [
            lw.stream(
                self.clocked(schema.empty_table()),
                name=name,
                progress="ts",
                disorder=lw.delay(length(declared[port], self.stamps)),
            )
            for port, (name, schema) in enumerate(zip("lr", self.scenario.schemas, strict=True))
        ]

    def joined(self, disorder: Sequence[int] | None = None) -> lw.Joined:
        left, right = self.streams(disorder)
        condition = None if self.condition is None else (SQL if self.sql else FUNCTIONS)[self.condition]
        return left.join(
            right,
            self.scenario.on,
            how=self.how,
            condition=condition,
            null_safe=self.null_safe,
            **self.window.options(self.stamps),
        )

    def push(self, query: LocalQuery, at: int) -> None:
        port, rows = self.scenario.pushes[at]
        if at in self.restarts:
            query.restart()
        query.push(self.clocked(rows), port)

    def run(self, joined: lw.Joined | None = None) -> LocalQuery:
        query = (joined or self.joined()).start(shards=self.shards)
        for at in range(len(self.scenario.pushes)):
            self.push(query, at)
        query.finish()
        return query

    def clocked(self, table: pa.Table) -> pa.Table:
        return table.set_column(0, "ts", table["ts"].cast(STAMP)) if self.stamps else table

    def got(self, table: pa.Table) -> list[Row]:
        """Results with their times in ticks."""
        for at, name in enumerate(table.column_names):
            if name in TIMES and pa.types.is_timestamp(table[name].type):
                table = table.set_column(at, name, table[name].cast(pa.int64()))
        return table.to_pylist()

    def results(self, streams: list[list[Row]], how: str | None = None) -> list[Result]:
        """What the definition gives of these rows."""
        further = {
            "condition": None if self.condition is None else CONDITIONS[self.condition],
            "null_safe": self.null_safe,
        }
        return self.window.join(*streams, self.scenario.on, how or self.how, **further)

    def told(self, results: list[Result]) -> list[Row]:
        """Results as the library's rows."""
        columns = self.scenario.columns
        one_sided = self.how in ("semi", "anti")
        return flatten(results, self.scenario.on, columns=(columns[0], [] if one_sided else columns[1]))

    def keyless(self, side: int, row: Row) -> bool:
        return not self.null_safe and any(row[name] is None for name in self.scenario.keys[side])

    # -- the judges of time and state -------------------------------------------------------------------------------

    def known(self, arrived: list[list[Row]], lows: Lows) -> list[Result]:
        """What can be told of what has arrived: all pairs, and rows alone once no partner can come."""
        return [one for one in self.results(arrived) if not self.undecided(one, lows)]

    def undecided(self, one: Result, lows: Lows) -> bool:
        if self.how in ("inner", "semi") or None not in one[:2]:
            return False
        side = 0 if one[0] is not None else 1
        return not self.keyless(side, one[side]) and self.window.open(side, one, lows[1 - side])

    def needed(self, arrived: list[list[Row]], lows: Lows) -> list[int]:
        """How many rows of each side, once for each window, may still meet one to come."""
        kept = [
            sum(
                self.window.waiting(side, row, lows[1 - side])
                for row in rows
                if row["ts"] is not None and not self.keyless(side, row)
            )
            for side, rows in enumerate(arrived)
        ]
        if self.how in ("semi", "anti"):  # a left row that has met one is decided
            kept[0] -= sum(self.window.open(0, one, lows[1]) for one in self.results(arrived, "semi"))
        return kept


def stamped(scenario: JoinScenario) -> JoinScenario:
    """With key columns of numbers as timestamps."""
    numbers = [{name for name in keys if "number" in name} for keys in scenario.keys]
    schemas = [
        pa.schema([pa.field(f.name, STAMP if f.name in numbers[port] else f.type) for f in schema])
        for port, schema in enumerate(scenario.schemas)
    ]
    return replace(scenario, schemas=schemas, pushes=[(port, t.cast(schemas[port])) for port, t in scenario.pushes])


@st.composite
def windows(draw: st.DrawFn, kind: str) -> Window:
    if kind == "grid":
        return Grid(*draw(grids()))
    lower, upper, bounds = draw(bands(bounded=True))
    assert lower is not None
    assert upper is not None
    band = Band(lower, upper, bounds)
    assume(sum(band.waits) >= 0)  # an empty band is refused
    return band


@st.composite
def cases(
    draw: st.DrawFn, how: str, kind: str, kinds: Sequence[str] = tuple(KEY_KINDS), most: int = 25, shards: int = 3
) -> Case:
    scenario = draw(join_scenarios(kinds=kinds, most=most, timeless=draw(st.booleans())))
    if draw(st.integers(0, 4)) == 0:
        scenario = stamped(scenario)
    return Case(
        scenario,
        draw(windows(kind)),
        how,
        draw(st.sampled_from([None, None, *CONDITIONS])),
        draw(st.booleans()),
        draw(st.booleans()),
        draw(st.booleans()),
        draw(st.integers(1, shards)),
        draw(restarts(len(scenario.pushes))),
    )


def restarts(pushes: int) -> st.SearchStrategy[frozenset[int]]:
    return st.frozensets(st.integers(0, max(0, pushes - 1)), max_size=4)


def low_watermark(rows: list[Row], delay: int) -> int | None:
    times = [row["ts"] for row in rows if row["ts"] is not None]
    return max(times) - delay if times else None


def operators(query: LocalQuery) -> list[Any]:
    """The join in every shard."""
    number = next(i for i, placed in enumerate(query.plan.operators) if isinstance(placed.spec, JoinSpec))
    return [query.graph(0, shard).operators[number] for shard in range(query.shards)]


def held(query: LocalQuery) -> list[int]:
    """Rows of each side that the join holds to be needed."""
    joins = operators(query)
    return [sum(side.live_rows for side in sides) for sides in zip(*(join.sides for join in joins), strict=True)]


def in_memory(query: LocalQuery) -> int:
    """Rows of both sides, with those that have left and are not yet cleared away."""
    return sum(side.rows for join in operators(query) for side in join.sides)


def parts(query: LocalQuery) -> int:
    """The most parts that a side is in."""
    return max(len(side.parts) for join in operators(query) for side in join.sides)


def late_row(names: Sequence[str], schemas: Sequence[pa.Schema], port: int, row: Row, reason: str) -> Row:
    """A row of a join's input as the late output has it: under its own names, unless types differ; of others null."""

    def named(side: int, column: str) -> str:
        types = {schema.field(column).type for schema in schemas if column in schema.names}
        return column if len(types) == 1 else f"{names[side]}_{column}"

    columns = {named(side, column): None for side, schema in enumerate(schemas) for column in schema.names}
    own = {named(port, column): value for column, value in row.items()}
    return {**columns, **own, "late_reason": reason, "windows_missed": None, "windows_kept": 0}


def plain(name: str, disorder: Any = 0) -> lw.Stream:
    schema = pa.schema([("ts", pa.int64()), ("k", pa.string())])
    return lw.stream(schema.empty_table(), name=name, progress="ts", disorder=disorder)


keyed_hash = keyed.hashed


def few(keys: pa.Table) -> npt.NDArray[np.uint64]:
    """A hash of two values."""
    return keyed_hash(keys) % np.uint64(2)


def plain_streams(scenario: JoinScenario) -> list[lw.Stream]:
    return [
        lw.stream(schema.empty_table(), name=name, progress="ts", disorder=scenario.disorder[port])
        for port, (name, schema) in enumerate(zip("abcd", scenario.schemas, strict=False))
    ]
