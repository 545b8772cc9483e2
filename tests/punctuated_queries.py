"""Joins of streams that end values in every form, and a judge that knows what has come.

The judge knows the rows that have come, what every stream has ended and how far it is. A promise is remembered for as
long as windows reach; rows that break one later than that are not written, since nothing is said of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

import lowwater as lw
from tests.join_oracle import band_join, flatten, matches
from tests.join_queries import Band, Grid, Result, Window, low_watermark, windows

Row = dict[str, Any]
Pattern = Any
"""A value, a list of values, or a range (low, high)."""
K = [("k", "k")]
NAN = float("nan")


FORMS = ("unique", "value", "column", "list", "range")
"""Every row ends its own value; rows with `closed` end that in k, that in another column, a list, a range."""
TYPES: dict[str, tuple[pa.DataType, list[Any]]] = {
    "number": (pa.int64(), [0, 1, 2, 3, 2**53, 2**53 + 1]),
    "text": (pa.string(), ["", "a", "b", "c"]),
    "double": (pa.float64(), [0.0, -0.0, 1.5, 2.0, NAN]),
}


@dataclass(frozen=True)
class Unbounded:
    """No window: a band without ends."""

    def options(self, stamps: bool) -> Row:
        return {}

    def join(self, left: list[Row], right: list[Row], on: Any, how: str, **more: Any) -> list[Result]:
        return list(band_join(left, right, on, None, None, how, **more))

    def waiting(self, side: int, row: Row, low: int | None) -> int:
        return 1

    def open(self, side: int, result: Result, low: int | None) -> bool:
        return True


def position(window: Window | Unbounded, time: int) -> int:
    """Where a low-watermark is on the axis of a window."""
    return (time - window.origin - window.range) // window.slide if isinstance(window, Grid) else time


def reach(window: Window | Unbounded) -> int:
    return sum(map(abs, window.waits)) if isinstance(window, Band) else 0


@dataclass
class Told:
    """What one side has ended: the pattern, and how far the inputs were then at most (None: not known)."""

    pattern: Pattern
    at: int | None


@dataclass
class Judge:
    """All that has come of two streams, in order of arrival."""

    window: Window | Unbounded
    disorder: Sequence[int]
    null_safe: bool
    rows: list[list[Row]] = field(default_factory=lambda: [[], []])
    ended: list[list[Told]] = field(default_factory=lambda: [[], []])
    late: list[tuple[int, Row]] = field(default_factory=list)
    maybe: list[list[Row]] = field(default_factory=lambda: [[], []])
    """Rows that may be kept although the other side had ended their value: longer ago than windows reach."""
    lows: list[int | None] = field(default_factory=lambda: [None, None])

    def promises(self, side: int, value: Any) -> list[Told]:
        if value is None and not self.null_safe:
            return []
        return [told for told in self.ended[side] if matches(told.pattern, value)]

    def remembered(self, told: list[Told]) -> bool:
        """Whether windows still reach the time of a promise; to say it again says nothing new."""
        if isinstance(self.window, Unbounded) or None in self.lows:
            return bool(told)
        if not told or told[0].at is None:
            return False
        least = min(low for low in self.lows if low is not None)
        return position(self.window, least) - reach(self.window) <= position(self.window, told[0].at)

    def furthest(self) -> int | None:
        return max((low for low in self.lows if low is not None), default=None)

    def forgets(self, side: int, value: Any) -> bool:
        """Whether a row of this value breaks a promise that may be forgotten."""
        broken = self.promises(side, value)
        return bool(broken) and not self.remembered(broken)

    def hears(self, side: int, row: Row) -> None:
        if self.promises(side, row["k"]):
            self.late.append((side, row))
            return
        self.rows[side].append(row)
        told = self.promises(1 - side, row["k"])
        if told and not self.remembered(told):
            self.maybe[side].append(row)

    def progresses(self, side: int) -> None:
        seen = [*self.rows[side], *(row for of, row in self.late if of == side)]
        self.lows[side] = low_watermark(seen, self.disorder[side])

    def needed(self) -> list[tuple[int, int]]:
        """The least and the most rows that may be kept of each side."""
        found = []
        for side in (0, 1):
            least = most = 0
            for row in self.rows[side]:
                if row["k"] is None and not self.null_safe:
                    continue
                n = self.window.waiting(side, row, self.lows[1 - side])
                ended = bool(self.promises(1 - side, row["k"]))
                least += 0 if ended else n
                most += 0 if ended and not any(row is one for one in self.maybe[side]) else n
            found.append((least, most))
        return found


@dataclass(frozen=True)
class PunctuatedCase:
    """All that happens. A push is (side, rows and patterns in order of arrival); None is a restart."""

    type: str
    forms: tuple[str | None, str | None]
    window: Window | Unbounded
    how: str
    null_safe: bool
    disorder: list[int]
    shards: int
    pushes: list[tuple[int, list[Any]] | None]

    def schema(self, side: int) -> pa.Schema:
        of = TYPES[self.type][0]
        marks = {
            "value": [],
            "column": [("ended", of)],
            "list": [("ended", pa.list_(of))],
            "range": [("low", of), ("high", of)],
        }
        form = self.forms[side]
        named = [] if form in (None, "unique") else [("closed", pa.bool_()), *marks[form or ""]]
        return pa.schema([("ts", pa.int64()), ("k", of), ("v", pa.int64()), *named])

    def stream(self, side: int) -> lw.Stream:
        table = self.schema(side).empty_table()
        stream = lw.stream(table, name="lr"[side], progress="ts", disorder=self.disorder[side])
        form = self.forms[side]
        if form is None:
            return stream
        if form == "unique":
            return stream.unique("k")
        if form == "range":
            return stream.ends("k", when="closed", range=("low", "high"))
        return stream.ends("k", when="closed", value=None if form == "value" else "ended")

    def joined(self) -> lw.Joined:
        left, right = self.stream(0), self.stream(1)
        return left.join(right, "k", how=self.how, null_safe=self.null_safe, **self.window.options(False))

    def table(self, side: int, push: list[Any]) -> pa.Table:
        """Rows and patterns as they come; the time of a punctuation says nothing."""
        schema = self.schema(side)
        blank: Row = dict.fromkeys(schema.names)
        out = []
        for what in push:
            if isinstance(what, dict):
                out.append(blank | what | ({"closed": False} if "closed" in schema.names else {}))
            elif self.forms[side] == "range":
                out.append(blank | {"ts": 10**6, "closed": True, "low": what[0], "high": what[1]})
            else:
                out.append(blank | {"closed": True, ("k" if self.forms[side] == "value" else "ended"): what})
        return pa.Table.from_pylist(out, schema=schema)

    def run_through(self, query: Any, judge: Judge, each: Any = lambda: None) -> None:
        for push in self.pushes:
            if push is None:
                query.restart()
                continue
            side, what = push
            query.push(self.table(side, what), side)
            ending(judge, side, what, self.forms[side])
            each()

    def told(self, results: list[Result]) -> list[Row]:
        columns = ["ts", "k", "v"]
        return flatten(results, K, columns=(columns, [] if self.how in ("semi", "anti") else columns))


def ending(judge: Judge, side: int, push: list[Any], form: str | None) -> None:
    """A push as the judge hears it."""
    at = judge.furthest()
    for what in push:
        if isinstance(what, dict):
            judge.hears(side, what)
            if form == "unique" and (what["k"] is not None or judge.null_safe):
                judge.ended[side].append(Told([what["k"]], at))
        else:
            judge.ended[side].append(Told(what, at))
    judge.progresses(side)


@st.composite
def punctuated(
    draw: st.DrawFn, how: str, windowed: bool, types: Sequence[str] = tuple(TYPES), shards: int = 3
) -> PunctuatedCase:
    type = draw(st.sampled_from(types))
    values = TYPES[type][1]
    window = draw(st.sampled_from(["band", "grid"]).flatmap(windows)) if windowed else Unbounded()
    if isinstance(window, Grid):
        window = replace(window, range=max(window.range, window.slide))  # what lies in a gap breaks nothing
    forms = draw(st.tuples(*[st.sampled_from(FORMS if not windowed else (None, *FORMS))] * 2))
    if windowed and forms == (None, None):
        forms = ("value", None)
    null_safe = draw(st.booleans())
    disorder = [draw(st.sampled_from([0, 2, 6])) for _ in range(2)]
    judge = Judge(window, disorder, null_safe)
    clock, n, pushes = [0, 0], 0, []
    for _ in range(draw(st.integers(0, 14))):
        side = draw(st.integers(0, 1))
        push: list[Any] = []
        fresh: list[Pattern] = []
        for _ in range(draw(st.integers(1, 5))):
            if forms[side] not in (None, "unique") and draw(st.integers(0, 3)) == 0:
                push.append(draw(patterns(forms[side] or "", values)))
                fresh.append(push[-1])
                continue
            clock[side] += draw(st.integers(0, 4))
            ts = clock[side] - draw(st.integers(0, disorder[side]))
            row = {"ts": ts, "k": draw(st.sampled_from([*values, None])), "v": n}
            n += 1
            if judge.forgets(side, row["k"]) and not any(matches(pattern, row["k"]) for pattern in fresh):
                continue
            push.append(row)
            if forms[side] == "unique":
                fresh.append([row["k"]])
        ending(judge, side, push, forms[side])
        if draw(st.integers(0, 5)) == 0:
            pushes.append(None)
        pushes.append((side, push))
    return PunctuatedCase(type, forms, window, how, null_safe, disorder, draw(st.integers(1, shards)), pushes)


def patterns(form: str, values: list[Any]) -> st.SearchStrategy[Pattern]:
    if form == "list":
        return st.lists(st.sampled_from(values), max_size=3)
    in_order = [value for value in values if value == value]
    return st.tuples(*[st.sampled_from(in_order)] * 2) if form == "range" else st.sampled_from(values)
