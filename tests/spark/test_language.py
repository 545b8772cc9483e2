"""The language on Spark: the papers' queries equal their definitions, formats are opened, and sinks are written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from lowwater.backends.opened import opened
from lowwater.backends.spark.opened import opener
from lowwater.backends.spark.script import destination
from lowwater.errors import LowwaterError
from lowwater.language import bind, read
from tests.language_runs import QUERIES, defined, query_of
from tests.soak import sampled
from tests.test_language_queries import NAMES
from tests.tree_oracle import unlike


@pytest.mark.spark
@pytest.mark.parametrize("name", NAMES)
def test_a_query_equals_its_definition(name: str, spark: Any) -> None:
    path = QUERIES / f"{name}.sql"
    (bound,) = bind(read(path.read_text(), path.name), {}, opener(spark, streaming=False))
    assert unlike(bound.relation.collect(), defined(query_of(path))) == ""


STREAMED = ["th_q1_2", "th_q5_3", "th_q7_2", "pw_bids", "wo_query_2", "sh_q2"]
"""A union with a lull, windows over rows, a count behind a join, punctuated values, a tree of joins, WINDOW."""


@pytest.mark.spark
@pytest.mark.parametrize("name", sampled(NAMES, STREAMED))
def test_a_query_as_a_stream_equals_its_definition(name: str, tmp_path: Path, spark: Any) -> None:
    """Each generated stream arrives in three files, one per micro-batch, and no row is late."""
    path = QUERIES / f"{name}.sql"
    text = path.read_text().replace("seed ", "files 3, seed ")
    (bound,) = bind(read(text, path.name), {}, opener(spark))
    query = bound.relation.start(
        checkpoint=str(tmp_path / "checkpoint"),
        results=str(tmp_path / "results"),
        shards=2,
    )
    query.finish()
    expected = defined(query_of(path))
    found: Any = ds.dataset(tmp_path / "results", format="parquet").to_table(columns=expected.column_names)
    assert unlike(found.cast(expected.schema), expected) == ""
    assert query.metrics().late_rows == 0


@pytest.mark.spark
def test_ordered_results_come_in_order_over_all_micro_batches(tmp_path: Path, spark: Any) -> None:
    text = (
        "CREATE STREAM R PROGRESS ts DISORDER 3 SECONDS "
        "FROM keyed OPTIONS (rows 600, seconds 120, keys 5, seed 2, files 4);"
        "SELECT key, count(*) [RANGE 20 seconds, SLIDE 10 seconds] AS n FROM R GROUP BY key ORDERED"
    )
    (bound,) = bind(read(text), {}, opener(spark))
    came: list[tuple[Any, ...]] = []
    query = bound.relation.start(
        checkpoint=str(tmp_path / "checkpoint"),
        results=lambda rows, batch: came.extend((row.window_end, row.key, row.n) for row in rows.collect()),
        shards=3,
    )
    query.finish()
    ends = [end for end, *_ in came]
    assert ends == sorted(ends)
    assert len(set(ends)) > 10
    (here,) = bind(read(text), {}, opened)
    expected = here.relation.collect().to_pylist()
    assert [(key, n) for _, key, n in came] == [(row["key"], row["n"]) for row in expected]


def rows(tmp_path: Path) -> str:
    (tmp_path / "in").mkdir()
    pq.write_table(pa.table({"t": [1, 2, 3, 11, 12], "k": ["a", "b", "a", "a", "b"]}), tmp_path / "in" / "1.parquet")
    columns = "(t BIGINT, k STRING)"
    return f"CREATE STREAM R {columns} PROGRESS t DISORDER 0 FROM parquet OPTIONS (path '{tmp_path / 'in'}');"


COUNTS = "SELECT k, count(*) [RANGE 10, WA t] AS n FROM R GROUP BY k;"
EXPECTED = [("a", 0, 2), ("a", 10, 1), ("b", 0, 1), ("b", 10, 1)]


@pytest.mark.spark
@pytest.mark.parametrize("format", ["memory", "csv", "table"])
def test_results_go_to_the_sink_of_the_file(format: str, tmp_path: Path, spark: Any) -> None:
    sinks = {
        "memory": "memory OPTIONS (name 'counts')",
        "csv": f"csv OPTIONS (path '{tmp_path / 'out'}', header true)",
        "table": "TABLE counted",
    }
    late = f"INSERT INTO LATE json OPTIONS (path '{tmp_path / 'late'}');"
    (bound,) = bind(read(f"{rows(tmp_path)} INSERT INTO {sinks[format]} {COUNTS} {late}"), {}, opener(spark))
    assert bound.results is not None
    assert bound.late is not None
    query = bound.relation.start(
        checkpoint=str(tmp_path / "checkpoint"),
        results=destination(spark, "counts", bound.results, print),
        late=destination(spark, "late", bound.late, print),
    )
    query.finish()
    found = {
        "memory": lambda: spark.table("counts"),
        "csv": lambda: spark.read.option("header", True).csv(str(tmp_path / "out")),
        "table": lambda: spark.table("counted"),
    }[format]()
    assert sorted((row.k, int(row.window_start), int(row.n)) for row in found.collect()) == EXPECTED
    if format == "table":
        spark.sql("DROP TABLE counted")


@pytest.mark.spark
def test_rate_views_of_the_catalog_and_missing_columns(tmp_path: Path, spark: Any) -> None:
    spark.range(20).selectExpr("id AS t", "id % 3 AS k").createOrReplaceTempView("catalogued")
    text = "CREATE STREAM R PROGRESS t DISORDER 0 FROM TABLE catalogued; SELECT * FROM R WHERE k = 1"
    (bound,) = bind(read(text), {}, opener(spark, streaming=False))
    assert bound.relation.collect().num_rows == 7
    text = (
        "CREATE STREAM R (timestamp TIMESTAMP, value BIGINT) PROGRESS timestamp DISORDER 1 SECOND "
        "FROM rate OPTIONS (rowsPerSecond 5); SELECT count(*) [RANGE 1 second] AS n FROM R"
    )
    (bound,) = bind(read(text), {}, opener(spark))
    assert bound.relation.schema.names == ["window_start", "window_end", "n"]
    with pytest.raises(LowwaterError, match="needs its columns"):
        bind(read("CREATE STREAM R PROGRESS t FROM csv OPTIONS (path 'x'); SELECT * FROM R"), {}, opener(spark))
    with pytest.raises(LowwaterError, match="declares the column 'foo'"):
        bind(read("CREATE STREAM R (foo INT) PROGRESS foo FROM rate; SELECT * FROM R"), {}, opener(spark))


@pytest.mark.spark
@pytest.mark.parametrize(("groups", "tactic"), [("", "adaptive"), ("GROUPS DENSE ", "wid")])
def test_sparse_groups_are_noticed_on_spark(groups: str, tactic: str, spark: Any) -> None:
    """The planner looks at the first rows of a generated stream. A declaration is not overruled."""
    text = (
        f"CREATE STREAM R PROGRESS ts DISORDER 3 SECONDS {groups}FROM keyed "
        "OPTIONS (rows 40000, seconds 600, keys 5000000, seed 1, files 2);"
        "SELECT key, count(*) [RANGE 1 minute] AS n, sum(val) [RANGE 1 minute] AS s FROM R GROUP BY key"
    )
    (bound,) = bind(read(text), {}, opener(spark))
    (aggregate,) = [one for one in bound.relation.plan.operators if hasattr(one.spec, "tactic")]
    assert aggregate.spec.tactic == tactic
