"""Punctuated joins (PW): the same results with less state, and word of values that are over as soon as it is true.

Two levels. Queries on the local backend over streams that end values in every form: results, late rows and state after
each push. The operator by itself, of two inputs or three: what it tells of values, and exactly when.

The judge knows the rows that have come, what every stream has ended and how far it is. A promise is remembered for as
long as windows reach; rows that break one later than that are not written, since nothing is said of them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lowwater as lw
from lowwater.generate.auctions import HOUR, Auctions, auctions
from lowwater.joins import keyed
from lowwater.joins.oa_join import OAJoin
from lowwater.joins.pwjoin import UNGRAMMATICAL, PWJoin, pjoin
from lowwater.joins.spec import JoinSide, WindowJoin
from lowwater.model.punctuation import ALL, Constant, Punctuation, Range, ValueList
from lowwater.operators.base import Batch, Ended, Late, Message
from lowwater.operators.group_by import GroupBy, Grouping
from lowwater.state.segments import Segment, unpack
from lowwater.windows.context_free import Sliding
from tests.compare import multiset
from tests.join_oracle import HOWS, band_join, flatten, matches, n_way, value_punctuated
from tests.oracle import ordered
from tests.test_join_property import Band, Grid, Result, Window, few, held, low_watermark, windows

Row = dict[str, Any]
Pattern = Any
"""A value, a list of values, or a range (low, high)."""
K = [("k", "k")]
NAN = float("nan")

# -- streams that end values -----------------------------------------------------------------------------------------

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


@pytest.mark.parametrize("windowed", [True, False], ids=["window", "no window"])
@pytest.mark.parametrize("how", HOWS)
@settings(max_examples=25)
@given(data=st.data())
def test_results_are_those_of_the_grammatical_rows_and_the_others_are_told(
    how: str, windowed: bool, data: st.DataObject
) -> None:
    case = data.draw(punctuated(how, windowed))
    query = case.joined().start(shards=case.shards)
    judge = Judge(case.window, case.disorder, case.null_safe)

    def state() -> None:
        if how in ("semi", "anti"):  # these keep no left row that has met one
            return
        kept = held(query)
        for n, (least, most) in zip(kept, judge.needed(), strict=True):
            assert least <= n <= most
        assert query.metrics().state_rows == sum(kept)

    case.run_through(query, judge, state)
    query.finish()
    results = case.window.join(*judge.rows, K, how, null_safe=case.null_safe)
    assert multiset(query.result().to_pylist()) == multiset(case.told(results))
    pairs: list[Result] = [(row, None) if side == 0 else (None, row) for side, row in judge.late]
    late = flatten(pairs, K, columns=(["ts", "k", "v"], ["ts", "k", "v"]))
    why = {"late_reason": UNGRAMMATICAL, "windows_missed": None, "windows_kept": 0}
    expected = [{"input": "lr"[side], **row, **why} for (side, _), row in zip(judge.late, late, strict=True)]
    assert multiset(query.late_output().to_pylist()) == multiset(expected)
    numbers = query.metrics()
    assert (numbers.late_rows, numbers.state_rows, numbers.state_bytes) == (len(expected), 0, 0)


@settings(max_examples=40)
@given(data=st.data())
def test_the_judge_here_is_the_judge_of_punctuated_values(data: st.DataObject) -> None:
    case = data.draw(punctuated("inner", windowed=False))
    judge = Judge(case.window, case.disorder, case.null_safe)
    events = []
    for push in case.pushes:
        if push is None:
            continue
        side, what = push
        ending(judge, side, what, case.forms[side])
        for one in what:
            events.append(("LR"[side], one))
            if case.forms[side] == "unique" and (one["k"] is not None or case.null_safe):
                events.append(("LR"[side], [one["k"]]))
    broken, results = value_punctuated(events, K, null_safe=case.null_safe)
    assert broken == [("LR"[side], row) for side, row in judge.late]
    assert results == case.window.join(*judge.rows, K, "inner", null_safe=case.null_safe)


@settings(max_examples=30)
@given(data=st.data())
def test_values_that_share_a_hash_are_still_told_apart(data: st.DataObject) -> None:
    how, windowed = data.draw(st.sampled_from(HOWS)), data.draw(st.booleans())
    case = data.draw(punctuated(how, windowed, ["text", "double"], shards=1))
    judge = Judge(case.window, case.disorder, case.null_safe)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(keyed, "hashed", few)
        query = case.joined().start()
        case.run_through(query, judge)
        query.finish()
    results = case.window.join(*judge.rows, K, how, null_safe=case.null_safe)
    assert multiset(query.result().to_pylist()) == multiset(case.told(results))
    assert query.metrics().late_rows == len(judge.late)


@settings(max_examples=40)
@given(data=st.data())
def test_groups_behind_a_punctuated_join_are_those_of_its_results_each_once(data: st.DataObject) -> None:
    """By the key, so that values that are over answer groups; whichever side's rows stay alone."""
    how, windowed = data.draw(st.sampled_from(HOWS)), data.draw(st.booleans())
    case = data.draw(punctuated(how, windowed, ["number", "text"]))
    query = case.joined().group_by("k").agg(n=lw.count()).start(shards=case.shards)
    judge = Judge(case.window, case.disorder, case.null_safe)
    case.run_through(query, judge)
    query.finish()
    rows = case.told(case.window.join(*judge.rows, K, how, null_safe=case.null_safe))
    groups = {row["k"]: sum(one["k"] == row["k"] for one in rows) for row in rows}
    assert multiset(query.result().to_pylist()) == multiset({"k": k, "n": n} for k, n in groups.items())
    assert query.metrics().state_rows == 0


