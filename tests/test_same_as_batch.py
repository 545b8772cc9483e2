"""assert_same_as_batch passes queries that are right, and shows the row where one is not."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import lowwater as lw
from lowwater.backends.local import LocalQuery
from lowwater.errors import LowwaterError
from lowwater.generate import lateness
from lowwater.testing import Blocks, assert_same_as_batch, at, disordered, stream
from lowwater.testing.arrival import Arrival, arrivals
from lowwater.testing.query import Query
from lowwater.testing.same import Comparison, smallest

NOON = at("12:00:00")


def clicks(n: int = 60, seconds: int = 200, seed: int = 1) -> list[dict[str, Any]]:
    rng = np.random.default_rng(seed)
    return [
        {
            "ts": NOON + dt.timedelta(seconds=int(rng.integers(seconds))),
            "user": str(rng.choice(["ann", "bob", "eve"])),
            "cents": int(rng.integers(100)),
        }
        for _ in range(n)
    ]


def numbers(n: int = 40, most: int = 80, seed: int = 2) -> pa.Table:
    rng = np.random.default_rng(seed)
    return pa.table({"at": rng.integers(0, most, n), "k": rng.choice(["a", "b", "c"], n), "v": rng.integers(0, 9, n)})


def test_columns_of_the_user_with_the_names_of_revisions_are_no_revisions() -> None:
    rows = numbers().append_column("emitted", pa.array(["x"] * 40)).append_column("revision", pa.array([1] * 40))
    of = Query.of(lambda s: s.where("v > 0"), stream(rows, progress="at", disorder=9), {})
    tested = Comparison(of, arrivals(of, None), 0.0)
    assert not tested.revises
    assert tested.batch().num_rows == sum(v > 0 for v in rows["v"].to_pylist()) > 1


def test_revised_answers_without_their_groups_are_refused() -> None:
    def counts(rows: lw.Relation) -> lw.Relation:
        every = rows.window(10).group_by("k").emit(allowed_lateness=20).agg(n=lw.count())
        return every.select("window_start", "n", "emitted", "revision")

    with pytest.raises(LowwaterError, match="keep them in select"):
        assert_same_as_batch(counts, stream(numbers(), progress="at", disorder=9), cases=8)


# -- the two planted bugs, each found by a test of a few lines ---------------------------------------------------------


def test_a_window_that_ignores_late_rows_is_found() -> None:
    def purchases(clicks: lw.Relation) -> lw.Relation:  # the bug: rows come up to 20 seconds late, not 5
        windows = clicks.window("1 minute", "30 seconds").group_by("user")
        return windows.agg(late="drop", n=lw.count())

    with pytest.raises(AssertionError) as failed:
        assert_same_as_batch(purchases, stream(clicks(), progress="ts", disorder="5 seconds"), by="20 seconds")
    assert str(failed.value) == LATE


LATE = """\
The answer to the stream is not the batch answer over the same rows.

            window_start         window_end           user  n
  expected  2026-01-01 11:59:30  2026-01-01 12:00:30  bob   1
  got       no such row
  and 1 more row

The smallest run found that shows it: 2 of 60 rows, on 1 shard.

  1  rows
     clicks         ts                   user  cents
                    2026-01-01 12:00:38  bob      80
     results        none
     low-watermark  clicks  2026-01-01 12:00:33
     held           1

  2  rows
     clicks         ts                   user  cents
                    2026-01-01 12:00:26  bob      40
     results        none
     late           input   ts                   user  cents  late_reason
                    clicks  2026-01-01 12:00:26  bob      40  one of its windows is closed, so it is dropped from all
     low-watermark  clicks  2026-01-01 12:00:33
     held           1

  3  end
     results        window_start         window_end           user  n
                    2026-01-01 12:00:00  2026-01-01 12:01:00  bob   1
                    2026-01-01 12:00:30  2026-01-01 12:01:30  bob   1
     low-watermark  clicks  end
     held           0

