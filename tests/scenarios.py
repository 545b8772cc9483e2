"""Scenarios: a query, and the arrival of its rows in any order, pieces and number of inputs that its policy allows.

Drawn by Hypothesis for every kind of window, aggregate, strategy and type of progressing attribute.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

import lowwater as lw
from lowwater.aggregates.base import Aggregate
from lowwater.backends.local import LocalQuery
from lowwater.query.disorder import Disorder
from lowwater.windows.context_aware import Partitioned, Session, SlideByTuple
from lowwater.windows.context_free import Landmark, Sliding, TupleBased
from tests.compare import EPOCH
from tests.oracle import REFERENCE, Aggregation, WindowKind, aggregate_windows

Row = dict[str, Any]


@dataclass(frozen=True)
class Clock:
    """A type of progressing attribute: its values and lengths, from whole numbers of a unit."""

    type: pa.DataType
    unit: int
    value: Callable[[int], Any]
    length: Callable[[int], Any]


CLOCKS = {
    "int64": Clock(pa.int64(), 1, int, int),
    "int32": Clock(pa.int32(), 1, int, str),
    "timestamp": Clock(
        pa.timestamp("us", "UTC"), 10**6, lambda n: EPOCH + dt.timedelta(seconds=n), lambda n: f"{n} seconds"
    ),
    "date": Clock(
        pa.date32(), 1, lambda n: EPOCH.date() + dt.timedelta(days=n), lambda n: dt.timedelta(days=n)
    ),
    "decimal": Clock(
        pa.decimal128(10, 2), 1, lambda n: Decimal(n).scaleb(-2), lambda n: Decimal(n).scaleb(-2)
    ),
}  # fmt: skip

KEYS: dict[str, st.SearchStrategy[Any]] = {
    "text": st.sampled_from(["a", "b", "", None]),
    "number": st.none() | st.integers(-2, 2),
    "double": st.sampled_from([0.0, -0.0, float("nan"), 1.5, None]),
}
GROUPS = [[], ["text"], ["number"], ["double"], ["number", "text"], ["text", "double"]]
FIELDS = [
    ("text", pa.string()),
    ("number", pa.int64()),
    ("double", pa.float64()),
    ("i", pa.int64()),
    ("x", pa.float64()),
    ("d", pa.decimal128(12, 2)),
    ("w", pa.string()),
]
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "i": st.none() | st.integers(-1000, 1000),
    "x": st.none() | st.integers(-400, 400).map(lambda n: n / 4),
    "d": st.none() | st.integers(-(10**6), 10**6).map(lambda n: Decimal(n).scaleb(-2)),
    "w": st.sampled_from([None, "", "a", "ab", "é"]),
}


class Widest(lw.UserAggregate):
    """The largest value less the smallest, by parts."""

    name = "udaf"
    state, result = (pa.int64(), pa.int64()), pa.int64()

    def lift(self, values: Any) -> Any:
        return values.to_numpy(), values.to_numpy()

    def combine(self, a: Any, b: Any) -> Any:
        return np.maximum(a[0], b[0]), np.minimum(a[1], b[1])

    def lower(self, partial: Any) -> Any:
        return partial[0] - partial[1]


def widest(values: pa.Array) -> float:
    """The same as a function of all values, which come sorted."""
    return float(values[-1].as_py() - values[0].as_py())


REFERENCE["widest"] = lambda values: max(values) - min(values)

AGGREGATES: dict[str, tuple[Aggregate, Aggregation]] = {
    "count": (lw.count(), ("count", None)),
    "count_x": (lw.count("x"), ("count", "x")),
    "sum_i": (lw.sum("i"), ("sum", "i")),
    "sum_x": (lw.sum("x"), ("sum", "x")),
    "sum_d": (lw.sum("d"), ("sum", "d")),
    "avg_x": (lw.avg("x"), ("avg", "x")),
    "avg_i": (lw.avg("i"), ("avg", "i")),
    "min_w": (lw.min("w"), ("min", "w")),
    "min_x": (lw.min("x"), ("min", "x")),
    "max_i": (lw.max("i"), ("max", "i")),
    "max_d": (lw.max("d"), ("max", "d")),
    "first_w": (lw.first("w"), ("first", "w")),
    "last_i": (lw.last("i"), ("last", "i")),
    "variance_x": (lw.variance("x"), ("var_samp", "x")),
    "var_pop_i": (lw.var_pop("i"), ("var_pop", "i")),
    "stddev_x": (lw.stddev("x"), ("stddev_samp", "x")),
    "stddev_pop_x": (lw.stddev_pop("x"), ("stddev_pop", "x")),
    "median_x": (lw.median("x"), ("median", "x")),
    "quantile_i": (lw.quantile("i", 0.3), ("quantile", "i", 0.3)),
    "distinct_w": (lw.count_distinct("w"), ("count_distinct", "w")),
    "distinct_i": (lw.count_distinct("i"), ("count_distinct", "i")),
    "centre": (lw.center_of_mass("x", "i"), ("center_of_mass", "x", "i")),
    "mode_w": (lw.mode("w"), ("mode", "w")),
    "hitters_w": (lw.heavy_hitters("w", 0.3), ("heavy_hitters", "w", 0.3)),
    "top_i": (lw.top_k("i", 3), ("top_k", "i", 3)),
    "top_w_by_i": (lw.top_k("i", 2, label="w"), ("top_rows", "i", 2, "w")),
    "w_of_max_x": (lw.max_by("w", "x"), ("max_by", "w", "x")),
    "x_of_min_i": (lw.min_by("x", "i"), ("min_by", "x", "i")),
    "list_w": (lw.collect_list("w"), ("collect_list", "w")),
    "set_d": (lw.collect_set("d"), ("collect_set", "d")),
    "about_distinct_w": (lw.approx_count_distinct("w"), ("approx_count_distinct", "w")),
    "about_quantile_x": (lw.approx_quantile("x", 0.3), ("approx_quantile", "x", 0.3)),
    "about_hitters_w": (lw.approx_heavy_hitters("w", 0.3), ("approx_heavy_hitters", "w", 0.3)),
    "widest_i": (lw.udaf("i", Widest()), ("widest", "i")),
    "widest_x": (lw.holistic("x", widest, pa.float64()), ("widest", "x")),
}
"""Sketches of so few values are exact."""
HOLISTIC = {name for name, (aggregate, _) in AGGREGATES.items() if not aggregate.bounded}


GRID = ["overlapping", "uneven", "gaps", "tumbling", "landmark", "periodic"]
"""Windows on a grid of time."""
COUNTED = ["rows", "partitioned by arrival", "partitioned by time", "by tuple", "by arrivals", "by ranks"]
"""Windows that count rows."""
KINDS = [*GRID, *COUNTED, "session"]


@dataclass(frozen=True)
class Asked:
    """A window in units: as the user asks for it, and what it is."""

    kind: str
    range: int | str
    slide: int
    period: int | None
    origin: int | str | None

    def ask(self, stream: lw.Stream, clock: Clock, group_by: list[str]) -> Any:
        if self.kind not in GRID:
            return self._counted(stream, clock, group_by)
        origin = clock.value(self.origin) if isinstance(self.origin, int) else self.origin
        period = None if self.period is None else clock.length(self.period)
        range = self.range if isinstance(self.range, str) else clock.length(self.range)
        window = stream.window(range=range, slide=clock.length(self.slide), origin=origin, period=period)
        return window.group_by(*group_by)

    def _counted(self, stream: lw.Stream, clock: Clock, group_by: list[str]) -> Any:
        range = int(self.range)
        if self.kind == "session":
            return stream.session(clock.length(range)).group_by(*group_by)
        if self.kind == "rows":
            return stream.window(f"{range} rows", f"{self.slide} rows").group_by(*group_by)
        order = "arrival" if "arrival" in self.kind else "time"
        if "partitioned" in self.kind:
            return stream.window(f"{range} rows", f"{self.slide} rows", partition_by=group_by, order=order)
        slide = f"{1 if self.kind == 'by tuple' else self.slide} rows"
        return stream.window(clock.length(range), slide, partition_by=group_by, order=order)

    def meant(self, rows: Sequence[Row], clock: Clock) -> WindowKind:
        if self.kind == "session":
            return Session(int(self.range) * clock.unit)
        if self.kind == "rows" or (self.kind == "partitioned by arrival" and not rows):
            return TupleBased(int(self.range), self.slide)
        if "partitioned" in self.kind:
            return Partitioned(int(self.range), self.slide, "arrival" if "arrival" in self.kind else "time")
        if self.kind in COUNTED:
            every = 1 if self.kind == "by tuple" else self.slide
            return SlideByTuple(int(self.range) * clock.unit, every, "row-num" if "arrivals" in self.kind else "rank")
        first = min((row["ts"] for row in rows), default=0)
        origin = first if self.origin == "first" else int(self.origin or 0) * clock.unit
        slide = self.slide * clock.unit
        if isinstance(self.range, int):
            window = Sliding(self.range * clock.unit, slide, origin)
            # Windows start at the origin; the thesis, and origin="first", count from their ends.
            return window if self.origin == "first" else window.at(origin + window.range % slide)
        return Landmark(slide, origin, None if self.period is None else self.period * clock.unit)

    @property
    def strategies(self) -> list[str]:
        if self.kind not in [*GRID, "rows"]:
            return ["auto"]
        if self.range == "all":
            return ["auto", "landmark", "buffer"]
        if self.kind == "rows":
            return ["auto", "wid", "panes"]
        return ["auto", "wid", "panes", "buffer", "adaptive"]


@st.composite
def windows(draw: st.DrawFn, kind: str) -> Asked:
    slide = draw(st.integers(1, 12))
    origin = draw(st.none() | st.integers(-30, 30) | st.just("first"))
    more = draw(st.integers(2, 5))
    extra = draw(st.integers(1, slide)) % slide
    range: int | str = {
        "overlapping": slide * more,
        "uneven": slide * (more - 1) + extra,
        "gaps": max(1, slide - extra),
        "tumbling": slide,
        "landmark": "all",
        "periodic": "all",
    }.get(kind, draw(st.integers(1, 20)))
    slide = slide if kind in GRID else draw(st.integers(1, 6))
    return Asked(kind, range, slide, slide * more if kind == "periodic" else None, origin)


@dataclass(frozen=True)
class Arrival:
    """A progress policy and, for rows by time, an order that keeps its contract."""

    name: str
    disorder: Callable[[Clock], Disorder]
    order: Callable[[st.DrawFn, list[int]], list[int]]


def in_order(draw: st.DrawFn, times: list[int]) -> list[int]:
    return sorted(range(len(times)), key=lambda i: times[i])


def delayed(by: int) -> Callable[[st.DrawFn, list[int]], list[int]]:
    def order(draw: st.DrawFn, times: list[int]) -> list[int]:
        delay = draw(st.lists(st.integers(0, by), min_size=len(times), max_size=len(times)))
        return sorted(range(len(times)), key=lambda i: times[i] + delay[i])

    return order


def shuffled(rows: int) -> Callable[[st.DrawFn, list[int]], list[int]]:
    """In blocks of rows + 1, so that no row comes more than so many rows after a larger one."""

    def order(draw: st.DrawFn, times: list[int]) -> list[int]:
        ordered = in_order(draw, times)
        blocks = [ordered[at : at + rows + 1] for at in range(0, len(ordered), rows + 1)]
        return [i for block in blocks for i in draw(st.permutations(block))]

    return order


ARRIVALS = [
    Arrival("ordered", lambda clock: lw.ordered(), in_order),
    Arrival("delay 7", lambda clock: lw.delay(clock.length(7)), delayed(7)),
    Arrival("delay 40", lambda clock: lw.delay(clock.length(40)), delayed(40)),
    Arrival("3 rows", lambda clock: lw.delay_rows(3), shuffled(3)),
]


@dataclass(frozen=True)
class Scenario:
    """All that happens. `pushes` are (port, rows) with times in ticks; None is a restart."""

    clock: Clock
    window: Asked
    group_by: list[str]
    aggregates: list[str]
    strategy: str
    arrival: Arrival
    sources: bool
    pushes: list[tuple[int, list[Row]] | None]
    shards: int
    late: bool

    @property
    def rows(self) -> list[Row]:
        return [row for push in self.pushes if push for row in push[1]]

    def query(self) -> LocalQuery:
        schema = pa.schema([("ts", self.clock.type), *FIELDS, ("source", pa.string())])
        ports = 1 + max((push[0] for push in self.pushes if push), default=0)
        first, *others = (
            lw.stream(
                schema.empty_table(),
                name=f"input {port}",
                progress="ts",
                disorder=self.arrival.disorder(self.clock),
                source="source" if self.sources else None,
                sources=("x", "y") if self.sources else (),
            )
            for port in range(ports)
        )
        asked = self.window.ask(first.union(*others), self.clock, self.group_by)
        query = asked.agg(self.strategy, **{name: AGGREGATES[name][0] for name in self.aggregates})
        return query.start(shards=self.shards, late=self.late)

    def run(self) -> LocalQuery:
        query = self.query()
        for push in self.pushes:
            if push is None:
                query.restart()
                continue
            rows = [row | {"ts": self.clock.value(row["ts"] // self.clock.unit)} for row in push[1]]
            query.push(rows, push[0])
        query.finish()
        return query

    def expected(self) -> list[Row]:
        aggregates = {name: AGGREGATES[name][1] for name in self.aggregates}
        return aggregate_windows(self.rows, "ts", self.window.meant(self.rows, self.clock), self.group_by, aggregates)


@st.composite
def scenarios(draw: st.DrawFn, kind: str, aggregate: str | None = None, least: int = 0) -> Scenario:
    """Of a kind of window; with this aggregate among others, and at least so many rows."""
    clock = CLOCKS[draw(st.sampled_from(sorted(CLOCKS)))]
    window = draw(windows(kind))
    names = [name for name in AGGREGATES if kind != "landmark" or name not in HOLISTIC]
    aggregates = draw(st.lists(st.sampled_from(names), min_size=1, max_size=5, unique=True))
    if aggregate is not None:
        aggregates = list(dict.fromkeys([aggregate, *aggregates[:1]]))
    group_by = draw(st.sampled_from(GROUPS))
    used = {column for name in aggregates for column in AGGREGATES[name][1][1:] if column in VALUES}
    columns = {name: KEYS[name] for name in group_by} | {name: VALUES[name] for name in used if name}
    blank = dict.fromkeys([name for name, _ in FIELDS])
    row = st.fixed_dictionaries(columns).map(lambda values: blank | values)
    rows = draw(st.lists(st.tuples(st.integers(-60, 90), row), min_size=least, max_size=max(30, 2 * least)))

    arrival = draw(st.sampled_from(ARRIVALS))
    ports, sources = draw(st.sampled_from([(1, False), (1, True), (2, False), (2, True)]))
    lanes = [(port, source) for port in range(ports) for source in (("x", "y") if sources else (None,))]
    lane_of = draw(st.lists(st.sampled_from(lanes), min_size=len(rows), max_size=len(rows)))
    queues = []
    for lane in lanes:
        own = [row for row, at in zip(rows, lane_of, strict=True) if at == lane]
        order = arrival.order(draw, [time for time, _ in own])
        queues.append([(lane[0], own[i][1] | {"ts": own[i][0] * clock.unit, "source": lane[1]}) for i in order])
    turns = draw(st.permutations([n for n, queue in enumerate(queues) for _ in queue]))
    arriving = [queues[n].pop(0) for n in turns]

    pushes: list[tuple[int, list[Row]] | None] = []
    for port, arrived in arriving:
        cut = draw(st.integers(0, 7))
        last = pushes[-1] if pushes else None
        if last and last[0] == port and cut > 1:
            last[1].append(arrived)
            continue
        if cut == 0:
            pushes.append(None)
        pushes.append((port, [arrived]))
    strategy = draw(st.sampled_from(window.strategies))
    shards, late = draw(st.integers(1, 3)), draw(st.booleans())
    return Scenario(clock, window, group_by, aggregates, strategy, arrival, sources, pushes, shards, late)