# -- the operator ----------------------------------------------------------------------------------------------------

SCHEMA = pa.schema([("ts", pa.int64()), ("k", pa.int64()), ("v", pa.int64())])
Event = tuple[int, list[Row] | Punctuation | Ended]
VALUES = range(3)


def sides(n: int) -> tuple[JoinSide, ...]:
    return tuple(JoinSide(name, SCHEMA, "ts", ("k",)) for name in "abc"[:n])


def take(join: OAJoin, port: int, what: list[Row] | Punctuation | Ended) -> list[Message]:
    if isinstance(what, Punctuation):
        return join.on_punctuation(port, what)
    if isinstance(what, Ended):
        return join.on_ended(port, what)
    return join.on_batch(port, Batch(pa.Table.from_pylist(what, schema=SCHEMA)))


def ended(*values: int) -> Ended:
    return Ended(pa.table({"k": pa.array(values, pa.int64())}))


def rows(*of: tuple[int, int]) -> list[Row]:
    """Rows of (time, value)."""
    return [{"ts": ts, "k": k, "v": 0} for ts, k in of]


def revived(join: PWJoin) -> PWJoin:
    """A fresh operator with the state of another, taken through bytes."""
    saved = join.snapshot()
    fresh = PWJoin(join.what, join.joint, join.early)
    stored = {id: bytes(segment.data or b"") for id, segment in saved.segments.items()}

    def load(id: str) -> Segment[Any]:
        return Segment(fresh.decode(unpack(stored[id])), id, stored[id], len(stored[id]))

    fresh.restore(json.loads(json.dumps(saved.head)), load)
    assert fresh.held() == join.held()
    return fresh


