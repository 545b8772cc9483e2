"""Punctuation on the output of a join: true, told as early as it is, individual and joint (Fig. 7-5)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lowwater as lw
from lowwater.joins.oa_join import OAJoin
from lowwater.joins.spec import JoinSide, WindowJoin
from lowwater.model.punctuation import ALL, Punctuation, Range
from lowwater.operators.base import Batch, Message, taken
from lowwater.operators.group_by import GroupBy, Grouping
from lowwater.windows.context_free import Sliding
from tests.join_oracle import HOWS
from tests.join_queries import Row, held, plain
from tests.join_scenarios import grids
from tests.soak import examples

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
        return taken(operator, port, what)
    return taken(operator, port, Batch(pa.Table.from_pylist(what, schema=SIDES[port % 2].schema)))


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
@examples(8)
@given(data=st.data())
def test_punctuation_of_a_join_is_true(how: str, joint: bool, data: st.DataObject) -> None:
    join = OAJoin(data.draw(specs([how])), joint)
    out = [message for port, what in data.draw(events()) for message in take(join, port, what)]
    break_no_promise(out)
    told = [message for message in out if isinstance(message, Punctuation)]
    assert told[-1] == ALL, "the end of both is the end of the join, and the last that is said"
    assert len(told) == len(set(told))
    assert join.held().rows == 0


@examples(12)
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
                assert taken(group_by, 0, message) == []
            elif isinstance(message, Punctuation):
                for answer in taken(group_by, 0, message):
                    for row in answer.rows.to_pylist() if isinstance(answer, Batch) else []:
                        assert (row["l_ts"], row["r_ts"]) not in known, "each group once"
                        known[row["l_ts"], row["r_ts"]] = row["n"]
        found.append(set(known))
    return found


@examples(20)
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
