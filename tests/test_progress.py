"""Progress policies on the local backend: how far each lets time move, who holds it back, and what it calls late."""

from __future__ import annotations

import csv
import datetime as dt
import itertools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lowwater as lw
from lowwater.backends.local import LocalQuery
from lowwater.model.policy import Delay
from lowwater.model.progress import Facts, Progress, observe
from lowwater.model.ticks import NEVER
from tests.compare import EPOCH, difference
from tests.oracle import aggregate_windows
from tests.soak import examples

SCHEMA = pa.schema([("ts", pa.int64()), ("source", pa.string())])
SECOND = 10**6
times = st.lists(st.integers(-50, 100), min_size=1, max_size=40)


def started(disorder: Any, **options: Any) -> LocalQuery:
    """Windows of one tick, so that a row is late exactly if it is below the low-watermark."""
    stream = lw.stream(SCHEMA.empty_table(), name="rows", progress="ts", disorder=disorder, **options)
    return stream.window(range=1).agg(n=lw.count()).start()


def pushed(query: LocalQuery, values: Sequence[int], source: str | None = None) -> None:
    query.push([{"ts": ts, "source": source} for ts in values])


def low(query: LocalQuery) -> int | None:
    shown = query.metrics().low_watermark
    return None if shown is None else int(shown)


def cut(values: Sequence[int], at: Sequence[int]) -> list[Sequence[int]]:
    edges = [0, *sorted({n % len(values) for n in at} - {0}), len(values)]
    return [values[a:b] for a, b in itertools.pairwise(edges)]


# -- what each policy says ------------------------------------------------------------------------------------------


def k_slack(values: Sequence[int], k: int) -> int | None:
    """The largest value before the last k rows."""
    return max(values[:-k], default=None)


POLICIES: dict[str, tuple[Any, Callable[[Sequence[int]], int | None]]] = {
    "ordered": (lw.ordered(), max),
    "delay of 12": (lw.delay(12), lambda values: max(values) - 12),
    "delay of 1 row": (lw.delay_rows(1), lambda values: k_slack(values, 1)),
    "delay of 5 rows": (lw.delay_rows(5), lambda values: k_slack(values, 5)),
}
policies = pytest.mark.parametrize("name", POLICIES)


@policies
@examples(20)
@given(values=times)
def test_low_watermark_after_every_row_is_the_policys_definition(name: str, values: list[int]) -> None:
    disorder, definition = POLICIES[name]
    query = started(disorder)
    reached: list[int] = []
    for n, ts in enumerate(values, 1):
        pushed(query, [ts])
        bound = definition(values[:n])
        reached += [] if bound is None else [bound]
        assert low(query) == max(reached, default=None)


@policies
@examples(20)
@given(values=times, at=st.lists(st.integers(0, 40), max_size=5))
def test_low_watermark_at_the_end_does_not_depend_on_the_cut(name: str, values: list[int], at: list[int]) -> None:
    whole, pieces = started(POLICIES[name][0]), started(POLICIES[name][0])
    pushed(whole, values)
    for piece in cut(values, at):
        pushed(pieces, piece)
    assert low(whole) == low(pieces)


@policies
@examples(15)
@given(values=times)
def test_rows_below_the_low_watermark_are_late_and_no_others(name: str, values: list[int]) -> None:
    disorder, definition = POLICIES[name]
    query = started(disorder)
    late, reached = [], -(10**9)
    for n, ts in enumerate(values, 1):
        pushed(query, [ts])
        late += [ts] if ts < reached else []
        bound = definition(values[:n])
        reached = reached if bound is None else max(reached, bound)
    assert query.late_output().column("ts").to_pylist() == late
    assert query.metrics().late_rows == len(late)


# -- learned --------------------------------------------------------------------------------------------------------


def stationary(rows: int) -> list[int]:
    """A row every 10 ticks, each behind by an exponential delay of mean 60."""
    delay = np.random.default_rng(7).exponential(60, rows).astype(np.int64)
    return (np.arange(rows) * 10 - delay).tolist()


def learning(values: Sequence[int], step: int, quantile: float, warmup: int) -> LocalQuery:
    query = started(lw.learned(quantile, warmup=warmup))
    for at in range(0, len(values), step):
        pushed(query, values[at : at + step])
    return query


@pytest.mark.parametrize("quantile", [0.8, 0.95])
@pytest.mark.parametrize("step", [25, 200])
def test_learned_delay_keeps_its_quantile_on_a_stationary_stream(quantile: float, step: int) -> None:
    values = stationary(3000)
    query = learning(values, step, quantile, warmup=400)
    assert query.metrics().late_rows <= (1 - quantile) * (len(values) - 400)