@st.composite
def arrivals(draw: st.DrawFn, ports: int = 2, ranges: bool = True) -> list[Event]:
    """Grammatical rows, values ended in every form, and time that passes, on each port; at last all have ended."""
    low = [0] * ports
    over: list[set[int]] = [set() for _ in range(ports)]
    out: list[Event] = []
    for _ in range(draw(st.integers(0, 30))):
        port, kind = draw(st.integers(0, ports - 1)), draw(st.sampled_from(["rows", "rows", "rows", "time", "values"]))
        if kind == "time":
            low[port] += draw(st.integers(1, 8))
            out.append((port, Punctuation.linear("ts", low[port])))
        elif kind == "rows":
            open = [k for k in VALUES if k not in over[port]]
            if open:
                row = st.tuples(st.integers(low[port], low[port] + 12), st.sampled_from(open))
                out.append((port, rows(*draw(st.lists(row, min_size=1, max_size=4)))))
        else:
            ending = draw(st.frozensets(st.sampled_from(VALUES), min_size=1, max_size=2))
            forms: list[Any] = [ended(*ending), Punctuation({"k": ValueList(ending)})]
            forms += [Punctuation({"k": Constant(k)}) for k in list(ending)[: len(ending) == 1]]
            if ranges and draw(st.booleans()):
                ending = frozenset(range(min(ending), max(ending) + 1))
                forms = [Punctuation({"k": Range(min(ending), max(ending) + 1)})]
            over[port] |= ending
            out.append((port, draw(st.sampled_from(forms))))
    return [*out, *((port, ALL) for port in draw(st.permutations(range(ports))))]


@st.composite
def specs(draw: st.DrawFn, hows: Sequence[str] = HOWS, ports: int = 2) -> WindowJoin:
    how = draw(st.sampled_from(hows))
    if draw(st.integers(0, 2)) == 0:
        grid = Sliding(draw(st.integers(1, 20)), draw(st.integers(1, 9)), draw(st.integers(-9, 9)))
        return WindowJoin(sides(ports), (0,) * ports, how, grid)
    lower = draw(st.integers(-9, 4)) if ports == 2 else 0
    waits: list[int | None] = [lower + draw(st.integers(0, 15)), -lower, draw(st.integers(0, 15))][:ports]
    return WindowJoin(sides(ports), tuple(None if draw(st.integers(0, 5)) == 0 else wait for wait in waits), how)


def break_no_promise(messages: Iterable[Message]) -> None:
    """Law (i): nothing that was said to be over comes afterwards."""
    over: set[Any] = set()
    promised: list[Punctuation] = []
    for message in messages:
        if isinstance(message, Ended):
            over |= {ordered(row["k"]) for row in message.values.to_pylist()}
        elif isinstance(message, Punctuation):
            promised.append(message)
        elif isinstance(message, Batch):
            for row in message.rows.to_pylist():
                assert ordered(row["k"]) not in over, row
                assert not [str(p) for p in promised if p.match(row)], row


@pytest.mark.parametrize(("ports", "early"), [(2, True), (2, False), (3, True)])
@settings(max_examples=60)
@given(data=st.data())
def test_what_a_punctuated_join_says_is_true(ports: int, early: bool, data: st.DataObject) -> None:
    what = data.draw(specs(HOWS if ports == 2 else ["inner"], ports))
    join = PWJoin(what, early=early)
    out: list[Message] = []
    for port, event in data.draw(arrivals(ports)):
        if data.draw(st.integers(0, 4)) == 0:
            join = revived(join)
        out += take(join, port, event)
    break_no_promise(out)
    assert not [message for message in out if isinstance(message, Late)], "the streams were grammatical"
    assert (join.held().rows, join.held().bytes) == (0, 0)


@pytest.mark.parametrize("ports", [2, 3])
@settings(max_examples=50)
@given(data=st.data())
def test_results_are_those_of_a_join_that_hears_no_values(ports: int, data: st.DataObject) -> None:
    what = data.draw(specs(HOWS if ports == 2 else ["inner"], ports))
    told, deaf = PWJoin(what), OAJoin(what)
    found: list[list[Row]] = [[], []]
    for port, event in data.draw(arrivals(ports)):
        for join, got in zip((told, deaf), found, strict=True):
            deafened = join is deaf and (isinstance(event, Ended) or "k" in dict(getattr(event, "patterns", ())))
            for message in [] if deafened else take(join, port, event):
                got += message.rows.to_pylist() if isinstance(message, Batch) else []
        assert told.held().rows <= deaf.held().rows
    assert multiset(found[0]) == multiset(found[1])


