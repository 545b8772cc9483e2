"""OVER windows against their definition: frames from the extents of windows/over.py, aggregates by the oracle.

A seeded stream arrives in some order with ties, nulls and late rows, is cut into batches, and the operator is now and
then taken through bytes. After every punctuation three things are compared with loops over the rows so far: which rows
have been answered, with what, and how many rows are held.
"""

from __future__ import annotations

import random
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import lowwater as lw
from lowwater.model.punctuation import ALL, Punctuation
from lowwater.model.ticks import END, NEVER
from lowwater.operators.base import Batch, Held, Late, taken
from lowwater.operators.bucket import WindowedAggregation
from lowwater.operators.over_aggregate import OverAggregate
from lowwater.operators.waiting import Waiting
from lowwater.state.segments import unpack
from lowwater.state.store import Store
from lowwater.windows.over import Over
from lowwater.windows.spec import Tuples
from tests.compare import same
from tests.oracle import aggregate, key
from tests.stored import reopened, segments

Row = dict[str, Any]
SCHEMA = pa.schema([("id", pa.int64()), ("k", pa.string()), ("ts", pa.int64()), ("v", pa.int64()), ("x", pa.float64())])
BOUNDED = {
    "n": (lw.count(), ("count", None)),
    "s": (lw.sum("v"), ("sum", "v")),
    "a": (lw.avg("x"), ("avg", "x")),
    "low": (lw.min("v"), ("min", "v")),
    "high": (lw.max("x"), ("max", "x")),
    "f": (lw.first("v"), ("first", "v")),
    "l": (lw.last("v"), ("last", "v")),
    "sd": (lw.stddev("x"), ("stddev_samp", "x")),
}
HOLISTIC = {"m": (lw.median("v"), ("median", "v")), "d": (lw.count_distinct("v"), ("count_distinct", "v"))}
FRAMES = [
    Over(frame, preceding, following)
    for frame in ("rows", "range")
    for preceding, following in [(0, 0), (3, 0), (2, 2), (0, 4), (50, 1), (None, 0), (None, 3)]
]
every_frame = pytest.mark.parametrize("window", FRAMES, ids=str)


def aggregates(window: Over) -> dict[str, tuple[Any, Any]]:
    """A running partial is for bounded aggregates only."""
    return BOUNDED if window.preceding is None else BOUNDED | HOLISTIC


def opened(window: Over, group_by: tuple[str, ...] = ("k",), schema: pa.Schema = SCHEMA) -> OverAggregate:
    asked = tuple((name, ours) for name, (ours, _) in aggregates(window).items())
    return OverAggregate(WindowedAggregation(window, "ts", schema, group_by, asked))


def revived(operator: OverAggregate) -> OverAggregate:
    """A fresh operator with the state of another, taken through bytes."""
    fresh = OverAggregate(operator.what, reopened(operator))
    assert fresh.held() == operator.held()
    return fresh


def stream(seed: int, n: int = 60, spread: int = 40, keys: tuple[str | None, ...] = ("a", "b", None)) -> list[Row]:
    """Times are few, so that there are ties."""
    chance = random.Random(seed)
    return [
        {
            "id": i,
            "k": chance.choice(keys),
            "ts": chance.randrange(spread) - 10,
            "v": chance.choice([None, *range(-9, 10)]),
            "x": chance.choice([None, *(j / 4 for j in range(-9, 10))]),
        }
        for i in range(n)
    ]


def table(rows: list[Row]) -> pa.Table:
    return pa.Table.from_pylist(rows, schema=SCHEMA)