To repeat it, give the same arguments and seed=4."""


def test_a_state_that_lowwater_itself_loses_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def forgets(query: LocalQuery, again: Any = None) -> None:  # a restart that begins with empty state
        query.__post_init__()

    def visits(clicks: lw.Relation) -> lw.Relation:
        return clicks.window("1 minute").group_by("user").agg(n=lw.count())

    declared = stream(clicks(), progress="ts", disorder="5 seconds")
    assert_same_as_batch(visits, declared)
    monkeypatch.setattr(LocalQuery, "restart", forgets)
    with pytest.raises(AssertionError, match=r"(?s)expected .* got .* restart\n .* held +0"):
        assert_same_as_batch(visits, declared)


def test_a_state_that_is_lost_on_restart_is_found() -> None:
    def visitors(clicks: lw.Relation) -> lw.Relation:
        seen: set[str] = set()  # the bug: this is not part of the query's state

        def mark(rows: pa.Table) -> pa.Table:
            new = [user not in seen and not seen.add(user) for user in rows["user"].to_pylist()]  # type: ignore[func-returns-value]
            return rows.append_column("new", pa.array(new, pa.bool_()))

        marked = clicks.apply(mark, clicks.schema.append(pa.field("new", pa.bool_())))
        return marked.where("new").window("1 hour").agg(visitors=lw.count())

    with pytest.raises(AssertionError) as failed:
        assert_same_as_batch(visitors, stream(clicks(), progress="ts", disorder="5 seconds"))
    assert str(failed.value) == LOST
    assert_same_as_batch(visitors, stream(clicks(), progress="ts", disorder="5 seconds"), restarts=False)


LOST = """\
The answer to the stream is not the batch answer over the same rows.

            window_start         window_end           visitors
  expected  2026-01-01 12:00:00  2026-01-01 13:00:00         1
  got       2026-01-01 12:00:00  2026-01-01 13:00:00         2

The smallest run found that shows it: 2 of 60 rows, on 1 shard.

  1  rows
     clicks         ts                   user  cents
                    2026-01-01 12:02:57  ann      66
     results        none
     low-watermark  clicks  2026-01-01 12:02:52
     held           1

  2  restart
     results        none
     low-watermark  clicks  2026-01-01 12:02:52
     held           1

  3  rows
     clicks         ts                   user  cents
                    2026-01-01 12:02:58  ann      48
     results        none
     low-watermark  clicks  2026-01-01 12:02:53
     held           1

  4  end
     results        window_start         window_end           visitors
                    2026-01-01 12:00:00  2026-01-01 13:00:00         2
     low-watermark  clicks  end
     held           0