@dataclass
class Propagation:
    """Which values are over, from first principles: nobody can bring the row that is missing.

    Of a side that has ended a value, rows are there that may still join, or none are: then no result can come.
    """

    what: WindowJoin
    early: bool
    rows: list[list[tuple[int, int]]]
    ended: list[set[int]]
    lows: list[float]
    over: set[int] = field(default_factory=set)

    def hears(self, port: int, event: list[Row] | Punctuation | Ended) -> None:
        if isinstance(event, list):
            self.rows[port] += [(row["ts"], row["k"]) for row in event]
        elif isinstance(event, Ended):
            self.ended[port] |= set(event.values["k"].to_pylist())
        elif event == ALL:
            self.lows[port] = float("inf")
        elif (low := event.low_watermark("ts")) is not None:
            self.lows[port] = max(low, self.lows[port])
        else:
            self.ended[port] |= {k for k in VALUES if event.match({"k": k})}
        self.over |= {k for k in VALUES if self.is_over(k)}

    def is_over(self, k: int) -> bool:
        told = [port for port, values in enumerate(self.ended) if k in values]
        if len(told) == len(self.rows):
            return True
        return self.early and any(not self.waits(port, k) for port in told)

    def waits(self, port: int, k: int) -> bool:
        """Whether a row of this side with the value may still meet rows to come."""
        least = min(low for other, low in enumerate(self.lows) if other != port)
        return any(self.last(port, ts) >= least for ts, value in self.rows[port] if value == k)

    def last(self, port: int, ts: int) -> float:
        """The last time of a partner."""
        if (grid := self.what.grid) is not None:
            last = grid.origin + (ts - grid.origin + grid.range) // grid.slide * grid.slide - 1
            return last if last >= ts else float("-inf")  # in a gap it has none
        wait = self.what.waits[port]
        return float("inf") if wait is None else ts + wait


@pytest.mark.parametrize(("ports", "early"), [(2, True), (3, True), (2, False), (3, False)])
@settings(max_examples=60)
@given(data=st.data())
def test_values_are_told_to_be_over_exactly_when_they_are(ports: int, early: bool, data: st.DataObject) -> None:
    """Early: when the last row of an ended value leaves its window. PJoin, without window: when all have ended it."""
    what = data.draw(specs(["inner"], ports)) if early else WindowJoin(sides(ports), (None,) * ports)
    join = PWJoin(what, early=early)
    judge = Propagation(what, early, [[] for _ in range(ports)], [set() for _ in range(ports)], [float("-inf")] * ports)
    told: set[int] = set()
    for port, event in data.draw(arrivals(ports, ranges=False)):
        if event == ALL:
            break
        if data.draw(st.integers(0, 4)) == 0:
            join = revived(join)
        for message in take(join, port, event):
            if isinstance(message, Ended):
                told |= set(message.values["k"].to_pylist())
        judge.hears(port, event)
        assert told == judge.over


@settings(max_examples=60)
@given(data=st.data())
def test_ranges_that_are_over_are_told(data: st.DataObject) -> None:
    """What is told covers every value that is over, whether ended one by one or by ranges."""
    what = data.draw(specs(["inner"]))
    join = PWJoin(what)
    judge = Propagation(what, True, [[], []], [set(), set()], [float("-inf")] * 2)
    told: set[int] = set()
    whole: list[tuple[int, frozenset[int]]] = []
    for port, event in data.draw(arrivals()):
        if event == ALL:
            break
        for message in take(join, port, event):
            if isinstance(message, Ended):
                told |= set(message.values["k"].to_pylist())
            elif isinstance(message, Punctuation) and "k" in dict(message.patterns):
                told |= {k for k in VALUES if message.match({"k": k})}
        judge.hears(port, event)
        if isinstance(event, Punctuation) and "k" in dict(event.patterns):
            whole.append((port, frozenset(k for k in VALUES if event.match({"k": k}))))
        assert told <= judge.over
        both = judge.ended[0] & judge.ended[1]
        alone = {k for of, ks in whole if not any(judge.waits(of, one) for one in ks) for k in ks}
        assert both | alone <= told, "a range is over as a whole, when the last of its rows has left"


