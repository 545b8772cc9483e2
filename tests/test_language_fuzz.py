"""Random queries from a grammar: what runs equals its definition, what does not is refused with a sentence.

`LOWWATER_SOAK=2000 pytest tests/test_language_fuzz.py` draws so many queries instead of a few hundred.
"""

from __future__ import annotations

import os
import random
from dataclasses import dataclass

import pytest

import lowwater as lw
from lowwater.language import BadQuery, read, write
from tests.tree_oracle import endless, evaluate, unlike
from tests.trees import STREAMS, Data, drawn_data, run

SEEDS = max(300, int(os.environ.get("LOWWATER_SOAK", "0")))
BLOCK = 20
KINDS = ("INNER", "LEFT", "RIGHT", "FULL", "LEFT SEMI", "LEFT ANTI")


@dataclass
class Grammar:
    """Draws queries as text. Most are sound; some name what is not there or ask for what cannot be."""

    rng: random.Random
    timed: bool = True

    def query(self, depth: int = 2) -> str:
        rules = [self.plain, self.windowed, self.windowed, self.spark, self.flink, self.over, self.join, self.join]
        text = self.rng.choice([*rules, self.union, self.sliding, self.again])(depth)
        if self.rng.random() < 0.08:
            text = f"WITH q AS ({text}) SELECT * FROM q"
        return f"{text} ORDERED" if random.Random(text).random() < 0.08 else text

    def union(self, depth: int) -> str:
        between = self.rng.choice(["UNION ALL", "UNION", "UNION DISTINCT"])
        sides = [f"SELECT ts, k{self.rng.choice(['', ', v'])} FROM {self.stream()}{self.where()}" for _ in range(2)]
        return f" {between} ".join(sides)

    def sliding(self, depth: int) -> str:
        """WINDOW behind a query: a window that ends at each row, and the bound of a join."""
        if self.rng.random() < 0.5:
            of = f"{self.stream()}{self.where()}"
            return f"SELECT k, {self.aggregate()} AS a FROM {of} GROUP BY k WINDOW {self.length()}"
        a, b = self.rng.sample(STREAMS, 2)
        kind = self.rng.choice(KINDS)
        return f"SELECT * FROM {a} l {kind} JOIN {b} r ON l.k = r.k WINDOW {self.length()}"

    def again(self, depth: int) -> str:
        """A query over windows: an aggregation of them, OVER them, or one window joined with another."""
        of = f"SELECT k, {self.aggregate()} AS a FROM {self.stream()} [RANGE {self.length(3, 9)}] GROUP BY k"
        form = self.rng.randrange(4)
        if form == 0:
            return f"SELECT window_start, window_end, max(a) AS most FROM ({of}) q GROUP BY window_start, window_end"
        if form == 1:
            return f"SELECT *, sum(a) OVER (PARTITION BY k ORDER BY window_end ROWS 1 PRECEDING) AS s FROM ({of}) q"
        if form == 2:
            return f"SELECT DISTINCT k FROM {self.stream()} [RANGE {self.length()}, WA ts]"
        kind = self.rng.choice(KINDS)
        same = " AND ".join(f"l.{one} = r.{one}" for one in ("window_start", "window_end", "k"))
        items = "*" if "SEMI" in kind or "ANTI" in kind else "l.k AS lk, r.k AS rk, l.a AS la, r.a AS ra"
        return f"WITH l AS ({of}), r AS ({of}) SELECT {items} FROM l {kind} JOIN r ON {same}"

    def length(self, low: int = 1, high: int = 20) -> str:
        number = self.rng.randint(low, high)
        return f"{number} {self.rng.choice(['seconds', 'second'])}" if self.timed else str(number)

    def interval(self) -> str:
        number = self.rng.randint(0, 15)
        return f"INTERVAL {number} SECONDS" if self.timed else str(number)

    def stream(self) -> str:
        return self.rng.choice(STREAMS)

    def input(self, depth: int) -> str:
        draw = self.rng.random()
        if draw < 0.1 and depth:
            return f"(SELECT * FROM {self.stream()} WHERE {self.condition()}) AS s"
        if draw < 0.25:
            a, b = self.rng.sample(STREAMS, 2)
            return f"{a} UNION {b}" if self.rng.random() < 0.5 else f"({a} UNION ALL {b}) AS u"
        return self.stream()

    def condition(self) -> str:
        one = self.rng.choice(["v > 2", "k = 'a'", "x < 1.5 OR g = 1", "v IS NOT NULL", "NOT k = 'b'", "id % 2 = 0"])
        return f"{one} AND v BETWEEN -1 AND 5" if self.rng.random() < 0.2 else one

    def where(self) -> str:
        return f" WHERE {self.condition()}" if self.rng.random() < 0.4 else ""

    def aggregate(self) -> str:
        call = self.rng.choice(
            ["count(*)", "count(v)", "sum(v)", "max(x)", "min(v + g)", "count(DISTINCT k)", "avg(v)", "sum(v * 2)"]
        )
        return f"{call} FILTER (WHERE {self.condition()})" if self.rng.random() < 0.2 else call

    def having(self) -> str:
        return self.rng.choice(["", "", "", " HAVING a > 1", " HAVING count(*) > 1 OR a IS NULL"])

    def clause(self) -> str:
        span = self.length(1, 30)
        parts = self.rng.choice(
            [
                [f"RANGE {span}", "WA ts"],
                [f"RANGE TUMBLING {span}", "WATTR ts"],
                [f"RANGE {span}", f"SLIDE {self.length(1, 10)}", "WA ts"],
                [f"SLIDE {self.length(1, 10)}", f"RANGE {span}"],
                [f"RANGE {self.rng.randint(1, 6)} rows", f"SLIDE {self.rng.randint(1, 4)} rows", "WA row-num"],
                [f"RANGE {self.rng.randint(1, 6)} rows", "WA row-num", "PA k"],
                [f"RANGE {span}", "RATTR ts", "SLIDE 1 row", f"SATTR {self.rng.choice(['row-num', 'rank(ts)'])}"],
                [f"RANGE {self.rng.randint(-1, 0)}", "WA ts"],
                [f"RANGE {span}", "WA v"],
            ]
        )
        return f"[{', '.join(parts)}]"

    def windowed(self, depth: int) -> str:
        keys = self.rng.choice(["", "", "k", "k, g", "v % 3"])
        items = [keys] if keys else []
        first, rest = self.aggregate(), [self.aggregate() for _ in range(self.rng.choice([0, 0, 1, 2]))]
        items.append(f"{first} {self.clause()} AS a")
        items += [f"{one} AS b{n}" for n, one in enumerate(rest)]
        group = f" {self.rng.choice(['GROUP BY', 'GROUP-BY', 'GROUPBY'])} {keys}" if keys else ""
        late = self.rng.choice(["", "", "", f" EMIT STRATEGY {self.rng.choice(['panes', 'wid', 'buffer'])}"])
        return f"SELECT {', '.join(items)} FROM {self.input(depth)}{self.where()}{group}{self.having()}{late}"

    def plain(self, depth: int) -> str:
        items = self.rng.choice(
            ["*", "ts, k", "ts, v + 1 AS w, k", "k, ts AS t, ts", "v AS x, x AS v, ts", "k", "nope"]
        )
        distinct = self.rng.choice(["", "", "", "DISTINCT "])
        text = f"SELECT {distinct}{items} FROM {self.input(depth)}{self.where()}"
        if depth and self.rng.random() < 0.2:
            text += f" UNION {self.rng.choice(['', 'ALL '])}SELECT {items} FROM {self.stream()}"
        return text

    def spark(self, depth: int) -> str:
        if not self.timed:
            return self.windowed(depth)
        window = self.rng.choice(["window(ts, '{}')", "window(ts, '{}', '5 seconds')", "session_window(ts, '{}')"])
        return (
            f"SELECT window.start AS s, k, {self.aggregate()} AS a FROM {self.input(depth)}{self.where()} "
            f"GROUP BY {window.format(self.length(5, 20))}, k"
        )

    def flink(self, depth: int) -> str:
        name, lengths = self.rng.choice([("TUMBLE", 1), ("HOP", 2), ("CUMULATE", 2), ("SESSION", 1)])
        several = self.rng.randint(1, 4)
        step = self.rng.randint(1, 6)
        shown = [
            f"{step} seconds" if self.timed else str(step),
            f"{step * several} seconds" if self.timed else str(step),
        ]
        given = ", ".join(f"INTERVAL {one}" if self.timed else one for one in shown[:lengths])
        return (
            f"SELECT window_start, window_end, k, {self.aggregate()} AS a "
            f"FROM {name}(TABLE {self.stream()}, DESCRIPTOR(ts), {given}) GROUP BY window_start, window_end, k"
        )

    def over(self, depth: int) -> str:
        rows = f"ROWS BETWEEN {self.rng.randint(0, 3)} PRECEDING AND {self.rng.choice(['CURRENT ROW', '2 FOLLOWING'])}"
        times = f"RANGE BETWEEN {self.interval()} PRECEDING AND CURRENT ROW"
        frame = self.rng.choice([rows, times])
        partition = self.rng.choice(["PARTITION BY k ", "PARTITION BY k, g ", ""])
        return (
            f"SELECT *, {self.rng.choice(['sum(v)', 'count(*)', 'max(x)'])} OVER ({partition}ORDER BY ts {frame}) AS a "
            f"FROM {self.stream()}{self.where()}"
        )

    def join(self, depth: int) -> str:
        a, b = self.rng.sample(STREAMS, 2)
        kind = self.rng.choice(KINDS)
        more = self.rng.choice(["", "", " AND l.v > r.v"])
        band = f"r.ts BETWEEN l.ts - {self.interval()} AND l.ts + {self.interval()}"
        form = self.rng.randrange(4)
        if form == 0:
            every = "l.ts, r.ts AS other, l.k, r.v"
            both = self.rng.choice([every, every.replace("l.k", "l.k AS a, r.k AS b"), "l.*, r.k AS b"])
            columns = "*" if "SEMI" in kind or "ANTI" in kind else both
            return f"SELECT {columns} FROM {a} l {kind} JOIN {b} r ON l.k = r.k AND {band}{more}"
        if form == 1:
            windows = f"{a} l [RANGE {self.length()}, WA ts], {b} r [RANGE {self.length()}, WA ts]"
            return f"SELECT l.ts, r.ts, l.k FROM {windows} WHERE l.k = r.k{more}"
        if form == 2:
            return f"SELECT l.id, r.id FROM {a} l, {b} r [RANGE TUMBLING {self.length()}, WA ts], WHERE l.k = r.k{more}"
        return (
            f"SELECT l.k, count(*) [RANGE {self.length()}, WA l.ts] AS n FROM {a} l, {b} r "
            f"WHERE l.k = r.k AND {band} GROUP BY l.k"
        )