To repeat it, give the same arguments and seed=0."""


# -- queries that are right --------------------------------------------------------------------------------------------


def union(left: lw.Relation, right: lw.Relation) -> lw.Relation:
    return left.union(right).window(10).group_by("k").agg(n=lw.count(), v=lw.sum("v"))


def joined(how: str) -> Callable[..., lw.Relation]:
    return lambda left, right: left.join(right, on="k", within=(0, 5), how=how)


def two_stages(rows: lw.Relation) -> lw.Relation:
    return rows.window(10).group_by("k").agg(n=lw.count()).window(20).agg(most=lw.max("n"))


def counts(rows: lw.Relation) -> lw.Relation:
    return rows.window(20, 10).group_by("k").agg(n=lw.count(), v=lw.sum("v"))


def over(rows: lw.Relation) -> lw.Relation:
    return rows.over("k", rows=(2, 1)).agg(total=lw.sum("v"))


APART = numbers().set_column(0, "at", pa.array(np.random.default_rng(3).permutation(80)[:40]))
"""No two rows have the same time."""


def declared(**options: Any) -> Any:
    return stream(numbers(), **{"progress": "at", "disorder": 7} | options)


def punctuated() -> pa.Table:
    """Rows in an order of arrival, every eighth a punctuation."""
    rows = disordered(numbers(), by=9, seed=3, progress="at").to_pylist()
    for place in range(7, len(rows), 8):
        rest = [row["at"] for row in rows[place:]]
        rows.insert(place, {"at": min(rest) - 1, "k": None, "v": None, "over": True})
    return pa.Table.from_pylist([{"over": False} | row for row in rows])


def ended(left: lw.Relation, right: lw.Relation) -> lw.Relation:
    return left.ends("k", when="over").join(right.ends("k", when="over"), on="k")


def with_ends() -> pa.Table:
    rows = disordered(numbers(), by=7, seed=3, progress="at").to_pylist()
    last = {row["k"]: place for place, row in enumerate(rows)}
    out = []
    for place, row in enumerate(rows):
        out.append(row | {"over": False})
        if last[row["k"]] == place:
            out.append({"at": row["at"], "k": row["k"], "v": None, "over": True})
    return pa.Table.from_pylist(out)


RIGHT: dict[str, tuple[Callable[..., lw.Relation], dict[str, Any]]] = {
    "sliding": (counts, {"rows": declared()}),
    "filtered": (
        lambda rows: rows.window(20, 10).agg(n=lw.count(where="v > 3"), v=lw.last("v", where="k = 'a'")),
        {"rows": declared()},
    ),
    "in order": (counts, {"rows": declared(disorder=lw.ordered())}),
    "by rows": (counts, {"rows": declared(disorder=lw.delay_rows(5))}),
    "punctuated": (counts, {"rows": stream(punctuated(), progress="at", disorder=lw.punctuated("over", "at"))}),
    "sources": (counts, {"rows": declared(source="k")}),
    "sources that are waited for": (counts, {"rows": declared(source="k", sources=["a", "b", "c"])}),
    "some waited for": (counts, {"rows": declared(source="k", sources=["b"])}),
    "sources by rows": (counts, {"rows": declared(source="k", disorder=lw.delay_rows(3))}),
    "two stages": (two_stages, {"rows": declared()}),
    "sessions": (lambda rows: rows.session(4).group_by("k").agg(n=lw.count(), v=lw.sum("v")), {"rows": declared()}),
    "over": (over, {"rows": stream(APART, progress="at", disorder=7)}),
    "distinct": (lambda rows: rows.distinct("at", "k"), {"rows": declared()}),
    "drop_duplicates": (lambda rows: rows.drop_duplicates(on="k", within=6), {"rows": declared()}),
    "early": (
        lambda rows: rows.window(10).group_by("k").emit(early=True).agg(n=lw.count(), v=lw.sum("v")),
        {"rows": declared()},
    ),
    "union": (union, {"left": declared(), "right": stream(numbers(seed=5), progress="at", disorder=3)}),
    "inner": (joined("inner"), {"left": declared(), "right": declared(disorder=2)}),
    "anti": (joined("anti"), {"left": declared(), "right": declared()}),
    "full": (joined("full"), {"left": declared(), "right": stream(numbers(seed=5), progress="at", disorder=3)}),
    "oblivious": (
        lambda left, right: lw.oblivious_join([left, right], on=["at", "k"], expect=lw.expect(scrambling=10**4)),
        {"left": declared(), "right": stream(numbers(seed=5), progress="at", disorder=7)},
    ),
    "values end": (ended, {name: stream(with_ends(), progress="at", disorder=7) for name in ("left", "right")}),
}


@pytest.mark.parametrize("name", RIGHT)
def test_a_query_that_is_right_passes(name: str) -> None:
    query, inputs = RIGHT[name]
    assert_same_as_batch(query, cases=6, **inputs)


@pytest.mark.parametrize("name", RIGHT)
def test_within_the_declared_disorder_no_row_is_late(name: str) -> None:
    query, inputs = RIGHT[name]
    of = Query.of(query, None, inputs)
    tested = Comparison(of, arrivals(of, None), 0.0)
    for seed in range(100, 105):
        assert tested.script(tested.arrivals.draw(seed, (1, 2), True)).late.num_rows == 0


def test_arrivals_use_the_disorder_that_is_allowed_and_cuts_shards_and_restarts() -> None:
    of = Query.of(counts, declared(), {})
    drawn = [arrivals(of, None).draw(seed, (1, 2, 3), True) for seed in range(40)]
    times = of.tables["rows"]["at"].to_numpy()
    assert max(int(lateness(times[arrival.row]).max()) for arrival in drawn) == 7
    assert {arrival.shards for arrival in drawn} == {1, 2, 3}
    assert {bool(arrival.restarts) for arrival in drawn} == {True, False}
    assert {1, 2} < {len(set(arrival.batch.tolist())) for arrival in drawn}
    assert all(sorted(arrival.row.tolist()) == list(range(len(times))) for arrival in drawn)


def test_an_input_may_come_after_the_other() -> None:
    of = Query.of(union, None, {"left": declared(), "right": declared()})
    drawn = [arrivals(of, None).draw(seed, (1,), False) for seed in range(60)]
    apart = [int(np.flatnonzero(a.input == 1)[0] - np.flatnonzero(a.input == 0)[0]) for a in drawn]
    assert min(apart) < -10
    assert max(apart) > 10


def test_null_times_and_no_progress() -> None:
    rows = [{"at": None, "k": "a", "v": 1}, {"at": 3, "k": "a", "v": 1}, {"at": None, "k": "a", "v": 1}]
    assert_same_as_batch(counts, stream(rows, progress="at", disorder=5), cases=10)


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame, pa.Table.from_pylist, list])
def test_rows_of_any_kind(frame: Any) -> None:
    def per_user(clicks: lw.Relation) -> lw.Relation:
        return clicks.window("1 minute").group_by("user").agg(n=lw.count())

    rows = frame(clicks())
    assert_same_as_batch(per_user, stream(rows, progress="ts", disorder="5 seconds"), cases=5)
    with pytest.raises(AssertionError, match=r"repeat it, give the same arguments and seed=\d+"):
        assert_same_as_batch(per_user, stream(rows, progress="ts", disorder="5 seconds"), by=Blocks(40 * 10**6))


def test_a_query_that_declares_its_streams_takes_tables() -> None:
    def declares(data: Any) -> lw.Relation:
        return counts(lw.stream(data, name="numbers", progress="at", disorder=4))

    assert_same_as_batch(declares, numbers(), cases=8)
    with pytest.raises(AssertionError):
        assert_same_as_batch(declares, numbers(), by=40)


def test_doubles_may_differ_by_rounding_only() -> None:
    rng = np.random.default_rng(1)
    rows = numbers().append_column("x", pa.array(rng.normal(size=40) * 10.0 ** rng.integers(-5, 9, 40)))

    def averages(rows: lw.Relation) -> lw.Relation:
        return rows.window(40).agg(x=lw.avg("x"), all=lw.variance("x"))

    assert_same_as_batch(averages, stream(rows, progress="at", disorder=20), cases=10)
    with pytest.raises(AssertionError):
        assert_same_as_batch(averages, stream(rows, progress="at", disorder=20), cases=50, tolerance=0.0)


# -- failures ----------------------------------------------------------------------------------------------------------


def test_an_answer_that_depends_on_the_arrival_of_rows_of_one_time_is_found() -> None:
    with pytest.raises(AssertionError, match=r"expected .*\n.*got "):
        assert_same_as_batch(over, declared())


def test_the_seed_of_a_failure_repeats_it_at_once() -> None:
    late = stream(numbers(), progress="at", disorder=1)
    with pytest.raises(AssertionError) as first:
        assert_same_as_batch(counts, late, by=12)
    seed = int(str(first.value).rpartition("seed=")[2].rstrip("."))
    with pytest.raises(AssertionError) as again:
        assert_same_as_batch(counts, late, by=12, seed=seed, cases=1)
    assert str(again.value) == str(first.value)


def test_no_runs_would_show_nothing() -> None:
    with pytest.raises(LowwaterError, match=r"cases=0\) would run nothing"):
        assert_same_as_batch(counts, declared(), cases=0)


def test_an_error_of_the_query_names_the_seed() -> None:
    def fails(rows: lw.Relation) -> lw.Relation:
        def broken(table: pa.Table) -> pa.Table:
            if table.num_rows in range(1, 40):
                raise RuntimeError("few rows")
            return table

        return rows.apply(broken, rows.schema).window(10).agg(n=lw.count())

    with pytest.raises(RuntimeError, match="few rows") as failed:
        assert_same_as_batch(fails, declared())
    assert failed.value.__notes__[0].startswith("This happened in the run with seed=")


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (lambda: assert_same_as_batch(counts, declared(disorder=lw.learned())), r"learns its disorder.*give by="),
        (lambda: assert_same_as_batch(counts, stream(numbers(0), progress="at", disorder=1)), "There are no rows"),
        (lambda: assert_same_as_batch(counts, declared(), by="1 second"), "by '1 second' is a length of time"),
        (lambda: disordered(numbers(), by=3), "cannot tell which column holds the times"),
        (lambda: disordered(numbers(), by=3, progress="ts"), "has no column 'ts'"),
    ],
)
def test_what_cannot_be_meant_is_refused(wrong: Any, says: str) -> None:
    with pytest.raises(LowwaterError, match=says):
        wrong()


def test_two_declarations_of_one_table_are_refused() -> None:
    def twice(data: Any) -> lw.Relation:
        sides = [lw.stream(data, name=name, progress="at", disorder=by) for name, by in (("x", 1), ("y", 2))]
        return union(sides[0], sides[1])

    with pytest.raises(LowwaterError, match="Two streams over 'data' are declared in different ways"):
        assert_same_as_batch(twice, numbers())


def test_a_failure_is_made_smaller_in_every_way() -> None:
    rows = np.arange(40)
    arrival = Arrival(np.zeros(40, np.intp), rows, rows // 4, (2, 5, 9), 3)
    small = smallest(arrival, lambda a: {7, 30} <= set(a.row.tolist()) and 5 in a.restarts)
    assert small.row.tolist() == [7, 30]
    assert (small.restarts, small.shards, len(set(small.batch.tolist()))) == ((5,), 1, 1)
    small = smallest(arrival, lambda a: 7 in a.row)
    assert (small.row.tolist(), small.restarts, small.shards) == ([7], (), 1)
    assert smallest(arrival, lambda a: False) is arrival