def test_last_rows_that_leave_their_window_let_a_value_go_and_not_a_tick_before() -> None:
    join = PWJoin(WindowJoin(sides(2), (12, 0)))
    take(join, 0, rows((0, 7), (3, 7), (1, 8)))
    assert take(join, 0, ended(7)) == []
    quiet = [message for message in take(join, 1, Punctuation.linear("ts", 15)) if isinstance(message, Ended)]
    assert quiet == [], "a row of 15 joins that of 3"
    told = [message for message in take(join, 1, Punctuation.linear("ts", 16)) if isinstance(message, Ended)]
    assert [message.values.to_pylist() for message in told] == [[{"k": 7}]]
    assert (join.propagated, join.held().rows) == (1, 0)


def test_without_window_a_value_is_over_when_both_have_ended_it() -> None:
    join = pjoin(WindowJoin(sides(2), (None, None)))
    assert join.early is False
    take(join, 0, rows((0, 7), (0, 8), (0, 9)))
    assert take(join, 1, ended(7, 8)) == []
    assert join.held().rows == 1, "9 may still come"
    assert take(join, 1, Punctuation.linear("ts", 10**6)) == []
    (told,) = take(join, 0, Punctuation({"k": Range(8, 10)}))
    assert isinstance(told, Ended)
    assert told.values.to_pylist() == [{"k": 8}]
    (told,) = take(join, 1, Punctuation({"k": Range(9, 20)}))
    assert told == Punctuation({"k": Range(9, 10)})
    assert join.held().rows == 0


def test_rows_of_an_ended_value_are_joined_and_not_kept_and_those_of_its_own_side_are_late() -> None:
    join = PWJoin(WindowJoin(sides(2), (10, 10)))
    take(join, 0, rows((0, 7)))
    take(join, 0, ended(7))
    (pair,) = take(join, 1, rows((5, 7), (6, 8)))
    assert isinstance(pair, Batch)
    assert [(row["a_ts"], row["b_ts"]) for row in pair.rows.to_pylist()] == [(0, 5)]
    assert [side.live_rows for side in join.sides] == [1, 1], "of the right only 8"
    (late,) = take(join, 0, rows((2, 7)))
    assert isinstance(late, Late)
    assert late.rows["late_reason"].to_pylist() == [UNGRAMMATICAL]
    assert join.counts.late == 1


def test_a_row_in_several_windows_breaks_a_promise_once() -> None:
    join = PWJoin(WindowJoin(sides(2), (0, 0), grid=Sliding(20, 5)))
    take(join, 0, ended(7))
    (late,) = take(join, 0, rows((2, 7)))
    assert isinstance(late, Late)
    assert (late.rows.num_rows, join.counts.late) == (1, 1)


def test_a_range_that_leaves_out_its_low_end_does_not_end_it() -> None:
    join = PWJoin(WindowJoin(sides(2), (None, None)))
    take(join, 0, Punctuation({"k": Range(3, 6, closed_low=False)}))
    assert not [message for message in take(join, 0, rows((0, 3))) if isinstance(message, Late)]


@pytest.mark.parametrize(("how", "over"), [("inner", True), ("semi", True), ("left", False), ("anti", False)])
def test_a_value_is_not_over_while_rows_that_stay_alone_may_have_it(how: str, over: bool) -> None:
    """The right has ended 7 and keeps none: no pair comes, but a left row of 7 is a result of a left or anti join."""
    for form in (ended(7), Punctuation({"k": Range(7, 8)})):
        join = PWJoin(WindowJoin(sides(2), (10, 10), how))
        assert bool(take(join, 1, form)) == over
        out = take(join, 0, rows((0, 7)))
        assert bool(out) != over
        told = take(join, 0, ended(7))
        if not over:
            assert [message.values.to_pylist() for message in told if isinstance(message, Ended)] == [[{"k": 7}]]


def test_a_value_that_one_of_three_has_ended_and_none_of_its_rows_is_left_is_not_kept_by_the_others() -> None:
    join = PWJoin(WindowJoin(sides(3), (None, None, None)))
    take(join, 1, rows((0, 7), (0, 8)))
    (told,) = take(join, 0, ended(7))
    assert isinstance(told, Ended)
    assert join.held().rows == 1, "7 is over, though c has not ended it"
    take(join, 2, rows((0, 7)))
    assert join.held().rows == 1


