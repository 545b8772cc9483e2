"""Trees to ask: random queries of several operators, their inputs, how the rows arrive, and how the query is run.

A tree is drawn from a seed. What lowwater refuses is drawn again, so that every case runs; the refusals are counted.
Two branches drawn with one shape have the same columns, so that they can be united; inputs are taken in turn.

    python -m tests.trees 500        draws so many trees and prints why others were refused, and what they are made of
"""

from __future__ import annotations

import datetime as dt
import random
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

import lowwater as lw
from lowwater.backends.local import LocalQuery
from lowwater.errors import LowwaterError
from lowwater.query.logical import Node, Scan
from tests.compare import EPOCH
from tests.tree_oracle import Arrived, endless, evaluate, unlike

STAMP = pa.timestamp("us", "UTC")
STREAMS = ("a", "b", "c", "d")
SECONDS = 10**6
FUNCTIONS = ("count", "count", "sum", "max", "min", "avg", "count_distinct", "median", "first", "last")


@dataclass(frozen=True)
class Clock:
    """Times are whole numbers, or timestamps of whole seconds."""

    stamps: bool

    @property
    def type(self) -> pa.DataType:
        return STAMP if self.stamps else pa.int64()

    def value(self, n: int) -> Any:
        return EPOCH + dt.timedelta(seconds=n) if self.stamps else n

    def length(self, n: int) -> Any:
        return f"{n} seconds" if self.stamps else n

    def shifted(self, column: str, n: int) -> str:
        return f"{column} + INTERVAL {n} SECONDS" if self.stamps else f"{column} + {n}"


@dataclass(frozen=True)
class Data:
    """The rows of all streams as they arrive: (stream, rows) per micro-batch; None is a restart."""

    clock: Clock
    disorder: dict[str, int]
    sources: bool
    skewed: bool
    pushes: list[tuple[str, list[dict[str, Any]]] | None]

    @property
    def schema(self) -> pa.Schema:
        columns = [
            ("id", pa.int64()),
            ("ts", self.clock.type),
            ("k", pa.string()),
            ("g", pa.int64()),
            ("v", pa.int64()),
            ("x", pa.float64()),
        ]
        return pa.schema([*columns, *([("src", pa.string())] if self.sources else [])])

    def stream(self, name: str) -> lw.Relation:
        return lw.stream(
            self.schema.empty_table(),
            name=name,
            progress="ts",
            disorder=lw.delay(self.clock.length(self.disorder[name])),
            groups="skewed" if self.skewed else None,
            **({"source": "src", "sources": ("p", "q")} if self.sources else {}),
        )

    def arrived(self) -> dict[str, Arrived]:
        """All rows of each stream, numbered over all streams in order of arrival."""
        rows: dict[str, list[tuple[int, dict[str, Any]]]] = {name: [] for name in STREAMS}
        number = 0
        for push in self.pushes:
            for row in push[1] if push else []:
                assert push is not None
                rows[push[0]].append((number, row))
                number += 1
        return {
            name: Arrived(pa.Table.from_pylist([row for _, row in own], schema=self.schema), [n for n, _ in own])
            for name, own in rows.items()
        }

    def far(self) -> Data:
        """The same, and then a row of every stream and source that is far ahead of all others."""
        row = {"id": 5000, "ts": self.clock.value(5000), "k": "zz", "g": 9, "v": 9, "x": 9.0}
        sources = [{"src": "p"}, {"src": "q"}] if self.sources else [{}]
        return replace(self, pushes=[*self.pushes, *((name, [row | source]) for name in STREAMS for source in sources)])


