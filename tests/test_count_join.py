"""Windows that count tuples: the join gives what the judge gives, however the rows arrive and are cut into batches."""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lowwater.errors import LowwaterError
from lowwater.joins import count_join as module
from lowwater.joins.arrived import arrange
from lowwater.joins.condition import Condition
from lowwater.joins.count_join import CountJoin
from lowwater.joins.oa_join import LATE
from lowwater.joins.spec import JoinSide, WindowJoin
from lowwater.model.punctuation import ALL, Punctuation
from lowwater.operators.base import Batch, Held, Late, Message, taken
from lowwater.windows.context_free import Sliding
from tests.compare import multiset
from tests.join_oracle import count_join, flatten
from tests.join_scenarios import CONDITIONS, KEY_KINDS, JoinScenario, join_scenarios
from tests.oracle import Row, key
from tests.soak import examples
from tests.stored import reopened

SQL = {"less": "l_v < r_v", "near": "abs(l_v - r_v) <= 1", "own": "own0 <> own1"}
Event = tuple[int, pa.Table | Punctuation]


@dataclass(frozen=True)
class Windows:
    """What a side counts, or how long it waits."""

    rows: tuple[int | None, int | None]
    waits: tuple[int | None, int | None]
    per_key: bool
    null_safe: bool = False
    condition: str | None = None

    def opened(self, scenario: JoinScenario) -> CountJoin:
        sides = zip("lr", scenario.schemas, scenario.keys, strict=True)
        left, right = (JoinSide(name, schema, "ts", tuple(on)) for name, schema, on in sides)
        what = WindowJoin((left, right), self.waits, null_safe=self.null_safe, rows=self.rows, per_key=self.per_key)
        if self.condition is not None:
            pairs = pa.schema([what.field(column) for column in what.paired])
            what = replace(what, condition=Condition.of(SQL[self.condition], pairs))
        return CountJoin(what)

    def judged(self, scenario: JoinScenario, left: list[Row], right: list[Row]) -> list[str]:
        waits = [
            None if n is not None else (math.inf if wait is None else wait)
            for n, wait in zip(self.rows, self.waits, strict=True)
        ]
        pairs = count_join(
            left,
            right,
            scenario.on,
            *self.rows,
            per_key=self.per_key,
            left_wait=waits[0],
            right_wait=waits[1],
            condition=None if self.condition is None else CONDITIONS[self.condition],
            null_safe=self.null_safe,
        )
        return multiset(flatten(pairs, scenario.on, columns=scenario.columns))


rows = st.none() | st.integers(0, 4)
waits = st.none() | st.integers(-1, 20)
windows = st.builds(
    Windows,
    st.tuples(rows, rows),
    st.tuples(waits, waits),
    st.booleans(),
    st.booleans(),
    st.none() | st.sampled_from(sorted(CONDITIONS)),
)
KINDS = tuple(KEY_KINDS)


@st.composite
def progress(draw: st.DrawFn, scenario: JoinScenario, late: bool = False) -> list[Event]:
    """The batches with punctuation between them: as far as the bound of disorder allows, or further, and the end."""
    events: list[Event] = []
    newest: list[int | None] = [None, None]
    for port, table in scenario.pushes:
        events.append((port, table))
        times = [*table.column("ts").to_pylist(), *([] if newest[port] is None else [newest[port]])]
        newest[port] = max(times, default=None)
        for of in range(2):
            if (most := newest[of]) is not None and draw(st.booleans()):
                further = draw(st.integers(-5, 15)) if late else 0
                events.append((of, Punctuation.linear("ts", most - scenario.disorder[of] + further)))
    return [*events, *((port, ALL) for port in draw(st.permutations(range(2))))]


def revived(join: CountJoin) -> CountJoin:
    """Stopped and started from the committed state."""
    fresh = CountJoin(join.what, store=reopened(join))
    assert fresh.held() == join.held()
    return fresh