@dataclass
class Judge:
    """All rows accepted so far, and how far time has come."""

    window: Over
    group_by: list[str]
    accepted: list[Row] = field(default_factory=list)
    low: int = NEVER

    def answers(self) -> dict[int, Row]:
        """The answer of every accepted row, were the stream to end now."""
        partitions = list(dict.fromkeys(key(row, self.group_by) for row in self.accepted))
        tuples = Tuples(
            np.array([row["ts"] for row in self.accepted], np.int64),
            np.array([partitions.index(key(row, self.group_by)) for row in self.accepted], np.int64),
        )
        found = {}
        for wid, at in enumerate(self.window.windows(tuples).tolist()):
            inside = self.window.extent(wid, tuples)
            extent = [row for row, is_inside in zip(self.accepted, inside, strict=True) if is_inside]
            results = {name: aggregate(extent, "ts", agg) for name, (_, agg) in aggregates(self.window).items()}
            found[self.accepted[at]["id"]] = {**self.accepted[at], **results}
        return found

    def partitions(self) -> list[list[Row]]:
        """The final rows of each partition in order."""
        parts = defaultdict(list)
        for row in sorted(self.accepted, key=lambda row: row["ts"]):
            if row["ts"] < self.low:
                parts[key(row, self.group_by)].append(row)
        return list(parts.values())

    def done(self, rows: list[Row]) -> list[Row]:
        """Of the final rows of a partition those whose frames are complete."""
        ahead = self.window.following or 0
        if self.low == END:
            return rows
        if self.window.frame == "range":
            return [row for row in rows if row["ts"] + ahead < self.low]
        return rows[: max(len(rows) - ahead, 0)]

    def held(self) -> int:
        """Waiting and open rows, and of those answered what a later frame may still reach."""
        if self.low == END:
            return 0
        back, ahead = self.window.preceding, self.window.following or 0
        n: int = sum(row["ts"] >= self.low for row in self.accepted)
        for rows in self.partitions():
            done = self.done(rows)
            n += len(rows) - len(done)
            if back is None:
                n += bool(done)
            elif self.window.frame == "rows":
                n += min(len(done), back)
            else:
                n += sum(row["ts"] >= self.low - ahead - back for row in done)
        return n


@dataclass
class Trial:
    """An operator beside its judge."""

    operator: OverAggregate
    judge: Judge
    answered: dict[int, Row] = field(default_factory=dict)
    late: list[Row] = field(default_factory=list)
    promised: int = NEVER

    def give(self, rows: list[Row]) -> None:
        for message in taken(self.operator, 0, Batch(table(rows))):
            assert isinstance(message, Late)
            self.late += message.rows.to_pylist()
        self.judge.accepted += [row for row in rows if row["ts"] >= self.judge.low]

    def punctuate(self, punctuation: Punctuation) -> None:
        low = punctuation.low_watermark("ts")
        assert low is not None
        self.judge.low = max(self.judge.low, low)
        for message in taken(self.operator, 0, punctuation):
            if isinstance(message, Punctuation):
                self.promised = message.low_watermark("ts") or self.promised
                continue
            assert isinstance(message, Batch)
            assert message.rows.schema == self.operator.what.result_schema()
            for row in message.rows.to_pylist():
                assert row["id"] not in self.answered
                assert row["ts"] >= self.promised
                self.answered[row["id"]] = row
        assert set(self.answered) == {row["id"] for rows in self.judge.partitions() for row in self.judge.done(rows)}
        assert self.operator.held().rows == self.judge.held()

    def compare(self) -> None:
        expected = self.judge.answers()
        assert set(expected) == set(self.answered)
        for id, row in expected.items():
            unequal = {name: (self.answered[id][name], row[name]) for name in row}
            assert {name: pair for name, pair in unequal.items() if not same(*pair)} == {}, row


def trial(window: Over, rows: list[Row], seed: int, group_by: tuple[str, ...] = ("k",), slack: int = 8) -> Trial:
    """Batches of any size, after each a low-watermark `slack` behind the newest row, restarts here and there."""
    chance = random.Random(seed)
    found = Trial(opened(window, group_by), Judge(window, list(group_by)))
    while rows:
        size = chance.choice([0, 1, 2, 5, 17])
        batch, rows = rows[:size], rows[size:]
        found.give(batch)
        if found.judge.accepted and chance.random() < 0.7:
            newest = max(row["ts"] for row in found.judge.accepted)
            found.punctuate(Punctuation.linear("ts", newest - chance.randrange(slack)))
        if chance.random() < 0.3:
            found.operator = revived(found.operator)
    found.punctuate(ALL)
    return found


def roughly_in_order(rows: list[Row], seed: int) -> list[Row]:
    chance = random.Random(seed)
    return sorted(rows, key=lambda row: row["ts"] + chance.randrange(8))


# -- results --------------------------------------------------------------------------------------------------------