def test_learned_delay_keeps_its_quantile_when_rows_come_one_by_one() -> None:
    values = stationary(800)
    assert learning(values, 1, 0.95, warmup=200).metrics().late_rows <= 0.05 * 600


def test_learned_delay_is_the_same_every_time() -> None:
    first, second = (learning(stationary(1000), 50, 0.9, warmup=100) for _ in range(2))
    assert first.metrics() == second.metrics()


def test_learned_delay_holds_time_back_until_it_is_warm() -> None:
    query = started(lw.learned(0.9, warmup=10))
    pushed(query, range(9))
    assert low(query) is None
    pushed(query, [9])
    assert low(query) == 9


# -- punctuation in the data ----------------------------------------------------------------------------------------

TRAFFIC = pa.schema([("time_ms", pa.int64()), ("is_punctuation", pa.bool_()), ("speed", pa.int64())])


def traffic(shared: Path, name: str) -> list[dict[str, Any]]:
    path = shared / "data" / "niagarast_streams" / name
    if not path.is_file():
        pytest.skip(f"the outside stream {name} is not there")
    with path.open() as file:
        return [
            {
                "time_ms": int(row["time_ms"]),
                "is_punctuation": row["is_punctuation"] == "1",
                "speed": int(row["speed"]) if row["speed"] else None,
            }
            for row in csv.DictReader(file)
        ]


def punctuated(step: int, rows: list[dict[str, Any]]) -> LocalQuery:
    disorder = lw.punctuated("is_punctuation", "time_ms")
    stream = lw.stream(TRAFFIC.empty_table(), name="traffic", progress="time_ms", disorder=disorder)
    query = stream.window(range=60_000, slide=20_000).agg(n=lw.count(), v=lw.avg("speed")).start()
    for at in range(0, len(rows), step):
        query.push(rows[at : at + step])
    return query


@pytest.mark.parametrize("step", [1, 50])
def test_no_row_of_the_punctuated_traffic_stream_is_late(shared: Path, step: int) -> None:
    rows = traffic(shared, "trafficDataStreamSmall.csv")
    data = [row for row in rows if not row["is_punctuation"]]
    query = punctuated(step, rows)
    assert query.metrics().late_rows == 0
    assert low(query) == max(row["time_ms"] for row in rows if row["is_punctuation"]) + 1
    query.finish()
    aggregates = {"n": ("count", None), "v": ("avg", "speed")}
    window = query.plan.spec.what.window
    assert difference(query.result(), aggregate_windows(data, "time_ms", window, [], aggregates), []) == ""


def test_punctuation_without_data_is_progress(shared: Path) -> None:
    rows = traffic(shared, "trafficDataStreamPunct.csv")
    assert all(row["is_punctuation"] for row in rows)
    query = punctuated(100, rows)
    assert low(query) == max(row["time_ms"] for row in rows) + 1
    assert query.result().num_rows == 0


@pytest.mark.parametrize(("closed", "bound"), [(True, 8), (False, 7)])
def test_a_punctuation_ends_its_own_value_if_closed(closed: bool, bound: int) -> None:
    schema = pa.schema([("ts", pa.int64()), ("end", pa.bool_())])
    disorder = lw.punctuated("end", "ts", closed=closed)
    stream = lw.stream(schema.empty_table(), name="rows", progress="ts", disorder=disorder)
    query = stream.window(range=1).agg(n=lw.count()).start()
    query.push([{"ts": 9, "end": False}, {"ts": 7, "end": True}])
    assert low(query) == bound


# -- silence --------------------------------------------------------------------------------------------------------


def at(second: int) -> dt.datetime:
    return EPOCH + dt.timedelta(seconds=second)


def idling(**options: Any) -> LocalQuery:
    schema = pa.schema([("ts", pa.timestamp("us", "UTC")), ("source", pa.string())])
    idle = lw.idle("10 seconds", "2 seconds")
    stream = lw.stream(schema.empty_table(), name="rows", progress="ts", disorder="5 seconds", idle=idle, **options)
    return stream.window(range="10 seconds").agg(n=lw.count()).start()


def test_a_silent_source_is_advanced_by_the_clock() -> None:
    """Active at 4 s and silent for 10 s at 14 s: then it stands at 12 s, and the window up to 10 s is out."""
    query = idling()
    query.push([{"ts": at(3), "source": None}], clock=4 * SECOND)
    assert [query.tick(second * SECOND).num_rows for second in (5, 13)] == [0, 0]
    assert query.tick(14 * SECOND).column("n").to_pylist() == [1]
    assert query.metrics().low_watermark == str(at(12))