def give(join: CountJoin, event: Event) -> list[Message]:
    port, what = event
    return taken(join, port, what) if isinstance(what, Punctuation) else taken(join, port, Batch(what))


def run(join: CountJoin, events: Sequence[Event], restarts: Sequence[int] = ()) -> tuple[CountJoin, list[Message]]:
    out: list[Message] = []
    for n, event in enumerate(events):
        out += give(join, event)
        join = revived(join) if n in restarts else join
    return join, out


def results(messages: Sequence[Message]) -> list[Row]:
    return [row for message in messages if isinstance(message, Batch) for row in message.rows.to_pylist()]


def late_rows(messages: Sequence[Message]) -> list[Row]:
    return [row for message in messages if isinstance(message, Late) for row in message.rows.to_pylist()]


def low_of(punctuation: Punctuation) -> int:
    low = punctuation.low_watermark("ts")
    assert low is not None
    return low


# -- against the judge ----------------------------------------------------------------------------------------------


@examples(40)
@given(join_scenarios(kinds=KINDS), windows, st.data())
def test_the_join_is_that_of_the_judge(scenario: JoinScenario, asked: Windows, data: st.DataObject) -> None:
    events = data.draw(progress(scenario))
    restarts = data.draw(st.sets(st.integers(0, len(events)), max_size=4))
    join, messages = run(asked.opened(scenario), events, sorted(restarts))
    assert multiset(results(messages)) == asked.judged(scenario, *scenario.streams)
    assert late_rows(messages) == []
    assert (join.counts.late, join.counts.results) == (0, len(results(messages)))
    assert [message for message in messages if isinstance(message, Punctuation)][-1] == ALL
    assert messages.count(ALL) == 1
    assert join.held() == Held(0, 0)


@examples(20)
@given(join_scenarios(kinds=KINDS), windows, st.data())
def test_rows_behind_their_own_low_watermark_are_late_and_all_others_join(
    scenario: JoinScenario, asked: Windows, data: st.DataObject
) -> None:
    events = data.draw(progress(scenario, late=True))
    low = [-math.inf, -math.inf]
    streams: list[list[Row]] = [[], []]
    late: Counter[tuple[str, int, int | None]] = Counter()
    for port, what in events:
        if isinstance(what, Punctuation):
            low[port] = max(low[port], low_of(what))
            continue
        for row in what.to_pylist():
            if row["ts"] < low[port]:
                late["lr"[port], row["ts"], row["v"]] += 1
            else:
                streams[port].append(row)
    join, messages = asked.opened(scenario), []
    told: Counter[tuple[str, int, int | None]] = Counter()
    for event in events:
        found = give(join, event)
        messages += found
        refused = late_rows(found)
        told.update(("lr"[event[0]], row["ts"], row["v"]) for row in refused)
        assert {row["late_reason"] for row in refused} <= {LATE}
    assert multiset(results(messages)) == asked.judged(scenario, *streams)
    assert told == late
    assert join.counts.late == join.counts.dropped == late.total()


@examples(25)
@given(join_scenarios(kinds=KINDS), windows, st.data())
def test_no_result_breaks_a_promise_made_before(scenario: JoinScenario, asked: Windows, data: st.DataObject) -> None:
    events = data.draw(progress(scenario, late=True))
    _, messages = run(asked.opened(scenario), events)
    promised: list[Punctuation] = []
    for message in messages:
        if isinstance(message, Punctuation):
            assert not any(before.covers(message) for before in promised), "a promise says more, or is not made"
            promised.append(message)
        elif isinstance(message, Batch):
            assert not [row for row in message.rows.to_pylist() if any(p.match(row) for p in promised)]


