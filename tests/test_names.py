"""Names of columns: upper and lower case are alike, as in Spark, and dots are part of a name."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import lowwater as lw

ROWS = pa.table(
    {"Ts": [1, 2, 12, 3], "src.ip": ["a", "b", "a", "a"], "Bytes": [10, 20, 30, 40], "Link": ["x", "x", "y", "y"]}
)


def stream(rows: Any = ROWS, name: str = "rows", progress: str = "TS") -> lw.Relation:
    return lw.stream(rows, name=name, progress=progress, disorder=20)


QUERIES = {
    "group_by": lambda s, of: (
        s.window(10, over=of("Ts"))
        .group_by(of("Link"))
        .agg(n=lw.sum(of("Bytes")), most=lw.max_by(of("Link"), of("Bytes")), c=lw.center_of_mass(of("Ts"), of("Bytes")))
    ),
    "partition_by": lambda s, of: s.over(partition_by=of("Link"), rows=(1, 0)).agg(n=lw.sum(of("Bytes"))),
    "session": lambda s, of: s.session(5, over=of("Ts")).group_by(of("Link")).agg(n=lw.count(of("Bytes"))),
    "select": lambda s, of: s.select(of("Ts"), of("Link")).window(10).agg(n=lw.count()),
    "distinct": lambda s, of: s.distinct(of("Ts"), of("Link")),
    "drop_duplicates": lambda s, of: s.drop_duplicates(on=of("Link"), within=5),
    "with_column": lambda s, of: s.with_column(of("Bytes"), f"{of('Bytes')} + 1").window(10).agg(n=lw.sum("Bytes")),
    "with_column, spelled anew": lambda s, of: s.with_column("BYTES", f"{of('Bytes')} + 1").drop_duplicates(on="Ts"),
    "join": lambda s, of: s.named("left").join(
        s.named("right"), on=[(of("Link"), "Link")], within=5, over=(of("Ts"), "Ts")
    ),
    "dots": lambda s, of: (
        s.where(f"`{of('src.ip')}` <> 'b'").window(10).group_by(of("src.ip")).agg(n=lw.count(of("src.ip")))
    ),
    "dots in a join": lambda s, of: s.named("left").join(s.named("right"), on=of("src.ip"), within=5),
    "dots in rows": lambda s, of: s.drop_duplicates(on=of("src.ip"), within=5).select("Ts", of("src.ip")),
}


@pytest.mark.parametrize("query", QUERIES)
@pytest.mark.parametrize("spelling", [str.upper, str.lower])
def test_case_does_not_matter_and_results_keep_the_columns_own_spelling(query: str, spelling: Any) -> None:
    found, expected = (QUERIES[query](stream(), of).collect() for of in (spelling, str))
    assert found.equals(expected)
    assert found.num_rows > 0


def test_declarations_know_no_case() -> None:
    rows = ROWS.append_column("Done", pa.array([False, False, True, False])).append_column("Upto", ROWS["Ts"])
    declared = lw.stream(
        rows, progress="ts", disorder=lw.punctuated(when="DONE", upto="UPTO", data=True), source="LINK", sources=["x"]
    )
    assert declared.progress == "Ts"
    ended = stream(rows).ends("LINK", when="DONE")
    assert ended.explain() == stream(rows).ends("Link", when="Done").explain()


def test_names_that_differ_in_case_only_must_be_spelled_exactly() -> None:
    both = ROWS.append_column("bytes", pa.array([1, 2, 3, 4]))
    totals = stream(both).window(100).agg(small=lw.sum("bytes"), large=lw.sum("Bytes")).collect().to_pylist()
    assert [(row["small"], row["large"]) for row in totals] == [(10, 100)]
    for ask in (lambda s: s.window(10).group_by("BYTES"), lambda s: s.window(10).agg(n=lw.sum("BYTES"))):
        with pytest.raises(lw.LowwaterError, match="'BYTES' is ambiguous: it may be Bytes, bytes"):
            ask(stream(both))


def test_an_unknown_name_is_refused_as_it_was_written() -> None:
    with pytest.raises(lw.LowwaterError, match="names column 'Byte'"):
        stream().window(10).agg(n=lw.sum("Byte"))
    with pytest.raises(lw.LowwaterError, match=r"group_by\(\) names column 'SRC', but the stream has only"):
        stream().window(10).group_by("SRC")


def test_a_column_that_is_replaced_takes_the_spelling_of_the_new_one_and_keeps_its_place() -> None:
    found = stream().with_column("BYTES", "bytes + 1").drop_duplicates(on="Ts").collect()
    assert found.column_names == ["Ts", "src.ip", "BYTES", "Link"]
    assert found.column("BYTES").to_pylist() == [11, 21, 41, 31]


def test_columns_of_a_join_that_differ_in_case_only_are_prefixed_as_equal_ones_are() -> None:
    upper = pa.table({"TS": [1, 2], "X": [1, 2], "k": ["a", "b"], "y": [1, 1], "Y": [2, 2]})
    lower = pa.table({"ts": [1, 2], "x": [3, 4], "k": ["a", "b"]})
    joined = stream(upper, "a").join(stream(lower, "b", "ts"), on="k", within=0, condition="a_X < b_x")
    assert joined.schema.names == ["k", "a_TS", "a_X", "y", "Y", "b_ts", "b_x"]
    counted = joined.window(10, over="a_ts").agg(n=lw.sum("b_X")).collect()
    assert counted["n"].to_pylist() == [7]


@pytest.mark.parametrize("name", ["window_time", "WINDOW_TIME"])
def test_a_column_named_as_a_hidden_one_comes_last(name: str) -> None:
    counts = stream().window(10).group_by("Link").agg(n=lw.count())
    found = counts.with_column(name, "n + 1")
    assert found.schema.names == [*counts.schema.names, name]
    rows = found.collect()
    assert rows.column_names == found.schema.names
    assert [row[name] for row in rows.to_pylist()] == [row["n"] + 1 for row in rows.to_pylist()]
    assert found.window(100, over="window_end").agg(m=lw.max(name)).collect()["m"].to_pylist() == [3]