def test_only_the_silent_source_is_advanced() -> None:
    query = idling(source="source", sources=("a", "b"))
    query.push([{"ts": at(3), "source": "a"}, {"ts": at(3), "source": "b"}], clock=4 * SECOND)
    query.tick(9 * SECOND)
    query.push([{"ts": at(8), "source": "b"}])
    query.tick(15 * SECOND)
    bounds = {source.source: source.low_watermark for source in query.metrics().sources}
    assert bounds == {"a": str(at(13)), "b": str(at(3))}
    assert query.metrics().held_back_by == "rows/b"


def test_a_source_is_active_at_the_clock_of_its_batch() -> None:
    """Rows at 9 s: at 15 s the source has been silent for 6 s of the 10 s."""
    query = idling()
    query.push([{"ts": at(3), "source": None}], clock=4 * SECOND)
    query.push([{"ts": at(8), "source": None}], clock=9 * SECOND)
    query.tick(15 * SECOND)
    assert query.metrics().low_watermark == str(at(3))


def test_a_clock_that_goes_back_changes_nothing() -> None:
    query = idling()
    query.push([{"ts": at(3), "source": None}], clock=4 * SECOND)
    query.tick(14 * SECOND)
    before = query.metrics()
    query.tick(5 * SECOND)
    assert query.metrics() == before


# -- several sources ------------------------------------------------------------------------------------------------


def test_the_slowest_source_holds_back_and_is_named() -> None:
    """Also where the numbers have different lengths: 9 is below 10."""
    query = started(lw.ordered(), source="source", sources=("a", "b"))
    pushed(query, [9], "a")
    pushed(query, [10], "b")
    assert (low(query), query.metrics().held_back_by) == (9, "rows/a")
    pushed(query, [100], "a")
    assert (low(query), query.metrics().held_back_by) == (10, "rows/b")


def test_a_declared_source_holds_back_before_it_is_seen() -> None:
    query = started(lw.ordered(), source="source", sources=("a", "b"))
    pushed(query, [50], "a")
    assert (low(query), query.metrics().held_back_by) == (None, "rows/b")


def test_a_changed_declaration_counts_from_the_next_start() -> None:
    """A source that was declared and never came is no longer waited for; a new one is, from the low-watermark on."""

    def facts(names: list[str], times: list[int]) -> Facts:
        return observe(Delay(), np.array(times), np.arange(len(names)), pa.array(names))

    first = Progress(Delay(), ("a", "b", "misspelt"))
    first.learn(facts(["a", "b"], [10, 20]))
    assert first.low_watermark == NEVER
    second = Progress(Delay(), ("a", "b"))
    second.restore(first.tables())
    assert (second.source.to_pylist(), second.low_watermark) == (["a", "b"], 10)
    third = Progress(Delay(), ("b", "c"))  # rows of a have come, so it stays
    third.restore(second.tables())
    assert (third.source.to_pylist(), third.bound.tolist()) == (["a", "b", "c"], [10, 20, 10])
    third.learn(facts(["a", "b"], [30, 30]))
    assert third.low_watermark == 10
    third.learn(facts(["c"], [15]))
    assert third.low_watermark == 15


def test_a_source_that_was_not_declared_counts_from_its_first_row() -> None:
    query = started(lw.ordered(), source="source")
    pushed(query, [50], "a")
    assert low(query) == 50
    pushed(query, [60], "b")
    pushed(query, [70], "a")
    assert (low(query), query.metrics().held_back_by) == (60, "rows/b")


def test_nobody_holds_back_after_the_end() -> None:
    query = started(lw.ordered())
    pushed(query, [1])
    query.finish()
    assert query.metrics().held_back_by is None


def test_of_two_inputs_the_slower_is_named() -> None:
    left, right = (
        lw.stream(SCHEMA.empty_table(), name=name, progress="ts", disorder=lw.ordered()) for name in ("left", "right")
    )
    query = left.union(right).window(range=1).agg(n=lw.count()).start()
    query.push([{"ts": 30, "source": None}], 0)
    query.push([{"ts": 20, "source": None}], 1)
    assert (low(query), query.metrics().held_back_by) == (20, "right")


# -- rows without progress ------------------------------------------------------------------------------------------


def test_rows_without_a_progress_value_are_handed_out_with_the_reason() -> None:
    query = started(lw.ordered())
    query.push([{"ts": None, "source": "x"}, {"ts": 1, "source": "y"}, {"ts": None, "source": None}])
    query.finish()
    late = query.late_output().to_pylist()
    assert [row["source"] for row in late] == ["x", None]
    assert {row["late_reason"] for row in late} == {"the progressing attribute is null"}
    assert (query.metrics().rows, query.metrics().null_rows, query.metrics().late_rows) == (3, 2, 0)
    assert query.result().column("n").to_pylist() == [1]