@examples(25)
@given(join_scenarios(kinds=("number", "text", "pair"), least=8), windows, st.data())
def test_state_is_what_waits_and_the_windows(scenario: JoinScenario, asked: Windows, data: st.DataObject) -> None:
    """At every moment; rows that have left and are not yet cleared away are never more than those that have not."""
    join = asked.opened(scenario)
    waiting: list[list[int]] = [[], []]
    low = [-math.inf, -math.inf]
    for event in data.draw(progress(scenario)):
        give(join, event)
        port, what = event
        if isinstance(what, Punctuation):
            low[port] = max(low[port], low_of(what))
        else:
            waiting[port] += what.column("ts").to_pylist()
        passed = min(low)
        still = [sum(time >= passed for time in times) for times in waiting]
        live = [side.live_rows for side in join.sides]
        for i, side in enumerate(join.sides):
            n, wait = asked.rows[i], asked.waits[i]
            kept = [row for part in side.parts for row in part.keyed.rows.filter(pa.array(part.live)).to_pylist()]
            if n is not None and asked.per_key:
                assert all(of_key <= n for of_key in Counter(key(row, scenario.keys[i]) for row in kept).values())
            elif n is not None:
                assert len(kept) <= n
            elif wait is not None:
                assert all(passed - wait <= row["ts"] < passed for row in kept)
            assert len(kept) == live[i]
            assert side.rows <= 2 * live[i]
        assert join.held().rows <= sum(still) + sum(live)
    assert join.held() == Held(0, 0)


@examples(20)
@given(join_scenarios(kinds=("number", "text", "double")), windows, st.data())
def test_arrival_does_not_matter_where_times_differ(
    scenario: JoinScenario, asked: Windows, data: st.DataObject
) -> None:
    told = [
        [row | {"ts": 100 * row["ts"] + n} for n, row in enumerate(stream)]  # of both streams no two times are equal
        for stream in scenario.streams
    ]
    told[1] = [row | {"ts": row["ts"] + 50} for row in told[1]]
    found = []
    for _ in range(2):
        turns = data.draw(st.permutations([(port, row) for port, stream in enumerate(told) for row in stream]))
        pushes = [(port, pa.Table.from_pylist([row], schema=scenario.schemas[port])) for port, row in turns]
        arrived = replace(scenario, disorder=[10**4, 10**4], pushes=pushes)
        events = data.draw(progress(arrived))
        found.append(multiset(results(run(asked.opened(scenario), events)[1])))
    assert found[0] == found[1] == asked.judged(scenario, *told)


@examples(20)
@given(join_scenarios(kinds=("number", "text", "pair")), windows, st.data())
def test_batches_that_ingest_has_laid_out_give_the_same(
    scenario: JoinScenario, asked: Windows, data: st.DataObject
) -> None:
    asked = replace(asked, per_key=True)
    events = data.draw(progress(scenario, late=True))
    join, told = asked.opened(scenario), []
    for port, what in events:
        is_rows = isinstance(what, pa.Table)
        told += taken(join, port, arrange(join.what, port, what)) if is_rows else taken(join, port, what)
    plain, messages = run(asked.opened(scenario), events)
    assert multiset(results(told)) == multiset(results(messages))
    assert multiset(late_rows(told)) == multiset(late_rows(messages))
    assert join.counts == plain.counts


@examples(20)
@given(join_scenarios(kinds=("text", "pair", "double")), windows, st.data())
def test_keys_that_share_a_code_are_told_apart(scenario: JoinScenario, asked: Windows, data: st.DataObject) -> None:
    events = data.draw(progress(scenario))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "hashed", lambda keys: np.zeros(keys.num_rows, np.uint64))
        _, messages = run(asked.opened(scenario), events)
    assert multiset(results(messages)) == asked.judged(scenario, *scenario.streams)


# -- by hand --------------------------------------------------------------------------------------------------------

SCHEMA = pa.schema({"ts": pa.int64(), "k": pa.string()})
LEFT, RIGHT = (JoinSide(name, SCHEMA, "ts", ("k",)) for name in "lr")


def table(times: Sequence[int], keys: Sequence[str | None] | None = None) -> pa.Table:
    return pa.table({"ts": list(times), "k": keys or ["x"] * len(times)}, schema=SCHEMA)


