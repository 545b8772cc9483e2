"""Claims about group-wise progress (the law is tests/laws/test_groupwise_laws.py): where it holds, and where not."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import lowwater as lw
from lowwater.backends.local import LocalQuery
from lowwater.operators.base import Batch, taken
from lowwater.operators.bucket import WindowedAggregation
from lowwater.operators.group_lows import GroupLows
from lowwater.operators.meld import Meld
from lowwater.operators.paned_aggregate import PanePartials
from lowwater.operators.wid_aggregate import WindowPartials
from lowwater.operators.window_aggregate import Keeping, WindowAggregate
from lowwater.query.planner import plan
from lowwater.windows.context_free import Sliding

SCHEMA = pa.schema([("ts", pa.int64()), ("link", pa.string()), ("v", pa.int64()), ("over", pa.bool_())])
OWN, SLOWEST = "each link closes by its own progress", "the slowest counts"


def rows(*of: tuple[str | None, int]) -> pa.Table:
    return pa.Table.from_pylist([{"ts": ts, "link": link, "v": 1, "over": False} for link, ts in of], schema=SCHEMA)


def stream(name: str = "rows", **options: Any) -> lw.Relation:
    given = {"disorder": 0, "source": "link"} | options
    return lw.stream(SCHEMA.empty_table(), name=name, progress="ts", **given)


def counts(of: lw.Relation) -> lw.Relation:
    return of.window(10).group_by("link").agg(n=lw.count())


def answers(table: pa.Table) -> list[tuple[str | None, int, int]]:
    return sorted((row["link"] or "", row["window_end"], row["n"]) for row in table.to_pylist())


OTHERS: dict[str, lw.Relation] = {
    "another group": stream().window(10).group_by("v").agg(n=lw.count()),
    "no group": stream().window(10).agg(n=lw.count()),
    "revised": stream().window(10).group_by("link").emit(allowed_lateness=5).agg(n=lw.count()),
    "early": stream().window(10).group_by("link").emit(early=True).agg(n=lw.count()),
    "from the first row": stream().window(10, origin="first").group_by("link").agg(n=lw.count()),
    "landmark": stream().window("all", 10).group_by("link").agg(n=lw.count()),
    "rows as they come": stream().window("3 rows", partition_by="link", order="arrival").agg(n=lw.count()),
    "rows of all": stream().window("3 rows").group_by("link").agg(n=lw.count()),
    "skewed": counts(stream(groups="skewed")),
    "group-by": stream().group_by("ts", "link").agg(n=lw.count()),
    "another key": stream().drop_duplicates(on="v", within=3),
    "join": stream("a").join(stream("b"), on="link", within=3),
}


@pytest.mark.parametrize("name", OTHERS)
def test_elsewhere_the_slowest_source_counts_and_explain_states_it(name: str) -> None:
    text = OTHERS[name].explain()
    assert SLOWEST in text
    assert OWN not in text


def test_explain_states_where_each_source_closes_by_its_own_progress() -> None:
    query = counts(stream())
    assert OWN in query.explain()
    assert "fastest" not in query.explain()
    assert json.loads(query.explain("json"))["inputs"][0]["closes_by"] == "link"


def test_a_fast_source_does_not_wait_for_a_slow_one() -> None:
    query = counts(stream()).start(shards=2)
    assert answers(query.push(rows(("slow", 1), ("fast", 2), ("fast", 35)))) == [("fast", 10, 1)]
    assert answers(query.push(rows(("fast", 47)))) == [("fast", 40, 1)]
    assert answers(query.push(rows(("slow", 12)))) == [("slow", 10, 1)]
    assert query.metrics().held_back_by == "rows/slow"


def test_a_declared_source_that_has_sent_nothing_holds_no_other_back() -> None:
    query = counts(stream(sources=("a", "b"))).start()
    assert answers(query.push(rows(("a", 1), ("a", 15)))) == [("a", 10, 1)]
    assert query.metrics().low_watermark is None
    assert answers(query.push(rows(("b", 2), ("b", 11)))) == [("b", 10, 1)]


def test_a_source_that_appears_behind_the_promised_minimum_is_late_for_what_was_promised() -> None:
    """Whatever follows has been promised that no window before the minimum is answered any more."""
    query = counts(stream()).start()
    query.push(rows(("a", 5), ("a", 31), ("b", 25)))
    assert answers(query.push(rows(("new", 3), ("new", 23), ("new", 34)))) == [("new", 30, 1)]
    assert [(row["link"], row["ts"]) for row in query.late_output().to_pylist()] == [("new", 3)]


def test_what_follows_is_promised_the_minimum_and_gets_no_late_row() -> None:
    """The graph asserts that no result of an operator is late for the next one."""
    each = counts(stream())
    for total in (each.window(20).agg(n=lw.sum("n")), each.window(20).group_by("link").agg(n=lw.sum("n"))):
        assert OWN in total.explain()
        assert "plus those between the slowest and the fastest source" in total.explain()
        query = total.start(shards=3)
        query.push(rows(("a", 5), ("a", 131), ("b", 2)))
        query.push(rows(("b", 55), ("new", 1), ("a", 170)))
        query.push(rows(("b", 121), ("new", 60)))
        query.push(rows(("behind", 3)))
        query.finish()
        assert sum(query.result().column("n").to_pylist()) == 8
        assert query.metrics().late_rows == 1


def test_a_source_that_ends_is_answered_whole_and_forgotten() -> None:
    marks = lw.punctuated(when="over", upto="ts")
    ended = pa.Table.from_pylist([{"ts": 2**62, "link": "a", "v": 0, "over": True}], schema=SCHEMA)
    queries = {
        "window": counts(stream(disorder=marks)),
        "session": stream(disorder=marks).session(5).group_by("link").agg(n=lw.count()),
        "frames": stream(disorder=marks).over("link", rows=(1, 3)).agg(n=lw.count()),
        "numbered": stream(disorder=marks).window("3 rows", partition_by="link").agg(n=lw.count()),
        "first": stream(disorder=marks).drop_duplicates(on="link", within=2),
    }
    for name, query in queries.items():
        running = query.start()
        assert not running.push(rows(("a", 1), ("a", 30), ("b", 1))).num_rows, name
        assert running.push(ended).num_rows > 0, name
        kept = running.metrics().state_rows
        running.push(rows(("a", 90)))
        assert running.metrics().late_rows == 1, name
        assert running.metrics().state_rows == kept, name
        links = {row["link"] for row in running.result().to_pylist()}
        assert links == {"a"}, name
        running.finish()
        assert running.metrics().state_rows == 0, name


# -- unions -----------------------------------------------------------------------------------------------------------


def test_of_a_union_a_source_is_as_far_as_in_the_slower_input_and_an_input_without_it_as_its_slowest_source() -> None:
    both = counts(stream("one").union(stream("two")))
    assert both.explain().count(OWN) == 2
    assert "the slowest and the fastest input of its link" in both.explain()
    query = both.start(shards=2)
    assert not answers(query.push(one=rows(("a", 3), ("a", 50), ("b", 4))))
    assert answers(query.push(two=rows(("a", 25), ("c", 25)))) == [("a", 10, 1)]
    assert answers(query.push(two=rows(("c", 33)))) == []  # of c, input one has promised no more than of b: 4
    assert answers(query.push(one=rows(("b", 40)))) == [("b", 10, 1), ("c", 30, 1)]


def test_a_union_with_an_input_without_that_source_is_as_far_as_its_slowest() -> None:
    for other in (stream("two", source=None), stream("two", source="v")):
        text = counts(stream("one").union(other)).explain()
        assert OWN not in text


def test_a_meld_of_lows_goes_on_from_its_state() -> None:
    lows = [
        GroupLows("ts", "link", pa.array(["a", "b"]), np.array([9, 4])),
        GroupLows("ts", "link", pa.array(["b", "a"]), np.array([7, 5])),
    ]
    meld = Meld(("ts",), 2)
    taken(meld, 0, lows[0])
    (found,) = taken(meld, 1, lows[1])
    assert isinstance(found, GroupLows)
    assert dict(zip(found.names.to_pylist(), found.lows.tolist(), strict=True)) == {"a": 5, "b": 4}


# -- state ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("keeping", [WindowPartials, PanePartials])
def test_ten_thousand_sources_are_one_table_and_hold_no_more_than_their_own_windows(keeping: type[Keeping]) -> None:
    n = 10_000
    names = pa.array([f"link {i}" for i in range(n)])
    what = WindowedAggregation(Sliding(10, 5), "ts", SCHEMA, ("link",), (("n", lw.count()),))
    operator = WindowAggregate(what, keeping, limit=3, by="link")
    at = np.arange(n) * 7  # every source is elsewhere
    for step in (0, 20):
        table = pa.table({"ts": at + step, "link": names, "v": at, "over": np.zeros(n, bool)})
        taken(operator, 0, Batch(table))
        out = taken(operator, 0, GroupLows("ts", "link", names, at + step))
        assert operator.excess() is None
    (found,) = out
    assert isinstance(found, Batch)
    assert found.rows.num_rows == 2 * n
    assert operator.rows <= 2 * n


def test_state_of_a_window_that_its_source_has_closed_is_in_excess(monkeypatch: pytest.MonkeyPatch) -> None:
    what = WindowedAggregation(Sliding(10), "ts", SCHEMA, ("link",), (("n", lw.count()),))
    operator = WindowAggregate(what, WindowPartials, by="link")
    taken(operator, 0, Batch(rows(("a", 1), ("b", 1))))
    monkeypatch.setattr(WindowPartials, "expire_own", lambda *_: None)
    taken(operator, 0, GroupLows("ts", "link", pa.array(["a", "b"]), np.array([20, 5])))
    assert operator.excess() == "State of window 0 is kept, though its source has closed the window."


def test_a_flush_delays_answers_by_windows_of_the_furthest_source() -> None:
    slow = stream().window(10).group_by("link").emit(flush=lw.slow_flush(rows=1, windows=1)).agg(n=lw.count())
    assert OWN in slow.explain()
    query = slow.start()
    given = [rows(("a", t), ("b", t // 2)) for t in range(0, 100, 7)]
    for batch in given:
        query.push(batch)
    query.restart()
    query.finish()
    plain = counts(stream()).start()
    for batch in given:
        plain.push(batch)
    plain.finish()
    assert answers(query.result()) == answers(plain.result())


# -- checkpoints ------------------------------------------------------------------------------------------------------


def test_the_checkpoint_pins_how_groups_close() -> None:
    query = counts(stream())
    choices = json.loads(plan(query.node).plan.pinned())
    assert [one["closes_by"] for one in choices["operators"]] == ["link"]
    choices["operators"][0]["closes_by"] = None
    pinned = plan(query.node, pinned=choices)
    running = LocalQuery(pinned.plan, pinned.frames)  # type: ignore[arg-type]
    assert not running.push(rows(("slow", 1), ("fast", 2), ("fast", 35))).num_rows