def drawn_data(rng: random.Random) -> Data:
    """Rows of each stream no later than declared, in micro-batches of one stream each, now and then with a restart."""
    clock, sources = Clock(rng.random() < 0.5), rng.random() < 0.15
    disorder = {name: rng.choice([0, 3, 10]) for name in STREAMS}
    span, keys = rng.choice([30, 60, 120]), rng.choice([["a", "b"], ["a", "b", "c", None], ["a"]])
    arriving: list[tuple[float, str, dict[str, Any]]] = []
    for name in STREAMS:
        for number in range(rng.choice([0, 3, 12, 20, 20])):
            ts = rng.randrange(span)
            row = {
                "id": number,
                "ts": clock.value(ts),
                "k": rng.choice(keys),
                "g": rng.choice([1, 2, 3, None]) if rng.random() < 0.3 else rng.choice([1, 2]),
                "v": rng.choice([None, *range(-3, 8)]),
                "x": rng.choice([None, *(n / 4 for n in range(-6, 20))]),
            }
            if sources:
                row["src"] = rng.choice("pq")
            arriving.append((ts + rng.uniform(0, disorder[name]), name, row))
    skew = {name: rng.choice([0, 0, 25, 80]) for name in STREAMS}
    arriving.sort(key=lambda one: (one[0] + skew[one[1]], one[1]))
    pushes: list[tuple[str, list[dict[str, Any]]] | None] = []
    longest = rng.choice([1, 4, 20])
    for _, name, row in arriving:
        last = pushes[-1] if pushes else None
        if last and last[0] == name and len(last[1]) < longest:
            last[1].append(row)
            continue
        if rng.random() < 0.08:
            pushes.append(None)
        pushes.append((name, [row]))
    return Data(clock, disorder, sources, rng.random() < 0.1, pushes)


@dataclass(frozen=True)
class Case:
    """A query, its rows, and on how many shards it runs."""

    seed: int
    relation: lw.Relation
    data: Data
    shards: int
    late: bool
    """Whether late rows are asked for: without them, columns that nobody reads are not read."""

    @property
    def node(self) -> Node:
        return self.relation.node

    def run(self, shards: int | None = None) -> LocalQuery:
        return run(self.relation, self.data, shards or self.shards, self.late)

    def difference(self, query: LocalQuery) -> str:
        """What is wrong with the results; the empty string if nothing is."""
        got = query.result()
        last = max(got.column("wid").to_pylist(), default=None) if endless(self.node) else None
        return unlike(got, evaluate(self.node, self.data.arrived(), last))


def run(relation: lw.Relation, data: Data, shards: int = 1, late: bool = True, end: bool = True) -> LocalQuery:
    """Pushes everything, restarts where the data says so, and ends all inputs."""
    query = relation.start(shards=shards, late=late)
    ports = {i.name: port for port, i in enumerate(query.plan.inputs)}
    for push in data.pushes:
        if push is None:
            query.restart()
        elif push[0] in ports:
            query.push(pa.Table.from_pylist(push[1], schema=data.schema), ports[push[0]])
    if end:
        query.finish()
    return query