def pairs(messages: Sequence[Message]) -> list[tuple[int, int]]:
    return sorted((row["l_ts"], row["r_ts"]) for row in results(messages))


def test_the_last_tuples_are_those_of_time_and_not_of_arrival() -> None:
    join = CountJoin(WindowJoin((LEFT, RIGHT), (None, None), rows=(2, 1)))
    events: list[Event] = [(1, table([10, 4])), (0, table([9, 1, 7, 3])), (0, ALL), (1, ALL)]
    # 1 and 3 meet 4; 7 and 9 meet it too, as it is the last of the right; 10 meets the last two of the left.
    assert pairs(run(join, events)[1]) == [(1, 4), (3, 4), (7, 4), (7, 10), (9, 4), (9, 10)]


def test_at_equal_times_the_left_comes_first() -> None:
    both: list[Event] = [(1, table([5, 5])), (0, table([5, 5])), (1, ALL), (0, ALL)]
    one = CountJoin(WindowJoin((LEFT, RIGHT), (None, None), rows=(1, 9)))
    assert len(pairs(run(one, both)[1])) == 2
    timed = CountJoin(WindowJoin((LEFT, RIGHT), (-1, 9), rows=(None, None)))
    assert pairs(run(timed, both)[1]) == []


def test_a_tuple_without_a_key_counts_among_all_but_not_among_those_of_a_key() -> None:
    events: list[Event] = [(0, table([1, 2], ["x", None])), (1, table([3])), (0, ALL), (1, ALL)]
    for per_key, expected in ((True, [(1, 3)]), (False, [])):
        join = CountJoin(WindowJoin((LEFT, RIGHT), (None, None), rows=(1, 1), per_key=per_key))
        assert pairs(run(join, events)[1]) == expected


def test_a_row_waits_for_both_inputs_and_results_come_as_soon_as_both_have_passed() -> None:
    join = CountJoin(WindowJoin((LEFT, RIGHT), (None, None), rows=(1, 1)))
    _, early = run(join, [(0, table([1, 2])), (1, table([3])), (0, Punctuation.linear("ts", 50))])
    assert early == []
    assert join.held().rows == 3
    found, *promises = give(join, (1, Punctuation.linear("ts", 4)))
    assert pairs([found]) == [(2, 3)]
    assert promises == [Punctuation.linear("l_ts", 2), Punctuation.linear("r_ts", 3)]
    assert join.held().rows == 2


def test_what_nobody_is_left_to_meet_goes_when_the_other_input_has_ended() -> None:
    join = CountJoin(WindowJoin((LEFT, RIGHT), (None, None), rows=(3, 3)))
    run(join, [(0, table([1, 2])), (1, table([3, 9])), (0, Punctuation.linear("ts", 5)), (1, ALL)])
    assert [side.live_rows for side in join.sides] == [2, 1]  # 9 is still to come to the left
    run(join, [(0, Punctuation.linear("ts", 10))])
    assert [side.live_rows for side in join.sides] == [0, 2]
    run(join, [(0, ALL)])
    assert join.held() == Held(0, 0)


def test_keys_of_different_widths_and_names() -> None:
    left = JoinSide("l", pa.schema({"at": pa.timestamp("us", "UTC"), "a": pa.int32()}), "at", ("a",))
    right = JoinSide("r", pa.schema({"ts": pa.timestamp("us", "UTC"), "b": pa.int64()}), "ts", ("b",))
    join = CountJoin(WindowJoin((left, right), (None, None), rows=(1, 1)))
    ends: list[Event] = [(0, ALL), (1, ALL)]
    rows = [pa.table({"at": [1, 2], "a": [7, 8]}).cast(left.schema), pa.table({"ts": [3], "b": [7]}).cast(right.schema)]
    _, messages = run(join, [(0, rows[0]), (1, rows[1]), *ends])
    assert [(row["a"], row["b"]) for row in results(messages)] == [(7, 7)]


# -- at size --------------------------------------------------------------------------------------------------------