@every_frame
@pytest.mark.parametrize("group_by", [("k",), (), ("k", "v")], ids=str)
def test_operator_equals_definition(window: Over, group_by: tuple[str, ...]) -> None:
    late = 0
    for seed in range(3):
        found = trial(window, roughly_in_order(stream(seed), seed), seed, group_by)
        found.compare()
        assert found.operator.held() == Held(0, 0)
        late += len(found.late)
    assert late > 0


@every_frame
def test_a_stream_in_no_order_at_all_is_answered_at_its_end(window: Over) -> None:
    found = Trial(opened(window), Judge(window, ["k"]))
    found.give(stream(1))
    found.give([{**row, "id": row["id"] + 100} for row in stream(2)])
    found.punctuate(ALL)
    found.compare()


@every_frame
def test_arrival_order_does_not_matter_where_times_are_distinct(window: Over) -> None:
    rows = [{**row, "ts": 2 * i} for i, row in enumerate(stream(7, 40))]
    outcomes = []
    for seed in range(4):
        chance = random.Random(seed)
        arriving = sorted(rows, key=lambda row: row["ts"] + chance.randrange(30)) if seed else rows
        found = Trial(opened(window), Judge(window, ["k"]))
        for at in range(0, len(arriving), 3 + seed):
            found.give(arriving[at : at + 3 + seed])
            to_come = [row["ts"] for row in arriving[at + 3 + seed :]]
            found.punctuate(Punctuation.linear("ts", min(to_come)) if to_come else ALL)
        assert found.late == []
        outcomes.append([found.answered[row["id"]] for row in rows])
    for outcome in outcomes[1:]:
        for one, other in zip(outcomes[0], outcome, strict=True):
            assert all(same(one[name], other[name]) for name in one)


def test_ties_stand_in_arrival_order_for_rows_and_are_peers_for_range() -> None:
    rows = [{"id": i, "k": "a", "ts": ts, "v": 1, "x": None} for i, ts in enumerate([5, 5, 3, 5])]
    counted = {}
    for frame in ("rows", "range"):
        found = Trial(opened(Over(frame, None)), Judge(Over(frame, None), ["k"]))
        found.give(rows[:1])
        found.give(rows[1:])
        found.punctuate(Punctuation.linear("ts", 6))
        counted[frame] = [found.answered[i]["n"] for i in range(4)]
    assert counted == {"rows": [2, 3, 1, 4], "range": [4, 4, 1, 4]}


def test_columns_are_those_of_the_stream_then_the_aggregates() -> None:
    utc = pa.timestamp("us", "UTC")
    schema = pa.schema([pa.field("v", pa.int64()), pa.field("x", pa.float64()), pa.field("ts", utc, nullable=False)])
    operator = opened(Over("range", 1_000_000), (), schema)
    taken(operator, 0, Batch(pa.table({"v": [1], "x": [0.5], "ts": pa.array([10], utc)}, schema=schema)))
    batch, end = taken(operator, 0, ALL)
    assert isinstance(batch, Batch)
    assert batch.rows.column_names == ["v", "x", "ts", *BOUNDED, *HOLISTIC]
    assert batch.rows.schema.field("ts").type == utc
    assert end == ALL


# -- late rows ------------------------------------------------------------------------------------------------------


@every_frame
def test_rows_below_the_low_watermark_are_late_and_count_nowhere(window: Over) -> None:
    found = Trial(opened(window), Judge(window, ["k"]))
    given = stream(3)
    found.punctuate(Punctuation.linear("ts", 10))
    found.give(given)
    found.give(given[:0])
    late = [row for row in given if row["ts"] < 10]
    assert [{name: row[name] for name in SCHEMA.names} for row in found.late] == late
    assert {(row["windows_missed"], row["windows_kept"]) for row in found.late} == {(None, 0)}
    found.operator = revived(found.operator)
    found.punctuate(ALL)
    found.compare()
    counts = found.operator.counts
    assert (counts.late, counts.dropped, counts.results) == (len(late), len(late), len(given) - len(late))


def test_all_rows_after_the_end_are_late() -> None:
    found = Trial(opened(Over("rows", 2)), Judge(Over("rows", 2), ["k"]))
    found.punctuate(ALL)
    found.give(stream(4, 5))
    assert len(found.late) == 5
    assert taken(found.operator, 0, ALL) == []
    assert found.operator.held() == Held(0, 0)


# -- progress and state ---------------------------------------------------------------------------------------------


