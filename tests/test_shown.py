"""What a relation shows of itself, and the ways in which users name columns and options."""

from __future__ import annotations

import pyarrow as pa
import pytest

import lowwater as lw
from lowwater.errors import LowwaterError

ROWS = pa.table({"ts": [1, 2, 11, 3], "k": ["a", "b", "b", "a"], "v": [4, 5, 6, 7]})


def stream() -> lw.Relation:
    return lw.stream(ROWS, name="rows", progress="ts", disorder=10)


def counts() -> lw.Relation:
    return stream().window(10).group_by("k").agg(n=lw.count())


def test_a_shell_shows_columns_and_what_they_progress_on() -> None:
    assert repr(stream()) == "<Relation rows: ts int64, k string, v int64; progresses on ts>"
    assert repr(counts()).startswith(
        "<Relation rows: wid int64, window_start int64, window_end int64, k string, n int64;"
    )
    assert "window_start" in repr(counts()).partition("progresses on")[2]


def test_a_notebook_shows_columns_and_plan_and_escapes_names() -> None:
    html = stream().with_column("a<b", "v + 1").named("<rows>")._repr_html_()
    assert "<td>ts</td><td>int64</td><td>progresses</td>" in html
    assert "a&lt;b" in html
    assert "&lt;rows&gt;" in html
    assert "<pre>" in counts()._repr_html_()
    assert "count(*)" in counts()._repr_html_()


def test_a_window_without_aggregates_shows_what_it_is_and_what_is_missing() -> None:
    window = stream().window(10, 5).group_by("k")
    assert repr(window) == "<Grouped rows: RANGE 10 SLIDE 5 over ts, by k; agg() computes results>"
    assert repr(stream().group_by("k", "v")) == "<Grouped rows: by k and v; agg() computes results>"
    assert repr(stream().over("k", rows=(1, 0))) == (
        "<Grouped rows: ROWS BETWEEN 1 PRECEDING AND 0 FOLLOWING over ts, by k; agg() computes results>"
    )
    assert "RANGE 10 SLIDE 5 over ts" in window._repr_html_()
    assert "<strong>&lt;b&gt;</strong>" in stream().named("<b>").window(10)._repr_html_()


def test_a_running_query_shows_how_far_it_is() -> None:
    query = counts().start()
    assert repr(query) == "<LocalQuery rows: 0 rows read, 0 results, 0 rows of state; low-watermark None>"
    query.push(ROWS)
    assert repr(query) == "<LocalQuery rows: 4 rows read, 0 results, 3 rows of state; low-watermark 1>"


def test_metrics_show_what_is_not_zero() -> None:
    query = counts().start()
    query.push(ROWS)
    assert repr(query.metrics()).startswith("Metrics(rows=4, state_rows=3, state_bytes=")
    assert repr(query.metrics()).endswith("low_watermark='1', closed_below=0, held_back_by='rows', operators=1)")
    assert "late_rows=" not in repr(query.metrics().operators[0])
    assert repr(query.metrics().operators[0]).startswith("OperatorMetrics(number=0, name='WID aggregate', state_rows=3")


def test_first_results_as_a_table_and_printed(capsys: pytest.CaptureFixture[str]) -> None:
    named = counts().select("window_start", "k", "n")
    assert named.head(2) == named.collect().slice(0, 2)
    named.show(2)
    assert capsys.readouterr().out == "window_start  k  n\n           0  a  2\n           0  b  1\n... and 1 more\n"


@pytest.mark.parametrize("shown", [("window_start", "k", "n"), ("k", "n", "window_end"), ("wid", "k", "n"), ("k", "n")])
def test_results_are_sorted_by_window_and_group_whichever_columns_are_selected(shown: tuple[str, ...]) -> None:
    rows = pa.table({"ts": [1, 2, 3, 11], "k": ["a", "b", "a", "a"]})
    windows = lw.stream(rows, name="rows", progress="ts", disorder=20).window(10).group_by("k").agg(n=lw.count())
    found = [(row["k"], row["n"]) for row in windows.select(*shown).collect().to_pylist()]
    assert found == ([("a", 2), ("a", 1), ("b", 1)] if shown == ("k", "n") else [("a", 2), ("b", 1), ("a", 1)])


def test_columns_may_be_named_one_by_one_or_as_a_list() -> None:
    window = stream().window(10)
    assert (
        window.group_by(["k", "v"]).agg(n=lw.count()).collect() == window.group_by("k", "v").agg(n=lw.count()).collect()
    )
    assert window.distinct(["k"]).collect() == window.distinct("k").collect()
    assert stream().select(["ts", "k"]).schema == stream().select("ts", "k").schema
    assert stream().distinct(["ts", "k"]).collect() == stream().distinct("ts", "k").collect()
    with pytest.raises(LowwaterError, match="nowhere"):
        stream().group_by(["k", "nowhere"])


def test_a_query_over_tables_says_which_options_it_does_not_take() -> None:
    with pytest.raises(LowwaterError, match=r"takes shards= and late=, not checkpoint=, results="):
        counts().start(checkpoint="c", results="r")
    assert counts().start(shards=2, late=False).shards == 2


def test_equal_rows_of_a_top_are_chosen_by_value() -> None:
    rows = pa.table({"ts": [1, 2, 3, 4], "k": ["x", None, "y", "z"], "v": [5, 5, 5, None]})
    asked = lw.stream(rows, name="rows", progress="ts", disorder=10).window(10)
    (row,) = (
        asked.agg(top=lw.top_k("v", 2, label="k"), most=lw.max_by("k", "v"), least=lw.min_by("k", "v"))
        .collect()
        .to_pylist()
    )
    assert row["top"] == [{"k": "y", "v": 5}, {"k": "x", "v": 5}]
    assert (row["most"], row["least"]) == ("y", "x")