@dataclass
class Drawing:
    """One random tree. `turn` is which stream is read next: another turn of the same shape reads other streams."""

    rng: random.Random
    data: Data
    depth: int
    turn: int = 0
    named: int = 0
    streams: dict[str, lw.Relation] = field(default_factory=dict)
    """The streams read so far, so that one that is used twice is one input."""

    @property
    def clock(self) -> Clock:
        return self.data.clock

    def tree(self, depth: int) -> lw.Relation:
        if depth == 0:
            return self.rows(self.stream())
        return self.rng.choices([draw for draw, _ in SHAPES], [weight for _, weight in SHAPES])[0](self, depth)

    def stream(self) -> lw.Relation:
        turn = self.turn
        self.turn += self.rng.choice([0, 1, 1, 1])
        return self.data_stream(turn)

    def fresh(self, prefix: str) -> str:
        self.named += 1
        return f"{prefix}{self.named}"

    def again(self, times: int, draw: Callable[[], lw.Relation]) -> Iterator[lw.Relation]:
        """Relations of one shape over different streams: the same choices and names, another turn."""
        state, named, turn = self.rng.getstate(), self.named, self.turn
        for n in range(times):
            self.rng.setstate(state)
            self.named = named
            self.turn = turn + n
            yield draw()

    # -- columns ---------------------------------------------------------------------------------------------------

    def columns(self, relation: lw.Relation, *types: pa.DataType) -> list[str]:
        """Visible columns of these types that are no times."""
        times = {p.attribute for p in relation.node.properties.progress} | {"wid", "window_start", "window_end"}
        return [
            f.name for f in relation.schema if f.type in types and f.name not in times and not f.name.endswith("id")
        ]

    def groups(self, relation: lw.Relation, most: int = 2) -> list[str]:
        keys = self.columns(relation, pa.string(), pa.int64())
        return self.rng.sample(keys, min(len(keys), self.rng.choice([0, 1, 1, most])))

    def aggregates(self, relation: lw.Relation, functions: tuple[str, ...] = FUNCTIONS) -> dict[str, Any]:
        numbers = self.columns(relation, pa.int64(), pa.float64())
        asked = {}
        for _ in range(self.rng.choice([1, 1, 2, 3])):
            function = self.rng.choice(functions) if numbers else "count"
            arguments = [] if function == "count" else [self.rng.choice(numbers)]
            name = self.fresh(function[0])
            of = random.Random(name + function)  # its own draws, so that the shapes of trees stay as they are
            where = f"{of.choice(numbers)} > {of.randint(-2, 8)}" if numbers and of.random() < 0.2 else None
            asked[name] = getattr(lw, function)(*arguments, where=where)
        return asked

    # -- steps row by row ------------------------------------------------------------------------------------------

    def rows(self, relation: lw.Relation) -> lw.Relation:
        for _ in range(self.rng.choice([0, 0, 0, 1, 1, 2])):
            relation = self.rng.choice([self.where, self.with_column, self.shift, self.select, self.apply])(relation)
        return self.in_order(relation)

    def in_order(self, relation: lw.Relation) -> lw.Relation:
        """Few relations are put in order. The draws are its own, so that the shapes of trees stay as they are."""
        own = random.Random(f"{self.named} {self.turn} {relation.schema.names}")
        times = self.times(relation)
        if own.random() > 0.06 or not times:
            return relation
        return relation.in_order(own.choice([None, *times]))

    def where(self, relation: lw.Relation) -> lw.Relation:
        numbers, texts = self.columns(relation, pa.int64()), self.columns(relation, pa.string())
        conditions = [f"{name} > {self.rng.randrange(-2, 4)}" for name in numbers]
        conditions += [f"{name} IS NULL OR {name} <= 'b'" for name in texts]
        return relation.where(self.rng.choice(conditions)) if conditions else relation

    def with_column(self, relation: lw.Relation) -> lw.Relation:
        numbers = self.columns(relation, pa.int64())
        if not numbers:
            return relation
        one, other = self.rng.choice(numbers), self.rng.choice(numbers)
        if self.rng.random() < 0.3:
            return self.replaced(relation)
        expression = self.rng.choice([f"{one} + {other}", f"coalesce({one}, 0) * 2", f"CASE WHEN {one} > 1 THEN 1 END"])
        return relation.with_column(self.fresh("w"), f"cast({expression} as bigint)")

    def replaced(self, relation: lw.Relation) -> lw.Relation:
        """A column under its old name, which may be a key that rows were routed by, or a column under two names."""
        name = self.rng.choice(self.columns(relation, pa.int64(), pa.string()))
        text = relation.schema.field(name).type == pa.string()
        new = self.rng.choice([name, self.fresh("n")])
        return relation.with_column(new, f"coalesce({name}, 'b')" if text else f"cast({name} % 2 as bigint)")

    def shift(self, relation: lw.Relation) -> lw.Relation:
        """A time moved by a constant, over which windows can be."""
        times = self.times(relation)
        if not times:
            return relation
        return relation.with_column(
            self.fresh("t"), self.clock.shifted(self.rng.choice(times), self.rng.choice([5, 7]))
        )

    def select(self, relation: lw.Relation) -> lw.Relation:
        needed = {p.attribute for p in relation.node.properties.progress} | {"ts", "src", "id"}
        kept = [n for n in relation.schema.names if n in needed or self.rng.random() < 0.7]
        return relation.select(*(kept or relation.schema.names))

    def apply(self, relation: lw.Relation) -> lw.Relation:
        numbers = self.columns(relation, pa.int64())
        if not numbers:
            return relation
        name, new = self.rng.choice(numbers), self.fresh("m")
        if self.rng.random() < 0.4:

            def halved(rows: pa.Table) -> pa.Table:
                at = rows.schema.get_field_index(name)
                return rows.set_column(at, name, pc.divide(rows.column(name), 2))

            return relation.apply(halved, relation.schema)

        def negated(rows: pa.Table) -> pa.Table:
            return rows.append_column(new, pc.negate(rows.column(name)))

        return relation.apply(negated, relation.schema.append(pa.field(new, pa.int64())))

    def times(self, relation: lw.Relation) -> list[str]:
        """Visible times of the clock's type that progress."""
        properties = relation.node.properties
        return [
            p.attribute
            for p in properties.progress
            if p.attribute in relation.schema.names and relation.schema.field(p.attribute).type == self.clock.type
        ]

    # -- operators -------------------------------------------------------------------------------------------------

    def window(self, depth: int) -> lw.Relation:
        below = self.tree(depth - 1)
        times = self.times(below)
        over = self.rng.choice(times) if times and self.rng.random() < 0.3 else None
        length, slide = self.rng.choice([4, 10, 30]), self.rng.choice([2, 5, 10])
        kind = self.rng.choice(
            ["tumbling"] * 4 + ["sliding"] * 3 + ["landmark", "periodic", "first", "by tuple", "rows"]
        )
        clock, groups = self.clock, self.groups(below)
        aggregates = self.aggregates(below)
        bounded = {n: a for n, a in aggregates.items() if a.bounded} or {self.fresh("c"): lw.count()}
        if kind == "by tuple":
            made = below.window(clock.length(length), "1 row", over=over, partition_by=groups)
        elif kind == "rows":
            made = below.window(f"{self.rng.choice([1, 3])} rows", "1 row", over=over, partition_by=groups or "k")
        elif kind == "landmark" and depth == self.depth:  # where it ends depends on progress, so nothing follows it
            return below.window("all", clock.length(slide), over=over).group_by(*groups).agg(**bounded)
        elif kind == "periodic":
            made = below.window("all", clock.length(slide), period=clock.length(3 * slide), over=over).group_by(*groups)
        elif kind == "first":
            made = below.window(clock.length(length), over=over, origin="first").group_by(*groups)
        else:
            slid = clock.length(slide) if kind == "sliding" else None
            made = below.window(clock.length(length), slid, over=over).group_by(*groups)
            if self.rng.random() < 0.1:
                made = made.emit(flush=self.rng.choice([lw.lazy_flush(windows=1), lw.slow_flush(2)]))
            elif self.rng.random() < 0.2:
                return self.rows(made.agg(self.rng.choice(["wid", "panes", "buffer", "adaptive"]), **aggregates))
        return self.rows(made.agg(**aggregates))

    def session(self, depth: int) -> lw.Relation:
        below = self.tree(depth - 1)
        made = below.session(self.clock.length(self.rng.choice([2, 6, 15]))).group_by(*self.groups(below))
        return self.rows(made.agg(**self.aggregates(below)))

    def over(self, depth: int) -> lw.Relation:
        below = self.tree(depth - 1)
        groups = self.groups(below)
        if self.rng.random() < 0.5 and below.node.properties.derived:
            groups = list(dict.fromkeys([*groups, *(below.node.properties.identified or ())]))
        if self.rng.random() < 0.4:
            made = below.over(groups, rows=(self.rng.choice([0, 2]), self.rng.choice([0, 1])))
        else:
            made = below.over(groups, range=(self.clock.length(self.rng.choice([5, 20])), self.clock.length(0)))
        return self.rows(made.agg(**self.aggregates(below, ("count", "sum", "max", "min", "count_distinct"))))

    def group_by(self, depth: int) -> lw.Relation:
        below = self.tree(depth - 1)
        times = self.times(below)
        groups = [*([self.rng.choice(times)] if times else []), *self.groups(below)]
        own = random.Random(f"{self.named} {groups} {times}")  # as in in_order()
        groups += [name for name in times if name not in groups and own.random() < 0.3]
        if "window_start" in below.schema.names and "window_end" in times and self.rng.random() < 0.5:
            groups = ["window_start", "window_end", *(name for name in groups if not name.startswith("window"))]
        return self.rows(below.group_by(*groups).agg(**self.aggregates(below)))

    def distinct(self, depth: int) -> lw.Relation:
        below = self.tree(depth - 1)
        times, groups = self.times(below), self.groups(below)
        kind = self.rng.choice(["rows", "columns", "window", "within", "within"])
        if kind == "columns" and times:
            return self.rows(below.distinct(self.rng.choice(times), *groups))
        if kind == "window" and groups:
            return self.rows(below.window(self.clock.length(10), self.clock.length(5)).distinct(*groups))
        if kind == "within" and groups:
            return self.rows(below.drop_duplicates(groups, within=self.clock.length(self.rng.choice([0, 4, 15]))))
        return self.rows(below.distinct())

    def union(self, depth: int) -> lw.Relation:
        first, *others = self.again(self.rng.choice([2, 2, 3]), lambda: self.tree(depth - 1))
        return self.rows(first.union(*others))

    def join(self, depth: int) -> lw.Relation:
        alike = self.rng.random() < 0.4
        if alike:
            left, right = self.again(2, lambda: self.tree(depth - 1))
        else:
            left, right = self.tree(depth - 1), self.tree(self.rng.randrange(depth))
        left, right = left.named(self.fresh("j")), right.named(self.fresh("j"))
        keys = [
            name
            for name in self.columns(left, pa.string(), pa.int64())
            if name in self.columns(right, left.schema.field(name).type)
        ]
        on = self.rng.sample(keys, min(len(keys), self.rng.choice([1, 1, 2])))
        if not on:
            types = (pa.string(), pa.int64())
            pairs = [
                (one, other)
                for one in self.columns(left, *types)
                for other in self.columns(right, *types)
                if left.schema.field(one).type == right.schema.field(other).type
            ]
            on = [self.rng.choice(pairs)] if pairs else []
        options: dict[str, Any] = {"null_safe": True} if self.rng.random() < 0.15 else {}
        if "v" in left.schema.names and "v" in right.schema.names and "v" not in on and self.rng.random() < 0.2:
            options["condition"] = f"{left.name}_v <= {right.name}_v"
        how = self.rng.choice(["inner"] * 5 + ["left", "right", "full", "semi", "anti"])
        shared = [name for name in self.times(left) if name in self.times(right)]
        if alike and shared and self.rng.random() < 0.7:
            return self.behind_join(left.join(right, on=[self.rng.choice(shared), *on], how=how, **options))
        if self.rng.random() < 0.25:
            options["window"] = self.clock.length(self.rng.choice([5, 10]))
            return self.behind_join(left.join(right, on=on, how=how, **options))
        if self.rng.random() < 0.1 and read_once(left) and read_once(right):  # ties are counted in order of arrival
            rows = self.rng.choice([(1, 2), (2, None)])
            within = {} if None not in rows else {"within": self.clock.length(8)}
            return self.behind_join(left.join(right, on=on, rows=rows, **within, **options))
        within = (self.clock.length(self.rng.choice([-5, 0, 3])), self.clock.length(self.rng.choice([3, 8])))
        return self.behind_join(left.join(right, on=on, within=within, how=how, **options))

    def unique(self, depth: int) -> lw.Relation:
        """Rows of two streams with the same number, each of which ends it; without a window that alone frees them."""
        left, right = (self.data_stream(self.turn + n).unique("id").named(self.fresh("u")) for n in (0, 1))
        self.turn += 2
        if self.rng.random() < 0.4:
            return left.join(right, on="id").group_by("id").agg(**{self.fresh("c"): lw.count()})
        within = (self.clock.length(self.rng.choice([-30, 0])), self.clock.length(40))
        how = self.rng.choice(["inner", "inner", "left", "full", "semi", "anti"])
        return self.behind_join(left.join(right, on="id", within=within, how=how))

    def three(self, depth: int) -> lw.Relation:
        """A join of three."""
        below = [self.tree(max(0, depth - 2)).named(self.fresh("j")) for _ in range(3)]
        keys = [name for name in ("k", "g") if all(name in self.columns(one, pa.string(), pa.int64()) for one in below)]
        if not keys:
            below = [self.data_stream(self.turn + n).named(self.fresh("j")) for n in range(3)]
            keys = ["k"]
        return self.rows(lw.join(below, on=self.rng.choice(keys), within=self.clock.length(self.rng.choice([2, 6]))))

    def oblivious(self, depth: int) -> lw.Relation:
        """A join without a window on a time of two relations or three. Any order of arrival is expected."""
        sides = list(self.again(self.rng.choice([2, 2, 3]), lambda: self.tree(depth - 1)))
        sides = [side.named(self.fresh("o")) for side in sides]
        shared = [name for name in self.times(sides[0]) if all(name in self.times(side) for side in sides)]
        on = [self.rng.choice(shared or ["ts"])]
        keys = [name for name in ("k", "g") if all(name in self.columns(s, pa.string(), pa.int64()) for s in sides)]
        on += self.rng.sample(keys, min(len(keys), self.rng.choice([0, 1, 1])))
        return self.rows(lw.oblivious_join(sides, on=on, expect=lw.expect(scrambling=10**6)))

    def counted(self, depth: int) -> lw.Relation:
        """Windows over rows in order of arrival, which only streams have."""
        below = self.rows(self.data_stream(self.turn))
        if self.rng.random() < 0.5:
            below = below.union(*self.again(1, lambda: self.rows(self.data_stream(self.turn + 1))))
        self.turn += 2
        made = below.window(f"{self.rng.choice([2, 5])} rows", f"{self.rng.choice([2, 3])} rows")
        made = made.group_by(*self.groups(below)).agg(**self.aggregates(below))
        if depth < 2:
            return self.rows(made)
        time = self.rng.choice(["window_end", "wid"])
        return self.rows(made.window(self.rng.choice([4, 9]), over=time).agg(**self.aggregates(made)))

    def data_stream(self, turn: int) -> lw.Relation:
        name = STREAMS[turn % len(STREAMS)]
        if name not in self.streams:
            self.streams[name] = self.data.stream(name)
        return self.streams[name]

    def behind_join(self, relation: lw.Relation) -> lw.Relation:
        """Now and then the later or the earlier of both times."""
        times = self.times(relation)
        if len(times) == 2 and self.rng.random() < 0.3:
            function = self.rng.choice(["greatest", "least"])
            relation = relation.with_column(self.fresh("t"), f"{function}({times[0]}, {times[1]})")
        return self.rows(relation)