@settings(max_examples=40)
@given(data=st.data())
def test_a_punctuated_join_of_three_is_the_definition_and_keeps_no_value_that_the_others_have_ended(
    data: st.DataObject,
) -> None:
    waits = data.draw(st.lists(st.none() | st.integers(0, 15), min_size=3, max_size=3))
    join = PWJoin(WindowJoin(sides(3), tuple(waits)))
    judge = Propagation(join.what, True, [[], [], []], [set(), set(), set()], [float("-inf")] * 3)
    found: list[Row] = []
    for port, event in data.draw(arrivals(3)):
        if data.draw(st.integers(0, 4)) == 0:
            join = revived(join)
        for message in take(join, port, event):
            found += message.rows.to_pylist() if isinstance(message, Batch) else []
        judge.hears(port, event)
        for side, own in enumerate(join.sides):
            others = [values for of, values in enumerate(judge.ended) if of != side]
            gone = set.intersection(*others)
            kept = [row["k"] for part in own.parts for row in part.kept().keyed.rows.to_pylist()]
            # Without a window a promise is kept for ever, and so is what follows from it.
            assert None not in waits or not gone & set(kept)
    streams = [rows(*of) for of in judge.rows]
    told = flatten(n_way(streams, [["k"]] * 3, waits), [("k", "k", "k")], "abc", columns=[SCHEMA.names] * 3)
    assert multiset(found) == multiset(told)
    assert join.held().rows == 0


@settings(max_examples=40)
@given(data=st.data())
def test_without_punctuation_it_does_the_same_operations(data: st.DataObject) -> None:
    """PW's WJoin. The paper allows 3 % more; there is not one."""
    what = data.draw(specs())
    joins = OAJoin(what), PWJoin(what)
    for port, event in data.draw(arrivals()):
        if isinstance(event, Ended) or "k" in dict(getattr(event, "patterns", ())):
            continue
        out = [[repr(m) for m in take(join, port, event)] for join in joins]
        assert out[0] == out[1]
    totals = [[side.operations.total for side in join.sides] for join in joins]
    assert totals[0] == totals[1]
    assert [ended.rows for ended in joins[1].ended] == [0, 0]


def test_promises_are_forgotten_when_no_window_reaches_them() -> None:
    join = PWJoin(WindowJoin(sides(2), (5, 5)))
    for at in range(0, 1000, 10):
        for port in (0, 1):
            take(join, port, rows((at, at)))
            take(join, port, ended(at))
            take(join, port, Punctuation({"k": Range(at + 1, at + 3)}))
            take(join, port, Punctuation.linear("ts", at))
        assert [side.live_rows for side in join.sides] == [0, 0]
        assert all(ended.rows <= 8 for ended in join.ended), [ended.rows for ended in join.ended]
    assert join.held().bytes < 30_000


def test_groups_of_the_key_are_answered_when_a_value_is_over() -> None:
    """PW 1.2: no answer has to wait for the window."""
    what = WindowJoin(sides(2), (100, 100))
    join, counts = PWJoin(what), GroupBy(Grouping(what.result_schema(), ("k",), (("n", lw.count()),), what.times))
    found = []
    arrival: list[Event] = [
        (0, rows((0, 1), (0, 2), (1, 3))),
        (1, rows((5, 1), (6, 1), (6, 2))),
        (0, ended(1, 2, 3)),
        (1, ended(1)),
        (1, Punctuation({"k": Range(2, 4)})),
    ]
    for port, event in arrival:
        for message in take(join, port, event):
            if isinstance(message, Batch):
                out = counts.on_batch(0, message)
            elif isinstance(message, Ended):
                out = counts.on_ended(0, message)
            else:
                out = counts.on_punctuation(0, message)
            found += [row for answer in out if isinstance(answer, Batch) for row in answer.rows.to_pylist()]
        if event == arrival[3][1]:
            assert found == [{"k": 1, "n": 2}]
    assert found == [{"k": 1, "n": 2}, {"k": 2, "n": 1}]
    assert (join.held().rows, counts.held().rows) == (0, 0)


