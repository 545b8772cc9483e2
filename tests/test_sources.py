"""Sources as columns: names of every type, null, positions of new and known names, facts of a run however it is cut."""

from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lowwater as lw
from lowwater.errors import BadProgress
from lowwater.metrics import Metrics, OperatorMetrics, SourceProgress, Sources
from lowwater.model.policy import Delay, DelayRows, Learned, Policy
from lowwater.model.progress import Facts, Progress, declared_names, names_of, observe
from lowwater.plan.inputs import Input
from lowwater.runtime import arrivals
from lowwater.runtime.arrivals import Arrivals, facts_of, facts_table
from lowwater.state.segments import pack, unpack
from tests.soak import examples

MOMENT = dt.datetime(2026, 3, 1, 12, tzinfo=dt.UTC)

TYPES: dict[str, tuple[pa.DataType, list[Any], list[str]]] = {
    "string": (pa.string(), ["a", "", None], ["a", "", "<null>"]),
    "large string": (pa.large_string(), ["ä", None], ["ä", "<null>"]),
    "integer": (pa.int64(), [-(2**63), 7, None], ["-9223372036854775808", "7", "<null>"]),
    "small integer": (pa.int16(), [1, 2], ["1", "2"]),
    "double": (pa.float64(), [1.5, float("nan"), None], ["1.5", "nan", "<null>"]),
    "boolean": (pa.bool_(), [True, False, None], ["true", "false", "<null>"]),
    "date": (pa.date32(), [dt.date(2026, 3, 1), None], ["2026-03-01", "<null>"]),
    "timestamp": (pa.timestamp("us", "UTC"), [MOMENT], ["2026-03-01 12:00:00.000000Z"]),
    "decimal": (pa.decimal128(9, 2), [Decimal("1.50"), None], ["1.50", "<null>"]),
    "text in bytes": (pa.binary(), [b"a", None], ["a", "<null>"]),
    "bytes": (pa.binary(), [b"\xff", b"a"], ["b'\\xff'", "b'a'"]),
    "struct": (pa.struct({"x": pa.int64()}), [{"x": 1}], ["{'x': 1}"]),
}


def moment(micros: int) -> dt.datetime:
    return dt.datetime.fromtimestamp(0, dt.UTC) + dt.timedelta(microseconds=micros)


def rows_of(values: list[Any], type: pa.DataType) -> pa.Table:
    return pa.table({"ts": pa.array(range(len(values)), pa.int64()), "s": pa.array(values, type)})


@pytest.mark.parametrize("name", [name for name in TYPES if name != "struct"])
def test_sources_may_be_of_any_type(name: str) -> None:
    type, values, names = TYPES[name]
    table = rows_of(values * 2, type)
    stream = lw.stream(table, name="rows", progress="ts", disorder=lw.ordered(), source="s")
    query = stream.window(range=10).agg(n=lw.count()).start()
    query.push(table)
    n = len(values)
    expected = [SourceProgress("rows", s, str(n + i), str(n + i), 2, i == 0) for i, s in enumerate(names)]
    assert query.metrics().sources == expected


@pytest.mark.parametrize("type", [pa.timestamp("us", "UTC"), pa.timestamp("us"), pa.timestamp("ms", "UTC")])
def test_times_are_datetimes_too(type: pa.DataType) -> None:
    second, start = dt.timedelta(seconds=1), MOMENT if type.tz else MOMENT.replace(tzinfo=None)
    rows = pa.table({"ts": pa.array([start, start + 9 * second], type), "s": ["a", "b"]})
    stream = lw.stream(rows, name="rows", progress="ts", disorder="2 seconds", source="s", sources=["a", "b", "c"])
    query = stream.window("1 minute").agg(n=lw.count()).start()
    assert query.metrics().low_watermark_time is None
    query.push(rows)
    found = [(s.source, s.low_watermark_time, s.largest_seen_time) for s in query.metrics().sources]
    late = start - 2 * second
    assert found == [("a", late, start), ("b", start + 7 * second, start + 9 * second), ("c", None, None)]
    assert query.metrics().low_watermark_time is None
    query.push([{"ts": start + 3 * second + second / 4, "s": "c"}])
    assert (query.metrics().low_watermark_time, query.metrics().low_watermark) == (late, str(late))
    query.finish()
    assert query.metrics().low_watermark == "end"
    assert query.metrics().low_watermark_time is None
    assert {s.low_watermark_time for s in query.metrics().sources} == {None}


def test_progress_on_numbers_has_no_times() -> None:
    query = lw.stream(rows_of([1, 2], pa.int64()), progress="ts", disorder=0).window(10).agg(n=lw.count()).start()
    query.push(rows_of([1, 2], pa.int64()))
    (source,) = query.metrics().sources
    assert (source.low_watermark, source.low_watermark_time, source.largest_seen_time) == ("1", None, None)
    assert query.metrics().low_watermark_time is None


@pytest.mark.parametrize("name", TYPES)
def test_names_are_written_as_the_column_is(name: str) -> None:
    type, values, names = TYPES[name]
    assert names_of(pa.array(values, type)).to_pylist() == names
    if "bytes" not in name and not pa.types.is_string(type):
        assert list(declared_names(values, type)) == names


