"""A script of a query: each step, what comes out of it, and the text that it is shown as."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import lowwater as lw
from lowwater.errors import LowwaterError
from lowwater.testing import Script, Step, at, stream

CLICKS = pa.schema({"ts": pa.timestamp("us", "UTC"), "user": pa.string()})
NUMBERS = pa.schema({"at": pa.int64(), "k": pa.string()})


def per_user(clicks: lw.Relation) -> lw.Relation:
    return clicks.window("1 minute").group_by("user").agg(n=lw.count())


def unpaid(orders: lw.Relation, payments: lw.Relation) -> lw.Relation:
    return orders.join(payments, on="k", within=(0, 10), how="anti")


def clicks(**options: Any) -> Script:
    return Script(per_user, stream(CLICKS, progress="ts", disorder="5 seconds"), **options)


def orders() -> Script:
    sides = {name: stream(NUMBERS, progress="at", disorder=0) for name in ("orders", "payments")}
    return Script(unpaid, **sides)


STORY = """\
1  rows
   clicks         ts                   user
                  2026-01-01 12:00:41  ann
                  2026-01-01 12:00:58  bob
   results        none
   low-watermark  clicks  2026-01-01 12:00:53
   held           2

2  rows
   clicks         ts                   user
                  2026-01-01 12:01:08  ann
                  2026-01-01 12:00:55  bob
   results        window_start         window_end           user  n
                  2026-01-01 12:00:00  2026-01-01 12:01:00  ann   1
                  2026-01-01 12:00:00  2026-01-01 12:01:00  bob   2
   low-watermark  clicks  2026-01-01 12:01:03
   held           1

3  restart
   results        none
   low-watermark  clicks  2026-01-01 12:01:03
   held           1

4  rows
   clicks         ts                   user
                  2026-01-01 12:00:59  null
   results        none
   late           input   ts                   user  late_reason
                  clicks  2026-01-01 12:00:59  null  all its windows are closed
   low-watermark  clicks  2026-01-01 12:01:03
   held           1

5  progress to 2026-01-01 12:02:00
   results        window_start         window_end           user  n
                  2026-01-01 12:01:00  2026-01-01 12:02:00  ann   1
   low-watermark  clicks  2026-01-01 12:02:00
   held           0

