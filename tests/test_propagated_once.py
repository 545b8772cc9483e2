"""A promise about a value is reported once, is remembered once, and its bounds only move forward."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lowwater.joins.keyed import Keyed
from lowwater.joins.pwjoin import PWJoin, pjoin
from lowwater.joins.side import Side
from lowwater.joins.spec import WindowJoin
from lowwater.model.punctuation import ALL, Punctuation, Range
from lowwater.operators.base import Ended, Message
from tests.join_oracle import HOWS
from tests.soak import examples
from tests.test_pwjoin import VALUES, Event, arrivals, ended, revived, rows, sides, specs, take


def singles(messages: list[Message]) -> list[int]:
    """The single values that are reported, with repeats."""
    return [k for message in messages if isinstance(message, Ended) for k in message.values["k"].to_pylist()]


def spans(messages: list[Message]) -> list[Range]:
    """The ranges of values that are reported."""
    found = [dict(message.patterns).get("k") for message in messages if isinstance(message, Punctuation)]
    return [pattern for pattern in found if isinstance(pattern, Range)]


def covered(ranges: list[Range]) -> list[int]:
    """The values in some ranges, with repeats."""
    return [k for range in ranges for k in VALUES if Punctuation({"k": range}).match({"k": k})]


def everything(join: PWJoin, events: list[Event]) -> list[Message]:
    return [message for port, event in events for message in take(join, port, event)]


def ticking(since: int, until: int, ports: int = 2) -> list[Event]:
    return [(port, Punctuation.linear("ts", at)) for at in range(since, until) for port in range(ports)]


def test_a_bound_of_a_side_only_moves_forward() -> None:
    side = Side(("k",))
    table = pa.table({"k": pa.array(range(10), pa.int64())})
    side.insert(Keyed.of(table, ("k",), np.arange(10)))
    ((_, left),) = side.invalidate(6)
    assert (len(left), side.live_rows, side.operations.invalidated) == (6, 4, 6)
    for lower in (6, 3, -5):
        assert side.invalidate(lower) == []
        side.invalidate(lower, which=False)
        assert (side.live_rows, side.operations.invalidated) == (4, 6)
    ((_, left),) = side.invalidate(8)
    assert (len(left), side.live_rows, side.operations.invalidated) == (2, 2, 8)


@pytest.mark.parametrize("restart", [False, True])
def test_a_hundred_values_are_reported_a_hundred_times_and_kept_once(restart: bool) -> None:
    """The window is long, so the rows leave one by one and the promises long after them."""
    join = PWJoin(WindowJoin(sides(2), (100, 100)))
    take(join, 0, rows(*((k, k) for k in range(100))))
    take(join, 0, ended(*range(100)))
    held, told = join.held().bytes, []
    for port, event in ticking(0, 600):
        told += singles(take(join, port, event))
        join = revived(join) if restart and port and event.low_watermark("ts") % 50 == 0 else join  # type: ignore[union-attr,operator]
        assert join.remembered <= 100
        assert join.held().bytes <= 4 * held, "the same promises, in smaller parts"
    assert told == list(range(100)), "in the order in which their rows leave"
    assert (join.propagated, join.remembered, join.held().bytes) == (100, 0, 0)


def test_a_range_is_reported_once() -> None:
    join = PWJoin(WindowJoin(sides(2), (100, 100)))
    take(join, 0, rows((3, 1), (40, 2)))
    take(join, 0, Punctuation({"k": Range(0, 3)}))
    told = [(port, event, spans(take(join, port, event))) for port, event in ticking(0, 600)]
    assert [found for *_, found in told if found] == [[Range(0, 3)]]
    assert (join.propagated, join.remembered) == (1, 0)


@pytest.mark.parametrize("form", [ended(7), Punctuation({"k": Range(7, 8)})], ids=["value", "range"])
def test_of_three_inputs_two_that_end_a_value_report_it_once(form: Ended | Punctuation) -> None:
    """Rows of both leave, one after the other; the third has never ended the value."""
    join = PWJoin(WindowJoin(sides(3), (10, 10, 10)))
    before: list[Event] = [(0, rows((0, 7))), (1, rows((5, 7))), (2, rows((6, 7))), (0, form), (1, form)]
    assert not [m for m in everything(join, before) if isinstance(m, Ended | Punctuation)]
    out = everything(join, ticking(1, 100, ports=3))
    assert (len(singles(out)) + len(spans(out)), join.propagated) == (1, 1)
    assert (join.remembered, join.held().rows) == (0, 0)


def test_a_range_of_one_of_three_inputs_that_is_over_is_not_kept_by_the_others() -> None:
    """As a single value is not: no result can have it."""
    join = PWJoin(WindowJoin(sides(3), (None, None, None)))
    take(join, 1, rows((0, 7), (0, 8)))
    assert spans(take(join, 0, Punctuation({"k": Range(7, 8)}))) == [Range(7, 8)]
    assert join.held().rows == 1
    assert spans(take(join, 1, Punctuation({"k": Range(7, 8)}))) == [], "it has been reported"


def test_values_in_a_range_of_the_other_side_are_remembered_by_the_side_that_has_ended_them() -> None:
    join = PWJoin(WindowJoin(sides(2), (10, 10)))
    take(join, 1, rows((0, 500)))
    take(join, 1, Punctuation({"k": Range(0, 1000)}))
    assert sorted(singles(take(join, 0, ended(*range(100))))) == list(range(100))
    assert [kept.rows for kept in join.ended] == [100, 1]


@pytest.mark.parametrize("how", ["left", "full", "anti"])
def test_an_outer_join_reports_a_value_when_both_have_ended_it_and_once(how: str) -> None:
    """Of the right alone nothing is over, however far time passes; its promise waits, and is forgotten in the end."""
    join = PWJoin(WindowJoin(sides(2), (10, 10), how))
    take(join, 1, rows((0, 7), (0, 8)))
    take(join, 1, ended(7, 8))
    assert singles(everything(join, ticking(1, 15))) == []
    assert join.remembered == 2
    assert singles(take(join, 0, ended(7))) == [7]
    assert singles(everything(join, ticking(15, 100))) == []
    assert (join.propagated, join.remembered) == (1, 0)


def test_a_join_without_window_reports_at_the_end_of_one_input_once() -> None:
    """What the right has ended is over when the left ends as a whole; the right goes on."""
    join = pjoin(WindowJoin(sides(2), (10, 10)))
    take(join, 1, rows((5, 7), (90, 8)))
    take(join, 1, ended(7))
    out = take(join, 0, ALL)
    out += everything(join, [(1, Punctuation.linear("ts", at)) for at in range(6, 60)])
    assert (singles(out), join.propagated) == ([7], 1)
    assert join.remembered <= 1


@pytest.mark.parametrize(("ports", "early"), [(2, True), (3, True), (2, False), (3, False)])
@examples(40)
@given(data=st.data())
def test_what_is_remembered_as_over_is_not_reported_again(ports: int, early: bool, data: st.DataObject) -> None:
    """A value may be reported again only after all sides have forgotten it, and without a window none does."""
    what = data.draw(specs(HOWS if ports == 2 else ["inner"], ports))
    join = PWJoin(what, early=early)
    listed: list[set[Any]] = [set() for _ in range(ports)]
    values, ranges, reports = [], [], 0
    for port, event in data.draw(arrivals(ports)):
        if data.draw(st.integers(0, 4)) == 0:
            join = revived(join)
        asked = pa.table({"k": pa.array(VALUES, pa.int64())})
        keyed = [Keyed.of(asked, ended.on, np.arange(len(VALUES))) for ended in join.ended]
        over = {
            int(keys.at[i])
            for ended, keys in zip(join.ended, keyed, strict=True)
            for i in np.flatnonzero(ended.is_over(keys))
        }
        over_ranges = {int(k) for ended in join.ended for k in VALUES if ended.over.number(np.array([k]))[0] >= 0}
        if isinstance(event, Ended):
            listed[port] |= set(event.values["k"].to_pylist())
        elif isinstance(event, Punctuation):
            listed[port] |= {k for k in VALUES if "k" in dict(event.patterns) and event.match({"k": k})}
        out = take(join, port, event)
        reports += len(singles(out)) + len(spans(out))
        assert len(set(singles(out))) == len(singles(out)), "not twice at once"
        assert len(set(covered(spans(out)))) == len(covered(spans(out)))
        assert not set(singles(out)) & over
        assert not set(covered(spans(out))) & over_ranges
        values += singles(out)
        ranges += covered(spans(out))
        for kept, promised in zip(join.ended, listed, strict=True):
            assert kept.punctuated.live_rows + kept.propagated.live_rows <= len(promised)
        assert join.propagated == reports
    if None in what.waits:
        assert len(set(values)) == len(values)
        assert len(set(ranges)) == len(ranges)
