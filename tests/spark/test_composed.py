"""Several results in one Spark plan, one result as the input of another query, and expressions that only Spark knows.

Each answer is compared with the same query over a table in this process, which is judged by its definition elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

import lowwater as lw
from tests.spark.answers import parts, write_part

pytestmark = pytest.mark.spark

SCHEMA = "ts bigint, k string, v bigint"
ONCE = {"availableNow": True}
Make = Callable[[Any], lw.Relation]


def rows(n: int = 600) -> pa.Table:
    """Rows up to 10 behind the newest, of five keys."""
    at = range(n)
    return pa.table(
        {
            "ts": pa.array([i - (i * 7) % 10 for i in at], pa.int64()),
            "k": [f"k{i % 5}" for i in at],
            "v": pa.array([(i * 31) % 97 for i in at], pa.int64()),
        }
    )


def stream(data: Any, name: str = "rows") -> lw.Relation:
    return lw.stream(data, name=name, progress="ts", disorder=10)


def counts(data: Any, name: str = "rows") -> lw.Relation:
    return stream(data, name).window(range=20).group_by("k").agg(n=lw.count(), s=lw.sum("v"))


def busiest(data: Any) -> lw.Relation:
    """The maximum over keys of a sliding count: two stages."""
    each = stream(data).window(range=40, slide=20).group_by("k").agg(n=lw.count(), s=lw.sum("v"))
    return each.window(range=20).agg(most=lw.max("n"), total=lw.sum("s"))


def as_rows(df: DataFrame, of: lw.Relation) -> list[dict[str, Any]]:
    table = df.select(*of.schema.names).toArrow().cast(of.schema)
    return in_order(table)


def in_order(table: pa.Table) -> list[dict[str, Any]]:
    return sorted(table.to_pylist(), key=lambda row: [str(value) for value in row.values()])


def streamed(spark: SparkSession, directory: Path, pieces: int = 3) -> DataFrame:
    for number, piece in enumerate(parts(rows(), pieces)):
        write_part(piece, directory, number)
    return spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(directory))


def written(df: DataFrame, place: Path) -> DataFrame:
    """All that a streaming DataFrame gives for the files that are there."""
    query = (
        df.writeStream.option("path", str(place / "out"))
        .option("checkpointLocation", str(place / "cp"))
        .format("parquet")
    )
    query.trigger(availableNow=True).start().awaitTermination()
    return df.sparkSession.read.schema(df.schema).parquet(str(place / "out"))


def test_two_results_in_one_batch_plan(spark: SparkSession) -> None:
    df = spark.createDataFrame(rows().to_pandas(), SCHEMA)
    both = counts(df).to_spark().union(counts(df, "others").to_spark())
    assert as_rows(both, counts(rows())) == in_order(pa.concat_tables([counts(rows()).collect()] * 2))


def test_a_union_of_inputs_is_collected_though_its_rows_have_no_order(spark: SparkSession) -> None:
    def both(data: Any) -> lw.Relation:
        return stream(data, "a").union(stream(data, "b")).where("v > 50")

    found = both(spark.createDataFrame(rows(30).to_pandas(), SCHEMA)).collect()
    assert in_order(found) == in_order(both(rows(30)).collect())
    assert found.num_rows


def test_two_results_in_one_streaming_plan(spark: SparkSession, tmp_path: Path) -> None:
    a, b = streamed(spark, tmp_path / "a"), streamed(spark, tmp_path / "b")
    found = as_rows(written(counts(a).to_spark().union(counts(b, "others").to_spark()), tmp_path), counts(rows()))
    closed = [row for row in in_order(counts(rows()).collect()) if row["window_end"] <= 580]
    assert found == sorted(closed * 2, key=lambda row: [str(value) for value in row.values()])


def test_a_result_is_the_input_of_another_query(spark: SparkSession, tmp_path: Path) -> None:
    def second(first: Any) -> lw.Relation:
        again = lw.stream(first, name="counts", progress="window_end", disorder=0)
        return again.window(range=100).agg(n=lw.sum("n"))

    found = as_rows(
        written(second(counts(streamed(spark, tmp_path / "in")).to_spark()).to_spark(), tmp_path),
        second(counts(rows()).collect()),
    )
    judge = [row for row in in_order(second(counts(rows()).collect()).collect()) if row["window_end"] <= 500]
    assert found == judge
    batch = second(counts(spark.createDataFrame(rows().to_pandas(), SCHEMA)).to_spark())
    assert in_order(batch.collect()) == in_order(second(counts(rows()).collect()).collect())


def outside(data: Any) -> lw.Relation:
    """`shiftright` and `rpad` are Spark's alone: rows leave the shards between the stages and behind the last one."""
    halves = counts(data).with_column("half", "shiftright(n, 1)").where("rpad(k, 2, 'x') <> 'k3'")
    return halves.window(range=100).group_by("k").agg(h=lw.sum("half")).with_column("name", "rpad(k, 4, '.')")


