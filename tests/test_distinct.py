"""DupElim: `distinct` and `drop_duplicates` against their definitions, over streams within their declared disorder."""

from __future__ import annotations

import math
import random
from collections import Counter
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lowwater as lw
from tests.soak import examples

Row = dict[str, Any]
SCHEMA = pa.schema([("ts", pa.int64()), ("id", pa.string()), ("x", pa.float64()), ("v", pa.int64())])
DISORDER = 6


# -- the definitions ------------------------------------------------------------------------------------------------


def value(one: Any) -> Any:
    """A value as grouping sees it: NaN equals NaN, and -0.0 equals 0.0."""
    if isinstance(one, float):
        return "NaN" if math.isnan(one) else one + 0.0
    return one


def place(one: Any) -> tuple[int, Any]:
    """A value in the order of values: null first, NaN behind every number."""
    if one is None:
        return 0, 0
    if isinstance(one, float) and math.isnan(one):
        return 2, 0
    return 1, one


def whole(row: Row, columns: list[str]) -> tuple[Any, ...]:
    return tuple(value(row[name]) for name in columns)


def distinct(rows: list[Row], columns: list[str]) -> Counter[Any]:
    return Counter(dict.fromkeys((whole(row, columns) for row in rows), 1))


def survivors(rows: list[Row], on: list[str], within: int) -> Counter[Any]:
    """Scans the rows of a key by (time, values): a row survives if no survivor is at most `within` before it."""
    last: dict[Any, int] = {}
    kept = []
    for row in sorted(rows, key=lambda row: (row["ts"], [place(row[name]) for name in SCHEMA.names])):
        key = whole(row, on)
        if key not in last or row["ts"] - last[key] > within:
            last[key] = row["ts"]
            kept.append(whole(row, SCHEMA.names))
    return Counter(kept)


def test_the_definition_reads_a_chain_of_survivors() -> None:
    rows = [{"ts": ts, "id": "a", "x": None, "v": v} for ts, v in ((0, 1), (3, 1), (4, 1), (4, 0), (9, 1))]
    assert [row[0] for row in survivors(rows, ["id"], 3)] == [0, 4, 9]
    assert ("a", None, 0) in [row[1:] for row in survivors(rows, ["id"], 3)]


# -- streams --------------------------------------------------------------------------------------------------------


def stream(rows: list[Row] | None = None, name: str = "rows", schema: pa.Schema = SCHEMA, **more: Any) -> lw.Relation:
    table = pa.Table.from_pylist(rows or [], schema=schema)
    return lw.stream(table, name=name, progress="ts", **({"disorder": DISORDER} | more))


ids = st.sampled_from(["a", "b", None])
floats = st.sampled_from([0.0, -0.0, float("nan"), 1.5, None])
steps = st.tuples(st.integers(0, 4), st.integers(0, DISORDER), ids, floats, st.none() | st.integers(0, 2))


@st.composite
def disordered(draw: st.DrawFn) -> list[Row]:
    """Rows of which none is more than DISORDER behind the largest time before it."""
    newest, rows = 0, []
    for ahead, behind, id, x, v in draw(st.lists(steps, max_size=40)):
        newest += ahead
        rows.append({"ts": newest - behind, "id": id, "x": x, "v": v})
    return rows


def run(query: Any, rows: list[Row], data: st.DataObject, shards: int, port: int = 0) -> Any:
    """Pushes rows in cuts that Hypothesis draws, with restarts between some."""
    started = query.start(shards=shards)
    while rows:
        at = data.draw(st.integers(1, len(rows)))
        started.push(rows[:at], port)
        rows = rows[at:]
        if data.draw(st.booleans()):
            started.restart()
    started.finish()
    return started


def counted(table: pa.Table) -> Counter[Any]:
    return Counter(whole(row, table.column_names) for row in table.to_pylist())


def in_peace(started: Any) -> bool:
    """Whether no row was late and nothing is kept."""
    numbers = started.metrics()
    return bool(numbers.late_rows == numbers.dropped_rows == numbers.state_rows == 0)


@pytest.mark.parametrize("columns", [[], ["ts"], ["v", "ts"], ["id", "x", "ts"]], ids=str)
@examples(12)
@given(data=st.data(), rows=disordered(), shards=st.integers(1, 3))
def test_distinct_is_its_definition(columns: list[str], data: st.DataObject, rows: list[Row], shards: int) -> None:
    started = run(stream().distinct(*columns), rows, data, shards)
    assert started.result().column_names == (columns or SCHEMA.names)
    assert counted(started.result()) == distinct(rows, columns or SCHEMA.names)
    assert in_peace(started)


