"""`in_order` and ORDERED: results come in order of a time, in any order of arrival, over shards and restarts."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lowwater as lw
from lowwater.errors import LowwaterError

Row = dict[str, Any]
SCHEMA = pa.schema([("ts", pa.int64()), ("k", pa.string()), ("v", pa.int64())])
ROW = st.fixed_dictionaries(
    {"ts": st.integers(0, 30), "k": st.sampled_from(["a", "b", None]), "v": st.none() | st.integers(0, 3)}
)


def stream(disorder: int = 40) -> lw.Relation:
    return lw.stream(SCHEMA.empty_table(), name="rows", progress="ts", disorder=disorder)


def came(relation: lw.Relation, rows: list[Row], cuts: list[int], shards: int) -> list[Row]:
    """The results in the order in which they came, over the pushes between the cuts, with a restart at each cut."""
    query = relation.start(shards=shards)
    found: list[Row] = []
    for at, stop in zip([0, *cuts], [*cuts, len(rows)], strict=True):
        if rows[at:stop]:
            found += query.push(pa.Table.from_pylist(rows[at:stop], schema=SCHEMA)).to_pylist()
        query.restart()
    found += query.finish().to_pylist()
    assert query.metrics().late_rows == 0
    return found


def by_time_and_values(row: Row) -> tuple[Any, ...]:
    return row["ts"], row["k"] is not None, row["k"] or "", row["v"] is not None, row["v"] or 0


@settings(deadline=None)
@given(st.lists(ROW, max_size=25), st.data(), st.integers(1, 3))
def test_rows_come_by_time_and_value(rows: list[Row], data: st.DataObject, shards: int) -> None:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(rows)), max_size=3)))
    found = came(stream().in_order(), rows, cuts, shards)
    assert found == sorted(rows, key=by_time_and_values)


@settings(deadline=None)
@given(st.lists(ROW, max_size=25), st.data(), st.integers(1, 3))
def test_results_of_windows_come_by_window(rows: list[Row], data: st.DataObject, shards: int) -> None:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(rows)), max_size=3)))
    counts = stream().window(range=10, slide=5).group_by("k").agg(n=lw.count(), s=lw.sum("v"))
    found = came(counts.in_order(), rows, cuts, shards)
    ends = [row["window_end"] for row in found]
    assert ends == sorted(ends)
    expected = came(counts, rows, cuts, shards)
    assert sorted(map(repr, found)) == sorted(map(repr, expected))


def test_a_row_leaves_when_progress_has_passed_it_and_a_later_one_is_late() -> None:
    query = stream(3).in_order().start()
    rows = [{"ts": ts, "k": "a", "v": 0} for ts in (3, 1, 9, 2, 4)]
    assert query.push(rows[:4])["ts"].to_pylist() == [1, 2, 3]
    query.push(rows[4:])
    assert query.late_output()["late_reason"].to_pylist() == ["rows of its time are final already"]
    assert query.finish()["ts"].to_pylist() == [9]


def test_order_by_another_time_than_the_default_one() -> None:
    left = stream(5).named("l")
    right = lw.stream(SCHEMA.empty_table(), name="other", progress="ts", disorder=5).named("r")
    pairs = left.join(right, on="k", within=10)
    assert pairs.in_order(over="r_ts").node.properties.progress[0].attribute == "r_ts"
    with pytest.raises(LowwaterError, match="progress on l_ts and r_ts, not on 'k'"):
        pairs.in_order(over="k")


def test_results_that_are_revised_and_results_without_progress_are_refused() -> None:
    with pytest.raises(LowwaterError, match="cannot follow"):
        stream().window(10).emit(early=True).agg(n=lw.count()).in_order()
    with pytest.raises(LowwaterError, match="Rows would not leave before the stream ends"):
        stream().window("2 rows", partition_by="k").agg(n=lw.count()).in_order()
