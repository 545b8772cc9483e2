"""A filter on an aggregate: rows for which it is not true do not count, whatever keeps the window."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import lowwater as lw
from lowwater.query.called import aggregate_of
from tests.tree_oracle import Arrived, evaluate, unlike

RNG = np.random.default_rng(7)
N = 300
ROWS = pa.table(
    {
        "ts": np.sort(RNG.integers(0, 200, N)),
        "k": pa.array(RNG.choice(["a", "b", "c"], N)),
        "v": pa.array(RNG.integers(-9, 9, N), mask=RNG.random(N) < 0.1),
        "w": pa.array(RNG.random(N).round(3)),
        "ok": pa.array(RNG.random(N) < 0.4, mask=RNG.random(N) < 0.2),
    }
)
FUNCTIONS = (
    *("sum", "avg", "min", "max", "first", "last", "median", "mode"),
    *("count", "count_distinct", "collect_list", "collect_set", "approx_count_distinct"),
)


def asked() -> dict[str, Any]:
    return {
        "n": lw.count(),
        "some": lw.count(where="ok"),
        "others": lw.count(where="not ok"),
        "none": lw.sum("v", where="false"),
        "chosen": lw.max_by("v", "w", where="ok and v > 0"),
        "centre": lw.center_of_mass("v", "w", where="k <> 'a'"),
        "upper": lw.quantile("w", 0.9, where="v >= 0"),
        "largest": lw.top_k("v", 2, where="ok"),
        **{f"of_{name}": getattr(lw, name)("v", where="w > 0.5") for name in FUNCTIONS},
    }


def stream(**options: Any) -> lw.Relation:
    return lw.stream(ROWS, name="rows", progress="ts", disorder=options.pop("disorder", 20), **options)


SHAPES = {
    "wid": lambda rows: rows.window(20).group_by("k").agg("wid", **asked()),
    "panes": lambda rows: rows.window(40, 10).group_by("k").agg("panes", **asked()),
    "no groups": lambda rows: rows.window(40, 10).agg(**asked()),
    "buffer": lambda rows: rows.window(40, 10).group_by("k").agg("buffer", **asked()),
    "adaptive": lambda rows: rows.window(40, 10).group_by("k").agg("adaptive", **asked()),
    "landmark": lambda rows: rows.window("all", 25, period=100).group_by("k").agg(**asked()),
    "rows": lambda rows: rows.window("30 rows", "10 rows").agg(**asked()),
    "partitioned": lambda rows: rows.window("8 rows", "2 rows", partition_by="k").agg(n=lw.count(where="ok")),
    "slide by tuple": lambda rows: rows.window(20, slide="1 row", partition_by="k").agg(**asked()),
    "sessions": lambda rows: rows.session(2).group_by("k").agg(**asked()),
    "over": lambda rows: rows.over("k", range=(20, 0)).agg(**asked()),
    "group-by": lambda rows: rows.group_by("ts").agg(**asked()),
    "behind a window": lambda rows: rows.window(5).group_by("k").agg(n=lw.count()).window(50).agg(
        busy=lw.count(where="n > 2"), most=lw.max("n", where="k = 'b'")
    ),
}  # fmt: skip


@pytest.mark.parametrize("shape", SHAPES)
def test_it_counts_what_the_definition_counts(shape: str) -> None:
    query = SHAPES[shape](stream())
    expected = evaluate(query.node, {"rows": Arrived(ROWS, list(range(N)))})
    assert unlike(query.collect(), expected) == ""


def test_a_filter_that_nothing_passes_leaves_the_window() -> None:
    found = stream().window(1000).agg(n=lw.count(where="v > 100"), s=lw.sum("v", where="v > 100")).collect()
    assert found.select(["n", "s"]).to_pylist() == [{"n": 0, "s": None}]


def test_rows_of_top_k_keep_their_names() -> None:
    found = stream().window(1000).agg(top=lw.top_k("w", 1, label="k", where="k = 'b'")).collect()
    best = max(row["w"] for row in ROWS.to_pylist() if row["k"] == "b")
    assert found["top"].to_pylist() == [[{"k": "b", "w": best}]]


def test_user_aggregates_are_filtered_too() -> None:
    def spread(values: pa.Array) -> int:
        return int(values[-1].as_py() - values[0].as_py())

    found = stream().window(1000).agg(s=lw.holistic("v", spread, pa.int64(), where="v > 0")).collect()
    positive = [v for v in ROWS["v"].to_pylist() if v is not None and v > 0]
    assert found["s"].to_pylist() == [max(positive) - min(positive)]


def test_explain_names_the_filter() -> None:
    text = stream().window(20).agg(n=lw.count(where="v > 3")).explain()
    assert text.startswith("WID aggregate  n = count(*) FILTER (WHERE v > 3)")


def test_only_columns_that_are_read_are_shipped() -> None:
    query = stream().window(20).agg(n=lw.count(where="v > 3"), s=lw.sum("w"))
    assert set(query.node.what.columns) == {"ts", "v", "w"}


def test_a_call_in_sql_has_its_filter() -> None:
    assert str(aggregate_of("sum(v) FILTER (WHERE k = 'a')")) == "sum(v) FILTER (WHERE k = 'a')"
    assert aggregate_of("count(*) filter (where v > 3)") == lw.count(where="v > 3")


@pytest.mark.parametrize(
    ("where", "says"),
    [
        ("v", "where= of count(*) needs a condition, but 'v' is bigint."),
        ("colour = 1", "where= of count(*) names column 'colour', but the stream has only: ts, k, v, w, ok."),
        (
            "regexp_count(k, 'a') > 0",
            "The function regexp_count() in where= of count(*) is for Spark alone; make it a column first, as in "
            "with_column('counts', ...), and use where='counts'.",
        ),
        (5, "where= of count(*) is SQL text such as 'n > 3', not 5."),
    ],
)
def test_what_is_refused(where: Any, says: str) -> None:
    with pytest.raises(lw.LowwaterError) as error:
        stream().window(20).agg(n=lw.count(where=where))
    assert str(error.value) == says