@pytest.mark.parametrize("on", [["id"], ["x"], ["id", "x"], ["v", "ts"]], ids=str)
@examples(15)
@given(data=st.data(), rows=disordered(), shards=st.integers(1, 3), within=st.integers(0, 9))
def test_drop_duplicates_is_its_definition(
    on: list[str], data: st.DataObject, rows: list[Row], shards: int, within: int
) -> None:
    started = run(stream().drop_duplicates(on, within), rows, data, shards)
    assert counted(started.result()) == survivors(rows, on, within)
    assert in_peace(started)


@examples(10)
@given(data=st.data(), rows=disordered(), within=st.integers(0, 9))
def test_a_row_of_nested_values_survives_by_its_values(data: st.DataObject, rows: list[Row], within: int) -> None:
    """Rows with lists and structs have an order too, whatever order they come in."""
    schema = SCHEMA.append(pa.field("l", pa.list_(pa.int64()))).append(pa.field("s", pa.struct([("a", pa.string())])))
    nested = [row | {"x": None, "v": None, "l": [row["v"]] * (row["v"] or 0), "s": {"a": row["id"]}} for row in rows]
    shuffled = sorted(nested, key=lambda row: row["ts"])
    tables = []
    for ordered in (nested, shuffled, shuffled[::-1]):
        late = max((row["ts"] for row in rows), default=0) - min((row["ts"] for row in rows), default=0)
        query = stream(ordered, schema=schema, disorder=late).drop_duplicates("x", within)
        tables.append(query.collect(batch_rows=7).to_pylist())
    assert tables[0] == tables[1] == tables[2]


# -- when rows leave, and what is kept ------------------------------------------------------------------------------


def row(ts: int, id: str | None = "a", v: int | None = 0, x: float | None = None) -> Row:
    return {"ts": ts, "id": id, "x": x, "v": v}


def told(table: pa.Table) -> list[Any]:
    return [(one["ts"], one["id"], one["v"]) for one in table.to_pylist()]


def test_distinct_emits_a_row_when_it_comes_and_forgets_it_when_its_time_has_passed() -> None:
    query = stream().distinct().start()
    assert told(query.push([row(1), row(1), row(5, "b")])) == [(1, "a", 0), (5, "b", 0)]
    assert told(query.push([row(1), row(6)])) == [(6, "a", 0)]
    assert query.metrics().state_rows == 3
    assert told(query.push([row(12)])) == [(12, "a", 0)]
    assert query.metrics().state_rows == 2  # of the times 6 and 12: the low-watermark is 6


def test_drop_duplicates_emits_a_row_when_no_earlier_one_of_its_key_can_come() -> None:
    query = stream().drop_duplicates("id", 5).start()
    assert told(query.push([row(5), row(3)])) == []
    assert told(query.push([row(9)])) == []  # a row at 3 may still come, and be smaller
    assert told(query.push([row(3, v=-1), row(10)])) == [(3, "a", -1)]
    assert told(query.finish()) == [(9, "a", 0)]


def test_of_equal_key_and_time_the_smallest_row_survives_and_null_is_smallest() -> None:
    rows = [row(1, v=2), row(1, v=1), row(1, v=None), row(2, "b", 5), row(2, "b", 4)]
    for order in (rows, rows[::-1]):
        assert told(stream(order).drop_duplicates("id", 3).collect(batch_rows=1)) == [(1, "a", None), (2, "b", 4)]


FLOATS = {
    "a column": (pa.float64(), lambda x: x),
    "a single": (pa.float32(), lambda x: x),
    "a list": (pa.list_(pa.float64()), lambda x: [x]),
    "a struct": (pa.struct([("a", pa.float64())]), lambda x: {"a": x}),
}


@pytest.mark.parametrize(("type", "made"), FLOATS.values(), ids=FLOATS)
def test_of_rows_that_differ_in_the_sign_of_zero_the_same_survives_in_any_order(type: pa.DataType, made: Any) -> None:
    """-0.0 equals 0.0, so the next column decides first."""
    schema = SCHEMA.set(2, pa.field("x", type))
    rows = [row(1, v=1) | {"x": made(0.0)}, row(1, v=1) | {"x": made(-0.0)}]
    for other, survivor in ([], "-0.0"), ([row(1, v=0) | {"x": made(0.0)}], "0.0"):
        given = [*rows, *other]
        for order in (given, given[::-1]):
            found = stream(order, schema=schema).drop_duplicates("id", 3).collect(batch_rows=1)
            assert [str(one["x"]) for one in found.to_pylist()] == [str(made(float(survivor)))]