6  end
   results        none
   low-watermark  clicks  end
   held           0"""


@pytest.mark.parametrize("shards", [1, 3])
def test_a_story(shards: int) -> None:
    script = clicks(shards=shards)
    script.rows([(at("12:00:41"), "ann"), (at("12:00:58"), "bob")])
    closed = script.rows(clicks=[{"ts": at("12:01:08"), "user": "ann"}, {"ts": at("12:00:55"), "user": "bob"}])
    assert closed.answers("user", "n") == [("ann", 1), ("bob", 2)]
    assert closed.answers("n") == [1, 2]
    assert closed.answers()[0][1:] == (at("12:00:00"), at("12:01:00"), "ann", 1)
    assert closed.low_watermarks == {"clicks": at("12:01:03")}
    assert closed.held == 1
    script.restart()
    late = script.rows([(at("12:00:59"), None)])
    assert late.late["late_reason"].to_pylist() == ["all its windows are closed"]
    assert script.progress(to=at("12:02:00")).answers("user", "n") == [("ann", 1)]
    assert script.end().low_watermarks == {"clicks": "end"}
    assert str(script) == STORY
    assert [str(step) for step in script.steps] == STORY.split("\n\n")
    assert (script.results.num_rows, script.late.num_rows) == (3, 1)


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame, pa.table])
def test_rows_are_frames_of_any_kind(frame: Any) -> None:
    script = clicks()
    script.rows(frame({"user": ["ann"], "ts": [at("12:00:41")]}))
    assert script.end().answers("user", "n") == [("ann", 1)]


def test_several_inputs_by_name() -> None:
    script = orders()
    script.rows(orders=[(1, "a"), (2, "b")], payments=[(3, "a")])
    assert script.progress(to=30, of="payments").answers("k") == ["b"]
    assert script.steps[-1].low_watermarks == {"orders": 2, "payments": 30}
    assert script.steps[-1].action == "progress of payments to 30"


def test_a_source_is_silent_until_the_clock_passes_it() -> None:
    links = stream(
        CLICKS,
        progress="ts",
        disorder="5 seconds",
        source="user",
        sources=["ann", "bob"],
        idle=lw.idle("1 minute", "2 seconds"),
    )

    def visits(links: lw.Relation) -> lw.Relation:
        return links.window("1 minute").agg(n=lw.count())

    script = Script(visits, links)
    script.rows([(at("12:00:10"), "ann"), (at("12:00:20"), "bob")])
    assert script.rows([(at("12:01:10"), "ann")]).answers("n") == []  # bob holds back
    assert script.silence("5 seconds").low_watermarks == {"links/ann": at("12:01:05"), "links/bob": at("12:00:15")}
    assert script.silence("5 seconds").answers("n") == [2]  # a minute after 12:00:20
    assert script.steps[-1].low_watermarks["links/bob"] == at("12:01:18")
    assert script.progress(to=at("12:05:00"), source="ann").action == "progress of links/ann to 2026-01-01 12:05:00"


def test_a_restart_loses_what_a_function_keeps_in_python() -> None:
    """A planted bug: `first` is remembered by the function and not by the query."""

    def visitors(clicks: lw.Relation) -> lw.Relation:
        seen: set[str] = set()

        def mark(rows: pa.Table) -> pa.Table:
            users = rows["user"].to_pylist()
            first = [user not in seen and not seen.add(user) for user in users]  # type: ignore[func-returns-value]
            return rows.append_column("first", pa.array(first, pa.bool_()))

        marked = clicks.apply(mark, CLICKS.append(pa.field("first", pa.bool_())))
        return marked.where("first").window("1 minute").agg(visitors=lw.count())

    def counted(restart: bool) -> list[Any]:
        script = Script(visitors, stream(CLICKS, progress="ts", disorder="5 seconds"))
        script.rows([(at("12:00:10"), "ann")])
        if restart:
            script.restart()
        script.rows([(at("12:00:20"), "ann")])
        return script.end().answers("visitors")

    assert counted(restart=False) == [1]
    assert counted(restart=True) == [2]


def test_a_query_that_declares_its_streams_takes_tables() -> None:
    def traffic(data: Any) -> lw.Relation:
        return per_user(lw.stream(data, name="visits", progress="ts", disorder="5 seconds"))

    script = Script(traffic, CLICKS)
    step = script.rows([(at("12:00:41"), "ann")])
    assert list(step.low_watermarks) == ["visits"]
    assert list(step.rows) == ["data"]
    assert script.end().answers("user", "n") == [("ann", 1)]


def test_one_table_for_two_parameters_and_two_streams_over_one_parameter() -> None:
    rows = NUMBERS.empty_table()

    def both(data: Any) -> lw.Relation:
        sides = [lw.stream(data, name=name, progress="at", disorder=0) for name in ("x", "y")]
        return sides[0].union(sides[1]).window(10).agg(n=lw.count())

    declared = stream(rows, progress="at", disorder=0)
    script = Script(unpaid, orders=declared, payments=declared)
    script.rows(orders=[(1, "a")])
    assert script.end().answers("k") == ["a"]
    script = Script(both, rows)
    script.rows([(1, "a")])
    assert script.end().answers("n") == [2]


def test_a_long_table_is_cut_and_odd_values_can_be_seen() -> None:
    script = Script(lambda rows: rows.window(10).agg(n=lw.count()), stream(NUMBERS, progress="at", disorder=0))
    step = script.rows([(n, "") for n in range(30)])
    assert "... and 10 more" in str(step)
    assert "0  ''" in str(step)
    assert isinstance(step, Step)
    assert repr(step) == "<Step 1 rows: 2 results, 0 late rows, 1 held>"
    assert repr(script).endswith(": 1 steps; print() shows them>")


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (lambda: Script(per_user), "The query takes clicks, but nothing is given"),
        (lambda: Script(per_user, click=CLICKS), "The query takes clicks, but click is given"),
        (lambda: Script(per_user, CLICKS, clicks=CLICKS), "not both"),
        (lambda: Script(unpaid, CLICKS), "The query takes orders and payments, but orders is given"),
        (lambda: Script(lambda: None), "The query takes no streams"),
        (
            lambda: Script(lambda c: c.window("1 minute"), stream(CLICKS, progress="ts", disorder="1 second")),
            r"The query must return a relation, as agg\(\), join\(\) and select\(\) do, not Grouped",
        ),
        (
            lambda: Script(per_user, lw.stream(CLICKS, progress="ts", disorder="1 second")),
            r"clicks is a stream over fixed rows already; give testing.stream",
        ),
        (lambda: Script(per_user, 7), "The rows of 'clicks' are given as int"),
        (
            lambda: Script(lambda c: lw.stream(c.slice(0), progress="at", disorder=1), NUMBERS),
            "Input 'stream' of the query reads rows that are none of its arguments",
        ),
        (lambda: orders().rows([(1, "a")]), r"give their rows by name, as in rows\(orders=, payments=\)"),
        (lambda: orders().rows(order=[(1, "a")]), "'order' is no input of the query; its inputs are orders and"),
        (lambda: orders().progress(to=1, of="order"), "'order' is no input of the query"),
        (lambda: orders().progress(to=1, source="x"), "Name the input of the source 'x', as in of='orders'"),
        (lambda: clicks().rows([(at("12:00"),)]), "A row of 'clicks' has 1 values, but the stream has 2 columns"),
        (lambda: clicks().rows([{"ts": at("12:00")}]), "The rows of 'clicks' lack the column 'user'"),
        (lambda: clicks().progress(to="noon"), r"advance\(to=\) 'noon' is not a value of type timestamp"),
        (
            lambda: clicks().progress(to=at("12:00")).answers("m"),
            r"answers\(\) names column 'm', but the stream has only",
        ),
        (lambda: clicks().silence("soon"), r"silence\(\) 'soon' is not a length of time"),
    ],
)
def test_what_cannot_be_meant_is_refused(wrong: Any, says: str) -> None:
    with pytest.raises(LowwaterError, match=says):
        wrong()


@pytest.mark.parametrize("step", ["rows", "progress", "silence", "restart", "end"])
def test_no_step_follows_the_end(step: str) -> None:
    script = clicks()
    script.end()
    arguments: dict[str, tuple[Any, ...]] = {"rows": ([],), "progress": (at("12:00"),), "silence": ("1 second",)}
    with pytest.raises(LowwaterError, match="The script has ended"):
        getattr(script, step)(*arguments.get(step, ()))


def test_at_is_a_time_of_day() -> None:
    assert at("12:30") == dt.datetime(2026, 1, 1, 12, 30, tzinfo=dt.UTC)
    assert at("12:30", day=dt.date(2025, 5, 4)).date() == dt.date(2025, 5, 4)
