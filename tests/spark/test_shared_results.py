"""Results that are read twice, on Spark: one operator and one state, also behind a restart."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

import lowwater as lw
from tests.spark.answers import write_part
from tests.test_shared_results import ROWS
from tests.tree_oracle import Arrived, evaluate, unlike

pytestmark = pytest.mark.spark


def asked(spark: SparkSession, place: Path) -> lw.Relation:
    """Counts, read in their own stage by an aggregation, two stages later by a join, and both joined."""
    rows = spark.readStream.schema(from_arrow_schema(ROWS.schema)).option("maxFilesPerTrigger", 1)
    stream = lw.stream(rows.parquet(str(place / "in")), name="a", progress="ts", disorder=0)
    each = stream.window(10).group_by("k").agg(n=lw.count(), most=lw.max("v"))
    totals = each.group_by("window_start", "window_end").agg(total=lw.sum("n"))
    return each.named("each").join(totals.named("totals"), on="window_end").with_column("share", "n / total")


def test_a_result_that_is_read_twice_is_kept_once_and_survives_a_restart(spark: SparkSession, tmp_path: Path) -> None:
    out, checkpoint = str(tmp_path / "out"), str(tmp_path / "checkpoint")
    for i in range(2):
        write_part(ROWS.slice(3 * i, 3), tmp_path / "in", i)
    first = asked(spark, tmp_path).start(checkpoint=checkpoint, results=out)
    first.process_available()
    first.stop()
    assert [one.name for one in first.metrics().operators] == ["WID aggregate", "Group-by", "OA-Join", "Apply"]
    write_part(ROWS.slice(6), tmp_path / "in", 2)
    relation = asked(spark, tmp_path)
    second = relation.start(checkpoint=checkpoint, results=out)
    second.finish()
    found = spark.read.parquet(out).toArrow().select(relation.schema.names).cast(relation.schema)
    assert unlike(found, evaluate(relation.node, {"a": Arrived(ROWS, list(range(ROWS.num_rows)))})) == ""
    metrics = second.metrics()
    assert (metrics.rows, metrics.operators[0].result_rows, metrics.late_rows, metrics.state_rows) == (8, 7, 0, 0)