def test_a_key_returns_when_more_than_within_has_passed() -> None:
    rows = [row(ts) for ts in (0, 4, 5, 6, 7, 10, 11, 30)]
    query = stream().drop_duplicates("id", 5).start()
    out = [one[0] for one in told(pa.concat_tables([query.push([one]) for one in rows] + [query.finish()]))]
    assert out == [0, 6, 30]


def test_a_survivor_is_kept_as_long_as_it_can_drop_a_row() -> None:
    """With the low-watermark at its time + within, a row of just that time may still come."""
    query = stream().drop_duplicates("id", 5).start()
    query.push([row(0), row(11, "b")])  # low-watermark 5
    assert query.metrics().state_rows == 2
    assert told(query.push([row(5), row(12, "b")])) == []
    assert query.metrics().state_rows == 2  # the rows at 11 and 12; "a" is quiet since 0, and leaves


def test_quiet_keys_leave_the_state() -> None:
    query = stream(disorder=0).drop_duplicates("id", 10).start(shards=2)
    kept = []
    for at in range(0, 400, 4):
        query.push([row(at + i, str(at + i)) for i in range(4)])
        kept.append(query.metrics().state_rows)
    assert max(kept) <= 10 + 4 + 1
    assert len(query.result()) == 400 - 1


def test_late_rows_are_reported_whole_and_dropped() -> None:
    for relation, why in (
        (stream().distinct("id", "ts"), "equal rows are forgotten already"),
        (stream().drop_duplicates("id", 5), "rows of its time are final already"),
    ):
        query = relation.start(shards=2)
        query.push([row(20)])
        query.push([row(13, "b", 7), row(14, "c")])
        assert [(one["ts"], one["id"], one["v"], one["late_reason"]) for one in query.late_output().to_pylist()] == [
            (13, "b", 7, why)
        ]
        query.finish()
        assert (query.metrics().late_rows, query.metrics().dropped_rows) == (1, 1)
        assert sorted(query.result()["id"].to_pylist()) == ["a", "c"]


def test_a_long_chain_of_survivors_is_found_in_one_batch() -> None:
    """A thousand keys and one with survivors at every third of 30,000 times, in one final batch."""
    rng = random.Random(5)
    times = list(range(30_000))
    many = [(rng.randrange(30_000), str(rng.randrange(1_000))) for _ in range(20_000)]
    rows = [row(ts, "long") for ts in times] + [row(ts, id) for ts, id in many]
    rng.shuffle(rows)
    found = stream(rows, disorder=30_000).drop_duplicates("id", 2).collect()
    assert counted(found) == survivors(rows, ["id"], 2)
    assert sum(id == "long" for id in found["id"].to_pylist()) == 10_000


# -- in a tree ------------------------------------------------------------------------------------------------------


@examples(10)
@given(data=st.data(), left=disordered(), right=disordered(), shards=st.integers(1, 3))
def test_distinct_over_a_union(data: st.DataObject, left: list[Row], right: list[Row], shards: int) -> None:
    started = stream(name="one").union(stream(name="two")).distinct("id", "ts").start(shards=shards)
    parts = [(0, left), (1, right)]
    while any(rows for _, rows in parts):
        port = data.draw(st.sampled_from([port for port, rows in parts if rows]))
        at = data.draw(st.integers(1, len(parts[port][1])))
        started.push(parts[port][1][:at], port)
        parts[port] = (port, parts[port][1][at:])
    started.finish()
    assert counted(started.result()) == distinct(left + right, ["id", "ts"])
    assert in_peace(started)