def read_once(relation: lw.Relation) -> bool:
    """Whether no stream is read twice, so that rows have one order of arrival."""
    names = [node.input.name for node in relation.node.walk() if isinstance(node, Scan)]
    return len(set(names)) == len(names)


SHAPES: list[tuple[Callable[[Drawing, int], lw.Relation], int]] = [
    (Drawing.window, 8),
    (Drawing.session, 2),
    (Drawing.over, 2),
    (Drawing.group_by, 2),
    (Drawing.distinct, 3),
    (Drawing.union, 4),
    (Drawing.join, 6),
    (Drawing.three, 1),
    (Drawing.oblivious, 3),
    (Drawing.unique, 1),
    (Drawing.counted, 1),
]
"""The operators of a tree and how often they are drawn."""


@dataclass
class Refusals:
    """What was drawn, what of it was refused, and why."""

    drawn: int = 0
    reasons: Counter[str] = field(default_factory=Counter)

    @property
    def refused(self) -> int:
        return sum(self.reasons.values())


def case(seed: int, refusals: Refusals | None = None, depth: int | None = None) -> Case:
    """The case of a seed: the first tree that is not refused."""
    told = refusals or Refusals()
    rng = random.Random(f"tree {seed}")
    data, shards, late = drawn_data(rng), rng.choice([1, 2, 3, 4]), rng.random() < 0.5
    while True:
        told.drawn += 1
        drawing = Drawing(rng, data, depth or rng.choice([1, 2, 2, 3, 3, 4]), rng.randrange(len(STREAMS)))
        try:
            relation = drawing.tree(drawing.depth)
            return Case(seed, relation, data, shards, late)
        except LowwaterError as error:
            told.reasons[plain(str(error))] += 1


def plain(reason: str) -> str:
    """A refusal without its names and numbers, so that equal reasons are counted together."""
    quoted = reason.split("'")
    return "".join(part if i % 2 == 0 else "…" for i, part in enumerate(quoted))


def shown(node: Node, depth: int = 0) -> str:
    """A logical tree, one line per node, from the results to the inputs."""
    return "\n".join(["   " * depth + node.line(), *(shown(one, depth + 1) for one in node.inputs)])


def main(seeds: int) -> None:
    refusals, kinds = Refusals(), Counter[str]()
    for seed in range(seeds):
        kinds.update(type(node).__name__ for node in case(seed, refusals).node.walk())
    print(f"{refusals.drawn} drawn, {refusals.refused} refused")
    for reason, n in refusals.reasons.most_common():
        print(f"{n:6}  {reason}")
    print(", ".join(f"{n} {kind}" for kind, n in kinds.most_common()))


if __name__ == "__main__":
    main(int(sys.argv[1]))