# -- the auction query -----------------------------------------------------------------------------------------------

WINDOW = 12 * HOUR * 10**6


def micros(table: pa.Table, name: str) -> list[int]:
    return list(table[name].cast(pa.int64()).to_pylist())


@dataclass
class Sale:
    """What has come of an auction stream, and what a plain computation says of it."""

    data: Auctions
    disorder: int
    opened: dict[int, int] = field(default_factory=dict)
    bids: list[tuple[int, int]] = field(default_factory=list)
    closed: dict[int, int] = field(default_factory=dict)
    """Item -> how many pushes had come when it closed."""

    def counts(self) -> dict[int, int]:
        """Bids of each auction within its first 12 hours."""
        found: dict[int, int] = {}
        for item, ts in self.bids:
            if 0 <= ts - self.opened[item] <= WINDOW:
                found[item] = found.get(item, 0) + 1
        return found

    def low(self) -> int:
        """How far the bids are."""
        return max(ts for _, ts in self.bids) - self.disorder if self.bids else -(10**18)

    def open(self) -> set[int]:
        """Auctions that have not closed and are younger than 12 hours."""
        return {i for i, ts in self.opened.items() if i not in self.closed and ts + WINDOW >= self.low()}

    def ahead(self) -> int:
        """Bids that are newer than all auctions, for one that opened so long ago that this is forgotten."""
        newest = max(self.opened.values())
        old = min(newest, self.low()) - 2 * WINDOW
        return sum(ts >= newest and self.opened[item] < old and item not in self.closed for item, ts in self.bids)


@pytest.mark.parametrize("shards", [1, 2])
@pytest.mark.parametrize("disorder", [0, 1800])
def test_bids_of_an_auction_are_counted_when_it_closes_and_only_open_auctions_are_kept(
    shards: int, disorder: int
) -> None:
    data = auctions(60, seed=7, bids=6, disorder=disorder)
    opened = lw.stream(data.auctions.schema.empty_table(), name="auctions", progress="ts", disorder=lw.ordered())
    bids = lw.stream(data.bids.schema.empty_table(), name="bids", progress="ts", disorder=f"{disorder} seconds")
    joined = opened.unique("item_id").join(
        bids.ends("item_id", when="closed"), on="item_id", within=("0 seconds", "12 hours")
    )
    query = joined.group_by("item_id").agg(n=lw.count()).start(shards=shards)
    sale = Sale(data, disorder * 10**6)
    answered: dict[int, int] = {}
    before_the_window_was_over = exactly = pushes = 0
    for n, (port, table) in enumerate(interleaved(data)):
        if n % 7 == 3:
            query.restart()
        out = query.push(table, port)
        hears(sale, port, table, n)
        for row in out.to_pylist():
            assert row["item_id"] not in answered, "each group once"
            answered[row["item_id"]] = row["n"]
            before_the_window_was_over += sale.opened[row["item_id"]] + WINDOW >= sale.low()
        # An auction is over when it has closed or 12 hours have passed: what was counted then is the answer.
        counts = sale.counts()
        due = {item: count for item, count in counts.items() if item not in sale.open()}
        assert answered == due
        needed = len(sale.open()) + len(counts.keys() - due.keys())
        assert needed <= query.metrics().state_rows <= needed + sale.ahead()
        exactly, pushes = exactly + (query.metrics().state_rows == needed), pushes + 1
    assert before_the_window_was_over > 20
    assert exactly > 0.9 * pushes
    query.finish()
    for row in query.result().to_pylist():
        answered[row["item_id"]] = row["n"]
    assert answered == sale.counts()
    assert (query.metrics().late_rows, query.metrics().state_rows) == (0, 0)