def buffered(streams: Sequence[pa.Table], sizes: Sequence[int], per_key: bool) -> Counter[tuple[int, int]]:
    """As an engine would that gets both streams in order: join the buffer of the other side, then enter one's own."""
    merged = [(*row.values(), side) for side, stream in enumerate(streams) for row in stream.to_pylist()]
    buffers: tuple[dict[Any, deque[tuple[int, str]]], ...] = ({}, {})
    found: Counter[tuple[int, int]] = Counter()
    for ts, k, side in sorted(merged, key=lambda row: (row[0], row[2])):
        place = k if per_key else None
        for other, of in buffers[1 - side].get(place, ()):
            if of == k:
                found[(other, ts) if side else (ts, other)] += 1
        buffers[side].setdefault(place, deque(maxlen=sizes[side])).append((ts, k))
    return found


@pytest.mark.parametrize("per_key", [True, False])
@pytest.mark.parametrize("sizes", [(1, 1), (3, 40)])
def test_many_batches_and_keys(per_key: bool, sizes: tuple[int, int]) -> None:
    """Parts are merged and written anew on the way, rows come in disorder, and the right lags behind."""
    rng = np.random.default_rng(7)
    n, keys, disorder = 4000, 60, 100
    names = np.array([f"k{i}" for i in range(keys)])
    streams, orders = [], []
    for side in range(2):
        ts: npt.NDArray[np.int64] = np.arange(n) * 4 + rng.integers(0, 2, n) * 2 + side
        streams.append(table(ts.tolist(), names[(rng.zipf(1.3, n) - 1) % keys].tolist()))
        orders.append(np.argsort(ts + rng.integers(0, disorder, n), kind="stable"))
    join, found = CountJoin(WindowJoin((LEFT, RIGHT), (None, None), rows=sizes, per_key=per_key)), Counter()
    step, lag = 50, 400
    for at in range(0, n + lag, step):
        for side, first in enumerate((at, at - lag)):
            arrived = orders[side][max(first, 0) : max(first + step, 0)]
            if not len(arrived):
                continue
            rows = streams[side].take(pa.array(arrived))
            low = max(rows.column("ts").to_pylist()) - disorder
            found.update(pairs(run(join, [(side, rows), (side, Punctuation.linear("ts", low))])[1]))
        assert sum(side.live_rows for side in join.sides) <= sum(sizes) * (keys if per_key else 1)
        if at % 500 == 0:
            join = revived(join)
    join, messages = run(join, [(0, ALL), (1, ALL)])
    found.update(pairs(messages))
    assert found == buffered(streams, sizes, per_key)
    assert join.held() == Held(0, 0)


# -- refusals -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("what", "sentence"),
    [
        (WindowJoin((LEFT, RIGHT), (1, 1)), "needs, for each input, a number of rows"),
        (WindowJoin((LEFT, RIGHT), (None, None), rows=(1,)), "needs, for each input, a number of rows"),
        (WindowJoin((LEFT, RIGHT), (None, None), rows=(1, -1)), "needs, for each input, a number of rows"),
        (WindowJoin((LEFT, RIGHT, RIGHT), (None,) * 3, rows=(1, 1, 1)), "join two inputs, not 3"),
        (WindowJoin((LEFT, RIGHT), (None, None), "left", rows=(1, 1)), "are for inner joins, not left"),
        (WindowJoin((LEFT, RIGHT), (0, 0), grid=Sliding(5, 5), rows=(1, 1)), "tumbling or hopping windows, not both"),
    ],
)
def test_what_cannot_be_counted_is_refused(what: WindowJoin, sentence: str) -> None:
    with pytest.raises(LowwaterError, match=sentence):
        CountJoin(what)


def test_rows_laid_out_by_key_are_refused_where_all_are_counted_together() -> None:
    join = CountJoin(WindowJoin((LEFT, RIGHT), (None, None), rows=(1, 1), per_key=False))
    with pytest.raises(AssertionError, match="by arrival"):
        taken(join, 0, arrange(join.what, 0, table([1])))
