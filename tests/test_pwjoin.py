"""PWJoin by itself, of two inputs or three: what it tells of values that are over, and exactly when."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lowwater as lw
from lowwater.joins.oa_join import OAJoin
from lowwater.joins.pwjoin import UNGRAMMATICAL, PWJoin, pjoin
from lowwater.joins.spec import JoinSide, WindowJoin
from lowwater.model.punctuation import ALL, Constant, Punctuation, Range, ValueList
from lowwater.operators.base import Batch, Ended, Late, Message, taken
from lowwater.operators.group_by import GroupBy, Grouping
from lowwater.windows.context_free import Sliding
from tests.compare import multiset
from tests.join_oracle import HOWS, flatten, n_way
from tests.oracle import ordered
from tests.punctuated_queries import Row
from tests.soak import examples
from tests.stored import reopened

SCHEMA = pa.schema([("ts", pa.int64()), ("k", pa.int64()), ("v", pa.int64())])
Event = tuple[int, list[Row] | Punctuation | Ended]
VALUES = range(3)


def sides(n: int) -> tuple[JoinSide, ...]:
    return tuple(JoinSide(name, SCHEMA, "ts", ("k",)) for name in "abc"[:n])


def take(join: OAJoin, port: int, what: list[Row] | Punctuation | Ended) -> list[Message]:
    if isinstance(what, Punctuation | Ended):
        return taken(join, port, what)
    return taken(join, port, Batch(pa.Table.from_pylist(what, schema=SCHEMA)))


def ended(*values: int) -> Ended:
    return Ended(pa.table({"k": pa.array(values, pa.int64())}))


def rows(*of: tuple[int, int]) -> list[Row]:
    """Rows of (time, value)."""
    return [{"ts": ts, "k": k, "v": 0} for ts, k in of]


def revived(join: PWJoin) -> PWJoin:
    """A fresh operator with the state of another, taken through bytes."""
    fresh = PWJoin(join.what, join.joint, join.early, store=reopened(join))
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
@examples(20)
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
@examples(20)
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
        last = [self.last(port, ts) for ts, value in self.rows[port] if value == k]
        return any(time is not None and time >= least for time in last)

    def last(self, port: int, ts: int) -> float | None:
        """The last time of a partner; a row in a gap between windows has none."""
        if (grid := self.what.grid) is not None:
            last = grid.origin + (ts - grid.origin + grid.range) // grid.slide * grid.slide - 1
            return last if last >= ts else None
        wait = self.what.waits[port]
        return float("inf") if wait is None else ts + wait


@pytest.mark.parametrize(("ports", "early"), [(2, True), (3, True), (2, False), (3, False)])
@examples(20)
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


@examples(20)
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


@examples(15)
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


@examples(15)
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
            out = taken(counts, 0, message)
            found += [row for answer in out if isinstance(answer, Batch) for row in answer.rows.to_pylist()]
        if event == arrival[3][1]:
            assert found == [{"k": 1, "n": 2}]
    assert found == [{"k": 1, "n": 2}, {"k": 2, "n": 1}]
    assert (join.held().rows, counts.held().rows) == (0, 0)


def test_what_ends_is_part_of_the_state() -> None:
    """A restart forgets neither single values nor ranges, of numbers or of times."""
    stamp = pa.timestamp("us", "UTC")
    for type, low, high in ((pa.int32(), 3, 9), (stamp, pa.scalar(3, stamp).as_py(), pa.scalar(9, stamp).as_py())):
        schema = pa.schema([("ts", pa.int64()), ("k", type)])
        what = WindowJoin(tuple(replace(side, schema=schema) for side in sides(2)), (None, None))
        join = PWJoin(what)
        taken(join, 0, Punctuation({"k": Range(low, high)}))
        taken(join, 1, Ended(pa.table({"k": pa.array([low], type)})))
        join = revived(join)
        batch = Batch(pa.table({"ts": [0, 0], "k": pa.array([low, high], type)}))
        for port, late in ((0, 1), (1, 1)):
            (told,) = (message for message in taken(join, port, batch) if isinstance(message, Late))
            assert told.rows.num_rows == late