def interleaved(data: Auctions) -> list[tuple[int, pa.Table]]:
    """Both streams cut at the same hours of arrival, auctions first: a bid follows its auction."""
    out = []
    newest = 0
    arrival = []
    for ts in micros(data.bids, "ts"):
        newest = max(newest, ts)
        arrival.append(newest)
    opens = micros(data.auctions, "ts")
    start, step = opens[0], 2 * HOUR * 10**6
    for hour in range(start, max(arrival) + step, step):
        for port, (times, table) in enumerate(((opens, data.auctions), (arrival, data.bids))):
            some = [n for n, ts in enumerate(times) if hour <= ts < hour + step]
            if some:
                out.append((port, table.slice(some[0], len(some))))
    return out


def hears(sale: Sale, port: int, table: pa.Table, n: int) -> None:
    items, times = table["item_id"].to_pylist(), micros(table, "ts")
    if port == 0:
        sale.opened |= dict(zip(items, times, strict=True))
        return
    for item, ts, closed in zip(items, times, table["closed"].to_pylist(), strict=True):
        if closed:
            sale.closed[item] = n
        else:
            sale.bids.append((item, ts))


# -- sides of several streams ----------------------------------------------------------------------------------------


def test_a_side_of_several_streams_has_ended_what_any_of_them_says_of_the_whole() -> None:
    """ends() behind union() is said of the union."""
    schema = pa.schema([("ts", pa.int64()), ("k", pa.int64()), ("closed", pa.bool_())])
    a, b = (lw.stream(schema.empty_table(), name=name, progress="ts", disorder=0) for name in "ab")
    c = lw.stream(schema.empty_table().drop_columns(["closed"]), name="c", progress="ts", disorder=0)
    query = a.union(b).ends("k", when="closed").join(c, "k", within=10).start()
    query.push([{"ts": 0, "k": 7}], port=2)
    query.push([{"ts": 0, "k": 7, "closed": True}], port=0)
    assert held(query) == [0, 0]
    query.push([{"ts": 1, "k": 7, "closed": False}], port=1)
    (late,) = query.late_output().to_pylist()
    assert (late["input"], late["k"], late["late_reason"]) == ("a_b", 7, UNGRAMMATICAL)
    with pytest.raises(lw.LowwaterError, match="speak of all rows of the union"):
        a.ends("k", when="closed").union(b).join(c, "k", within=10)


@pytest.mark.parametrize("pushes", [[[None, None, 7]], [[None], [None], [7]], [[None, 7], [None]]])
def test_where_nulls_match_null_is_a_value_that_ends(pushes: list[list[int | None]]) -> None:
    """However rows are cut into batches, the second null breaks the promise of the first."""
    schema = pa.schema([("ts", pa.int64()), ("k", pa.int64())])
    left, right = (lw.stream(schema.empty_table(), name=name, progress="ts", disorder=0) for name in "lr")
    query = left.unique("k").join(right, "k", within=10, null_safe=True).start(shards=2)
    query.push([{"ts": 0, "k": None}], port=1)
    for push in pushes:
        query.push([{"ts": 0, "k": k} for k in push])
    assert query.result().to_pylist() == [{"k": None, "l_ts": 0, "r_ts": 0}]
    assert [(row["input"], row["k"]) for row in query.late_output().to_pylist()] == [("l", None)]
    assert held(query) == [2, 0], "the right need not be kept"


def test_what_ends_is_part_of_the_state() -> None:
    """A restart forgets neither single values nor ranges, of numbers or of times."""
    stamp = pa.timestamp("us", "UTC")
    for type, low, high in ((pa.int32(), 3, 9), (stamp, pa.scalar(3, stamp).as_py(), pa.scalar(9, stamp).as_py())):
        schema = pa.schema([("ts", pa.int64()), ("k", type)])
        what = WindowJoin(tuple(replace(side, schema=schema) for side in sides(2)), (None, None))
        join = PWJoin(what)
        join.on_punctuation(0, Punctuation({"k": Range(low, high)}))
        join.on_ended(1, Ended(pa.table({"k": pa.array([low], type)})))
        join = revived(join)
        batch = Batch(pa.table({"ts": [0, 0], "k": pa.array([low, high], type)}))
        for port, late in ((0, 1), (1, 1)):
            (told,) = (message for message in join.on_batch(port, batch) if isinstance(message, Late))
            assert told.rows.num_rows == late
