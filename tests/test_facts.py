"""What every shard knows of a micro-batch before its rows: row numbers, the common horizon, the origin, the sources."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

import lowwater as lw
from lowwater.joins.arrived import Arrived, arrange
from lowwater.joins.oa_join import UNGRAMMATICAL, OAJoin
from lowwater.joins.pwjoin import PWJoin
from lowwater.joins.spec import JoinSide, WindowJoin
from lowwater.model.punctuation import ALL, Punctuation
from lowwater.operators.adaptive_aggregate import AdaptivePartials
from lowwater.operators.base import (
    Batch,
    Ended,
    Late,
    Message,
    Operator,
    PortFacts,
    StreamProperties,
    ended,
    taken,
)
from lowwater.operators.bucket import ROW, WindowedAggregation
from lowwater.operators.late import LATE_COLUMNS
from lowwater.operators.origin import FromFirst
from lowwater.operators.paned_aggregate import LandmarkPartials, PanePartials
from lowwater.operators.window_aggregate import WindowAggregate
from lowwater.windows.context_free import Landmark, Sliding, TupleBased
from tests.stored import reopened

Row = dict[str, Any]
SCHEMA = pa.schema([("ts", pa.int64()), ("k", pa.string())])
NUMBERED = pa.schema([*SCHEMA, pa.field(ROW, pa.int64())])


def asked(window: Any, **options: Any) -> WindowedAggregation:
    return WindowedAggregation(window, "ts", SCHEMA, ("k",), (("n", lw.count()),), **options)


def facts(span: tuple[int, int] | None = None, counts: Sequence[int] = (), sources: Any = None) -> list[PortFacts]:
    return [PortFacts(span, np.array(counts, np.int64), sources)]


def rows(*given: tuple[int, str]) -> Batch:
    return Batch(pa.table({"ts": [t for t, _ in given], "k": [k for _, k in given]}, schema=SCHEMA))


def numbered(run: int, *given: tuple[int, str]) -> Batch:
    """Rows with their offset within a run."""
    table = {"ts": [0] * len(given), "k": [k for _, k in given], ROW: [offset for offset, _ in given]}
    return Batch(pa.table(table, schema=NUMBERED), run)


def answers(messages: Sequence[Message]) -> list[tuple[int, str, int]]:
    found = [row for message in messages if isinstance(message, Batch) for row in message.rows.to_pylist()]
    return sorted((row["wid"], row["k"], row["n"]) for row in found)


def test_rows_are_numbered_over_all_runs_and_shards_and_windows_close_with_the_batch() -> None:
    """Two shards see parts of the same runs: 3 rows, then 2, then, in the next batch, 4."""
    shards: list[Operator] = [WindowAggregate(asked(TupleBased(4, 4)), PanePartials) for _ in range(2)]
    for shard in shards:
        shard.begin(facts(counts=[3, 2]))
    assert taken(shards[0], 0, numbered(0, (0, "a"), (2, "a"))) == []
    assert taken(shards[1], 0, numbered(0, (1, "b"))) == []
    assert taken(shards[1], 0, numbered(1, (0, "b"), (1, "b"))) == []
    first = [ended(shard) for shard in shards]
    assert [answers(messages) for messages in first] == [[(0, "a", 2)], [(0, "b", 2)]]
    assert [m for m in first[0] if isinstance(m, Punctuation)] == [
        Punctuation.linear("wid", 1),
        Punctuation.linear("window_start", 4),
        Punctuation.linear("window_end", 8),
    ]
    again = [WindowAggregate(asked(TupleBased(4, 4)), PanePartials, reopened(shard)) for shard in shards]
    for shard in again:
        shard.begin(facts(counts=[4]))
    taken(again[0], 0, numbered(0, (0, "a"), (3, "a")))
    assert [answers(ended(shard)) for shard in again] == [[(1, "a", 1)], [(1, "b", 1)]]
    assert answers(taken(again[0], 0, ALL)) == [(2, "a", 1)]


def test_all_shards_answer_a_landmark_up_to_the_last_row_of_any() -> None:
    shards = [WindowAggregate(asked(Landmark(10)), LandmarkPartials) for _ in range(2)]
    for shard in shards:
        shard.begin(facts(span=(5, 25)))
    taken(shards[0], 0, rows((5, "a")))
    taken(shards[1], 0, rows((25, "b")))
    shards = [WindowAggregate(asked(Landmark(10)), LandmarkPartials, reopened(shard)) for shard in shards]
    assert [answers(taken(shard, 0, ALL)) for shard in shards] == [
        [(0, "a", 1), (1, "a", 1), (2, "a", 1)],
        [(2, "b", 1)],
    ]


def test_all_shards_begin_with_the_first_row_of_any() -> None:
    def opened(store: Any = None) -> FromFirst:
        open = lambda what, store: WindowAggregate(what, LandmarkPartials, store)  # noqa: E731
        return FromFirst(asked(Landmark(10), anchored=False), open, store)

    shards = [opened() for _ in range(2)]
    for shard, at in zip(shards, (3, 14), strict=True):
        shard.begin(facts(span=(3, 14)))
        taken(shard, 0, rows((at, "a")))
        assert taken(shard, 0, Punctuation.linear("ts", 3)) == []
        assert (shard.origin, shard.rows) == (None, 1)
    shards = [opened(reopened(shard)) for shard in shards]
    for shard in shards:
        shard.begin(facts(span=(8, 26)))
    assert [answers(taken(shard, 0, Punctuation.linear("ts", 13))) for shard in shards] == [[(0, "a", 1)], []]
    shards = [opened(reopened(shard)) for shard in shards]
    assert [shard.origin for shard in shards] == [3, 3]
    assert [answers(taken(shard, 0, ALL)) for shard in shards] == [[(1, "a", 1), (2, "a", 1)]] * 2


def test_adaptive_windows_hear_of_progress_behind_another_operator() -> None:
    """Without facts of sources, as behind a join, the input itself is the source."""
    operator = WindowAggregate(asked(Sliding(100)), AdaptivePartials)
    assert isinstance(operator.keeping, AdaptivePartials)
    operator.begin(facts())
    taken(operator, 0, rows((5, "a"), (70, "b")))
    taken(operator, 0, Punctuation.linear("ts", 42))
    assert (operator.keeping.threshold.low, operator.keeping.threshold.high) == (42, 70)


def test_adaptive_windows_hear_how_sources_stand_after_the_rows_and_once_a_batch() -> None:
    operator = WindowAggregate(asked(Sliding(100)), AdaptivePartials)
    assert isinstance(operator.keeping, AdaptivePartials)
    operator.begin(facts(sources=StreamProperties(30, np.array([90, 50]), np.array([3, 1]))))
    taken(operator, 0, rows((5, "a")))
    assert operator.keeping.threshold.high == 5
    assert ended(operator) == []
    assert (operator.keeping.threshold.low, operator.keeping.threshold.high) == (30, 90)
    assert operator.keeping.threshold.spread == 10.0


def test_results_have_the_last_tick_of_their_window_where_that_is_asked_for() -> None:
    operator = WindowAggregate(asked(Sliding(10, 5), window_time=True), PanePartials)
    taken(operator, 0, rows((3, "a")))
    (found, *_) = taken(operator, 0, Punctuation.linear("ts", 5))
    assert isinstance(found, Batch)
    expected = {"wid": 0, "window_start": -5, "window_end": 5, "window_time": 4, "k": "a", "n": 1}
    assert found.rows.to_pylist() == [expected]
    assert found.rows.schema == operator.what.result_schema()


SIDES = tuple(JoinSide(name, SCHEMA, "ts", ("k",)) for name in ("l", "r"))


def test_late_rows_of_a_join_have_the_columns_of_their_input_and_count_nowhere() -> None:
    join = OAJoin(WindowJoin(SIDES, (5, 5)))
    taken(join, 1, Punctuation.linear("ts", 10))
    keyed = arrange(join.what, 1, rows((9, "a"), (10, "b")).rows)
    broken = rows((12, "c")).rows
    late = [message for message in taken(join, 1, Arrived(keyed.keyed, None, broken)) if isinstance(message, Late)]
    assert [(row["ts"], row["k"], row["late_reason"]) for m in late for row in m.rows.to_pylist()] == [
        (9, "a", "its input has progressed past it"),
        (12, "c", UNGRAMMATICAL),
    ]
    assert all(message.rows.column_names == [*SCHEMA.names, *LATE_COLUMNS] for message in late)
    assert (join.counts.late, join.counts.dropped) == (2, 2)


def test_values_ranges_and_their_mark_come_as_one_message() -> None:
    schema = pa.schema({"ts": pa.int64(), "k": pa.int64()})
    join = PWJoin(WindowJoin(tuple(JoinSide(name, schema, "ts", ("k",)) for name in "ab"), (5, 5)))
    taken(join, 0, Batch(pa.table({"ts": [1, 1, 1], "k": [1, 7, 9]}, schema=schema)))
    ranges = pa.table({"low": [7], "high": [9]})
    assert taken(join, 1, Ended(pa.table({"k": [1]}), ranges, 20)) == [
        Ended(pa.table({"k": [1]})),
        *taken(PWJoin(join.what), 1, Ended(pa.table({"k": pa.array([], pa.int64())}), ranges)),
    ]
    assert (join.held().rows, join.newest) == (1, 20)
