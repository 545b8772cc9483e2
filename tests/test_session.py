"""Session windows give what the definition gives, in whatever order and pieces rows arrive (W10).

Streams come from seeds, so a failure names its seed. Without late rows the judge is tests/oracle.py over all rows; with
late rows it is `judged` below, which replays the rule of late rows over plain lists. The cases that people ask about
first are told one by one, as transcripts.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest

import lowwater as lw
from lowwater.aggregates.grouped import Grouped, merge
from lowwater.model.punctuation import ALL, Constant, Punctuation
from lowwater.operators.base import Batch, Held, Late, Message, Reduced, taken
from lowwater.operators.bucket import WindowedAggregation
from lowwater.operators.fragments import Fragments
from lowwater.operators.session_aggregate import LATE, SessionAggregate
from lowwater.windows.context_aware import Session
from tests.compare import difference, multiset
from tests.oracle import aggregate_windows, extents, key
from tests.stored import reopened, segments

Row = dict[str, Any]
Event = list[Row] | Punctuation

SCHEMA = pa.schema(
    [("ts", pa.int64()), ("k", pa.string()), ("j", pa.float64()), ("v", pa.int64()), ("x", pa.float64())]
)
AGGREGATES = {
    "n": (lw.count(), ("count", None)),
    "s": (lw.sum("v"), ("sum", "v")),
    "a": (lw.avg("x"), ("avg", "x")),
    "low": (lw.min("x"), ("min", "x")),
    "f": (lw.first("v"), ("first", "v")),
    "l": (lw.last("v"), ("last", "v")),
    "sd": (lw.stddev("v"), ("stddev_samp", "v")),
    "m": (lw.median("v"), ("median", "v")),
    "d": (lw.count_distinct("v"), ("count_distinct", "v")),
}
ORACLE = {name: spec for name, (_, spec) in AGGREGATES.items()}
GROUPS = [[], ["k"], ["k", "j"]]


def what(gap: int, group_by: Sequence[str] = ("k",), schema: pa.Schema = SCHEMA) -> WindowedAggregation:
    aggregates = tuple((name, aggregate) for name, (aggregate, _) in AGGREGATES.items())
    return WindowedAggregation(Session(gap), "ts", schema, tuple(group_by), aggregates)


def table(rows: Sequence[Row]) -> pa.Table:
    return pa.Table.from_pylist(list(rows), schema=SCHEMA)


def row(ts: int, k: str | None = "a", v: int | None = 1) -> Row:
    return {"ts": ts, "k": k, "j": None, "v": v, "x": None}


def low(ts: int) -> Punctuation:
    return Punctuation.linear("ts", ts)


def stream(rng: random.Random, n: int, gap: int) -> list[Row]:
    """Rows of a few groups in order of time: many ties, many pauses of gap - 1, gap and gap + 1."""
    rows, ts = [], rng.randint(-50, 50)
    for _ in range(n):
        ts += rng.choice([0, 0, 1, max(1, gap // 3), gap - 1, gap, gap + 1])
        k, j = rng.choice(["a", "b", "", None]), rng.choice([0.0, -0.0, float("nan"), None])
        v, x = rng.choice([None, *range(-5, 6)]), rng.choice([None, *(i / 4 for i in range(-8, 9))])
        rows.append({"ts": ts, "k": k, "j": j, "v": v, "x": x})
    return rows


def cut(rng: random.Random, rows: Sequence[Row]) -> list[Event]:
    """Rows in pieces of random sizes, empty ones among them."""
    events: list[Event] = []
    at = 0
    while at < len(rows):
        step = rng.choice([0, 1, 3, 15, 40])
        events.append(list(rows[at : at + step]))
        at += step
    return events


def revived(operator: SessionAggregate) -> SessionAggregate:
    """A fresh operator with the state of another, taken through bytes."""
    return SessionAggregate(operator.what, reopened(operator))


def run(
    operator: SessionAggregate, events: Sequence[Event], restarts: random.Random | None = None
) -> tuple[SessionAggregate, list[Message]]:
    out: list[Message] = []
    for event in events:
        if isinstance(event, Punctuation):
            out += taken(operator, 0, event)
        else:
            out += taken(operator, 0, Batch(table(event)))
        if restarts is not None and restarts.random() < 0.3:
            operator = revived(operator)
    return operator, out


def results(messages: Sequence[Message]) -> list[Row]:
    return [row for message in messages if isinstance(message, Batch) for row in message.rows.to_pylist()]


def late(messages: Sequence[Message]) -> list[Row]:
    return [row for message in messages if isinstance(message, Late) for row in message.rows.to_pylist()]


def spans(messages: Sequence[Message]) -> list[tuple[Any, ...]]:
    """Sessions as (group, start, end, rows)."""
    return sorted((r["k"] or "", r["window_start"], r["window_end"], r["n"]) for r in results(messages))


# -- against the definition -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("group_by", GROUPS, ids=str)
@pytest.mark.parametrize("seed", range(6))
def test_sessions_are_those_of_the_definition(seed: int, group_by: list[str]) -> None:
    """Disorder of up to `slack`, a low-watermark that respects it, any cut, any restart: no row is late."""
    rng = random.Random(seed)
    gap, slack = rng.choice([1, 3, 10]), rng.choice([0, 5, 60])
    rows = stream(rng, 150, gap)
    arriving = sorted(rows, key=lambda row: row["ts"] + rng.uniform(0, slack))
    events: list[Event] = []
    seen = -(10**9)
    for piece in cut(rng, arriving):
        assert isinstance(piece, list)
        seen = max([seen, *(row["ts"] for row in piece)])
        events += [piece, low(seen - slack)] if rng.random() < 0.6 else [piece]
    operator, messages = run(SessionAggregate(what(gap, group_by)), [*events, ALL], rng)
    expected = aggregate_windows(rows, "ts", Session(gap), group_by, ORACLE)
    assert difference(results(messages), expected, group_by) == ""
    assert (operator.counts.late, operator.counts.results, late(messages)) == (0, len(expected), [])
    assert operator.held() == Held(0, 0)


def judged(events: Sequence[Event], gap: int, group_by: list[str]) -> tuple[list[Row], list[Row]]:
    """Answers and late rows by the rule: sessions of all rows not yet answered, looked at when progress is made."""
    answers: list[Row] = []
    too_late: list[Row] = []
    waiting: list[Row] = []
    passed = -(2**62)
    for event in events:
        if isinstance(event, list):
            waiting += event
            continue
        bound = event.low_watermark("ts")
        if bound is None or bound <= passed:
            continue
        groups = list(dict.fromkeys(key(row, group_by) for row in waiting))
        sessions = extents(waiting, "ts", Session(gap), [groups.index(key(row, group_by)) for row in waiting])
        waiting = []
        for _, _, end, members in sessions:
            if end <= passed:
                too_late += members
            elif end <= bound or event == ALL:
                answers += aggregate_windows(members, "ts", Session(gap), group_by, ORACLE)
            else:
                waiting += members
        passed = bound
    return answers, too_late


@pytest.mark.parametrize("group_by", GROUPS, ids=str)
@pytest.mark.parametrize("seed", range(7))
def test_late_rows_are_judged_alike_in_every_order_and_cut(seed: int, group_by: list[str]) -> None:
    rng = random.Random(seed)
    gap = rng.choice([1, 4, 9])
    rows = stream(rng, 120, gap)
    rng.shuffle(rows)
    passed = min(row["ts"] for row in rows)
    between: list[list[Row]] = []
    bounds: list[Punctuation] = []
    while rows:
        n = rng.randint(1, 40)
        between.append(rows[:n])
        rows = rows[n:]
        passed += rng.choice([-5, 0, 3, gap, 10 * gap])
        bounds.append(rng.choice([low(passed), low(passed), Punctuation.linear("ts", passed, {"k": Constant("a")})]))
    bounds[-1] = ALL
    plain = [event for pair in zip(between, bounds, strict=True) for event in pair]
    answers, too_late = judged(plain, gap, group_by)
    for _ in range(2):
        events: list[Event] = []
        for part, bound in zip(between, bounds, strict=True):
            events += [*cut(rng, rng.sample(part, len(part))), bound]
        operator, messages = run(SessionAggregate(what(gap, group_by)), events, rng)
        assert difference(results(messages), answers, group_by) == ""
        assert multiset(map(plainly, late(messages))) == multiset(map(plainly, map(with_reason, too_late)))
        assert operator.counts.late == operator.counts.dropped == len(too_late)
        assert operator.held() == Held(0, 0)


def with_reason(row: Row) -> Row:
    return {**row, "late_reason": LATE, "windows_missed": None, "windows_kept": 0}


def plainly(row: Row) -> Row:
    """Doubles as text, so that NaN equals NaN."""
    return {name: repr(value) for name, value in row.items()}


@pytest.mark.parametrize("with_rows", [True, False])
@pytest.mark.parametrize("seed", range(6))
def test_fragments_reduced_at_the_source_give_the_same(seed: int, with_rows: bool) -> None:
    """Runs are reduced apart, sent through bytes and merged by (group, first), which leaves fragments overlapping."""
    rng = random.Random(seed)
    gap = rng.choice([2, 8])
    rows = stream(rng, 200, gap)
    rng.shuffle(rows)
    middle = sorted(row["ts"] for row in rows)[100]
    events: list[Event] = [rows[:80], low(middle), rows[80:], low(middle + 5 * gap), ALL]
    answers, too_late = judged(events, gap, ["k"])
    operator, fragments = SessionAggregate(what(gap)), Fragments(what(gap))
    messages: list[Message] = []
    for event in events:
        if isinstance(event, Punctuation):
            messages += taken(operator, 0, event)
            continue
        runs = [event[i::3] for i in range(3)]
        sent = [fragments.reduce(table(run)).tables(fragments.algebras) for run in runs]
        grouped = merge([Grouped.of_tables(tables, fragments.algebras) for tables in sent], fragments.algebras)
        reduced = Reduced(grouped, pa.concat_tables([table(run) for run in runs]) if with_rows else None)
        messages += taken(operator, 0, reduced)
    assert difference(results(messages), answers, ["k"]) == ""
    assert operator.counts.late == len(too_late) > 0
    assert len(late(messages)) == (len(too_late) if with_rows else 0)


# -- transcripts, all with a gap of 10 ------------------------------------------------------------------------------


def told(*events: Event) -> tuple[list[list[tuple[Any, ...]]], list[int], SessionAggregate]:
    """What every event gave: sessions event by event; the times of late rows; the operator."""
    operator = SessionAggregate(what(10))
    given, lates = [], []
    for event in events:
        operator, messages = run(operator, [event])
        given.append(spans(messages))
        lates += [row["ts"] for row in late(messages)]
        assert all(row["late_reason"] == LATE for row in late(messages))
        operator = revived(operator)
    return given, lates, operator


def test_a_pause_of_exactly_the_gap_separates_and_one_tick_less_does_not() -> None:
    given, _, _ = told([row(0), row(10), row(19), row(29)], ALL)
    assert given[1] == [("a", 0, 10, 1), ("a", 10, 29, 2), ("a", 29, 39, 1)]


def test_a_session_closes_when_the_low_watermark_reaches_its_end_and_not_before() -> None:
    given, _, _ = told([row(0), row(5)], low(14), low(15))
    assert given == [[], [], [("a", 0, 15, 2)]]


def test_groups_and_the_null_group_have_sessions_of_their_own() -> None:
    given, _, _ = told([row(0), row(4, "b"), row(8, None), row(9), row(16, None)], low(19), ALL)
    assert given[1:] == [[("a", 0, 19, 2), ("b", 4, 14, 1)], [("", 8, 26, 2)]]


def test_ties_are_one_session_with_all_their_rows() -> None:
    given, _, _ = told([row(3), row(3)], [row(3)], ALL)
    assert given[2] == [("a", 3, 13, 3)]


def test_a_late_row_joins_an_open_session_at_its_front_and_inside() -> None:
    given, lates, operator = told([row(20), row(28)], low(25), [row(11), row(21)], ALL)
    assert (given[3], lates, operator.counts.late) == ([("a", 11, 38, 4)], [], 0)


def test_a_late_row_may_open_a_session_that_is_not_closed_yet() -> None:
    given, lates, _ = told([row(50)], low(30), [row(21)], low(31))
    assert (given[3], lates) == ([("a", 21, 31, 1)], [])


def test_a_late_row_bridges_two_open_fragments() -> None:
    given, lates, _ = told([row(20), row(38)], low(29), [row(29)], ALL)
    assert (given[3], lates) == ([("a", 20, 48, 3)], [])


def test_a_late_row_of_a_closed_session_is_dropped_counted_and_handed_out() -> None:
    given, lates, operator = told([row(0), row(40)], low(30), [row(2), row(41), row(2, "b")], low(31), ALL)
    assert given[1] == [("a", 0, 10, 1)]
    assert given[4] == [("a", 40, 51, 2)]
    assert (lates, operator.counts.late, operator.counts.dropped) == ([2, 2], 2, 2)


@pytest.mark.parametrize("batches", [([12], [21]), ([21], [12]), ([12, 21],)], ids=str)
def test_a_late_fragment_is_saved_by_a_bridge_in_any_batch_before_the_next_punctuation(
    batches: tuple[list[int], ...],
) -> None:
    """12 alone is closed at 25, but 21 connects it with the open session from 30."""
    given, lates, operator = told([row(30)], low(25), *([row(ts) for ts in batch] for batch in batches), low(26), ALL)
    assert (given[-1], lates, operator.counts.late) == ([("a", 12, 40, 3)], [], 0)


def test_a_bridge_after_the_next_punctuation_comes_too_late_for_the_late_fragment() -> None:
    given, lates, operator = told([row(30)], low(25), [row(12)], low(26), [row(21)], ALL)
    assert (given[-1], lates, operator.counts.late) == ([("a", 21, 40, 2)], [12], 1)


def test_a_punctuation_that_says_nothing_new_judges_nobody() -> None:
    given, lates, _ = told([row(30)], low(25), [row(12)], low(25), low(3), [row(21)], ALL)
    assert (given[-1], lates) == ([("a", 12, 40, 3)], [])


def test_rows_after_the_end_are_late_at_once() -> None:
    given, lates, operator = told([row(1)], ALL, [row(5), row(2, "b")], ALL)
    assert (given[1], sorted(lates), operator.counts.dropped) == ([("a", 1, 11, 1)], [2, 5], 2)
    assert operator.held() == Held(0, 0)


def test_ends_are_promised_since_a_late_row_may_still_move_a_start() -> None:
    operator, messages = run(SessionAggregate(what(10)), [[row(20), row(28)], low(25)])
    assert messages == [Punctuation.linear("window_end", 26), Punctuation.linear("window_time", 25)]
    _, messages = run(operator, [[row(11)], ALL])
    assert spans(messages) == [("a", 11, 38, 3)]
    assert messages[-1] == ALL


def test_rows_that_may_be_late_are_held_until_they_are_judged() -> None:
    operator, _ = run(SessionAggregate(what(10)), [[row(30)], low(25), [row(2), row(3), row(31)]])
    assert operator.held().rows == 1 + 1 + 2  # the open session, the late fragment, its two rows
    operator, messages = run(operator, [low(26)])
    assert (operator.held().rows, len(late(messages))) == (1, 2)


def test_times_too_far_apart_for_one_integer_code_are_cut_all_the_same() -> None:
    far = 2**61
    rows = [row(sign * far + step, k) for k in ("a", "b", None) for sign in (-1, 0, 1) for step in (0, 9, 19)]
    random.Random(1).shuffle(rows)
    _, messages = run(SessionAggregate(what(10)), [rows[:13], rows[13:], ALL])
    assert difference(results(messages), aggregate_windows(rows, "ts", Session(10), ["k"], ORACLE), ["k"]) == ""


def test_times_of_timestamps_come_back_as_timestamps() -> None:
    schema = SCHEMA.set(0, pa.field("ts", pa.timestamp("us", "UTC")))
    operator = SessionAggregate(what(10_000_000, schema=schema))
    taken(operator, 0, Batch(table([row(0), row(9_999_999)]).cast(schema)))
    (batch, end) = taken(operator, 0, ALL)
    assert isinstance(batch, Batch)
    assert end == ALL
    assert batch.rows.schema == operator.what.result_schema()
    assert batch.rows["window_end"].cast(pa.int64()).to_pylist() == [19_999_999]


# -- state ----------------------------------------------------------------------------------------------------------


def test_a_batch_rewrites_its_buckets_only_and_a_punctuation_those_in_which_something_closes() -> None:
    keys = [f"k{i}" for i in range(200)]
    operator, _ = run(SessionAggregate(what(10)), [[row(100 + i, key) for i, key in enumerate(keys)]])
    first = segments(operator)
    assert len(first) == 16
    run(operator, [[row(105, "k7")]])
    second = segments(operator)
    assert len(second.keys() - first.keys()) == 1
    run(operator, [low(105)])
    assert segments(operator) == second
    _, messages = run(operator, [low(110)])
    assert spans(messages) == [("k0", 100, 110, 1)]
    third = segments(operator)
    assert len(third.keys() - second.keys()) == 1
    assert len(third.keys() & second.keys()) == 15