def judged(seed: int, counts: dict[str, int]) -> str:
    """What is wrong with one query; the empty string if nothing is."""
    rng = random.Random(seed)
    data: Data = drawn_data(rng)
    text = Grammar(rng, data.clock.stamps).query()
    try:
        relation = lw.sql(text, **{name: data.stream(name) for name in STREAMS})
    except BadQuery as error:
        counts["refused"] += 1
        ends = error.sentence.rstrip().endswith(".") and "Traceback" not in str(error)
        return "" if ends else f"seed {seed}: {text}\n{error}"
    if any(endless(node) for node in relation.node.walk()):
        return ""
    counts["ran"] += 1
    wrong = unlike(run(relation, data, rng.choice([1, 3])).result(), evaluate(relation.node, data.arrived()))
    return f"seed {seed}: {text}\n{wrong}" if wrong else ""


@pytest.mark.parametrize("block", range(-(-SEEDS // BLOCK)))
def test_random_queries_equal_their_definitions_or_are_refused(block: int) -> None:
    counts = {"refused": 0, "ran": 0}
    for seed in range(block * BLOCK, (block + 1) * BLOCK):
        assert judged(seed, counts) == ""
    assert counts["ran"] >= BLOCK // 3, counts


def test_a_thousand_random_queries_are_read_again_from_what_is_written() -> None:
    for seed in range(1000):
        rng = random.Random(seed)
        text = Grammar(rng, rng.random() < 0.7).query()
        (statement,) = read(text)
        (again,) = read(write(statement))
        assert again.tree == statement.tree, text