def inside(data: Any) -> lw.Relation:
    """The same in the subset that runs on Arrow."""
    halves = counts(data).with_column("half", "n div 2").where("k <> 'k3'")
    return halves.window(range=100).group_by("k").agg(h=lw.sum("half")).with_column("name", "concat(k, '..')")


def test_expressions_that_only_spark_knows_run_between_stages(spark: SparkSession, tmp_path: Path) -> None:
    df = spark.createDataFrame(rows().to_pandas(), SCHEMA)
    judge = in_order(inside(rows()).collect())
    assert "by Spark" in outside(df).explain()
    assert in_order(outside(df).collect()) == judge
    query = outside(streamed(spark, tmp_path / "in")).start(
        checkpoint=str(tmp_path / "cp"), results=str(tmp_path / "out")
    )
    query.finish()
    assert as_rows(spark.read.parquet(str(tmp_path / "out")), inside(rows())) == judge
    assert query.metrics().state_rows == 0


def test_expressions_that_only_spark_knows_are_refused_over_tables() -> None:
    with pytest.raises(lw.LowwaterError, match="shiftright"):
        outside(rows())


def test_streams_of_two_backends_are_refused(spark: SparkSession) -> None:
    df = spark.createDataFrame(rows().to_pandas(), SCHEMA)
    for make in (
        lambda: stream(df, "a").union(stream(rows(), "b")),
        lambda: stream(df, "a").join(stream(rows(), "b"), on="k", within=5),
    ):
        with pytest.raises(lw.LowwaterError, match="one place"):
            make()


def test_a_query_is_moved_to_other_numbers_of_partitions_with_data_in_between(
    spark: SparkSession, tmp_path: Path
) -> None:
    source, checkpoint, out = tmp_path / "in", str(tmp_path / "cp"), str(tmp_path / "out")
    pieces = parts(rows(), 4)

    def go_on(number: int) -> Any:
        write_part(pieces[number], source, number)
        df = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(source))
        query = busiest(df).start(checkpoint=checkpoint, results=out, trigger=ONCE, shards=4, partitions=2)
        query.await_termination()
        return query

    def partitions(query: Any) -> set[int]:
        last = [p for p in query.spark.recentProgress if p.stateOperators][-1]
        return {operator.numShufflePartitions for operator in last.stateOperators}

    assert partitions(go_on(0)) == {2}
    lw.rescale(spark, checkpoint, 4)
    assert partitions(go_on(1)) == {4}
    with pytest.raises(lw.LowwaterError, match="has that number already"):
        lw.rescale(spark, checkpoint, 4)
    lw.rescale(spark, checkpoint, 1)
    go_on(2)
    last = go_on(3)
    assert partitions(last) == {1}
    last.finish()
    assert as_rows(spark.read.parquet(out), busiest(rows())) == in_order(busiest(rows()).collect())
    assert last.metrics().state_rows == 0


def test_what_cannot_be_rescaled_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(lw.LowwaterError, match="not the checkpoint of a lowwater query"):
        lw.rescale(spark, str(tmp_path / "none"), 2)
    checkpoint = str(tmp_path / "cp")
    query = counts(streamed(spark, tmp_path / "in")).start(
        checkpoint=checkpoint, results=str(tmp_path / "out"), shards=2
    )
    with pytest.raises(lw.LowwaterError, match="is running"):
        lw.rescale(spark, checkpoint, 1)
    query.process_available()
    query.stop()
    with pytest.raises(lw.LowwaterError, match="runs on 1 to 2"):
        lw.rescale(spark, checkpoint, 3)


def test_the_plan_of_the_first_start_is_run_again(spark: SparkSession, tmp_path: Path) -> None:
    """The tactic is the planner's choice: on a checkpoint that was made with another, that one stays."""
    checkpoint, out = str(tmp_path / "cp"), str(tmp_path / "out")
    df = streamed(spark, tmp_path / "in")

    def sliding(strategy: str) -> lw.Relation:
        return stream(df).window(range=40, slide=20).group_by("k").agg(strategy, n=lw.count())

    first = sliding("wid").start(checkpoint=checkpoint, results=out, trigger=ONCE)
    first.await_termination()
    again = sliding("auto").start(checkpoint=checkpoint, results=out)
    again.finish()
    assert [operator.name for operator in again.metrics().operators] == ["WID aggregate"]
    judge = stream(rows()).window(range=40, slide=20).group_by("k").agg(n=lw.count())
    assert as_rows(spark.read.parquet(out), judge) == in_order(judge.collect())
