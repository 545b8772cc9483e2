"""Window joins give what the definition gives, and as soon as it does, whatever arrives in whatever order and pieces.

A case is a join of streams and the arrival of their rows: each stream as disordered as it declares, out of step with
the others, cut into batches anywhere, on one shard or several, with restarts in between. The judge of results is
tests/join_oracle.py. Here are the judges of time and state, which know no more than the low-watermark of every stream:
the largest time seen, less the declared delay.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import lowwater as lw
from lowwater.backends.local import LocalQuery
from lowwater.joins import keyed
from lowwater.joins.oa_join import LATE, OAJoin
from lowwater.joins.spec import JoinSide, WindowJoin
from lowwater.model.punctuation import ALL, Punctuation, Range
from lowwater.operators.base import Batch, Message
from lowwater.operators.group_by import GroupBy, Grouping
from lowwater.windows.context_free import Sliding
from tests.compare import EPOCH, difference, multiset
from tests.join_oracle import HOWS, band_join, flatten, grid_join, n_way
from tests.join_scenarios import CONDITIONS, KEY_KINDS, JoinScenario, bands, grids, join_scenarios
from tests.oracle import aggregate, aggregate_windows, key

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


EVERY = [(how, kind) for how in HOWS for kind in ("band", "grid")]


@pytest.mark.parametrize(("how", "kind"), EVERY)
@settings(max_examples=20)
@given(data=st.data())
def test_local_join_is_the_definition(how: str, kind: str, data: st.DataObject) -> None:
    case = data.draw(cases(how, kind))
    query = case.run()
    streams = case.scenario.streams
    assert multiset(case.got(query.result())) == multiset(case.told(case.results(streams)))
    numbers = query.metrics()
    timeless = sum(row["ts"] is None for rows in streams for row in rows)
    assert (numbers.late_rows, numbers.null_rows, query.late_output().num_rows) == (0, timeless, timeless)
    assert (numbers.rows, numbers.result_rows) == (sum(map(len, streams)), query.result().num_rows)
    assert (numbers.state_rows, numbers.state_bytes) == (0, 0)


@pytest.mark.parametrize(("how", "kind"), EVERY)
@settings(max_examples=8)
@given(data=st.data())
def test_after_each_push_all_is_out_that_progress_proves_and_no_row_is_kept_in_vain(
    how: str, kind: str, data: st.DataObject
) -> None:
    """Pairs at once; rows that stay alone as soon as no partner can come, and not before: none is ever taken back."""
    case = data.draw(cases(how, kind, most=14))
    query = case.joined().start(shards=case.shards)
    arrived: list[list[Row]] = [[], []]
    lows: list[int | None] = [None, None]
    for at, (port, rows) in enumerate(case.scenario.pushes):
        case.push(query, at)
        arrived[port] += rows.to_pylist()
        lows[port] = low_watermark(arrived[port], case.scenario.disorder[port])
        assert multiset(case.got(query.result())) == multiset(case.told(case.known(arrived, lows)))
        assert held(query) == case.needed(arrived, lows)
        assert query.metrics().state_rows == sum(held(query))
        if how not in ("semi", "anti"):  # they cross out rows at any time, and clear away when time passes
            assert in_memory(query) <= 2 * sum(held(query))
    query.finish()
    assert multiset(case.got(query.result())) == multiset(case.told(case.results(arrived)))
    assert (held(query), query.metrics().state_bytes) == ([0, 0], 0)


def low_watermark(rows: list[Row], delay: int) -> int | None:
    times = [row["ts"] for row in rows if row["ts"] is not None]
    return max(times) - delay if times else None


def held(query: LocalQuery) -> list[int]:
    """Rows of each side that the join holds to be needed."""
    joins = [shard.operator for shard in query._shards]  # type: ignore[attr-defined]
    return [sum(side.live_rows for side in sides) for sides in zip(*(join.sides for join in joins), strict=True)]


def in_memory(query: LocalQuery) -> int:
    """Rows of both sides, with those that have left and are not yet cleared away."""
    return sum(side.rows for shard in query._shards for side in shard.operator.sides)  # type: ignore[attr-defined]


def parts(query: LocalQuery) -> int:
    """The most parts that a side is in."""
    return max(len(side.parts) for shard in query._shards for side in shard.operator.sides)  # type: ignore[attr-defined]


@pytest.mark.parametrize(("how", "kind"), EVERY)
@settings(max_examples=5)
@given(data=st.data())
def test_results_do_not_depend_on_the_order_of_arrival(how: str, kind: str, data: st.DataObject) -> None:
    """Two arrivals of the same rows, in any order and any pieces, of streams that declare all of it."""
    case = data.draw(cases(how, kind))
    enough = [1000, 1000]
    found = []
    for _ in range(2):
        rows = [(port, row) for port, rows in enumerate(case.scenario.streams) for row in rows]
        arrival = data.draw(st.permutations(rows))
        query = case.joined(enough).start(shards=data.draw(st.integers(1, 3)))
        while arrival:
            some = data.draw(st.integers(1, len(arrival)))
            for port, schema in enumerate(case.scenario.schemas):
                own = [row for of, row in arrival[:some] if of == port]
                query.push(case.clocked(pa.Table.from_pylist(own, schema=schema)), port)
            arrival = arrival[some:]
        query.finish()
        found.append(multiset(case.got(query.result())))
    assert found[0] == found[1]


@pytest.mark.parametrize("how", HOWS)
@settings(max_examples=10)
@given(data=st.data())
def test_rows_behind_their_own_low_watermark_are_told_and_take_no_part(how: str, data: st.DataObject) -> None:
    """Streams declare less disorder than they have. A batch is judged by what came before it.

    A null key has no partner in time either: of sides whose lonely rows nobody asks for it is never told.
    """
    case = data.draw(st.sampled_from(["band", "grid"]).flatmap(lambda kind: cases(how, kind)))
    if isinstance(case.window, Grid):
        assume(case.window.range >= case.window.slide)  # what lies in no window is not late for one
    declared = [data.draw(st.sampled_from([0, 2, 6])) for _ in range(2)]
    query = case.joined(declared).start(shards=case.shards)
    asked = how in ("left", "full", "anti"), how in ("right", "full")
    seen: list[list[Row]] = [[], []]
    on_time: list[list[Row]] = [[], []]
    late: list[Row] = []
    names = {"columns": case.scenario.columns}
    for at, (port, table) in enumerate(case.scenario.pushes):
        low = low_watermark(seen[port], declared[port])
        for row in table.to_pylist():
            if row["ts"] is None or low is None or row["ts"] >= low:
                on_time[port].append(row)
            elif asked[port] or not case.keyless(port, row):
                pair = (row, None) if port == 0 else (None, row)
                late += [{"input": "lr"[port], **one} for one in flatten([pair], case.scenario.on, **names)]
        seen[port] += table.to_pylist()
        case.push(query, at)
    query.finish()
    assert multiset(case.got(query.result())) == multiset(case.told(case.results(on_time)))
    told = [row for row in case.got(query.late_output()) if row.pop("late_reason") == LATE]
    assert multiset(told) == multiset(row | {"windows_missed": None, "windows_kept": 0} for row in late)
    assert query.metrics().late_rows == len(late)


# -- state ----------------------------------------------------------------------------------------------------------


def plain(name: str, disorder: Any = 0) -> lw.Stream:
    schema = pa.schema([("ts", pa.int64()), ("k", pa.string())])
    return lw.stream(schema.empty_table(), name=name, progress="ts", disorder=disorder)


@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("options", [{"within": 10}, {"window": 10}, {"window": 20, "slide": 5}])
def test_quiet_keys_leave_nothing_behind(how: str, options: Row) -> None:
    """Without an end: rows of one other key on both sides let go all others."""
    query = plain("l").join(plain("r"), on="k", how=how, **options).start(shards=2)
    for port in (0, 1):
        query.push([{"ts": n % 7, "k": f"{port} {n}"} for n in range(100)], port)
    assert query.metrics().state_rows >= 200
    for port in (0, 1):
        query.push([{"ts": 1000, "k": "loud"}], port)
    windows = 4 if "slide" in options else 1
    rest = {"semi": [0, windows], "anti": [0, windows]}.get(how, [windows, windows])
    assert held(query) == rest, "the loud key's own rows"
    assert in_memory(query) <= 2 * sum(rest)


def test_the_number_of_parts_grows_with_the_logarithm_of_the_rows() -> None:
    query = plain("l").join(plain("r"), on="k", within=1000, how="full").start()
    most = 0
    for n in range(200):
        for port in (0, 1):
            query.push([{"ts": n, "k": f"{n % 5}"}] * (1 + n % 4), port)
        most = max(most, parts(query))
        assert query.metrics().state_rows == 2 * sum(1 + i % 4 for i in range(n + 1))
    assert most <= 20
    query.push([{"ts": 5000, "k": "0"}])
    query.push([{"ts": 5000, "k": "0"}], port=1)
    assert (held(query), parts(query)) == ([1, 1], 1)


@pytest.mark.parametrize("how", ["semi", "anti"])
def test_rows_that_are_decided_leave_no_part_behind(how: str) -> None:
    """Decided rows are crossed out though no time passes, so a part may be empty when parts are merged."""
    query = plain("l", 50).join(plain("r", 50), on="k", within=5, how=how).start()
    for name in "abc":
        query.push([{"ts": 0, "k": name}])
    query.push([{"ts": 0, "k": "a"}], port=1)
    query.push([{"ts": 0, "k": "d"}])
    assert held(query) == [3, 1]
    query.push([{"ts": 0, "k": name} for name in "bcd"], port=1)
    query.restart()
    query.push([{"ts": 0, "k": "e"}])
    assert (held(query), parts(query)) == ([1, 4], 2)


def test_a_row_that_the_other_side_has_passed_is_joined_and_not_kept() -> None:
    query = plain("l", 100).join(plain("r"), on="k", within=(0, 5)).start()
    query.push([{"ts": 20, "k": "a"}], port=1)
    assert query.push([{"ts": 15, "k": "a"}, {"ts": 14, "k": "a"}]).to_pylist() == [{"k": "a", "l_ts": 15, "r_ts": 20}]
    assert held(query) == [1, 1], "14 waits until 19, and the right has come to 20"


@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("within", [0, 3, 2**61 - 1])
def test_times_may_be_as_far_apart_as_ticks_go(how: str, within: int) -> None:
    """Where key and time do not fit one number, times are searched by their rank."""
    spread = [sign * 2**61 + near for sign in (-1, 0, 1) for near in (-3, 0, 2)]
    left, right = ([{"ts": t, "k": k} for t in spread for k in "abc"[part : part + 2]] for part in (0, 1))
    query = plain("l", 2**62).join(plain("r", 2**62), on="k", within=within, how=how).start()
    for at in range(0, len(left), 5):
        query.push(left[at : at + 5])
        query.push(right[at : at + 5], port=1)
    query.finish()
    columns = (["ts", "k"], [] if how in ("semi", "anti") else ["ts", "k"])
    told = flatten(band_join(left, right, [("k", "k")], -within, within, how), [("k", "k")], columns=columns)
    assert multiset(query.result().to_pylist()) == multiset(told)


# -- more streams ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("ports", "most"), [(3, 12), (4, 6)])
@settings(max_examples=15)
@given(data=st.data())
def test_a_join_of_several_streams_is_the_definition(ports: int, most: int, data: st.DataObject) -> None:
    scenario = data.draw(join_scenarios(ports=ports, kinds=tuple(KEY_KINDS), least=most // 2, most=most, timeless=True))
    waits = data.draw(st.lists(st.integers(0, 25), min_size=ports, max_size=ports))
    streams = plain_streams(scenario)
    again = data.draw(restarts(len(scenario.pushes)))
    query = lw.join(streams, scenario.on, waits).start(shards=data.draw(st.integers(1, 3)))
    arrived: list[list[Row]] = [[] for _ in range(ports)]
    lows: list[int | None] = [None] * ports
    for at, (port, rows) in enumerate(scenario.pushes):
        if at in again:
            query.restart()
        query.push(rows, port)
        arrived[port] += rows.to_pylist()
        lows[port] = low_watermark(arrived[port], scenario.disorder[port])
        needed = []
        for side, wait in enumerate(waits):
            others = [low for of, low in enumerate(lows) if of != side]
            least = None if None in others else min(low for low in others if low is not None)
            needed.append(sum(least is None or t + wait >= least for t in times(arrived[side], scenario.keys[side])))
        assert held(query) == needed
    results = n_way(scenario.streams, scenario.keys, waits)
    told = flatten(results, scenario.on, "abcd"[:ports], columns=scenario.columns)
    assert multiset(query.result().to_pylist()) == multiset(told), "all of it is found before the end"
    query.finish()
    assert multiset(query.result().to_pylist()) == multiset(told)
    assert (query.metrics().late_rows, query.metrics().state_rows, query.metrics().state_bytes) == (0, 0, 0)


def plain_streams(scenario: JoinScenario) -> list[lw.Stream]:
    return [
        lw.stream(schema.empty_table(), name=name, progress="ts", disorder=scenario.disorder[port])
        for port, (name, schema) in enumerate(zip("abcd", scenario.schemas, strict=False))
    ]


def times(rows: list[Row], keys: list[str]) -> list[int]:
    """Of the rows that can join."""
    return [row["ts"] for row in rows if row["ts"] is not None and all(row[name] is not None for name in keys)]


@settings(max_examples=12)
@given(data=st.data())
def test_a_join_of_several_streams_over_a_grid_is_the_definition(data: st.DataObject) -> None:
    """A window is joined for itself: its rows are combined with nothing to keep them apart but the key."""
    scenario = data.draw(join_scenarios(ports=3, kinds=("number", "text", "none"), most=10))
    grid = Grid(*data.draw(grids()))
    query = lw.join(plain_streams(scenario), scenario.on, **grid.options(False)).start()
    for port, rows in scenario.pushes:
        query.push(rows, port)
    query.finish()
    expected = []
    for end in sorted({end for rows in scenario.streams for row in rows for end in grid.ends(row["ts"])}):
        inside = [[row for row in rows if end - grid.range <= row["ts"] < end] for rows in scenario.streams]
        found = n_way(inside, scenario.keys, [None, None, None])
        expected += [(*rows, end - grid.range, end) for rows in found]
    told = flatten(expected, scenario.on, "abc", columns=scenario.columns)
    assert multiset(query.result().to_pylist()) == multiset(told)
    assert query.metrics().state_rows == 0


@pytest.mark.parametrize("how", HOWS)
@settings(max_examples=8)
@given(data=st.data())
def test_sides_of_several_streams_progress_with_their_slowest(how: str, data: st.DataObject) -> None:
    """(a union b) join (c union d): four streams, each with its own disorder and lag."""
    scenario = data.draw(join_scenarios(ports=4, most=8))
    keys = scenario.keys[0]
    common = ["ts", *keys, "v"]
    schema = pa.schema([scenario.schemas[0].field(name) for name in common])
    a, b, c, d = (
        lw.stream(schema.empty_table(), name=name, progress="ts", disorder=scenario.disorder[port])
        for port, name in enumerate("abcd")
    )
    window = data.draw(st.sampled_from(["band", "grid"]).flatmap(windows))
    on = [(name, name) for name in keys]
    merged = replace(scenario, keys=[keys, keys], schemas=[schema, schema])
    case = Case(merged, window, how, None, False, False, False, data.draw(st.integers(1, 3)), frozenset())
    query = a.union(b).join(c.union(d), on, how=how, **window.options(False)).start(shards=case.shards)
    again = data.draw(restarts(len(scenario.pushes)))
    arrived: list[list[Row]] = [[] for _ in range(4)]
    names = ("a_b", "c_d")
    columns = (common, [] if how in ("semi", "anti") else common)
    for at, (port, table) in enumerate(scenario.pushes):
        if at in again:
            query.restart()
        rows = table.rename_columns([*["ts"], *keys, "v", "own"]).select(common)
        query.push(rows, port)
        arrived[port] += rows.to_pylist()
        lows = [low_watermark(own, delay) for own, delay in zip(arrived, scenario.disorder, strict=True)]
        slowest = [None if None in two else min(low for low in two if low is not None) for two in (lows[:2], lows[2:])]
        sides = [arrived[0] + arrived[1], arrived[2] + arrived[3]]
        told = flatten(case.known(sides, slowest), on, names, columns=columns)
        assert multiset(query.result().to_pylist()) == multiset(told)
        assert held(query) == case.needed(sides, slowest)
    query.finish()
    assert multiset(query.result().to_pylist()) == multiset(
        flatten(case.results(sides_of(arrived)), on, names, columns=columns)
    )
    assert (query.metrics().late_rows, query.metrics().state_rows) == (0, 0)


def sides_of(arrived: list[list[Row]]) -> list[list[Row]]:
    return [arrived[0] + arrived[1], arrived[2] + arrived[3]]


# -- hashes that collide --------------------------------------------------------------------------------------------


def few(keys: pa.Table) -> npt.NDArray[np.uint64]:
    """A hash of two values."""
    return keyed_hash(keys) % np.uint64(2)


keyed_hash = keyed.hashed


@pytest.mark.parametrize("how", HOWS)
@settings(max_examples=8)
@given(data=st.data())
def test_keys_that_share_a_hash_are_still_told_apart(how: str, data: st.DataObject) -> None:
    kinds = ("text", "pair", "double")
    case = data.draw(st.sampled_from(["band", "grid"]).flatmap(lambda kind: cases(how, kind, kinds, most=20, shards=1)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(keyed, "hashed", few)
        query = case.run()
    assert multiset(case.got(query.result())) == multiset(case.told(case.results(case.scenario.streams)))
    assert query.metrics().state_rows == 0


@settings(max_examples=8)
@given(data=st.data())
def test_keys_of_several_streams_that_share_a_hash_are_still_told_apart(data: st.DataObject) -> None:
    scenario = data.draw(join_scenarios(ports=3, kinds=("text", "pair"), least=4, most=10))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(keyed, "hashed", few)
        query = lw.join(plain_streams(scenario), scenario.on, 15).start()
        for port, rows in scenario.pushes:
            query.push(rows, port)
        query.finish()
    told = flatten(n_way(scenario.streams, scenario.keys, [15] * 3), scenario.on, "abc", columns=scenario.columns)
    assert multiset(query.result().to_pylist()) == multiset(told)


# -- aggregations behind a join --------------------------------------------------------------------------------------


def chosen(how: str) -> tuple[str, str]:
    """The time and the value of a result that are there whichever side is missing."""
    if how in ("semi", "anti"):
        return "ts", "v"
    return ("r_ts", "r_v") if how == "right" else ("l_ts", "l_v")


def aggregates(value: str) -> tuple[dict[str, Any], dict[str, tuple[Any, ...]]]:
    asked = {"n": lw.count(), "s": lw.sum(value), "m": lw.max(value)}
    return asked, {"n": ("count", None), "s": ("sum", value), "m": ("max", value)}


@pytest.mark.parametrize("how", HOWS)
@settings(max_examples=10)
@given(data=st.data())
def test_groups_behind_a_join_are_those_of_its_results_each_once(how: str, data: st.DataObject) -> None:
    case = data.draw(st.sampled_from(["band", "grid"]).flatmap(lambda kind: cases(how, kind)))
    time, value = chosen(how)
    keys = [name for name in case.scenario.keys[0] if data.draw(st.booleans())]
    stamps = data.draw(st.lists(st.sampled_from([time, "r_ts" if "_" in time else time]), unique=True))
    by = [*keys, *stamps] or [time]
    asked, meant = aggregates(value)
    query = case.run(case.joined().group_by(*by).agg(**asked))
    rows = case.told(case.results(case.scenario.streams))
    groups: dict[Any, list[Row]] = {}
    for row in rows:
        groups.setdefault(key(row, by), []).append(row)
    expected = [
        {"wid": 0, **{name: group[0][name] for name in by}}
        | {name: aggregate(group, time, agg) for name, agg in meant.items()}
        for group in groups.values()
    ]
    got = [{"wid": 0, **row} for row in case.got(query.result())]
    assert difference(got, expected, by) == ""
    numbers = query.metrics()
    assert (numbers.result_rows, numbers.dropped_rows, numbers.state_rows) == (len(expected), 0, 0)


@pytest.mark.parametrize("how", ["inner", "left", "right", "semi", "anti"])
@settings(max_examples=10)
@given(data=st.data())
def test_windows_behind_a_join_are_those_of_its_results_each_once(how: str, data: st.DataObject) -> None:
    case = data.draw(st.sampled_from(["band", "grid"]).flatmap(lambda kind: cases(how, kind)))
    time, value = chosen(how)
    by = data.draw(st.sampled_from([[], case.scenario.keys[0], case.scenario.keys[0][:1]]))
    grid = Grid(*data.draw(grids()))
    asked, meant = aggregates(value)
    options = grid.options(case.stamps)
    behind = case.joined().window(options["window"], options["slide"], over=time, origin=options["origin"])
    strategy = data.draw(st.sampled_from(["auto", "wid", "panes", "buffer", "adaptive"]))
    query = case.run(behind.group_by(*by).agg(strategy, **asked))
    sliding = Sliding(grid.range, grid.slide, grid.origin + grid.range % grid.slide)
    rows = case.told(case.results(case.scenario.streams))
    expected = aggregate_windows(rows, time, sliding, by, meant)
    assert difference(case.got(query.result()), expected, by) == ""
    numbers = query.metrics()
    assert (numbers.result_rows, numbers.dropped_rows, numbers.state_rows) == (len(expected), 0, 0)


def test_windows_behind_a_join_close_as_soon_as_both_sides_have_passed_them() -> None:
    joined = plain("l").join(plain("r"), on="k", within=(0, 5)).window(10).group_by("k").agg(n=lw.count())
    query = joined.start()
    query.push([{"ts": t, "k": "a"} for t in (1, 8, 12)])
    assert query.push([{"ts": t, "k": "a"} for t in (3, 13, 14)], port=1).num_rows == 0
    # A pair of the window has l_ts <= 9, so r_ts <= 14.
    closed = query.push([{"ts": 15, "k": "b"}], port=1)
    assert closed.select(["window_start", "k", "n"]).to_pylist() == [{"window_start": 0, "k": "a", "n": 2}]


# -- punctuation on the output --------------------------------------------------------------------------------------

SIDES = tuple(
    JoinSide(name, pa.schema([("ts", pa.int64()), ("k", pa.int64()), ("v", pa.int64())]), "ts", ("k",)) for name in "lr"
)
Event = tuple[int, list[Row] | Punctuation]


@st.composite
def events(draw: st.DrawFn, ports: int = 2) -> list[Event]:
    """Batches and punctuations on each port. Some rows break a punctuation that has come: they are late."""
    low = [-20] * ports
    out: list[Event] = []
    for _ in range(draw(st.integers(0, 30))):
        port = draw(st.integers(0, ports - 1))
        if draw(st.booleans()):
            low[port] += draw(st.integers(0, 6))
            closed = draw(st.booleans())
            out.append((port, Punctuation({"ts": Range(None, low[port] - closed, closed_high=closed)})))
            continue
        n = draw(st.integers(1, 5))
        row = st.fixed_dictionaries({"ts": st.integers(low[port] - 1, low[port] + 15), "k": st.integers(0, 1)})
        rows = draw(st.lists(row.map(lambda r: r | {"v": 1}), min_size=n, max_size=n))
        out.append((port, rows))
    return [*out, *((port, ALL) for port in draw(st.permutations(range(ports))))]


def take(operator: OAJoin, port: int, what: list[Row] | Punctuation) -> list[Message]:
    if isinstance(what, Punctuation):
        return operator.on_punctuation(port, what)
    return operator.on_batch(port, Batch(pa.Table.from_pylist(what, schema=SIDES[port % 2].schema)))


def break_no_promise(messages: Sequence[Message]) -> None:
    """Law (i): nothing that an earlier punctuation excludes."""
    promised: list[Punctuation] = []
    for message in messages:
        if isinstance(message, Punctuation):
            promised.append(message)
        elif isinstance(message, Batch):
            for row in message.rows.to_pylist():
                assert not [str(p) for p in promised if p.match(row)], row


@st.composite
def specs(draw: st.DrawFn, hows: Sequence[str] = HOWS) -> WindowJoin:
    how = draw(st.sampled_from(hows))
    if draw(st.booleans()):
        range, slide, origin = draw(grids())
        return WindowJoin(SIDES, (0, 0), how, Sliding(range, slide, origin))
    lower = draw(st.integers(-6, 3))
    waits: list[int | None] = [lower + draw(st.sampled_from([0, 0, 2, 5, 15])), -lower]
    return WindowJoin(SIDES, tuple(None if draw(st.integers(0, 9)) == 0 else wait for wait in waits), how)


@pytest.mark.parametrize("joint", [False, True])
@pytest.mark.parametrize("how", HOWS)
@settings(max_examples=10)
@given(data=st.data())
def test_punctuation_of_a_join_is_true(how: str, joint: bool, data: st.DataObject) -> None:
    join = OAJoin(data.draw(specs([how])), joint)
    out = [message for port, what in data.draw(events()) for message in take(join, port, what)]
    break_no_promise(out)
    told = [message for message in out if isinstance(message, Punctuation)]
    assert told[-1] == ALL, "the end of both is the end of the join, and the last that is said"
    assert len(told) == len(set(told))
    assert join.held().rows == 0


@settings(max_examples=25)
@given(data=st.data())
def test_punctuation_of_a_join_of_three_is_true(data: st.DataObject) -> None:
    sides = tuple(replace(SIDES[0], name=name) for name in "abc")
    waits = data.draw(st.lists(st.none() | st.integers(0, 20), min_size=3, max_size=3))
    join = OAJoin(WindowJoin(sides, tuple(waits)))
    out = [message for port, what in data.draw(events(3)) for message in take(join, port, what)]
    break_no_promise(out)
    assert [message for message in out if isinstance(message, Punctuation)][-1] == ALL


def answered(what: WindowJoin, joint: bool, arrival: Sequence[Event]) -> list[set[tuple[int, int]]]:
    """The groups of both timestamps that a count behind the join has answered, after each event."""
    join = OAJoin(what, joint)
    counts = (("n", lw.count()),)
    group_by = GroupBy(Grouping(what.result_schema(), what.times, counts, what.times))
    found: list[set[tuple[int, int]]] = []
    known: dict[tuple[int, int], int] = {}
    for port, event in arrival:
        for message in take(join, port, event):
            if isinstance(message, Batch):
                assert group_by.on_batch(0, message) == []
            elif isinstance(message, Punctuation):
                for answer in group_by.on_punctuation(0, message):
                    for row in answer.rows.to_pylist() if isinstance(answer, Batch) else []:
                        assert (row["l_ts"], row["r_ts"]) not in known, "each group once"
                        known[row["l_ts"], row["r_ts"]] = row["n"]
        found.append(set(known))
    return found


@settings(max_examples=40)
@given(what=specs(hows=["inner"]), arrival=events())
def test_joint_punctuation_answers_groups_of_both_timestamps_no_later(what: WindowJoin, arrival: list[Event]) -> None:
    alone, joint = (answered(what, joint, arrival) for joint in (False, True))
    assert all(early >= late for early, late in zip(joint, alone, strict=True))
    assert joint[-1] == alone[-1]


def test_joint_punctuation_answers_the_group_that_individual_leaves_open() -> None:
    """TH 7.2, Fig. 7-5: a band of 2, counted by both timestamps. (2, 1) says S0.ts <= 2 and S1.ts <= 1 have passed."""
    what = WindowJoin(SIDES, (2, 2))
    arrival: list[Event] = [
        (0, [{"ts": t, "k": 0, "v": 1} for t in (0, 1, 2)]),
        (1, [{"ts": t, "k": 0, "v": 1} for t in (0, 1, 2)]),
        (0, Punctuation({"ts": Range(None, 2, closed_high=True)})),
        (1, Punctuation({"ts": Range(None, 1, closed_high=True)})),
    ]
    alone, joint = (answered(what, joint, arrival)[-1] for joint in (False, True))
    assert joint == {(0, 0), (0, 1), (1, 0), (1, 1), (2, 0), (2, 1)}
    assert (0, 1) not in alone
    assert alone == {(0, 0), (1, 0), (2, 0)}, "S1.ts < 1 has no partner to come; S0.ts < 0 has none at all"


def test_joint_punctuation_is_told_when_the_other_side_has_come_as_far() -> None:
    """Rows of equal times join. That the left goes ahead says nothing new; when the right follows, it does."""
    what = WindowJoin(SIDES, (0, 0))
    arrival: list[Event] = [(port, [{"ts": t, "k": 0, "v": 1} for t in range(4)]) for port in (0, 1)]
    arrival += [(port, Punctuation.linear("ts", t)) for port, t in ((0, 1), (1, 1), (0, 5), (1, 3), (1, 5))]
    found = answered(what, True, arrival)
    assert [len(groups) for groups in found] == [0, 0, 0, 1, 1, 3, 4]
    assert found == answered(what, False, arrival)


def test_both_timestamps_of_an_outer_join_are_answered_before_the_end() -> None:
    """A box of joint punctuation holds no row that is alone, since one of its times is null."""
    joined = plain("l").join(plain("r"), on="k", within=2, how="full").group_by("l_ts", "r_ts").agg(n=lw.count())
    query = joined.start()
    query.push([{"ts": 0, "k": "a"}, {"ts": 50, "k": "a"}])
    query.push([{"ts": 1, "k": "b"}, {"ts": 50, "k": "a"}], port=1)
    assert query.result().to_pylist() == [{"l_ts": 0, "r_ts": None, "n": 1}, {"l_ts": None, "r_ts": 1, "n": 1}]


def test_two_timestamps_of_a_join_of_three_are_answered_before_the_end() -> None:
    a, b, c = (plain(name) for name in "abc")
    query = lw.join([a, b, c], "k", 2).group_by("a_ts", "b_ts").agg(n=lw.count()).start()
    for port in range(3):
        query.push([{"ts": 0, "k": "a"}, {"ts": 50, "k": "a"}], port)
    assert query.result().to_pylist() == [{"a_ts": 0, "b_ts": 0, "n": 1}]


def test_a_group_of_keys_that_are_missing_is_one_group() -> None:
    """Keys of two names: rows of the right that stay alone have no left key, whichever shard their own puts them in."""
    schema = pa.schema([("ts", pa.int64()), ("key", pa.string())])
    right = lw.stream(schema.empty_table(), name="r", progress="ts", disorder=0)
    joined = plain("l").join(right, on=[("k", "key")], within=5, how="full").group_by("k").agg(n=lw.count())
    query = joined.start(shards=3)
    query.push([{"ts": 1, "k": "a"}])
    query.push([{"ts": 1, "key": name} for name in "abcdefgh"], port=1)
    query.finish()
    assert query.result().to_pylist() == [{"k": "a", "n": 1}, {"k": None, "n": 7}]


def test_the_low_watermark_of_one_input_alone_lets_nothing_go() -> None:
    query = plain("l").join(plain("r"), on="k", within=1, how="full").start()
    query.push([{"ts": t, "k": "a"} for t in range(100)])
    assert (query.result().num_rows, held(query)) == (0, [100, 0])