def test_output_progresses_to_the_oldest_open_row() -> None:
    found = Trial(opened(Over("rows", 1, 1)), Judge(Over("rows", 1, 1), ["k"]))
    rows = [{"id": i, "k": k, "ts": ts, "v": 1, "x": None} for i, (k, ts) in enumerate([("a", 1), ("b", 4), ("a", 7)])]
    found.give(rows)
    found.punctuate(Punctuation.linear("ts", 9))
    assert (sorted(found.answered), found.promised) == ([0], 4)
    found.give([{**rows[1], "id": 3, "ts": 9}])
    found.punctuate(Punctuation.linear("ts", 20))
    assert (sorted(found.answered), found.promised) == ([0, 1], 7)


def test_a_quiet_partition_is_forgotten_as_time_passes() -> None:
    """The other partition, too, is bounded: whatever its length, what is held is what a frame spans."""
    window = Over("range", 10, 5)
    found = Trial(opened(window), Judge(window, ["k"]))
    found.give([{"id": -1, "k": "quiet", "ts": 0, "v": 1, "x": 1.0}])
    for at in range(0, 200, 4):
        found.give([{"id": ts, "k": "busy", "ts": ts, "v": ts, "x": 1.0} for ts in range(at, at + 4)])
        found.punctuate(Punctuation.linear("ts", at + 4))
        assert found.operator.held().rows <= 15 + (at + 4 <= 15)
    found.punctuate(Punctuation.linear("ts", 500))
    assert found.operator.held() == Held(0, 0)


def test_a_running_partial_is_one_row_a_partition() -> None:
    found = Trial(opened(Over("rows", None)), Judge(Over("rows", None), ["k"]))
    for at in range(0, 120, 30):
        found.give([{"id": ts, "k": "abc"[ts % 3], "ts": ts, "v": ts, "x": 1.0} for ts in range(at, at + 30)])
        found.punctuate(Punctuation.linear("ts", at + 30))
        assert found.operator.held().rows == 3


def test_a_batch_rewrites_only_what_it_touches() -> None:
    window = Over("rows", 2)
    found = Trial(opened(window), Judge(window, ["k"]))
    found.give([{"id": i, "k": f"k{i}", "ts": 0, "v": i, "x": None} for i in range(64)])
    found.punctuate(Punctuation.linear("ts", 1))
    before = segments(found.operator)
    assert len(before) == 16
    found.give([{"id": 64, "k": "k5", "ts": 1, "v": 0, "x": None}])
    found.punctuate(Punctuation.linear("ts", 2))
    after = segments(found.operator)
    assert len(after.keys() - before.keys()) == 1
    assert len(after.keys() & before.keys()) == 15


def test_answered_rows_keep_only_the_columns_that_are_computed_with() -> None:
    what = WindowedAggregation(Over("rows", 1, 1), "ts", SCHEMA, ("k",), (("s", lw.sum("v")),))
    operator = OverAggregate(what)
    taken(operator, 0, Batch(table(stream(5))))
    taken(operator, 0, Punctuation.linear("ts", 100))
    for data in segments(operator).values():
        tables = unpack(data)
        assert set(tables["kept"].column_names) == {"ts", "k", "v"}
        assert tables["open"].column_names == SCHEMA.names


def test_waiting_rewrites_only_the_segments_that_are_cut() -> None:
    schema = pa.schema([("ts", pa.int64()), ("id", pa.int64())])
    store = Store()
    waiting = Waiting(schema, store)
    for n, times in enumerate([[1, 2], [9, 8], [2, 7], []]):
        waiting.add(pa.table({"ts": times, "id": [n] * len(times), "other": times}, None), np.array(times, np.int64))
    before = list(segments(store))
    rows, time = waiting.release(5)
    assert (rows["ts"].to_pylist(), rows["id"].to_pylist(), time.tolist()) == ([1, 2, 2], [0, 0, 2], [1, 2, 2])
    after = list(segments(store))
    assert (len(before), len(after), waiting.rows) == (3, 2, 3)
    assert after[0] == before[1]
    assert after[1] != before[2]
    again = reopened(store)
    fresh = Waiting(schema, again)
    assert list(segments(again)) == after
    assert [part.tolist() for part in fresh.release(END)[1:]] == [[7, 8, 9]]
    assert (fresh.rows, segments(again), fresh.release(END)[0].num_rows) == (0, {}, 0)
