"""The local backend at its edges: rows by the name of their input, columns that do not fit, and time without rows."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import lowwater as lw
from lowwater.backends.local import LocalQuery
from lowwater.errors import LowwaterError

NOON = dt.datetime(2026, 1, 1, 12, tzinfo=dt.UTC)
ROWS = pa.schema({"at": pa.int64(), "k": pa.string()})
TIMED = pa.schema({"ts": pa.timestamp("us", "UTC"), "link": pa.string()})


def counted(**options: Any) -> LocalQuery:
    return lw.stream(ROWS, name="clicks", progress="at", disorder=5).window(10).agg(n=lw.count()).start(**options)


def union(shards: int = 1) -> LocalQuery:
    sides = [lw.stream(ROWS, name=name, progress="at", disorder=0) for name in ("left", "right")]
    return sides[0].union(sides[1]).window(10).agg(n=lw.count()).start(shards=shards)


def answers(table: pa.Table) -> list[tuple[int, int]]:
    return [(row["window_start"], row["n"]) for row in table.to_pylist()]


# -- columns -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        ([{"at": 1, "k": "a", "kk": "b"}], r"The rows of 'clicks' have a column 'kk', .* has only: at, k\."),
        ([{"at": 1, "k": "a"}, {"at": 2}], r"The rows of 'clicks' lack the column 'k'; .* write None"),
        ([], None),
        (pa.table({"at": [1]}), "The rows of 'clicks' lack the column 'k'"),
        (pa.table({"at": [1], "k": ["a"], "more": [1]}), "have a column 'more'"),
        ([{"at": "soon", "k": "a"}], r"Column 'at' of the rows of 'clicks' is not int64"),
        (pa.table({"at": ["soon"], "k": ["a"]}), r"Column 'at' of the rows of 'clicks' is not int64"),
        ("rows", "The rows of 'clicks' are given as str; give an Arrow table"),
        (pa.table([[1], ["a"], ["b"]], names=["at", "k", "k"]), "The rows of 'clicks' have two columns named 'k'"),
        (pd.DataFrame([[1, "a", "b"]], columns=["at", "k", "k"]), "The rows of 'clicks' have two columns named 'k'"),
        ([{"at": 1, "k": "a", "K": "b"}], "The rows of 'clicks' have the column 'k' twice, as 'k' and as 'K'"),
        (pd.DataFrame({"at": [1, 2], "k": ["a", 7]}), r"The rows of 'clicks' do not fit into an Arrow table .*cast"),
    ],
)
def test_rows_that_do_not_fit_are_refused(rows: Any, says: str | None) -> None:
    query = counted()
    if says is None:
        query.push(rows)
        return
    with pytest.raises(LowwaterError, match=says):
        query.push(rows)
    query.push([{"at": 1, "k": "a"}])
    assert answers(query.finish()) == [(0, 1)]


@pytest.mark.parametrize(
    "kind", ["table", "other order", "batch", "list", "other case", "mixed case", "pandas", "index", "polars"]
)
def test_rows_come_as_tables_of_any_kind(kind: str) -> None:
    table = pa.table({"at": [1, 2], "k": ["a", "b"]})
    query = counted()
    query.push(
        {
            "table": table,
            "other order": table.select(["k", "at"]),
            "batch": table.to_batches()[0],
            "list": table.to_pylist(),
            "other case": table.rename_columns(["AT", "K"]),
            "mixed case": [{"At": 1, "k": "a"}, {"at": 2, "K": "b"}],
            "pandas": pd.DataFrame({"k": ["a", "b"], "at": [1, 2]}, index=[7, 8]),
            "index": pd.DataFrame({"k": ["a", "b"]}, index=pd.Index([1, 2], name="at")),
            "polars": pl.DataFrame({"at": [1, 2], "k": ["a", "b"]}),
        }[kind]
    )
    assert answers(query.finish()) == [(0, 2)]


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_a_stream_over_a_frame_has_the_types_of_spark(frame: Any) -> None:
    data = frame({"ts": [NOON, NOON + dt.timedelta(seconds=1)], "link": ["a", "b"]})
    stream = lw.stream(data, progress="ts", disorder="1 second")
    assert stream.schema == TIMED
    assert stream.window("1 minute").agg(n=lw.count()).collect()["n"].to_pylist() == [2]


def test_an_index_with_a_name_is_a_column_of_a_pandas_stream() -> None:
    series = pd.DataFrame({"ts": [NOON, NOON], "link": ["a", "b"]}).set_index("ts")
    stream = lw.stream(series, progress="ts", disorder="1 second")
    assert stream.schema == TIMED
    assert lw.stream(series.reset_index(), progress="ts", disorder="1 second").collect() == stream.collect()


@pytest.mark.parametrize(
    "links",
    [
        pd.DataFrame({"link": pd.Categorical(["a", "b", "a"])}),
        pl.DataFrame({"link": pl.Series(["a", "b", "a"], dtype=pl.Categorical)}),
        pl.DataFrame({"link": pl.Series(["a", "b", "a"], dtype=pl.Enum(["b", "a"]))}),
    ],
)
def test_categories_of_frames_are_their_values(links: Any) -> None:
    frame = (
        links.assign(at=[1, 2, 3]) if isinstance(links, pd.DataFrame) else links.with_columns(at=pl.Series([1, 2, 3]))
    )
    counts = lw.stream(frame, progress="at", disorder=0).window(10).group_by("link").agg(n=lw.count()).collect()
    assert counts.select(["link", "n"]).to_pylist() == [{"link": "a", "n": 2}, {"link": "b", "n": 1}]


def test_an_empty_list_has_no_columns() -> None:
    with pytest.raises(LowwaterError, match=r"are an empty list, which has no columns; give a schema"):
        lw.stream([], progress="at", disorder=0)


# -- inputs by name ----------------------------------------------------------------------------------------------------


def test_inputs_are_pushed_by_name_several_in_one_batch() -> None:
    by_number, by_name = union(), union()
    by_number.push([{"at": 1, "k": "a"}], port=1)
    by_number.push([{"at": 12, "k": "a"}], port=0)
    by_name.push([{"at": 1, "k": "a"}], port="right")
    by_name.push(left=[{"at": 12, "k": "a"}])
    assert by_number.metrics() == by_name.metrics()
    together = by_name.push(left=[{"at": 14, "k": "b"}], right=[{"at": 15, "k": "b"}])
    assert answers(together) == [(0, 1)]
    assert answers(by_name.finish()) == [(10, 3)]


def test_an_input_may_be_called_rows() -> None:
    other = lw.stream(ROWS, name="first", progress="at", disorder=0)
    query = other.union(lw.stream(ROWS, name="rows", progress="at", disorder=0)).window(10).agg(n=lw.count()).start()
    query.push(rows=[{"at": 1, "k": "a"}])
    assert [(s.input, s.rows) for s in query.metrics().sources] == [("first", 0), ("rows", 1)]


@pytest.mark.parametrize(
    ("push", "says"),
    [
        (lambda q: q.push(centre=[]), "'centre' is no input of the query; its inputs are left and right"),
        (lambda q: q.push([], port="centre"), "'centre' is no input of the query"),
        (lambda q: q.push([], port=2), "2 is no input of the query, which has 2, counted from 0"),
        (lambda q: q.push([], left=[]), "push.. takes the rows of one input, or inputs by name, not both"),
        (lambda q: q.push(), "push.. needs rows"),
    ],
)
def test_an_input_that_is_not_there_is_refused(push: Any, says: str) -> None:
    with pytest.raises(LowwaterError, match=says):
        push(union())


# -- time without rows -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shards", [1, 3])
def test_advance_moves_the_low_watermark_and_closes_windows(shards: int) -> None:
    query = counted(shards=shards)
    query.push([{"at": 3, "k": "a"}, {"at": 12, "k": "b"}])
    assert query.metrics().low_watermark == "7"
    assert answers(query.advance(to=9)) == []
    assert answers(query.advance(to=10)) == [(0, 1)]
    assert query.metrics().low_watermark == "10"
    assert answers(query.advance(to=2)) == []  # time does not go back
    assert query.metrics().low_watermark == "10"
    query.restart()
    assert query.metrics().low_watermark == "10"
    query.push([{"at": 9, "k": "late"}])
    assert query.metrics().late_rows == 1
    assert query.metrics().rows == 3
    assert answers(query.finish()) == [(10, 1)]


def test_advance_before_any_row() -> None:
    query = counted()
    query.advance(to=100)
    query.push([{"at": 3, "k": "a"}])
    assert query.metrics().late_rows == 1


@pytest.mark.parametrize("shards", [1, 2])
def test_advance_one_input_of_several(shards: int) -> None:
    query = union(shards)
    query.push(left=[{"at": 3, "k": "a"}, {"at": 40, "k": "b"}])
    assert answers(query.advance(to=10, port="right")) == [(0, 1)]
    assert [(s.input, s.low_watermark) for s in query.metrics().sources] == [("left", "40"), ("right", "10")]
    query.advance(to=60)
    assert [s.low_watermark for s in query.metrics().sources] == ["60", "60"]


def test_advance_one_source_by_a_datetime() -> None:
    stream = lw.stream(TIMED, name="links", progress="ts", disorder="5 seconds", source="link", sources=["a", "b"])
    query = stream.window("1 minute").agg(n=lw.count()).start()
    query.push([{"ts": NOON, "link": "a"}, {"ts": NOON + dt.timedelta(seconds=90), "link": "a"}])
    assert query.metrics().held_back_by == "links/b"
    assert query.advance(to=NOON + dt.timedelta(minutes=1), source="b")["n"].to_pylist() == [1]
    assert query.metrics().held_back_by == "links/b"
    with pytest.raises(LowwaterError, match="'c' is no known source of 'links': a, b"):
        query.advance(to=NOON, source="c")
    with pytest.raises(LowwaterError, match=r"advance\(to=\) 'noon' is not a value of type timestamp"):
        query.advance(to="noon")
    with pytest.raises(LowwaterError, match="has no time zone, but ts has"):
        query.advance(to=NOON.replace(tzinfo=None))


def test_advance_without_a_known_source_is_refused() -> None:
    query = lw.stream(TIMED, name="links", progress="ts", disorder="5 seconds", source="link").window("1 minute")
    with pytest.raises(LowwaterError, match="No source of 'links' is known yet"):
        query.agg(n=lw.count()).start().advance(to=NOON)


def test_advance_through_stages_and_joins() -> None:
    orders, payments = (lw.stream(ROWS, name=name, progress="at", disorder=0) for name in ("orders", "payments"))
    unpaid = orders.join(payments, on="k", within=(0, 10), how="anti").window(10).agg(n=lw.count())
    query = unpaid.start(shards=2)
    query.push(orders=[{"at": 1, "k": "a"}, {"at": 2, "k": "b"}], payments=[{"at": 3, "k": "a"}])
    assert answers(query.advance(to=30)) == [(0, 1)]


def test_the_clock_is_a_number_or_a_datetime() -> None:
    def query() -> LocalQuery:
        idle = lw.idle("10 seconds", "2 seconds")
        stream = lw.stream(TIMED, name="links", progress="ts", disorder="5 seconds", idle=idle)
        return stream.window("1 minute").agg(n=lw.count()).start()

    micros = int(NOON.timestamp()) * 10**6
    numbers, datetimes = query(), query()
    row = [{"ts": NOON, "link": "a"}]
    numbers.push(row, clock=micros)
    numbers.tick(micros + 70 * 10**6)
    datetimes.push(row, clock=NOON)
    datetimes.tick(NOON + dt.timedelta(seconds=70))
    assert numbers.metrics() == datetimes.metrics()
    with pytest.raises(LowwaterError, match=r"The clock 2026-01-01 12:00:00 has no time zone"):
        datetimes.tick(NOON.replace(tzinfo=None))
    assert datetimes.result()["n"].to_pylist() == [1]


# -- a restart as of a new process -------------------------------------------------------------------------------------


def numbered() -> lw.Relation:
    """Numbers rows in Python: what a function remembers is lost when its query is built again."""
    seen = [0]

    def number(rows: pa.Table) -> pa.Table:
        seen[0] += rows.num_rows
        return rows.append_column("number", pa.array([seen[0]] * rows.num_rows, pa.int64()))

    stream = lw.stream(ROWS, name="clicks", progress="at", disorder=0)
    named = stream.apply(number, ROWS.append(pa.field("number", pa.int64())))
    return named.window(10).agg(most=lw.max("number"), n=lw.count())


def test_a_query_that_is_built_again_goes_on_from_its_state() -> None:
    query = numbered().start(shards=2)
    query.push([{"at": 1, "k": "a"}])
    query.push([{"at": 2, "k": "a"}])
    query.restart(numbered().node)
    query.push([{"at": 11, "k": "a"}])
    assert query.result().select(["n", "most"]).to_pylist() == [{"n": 2, "most": 2}]
    assert query.finish().select(["n", "most"]).to_pylist() == [{"n": 1, "most": 1}]


def test_another_query_does_not_go_on_from_the_state() -> None:
    query = numbered().start()
    other = lw.stream(ROWS, name="clicks", progress="at", disorder=0).window(20).agg(n=lw.count())
    with pytest.raises(LowwaterError, match="belongs to another query"):
        query.restart(other.node)