@examples(10)
@given(data=st.data(), rows=disordered(), shards=st.integers(1, 3), within=st.integers(0, 9))
def test_a_window_over_survivors_counts_them(data: st.DataObject, rows: list[Row], shards: int, within: int) -> None:
    query = stream().drop_duplicates("id", within).window(5).agg(n=lw.count())
    started = run(query, rows, data, shards)
    expected = Counter(one[0] // 5 * 5 for one in survivors(rows, ["id"], within).elements())
    got = {one["window_start"]: one["n"] for one in started.result().to_pylist()}
    assert got == dict(expected)
    assert in_peace(started)


@examples(10)
@given(data=st.data(), rows=disordered(), shards=st.integers(1, 3))
def test_distinct_behind_an_aggregation(data: st.DataObject, rows: list[Row], shards: int) -> None:
    counts = stream().window(5).group_by("id").agg(n=lw.count())
    started = run(counts.distinct("window_end", "n"), rows, data, shards)
    per_window = Counter((one["ts"] // 5 * 5 + 5, one["id"]) for one in rows)
    assert counted(started.result()) == Counter(dict.fromkeys(((end, n) for (end, _), n in per_window.items()), 1))
    assert in_peace(started)


@examples(10)
@given(data=st.data(), rows=disordered(), shards=st.integers(1, 3))
def test_the_first_window_in_which_a_key_is_busy(data: st.DataObject, rows: list[Row], shards: int) -> None:
    busy = stream().window(5).group_by("id").agg(n=lw.count()).where("n > 1")
    started = run(busy.drop_duplicates("id", 10), rows, data, shards)
    windows = Counter((one["ts"] // 5, one["id"]) for one in rows)
    last: dict[Any, int] = {}
    expected = []
    for (wid, id), n in sorted(windows.items(), key=lambda one: one[0][0]):
        if n > 1 and (id not in last or 5 * wid - last[id] > 10):
            last[id] = 5 * wid
            expected.append((5 * wid, id, n))
    assert Counter((one["window_start"], one["id"], one["n"]) for one in started.result().to_pylist()) == Counter(
        expected
    )


def test_what_follows_does_not_change_who_survives() -> None:
    """A column that only the order of equal times needs is read, even if nothing behind reads it."""
    rows = [row(1, v=9, x=1.0), row(1, v=3, x=2.0)]
    query = stream(rows).drop_duplicates("id", 5).group_by("ts", "v").agg(n=lw.count())
    assert query.collect().to_pylist() == [{"ts": 1, "v": 9, "n": 1}]
    assert query.node.backend.start(query.node, late=False).plan.entries[0].schema.names == SCHEMA.names


@pytest.mark.parametrize(
    "window",
    [
        lambda of: of.window(5),
        lambda of: of.window(6, 2),
        lambda of: of.window("all", 5, period=10),
        lambda of: of.window(5, origin="first"),
        lambda of: of.session(3),
    ],
    ids=["tumbling", "sliding", "landmark", "from the first row", "session"],
)
@examples(8)
@given(data=st.data(), rows=disordered(), shards=st.integers(1, 3))
def test_distinct_over_windows_is_a_count_without_the_count(
    window: Any, data: st.DataObject, rows: list[Row], shards: int
) -> None:
    once = run(window(stream()).distinct("id", "v"), rows, data, shards)
    counts = window(stream(rows)).group_by("id", "v").agg(n=lw.count()).collect()
    assert counted(once.result()) == counted(counts.drop_columns(["n"]))
    assert in_peace(once)


# -- the plan -------------------------------------------------------------------------------------------------------

TIMED = pa.schema([("ts", pa.timestamp("us", "UTC")), ("id", pa.string()), ("v", pa.int64())])


def timed(name: str = "rows") -> lw.Relation:
    return stream(name=name, schema=TIMED, disorder="5 seconds")


def test_explain_of_distinct() -> None:
    assert timed().distinct().explain() == (
        "Distinct  ts, id, v\n"
        "   because  equal rows have the same ts, so a row is forgotten when progress has passed it\n"
        "   state    one entry for each row between the low-watermark and the newest row\n"
        "└─ Input rows\n"
        "      progress ts, delay of at most 5 seconds"
    )


def test_explain_of_drop_duplicates() -> None:
    assert timed().drop_duplicates("id", within="10 minutes").explain() == (
        "Drop-duplicates  on id, within 10 minutes\n"
        "   because  a row is final when progress has passed its ts, since no earlier row of its key can come\n"
        "   state    one entry for each key of the last 10 minutes, and the rows that are not final yet\n"
        "└─ Input rows\n"
        "      progress ts, delay of at most 5 seconds"
    )


def test_explain_of_distinct_over_windows() -> None:
    lines = timed().window("1 minute", "20 seconds").distinct("id").explain().splitlines()
    assert lines[0] == "Paned-WID aggregate  each id once"
    assert lines[3].endswith("into its pane (3 panes per window), and windows are rolled up (presence only)")


def test_distinct_stays_in_the_stage_of_its_input_where_that_routes_by_one_of_its_columns() -> None:
    counts = timed().window("1 minute").group_by("id").agg(n=lw.count())
    assert counts.distinct("id", "window_end").plan.stages == 1
    assert counts.drop_duplicates("id", within="1 hour").plan.stages == 1
    assert counts.drop_duplicates(["n"], within="1 hour").plan.stages == 2


def test_only_the_time_of_distinct_progresses_behind_it() -> None:
    joined = stream(name="l").join(stream(name="r"), "id", 5)
    behind = joined.distinct("l_ts", "r_ts", "id")
    assert [p.attribute for p in behind.node.properties.progress] == ["l_ts"]
    with pytest.raises(lw.LowwaterError, match="progress on l_ts, not on 'r_ts'"):
        behind.window(5, over="r_ts")
