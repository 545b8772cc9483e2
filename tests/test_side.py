"""`join(side=)`: an outer join shows which side a row lacks."""

from __future__ import annotations

import pyarrow as pa
import pytest

import lowwater as lw
from lowwater.errors import LowwaterError

A = pa.table({"ts": [1, 2, 30, 4], "k": ["x", "y", "z", None], "a": [1, None, 3, 4]})
B = pa.table({"ts": [2, 31, 60], "k": ["x", "z", "w"], "b": [None, 2, 3]})


def sides() -> tuple[lw.Relation, lw.Relation]:
    return tuple(  # type: ignore[return-value]
        lw.stream(table, name=name, progress="ts", disorder=5) for name, table in (("A", A), ("B", B))
    )


@pytest.mark.parametrize(
    ("how", "expected"),
    [
        ("left", {"x": "both", "y": "left", "z": "both", None: "left"}),
        ("right", {"x": "both", "z": "both", "w": "right"}),
        ("full", {"x": "both", "y": "left", "z": "both", None: "left", "w": "right"}),
    ],
)
def test_a_row_alone_has_its_own_side_also_where_values_are_null(how: str, expected: dict[str, str]) -> None:
    a, b = sides()
    found = a.join(b, on="k", within=5, how=how, side="found").collect()
    assert found.column_names == ["k", "A_ts", "a", "B_ts", "b", "found"]
    assert {row["k"]: row["found"] for row in found.to_pylist()} == expected


def test_rows_without_the_column_are_those_of_the_join_without_it() -> None:
    a, b = sides()
    plain = a.join(b, on="k", within=5, how="full")
    assert a.join(b, on="k", within=5, how="full", side="found").collect().drop(["found"]).equals(plain.collect())


def test_a_window_can_follow() -> None:
    a, b = sides()
    joined = a.join(b, on="k", within=5, how="left", side="found")
    counted = joined.window(range=100, over="A_ts").group_by("found").agg(n=lw.count()).collect()
    assert {row["found"]: row["n"] for row in counted.to_pylist()} == {"both": 2, "left": 2}


def test_sides_can_be_results() -> None:
    a, b = (one.window(range=10).group_by("k").agg(n=lw.count()) for one in sides())
    found = a.join(b, on=["window_start", "window_end", "k"], how="full", side="found").collect()
    assert {(row["k"], row["found"]) for row in found.to_pylist()} == {
        ("x", "both"),
        ("y", "left"),
        ("z", "both"),
        (None, "left"),
        ("w", "right"),
    }


@pytest.mark.parametrize("how", ["inner", "semi", "anti"])
def test_only_outer_joins_have_it(how: str) -> None:
    a, b = sides()
    with pytest.raises(LowwaterError, match="is for outer joins"):
        a.join(b, on="k", within=5, how=how, side="found")


def test_it_hides_no_column() -> None:
    a, b = sides()
    with pytest.raises(LowwaterError, match="choose another name"):
        a.join(b, on="k", within=5, how="left", side="b")