def test_a_declared_source_has_the_name_that_its_rows_have() -> None:
    table = rows_of([True, True], pa.bool_())
    stream = lw.stream(table, name="rows", progress="ts", disorder=lw.ordered(), source="s", sources=[True, False])  # type: ignore[list-item]
    query = stream.window(range=10).agg(n=lw.count()).start()
    query.push(table)
    assert [(s.source, s.rows, s.holds_back) for s in query.metrics().sources] == [
        ("true", 2, False),
        ("false", 0, True),
    ]
    assert query.metrics().low_watermark is None


def test_a_declared_source_of_another_type_is_refused() -> None:
    with pytest.raises(BadProgress, match=r"^sources= holds a value that is not of the source column's type, int64\.$"):
        lw.stream(rows_of([1], pa.int64()), name="r", progress="ts", disorder=0, source="s", sources=[True])  # type: ignore[list-item]


def test_null_and_the_text_that_names_it_are_one_source() -> None:
    table = rows_of(["<null>", None, "a", None], pa.string())
    stream = lw.stream(table, name="rows", progress="ts", disorder=lw.ordered(), source="s")
    query = stream.window(range=10).agg(n=lw.count()).start()
    query.push(table)
    assert [(s.source, s.rows, s.largest_seen) for s in query.metrics().sources] == [("<null>", 3, "3"), ("a", 1, "2")]


# -- positions ------------------------------------------------------------------------------------------------------

batches = st.lists(st.lists(st.sampled_from("abcdefghij"), unique=True, max_size=8), max_size=6)


@examples(40)
@given(declared=st.lists(st.sampled_from("abcxyz")), batches=batches)
def test_each_source_keeps_the_position_of_its_first_appearance(declared: list[str], batches: list[list[str]]) -> None:
    progress = Progress(Delay(0), tuple(declared))
    most: dict[str, int] = dict.fromkeys(declared, 0)
    for number, names in enumerate(batches, 1):
        n = len(names)
        time = np.arange(n) + 100 * number
        progress.learn(observe(Delay(0), time, np.arange(n), pa.array(names, pa.string())))
        most |= {name: int(at) for name, at in zip(names, time, strict=True)}
    assert progress.source.to_pylist() == list(most)
    assert {s: m for s, m in zip(progress.source.to_pylist(), progress.most.tolist(), strict=True) if m > 0} == {
        s: m for s, m in most.items() if m > 0
    }


# -- facts of a run -------------------------------------------------------------------------------------------------


def facts_after(cut: int, policy: Policy) -> Facts:
    """The facts of 200 rows of 7 sources, handed over in batches of `cut`."""
    r = np.random.default_rng(5)
    names = pa.array(["a", "b", None, "c", "d", "e", "f"]).take(pa.array(r.integers(0, 7, 200)))
    table = pa.table({"ts": np.arange(200) + r.integers(-9, 9, 200), "s": names})
    run = Arrivals(Input("rows", "ts", policy, "s"), table.schema)
    for at in range(0, 200, cut):
        run.take(table.slice(at, cut))
    return facts_of(facts_table(run.facts()), policy)


@pytest.mark.parametrize("policy", [Delay(3), DelayRows(4), Learned(0.9, warmup=10)], ids=str)
@pytest.mark.parametrize("every", [1, 50, 1000])
@pytest.mark.parametrize("cut", [7, 200])
def test_facts_do_not_depend_on_how_a_run_is_cut(
    policy: Policy, every: int, cut: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def folded(facts: Facts) -> dict[str, pa.Table]:
        progress = Progress(policy)
        progress.learn(facts)
        return progress.tables()

    expected = folded(facts_after(200, policy))
    monkeypatch.setattr(arrivals, "_OBSERVE_AFTER", every)
    found = folded(facts_after(cut, policy))
    assert found["progress"].equals(expected["progress"])


# -- metrics --------------------------------------------------------------------------------------------------------


def test_metrics_survive_packing() -> None:
    table = pa.table({"ts": pa.array([3, 9], pa.int64()).cast(pa.timestamp("us", "UTC")), "s": ["a", "b"]})
    stream = lw.stream(table, name="rows", progress="ts", disorder=lw.ordered(), source="s", sources=["c"])
    query = stream.window(range="1 second").agg(n=lw.count()).start()
    query.push(table)
    metrics = query.metrics()
    numbers = json.loads(json.dumps(metrics.numbers()))
    operators = [OperatorMetrics(**one) for one in numbers["operators"]]
    sources = Sources.of_tables(unpack(pack(metrics.by_source.tables())))
    again = Metrics.of_operators(
        operators, [0], sources, low_watermark=numbers["low_watermark"], closed_below=numbers["closed_below"]
    )
    assert again == metrics
    assert again.numbers() == numbers
    assert again.held_back_by == "rows/c"
    assert again.sources == [
        SourceProgress("rows", "c", None, None, 0, True),
        SourceProgress("rows", "a", *["1970-01-01 00:00:00.000003+00:00"] * 2, 1, False, *[moment(3)] * 2),
        SourceProgress("rows", "b", *["1970-01-01 00:00:00.000009+00:00"] * 2, 1, False, *[moment(9)] * 2),
    ]
    query.finish()
    assert {s.low_watermark for s in query.metrics().sources} == {"end"}
    assert query.metrics().held_back_by is None
