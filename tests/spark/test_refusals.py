"""What Spark-side mistakes say: one sentence each, before anything is lost."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

import lowwater as lw
from tests.spark.answers import parts, rows, stream_of, streaming, write_part

pytestmark = pytest.mark.spark

ONCE = {"availableNow": True}


@pytest.fixture
def source(tmp_path: Path) -> Path:
    for i, piece in enumerate(parts(rows(2_000), 2)):
        write_part(piece, tmp_path / "in", i)
    return tmp_path / "in"


def test_a_checkpoint_of_another_query_or_number_of_shards_is_refused(
    spark: SparkSession, source: Path, tmp_path: Path
) -> None:
    options = {"checkpoint": str(tmp_path / "checkpoint"), "results": str(tmp_path / "out"), "trigger": ONCE}
    stream_of(streaming(spark, source)).start(**options, shards=2).await_termination()
    with pytest.raises(lw.LowwaterError, match=r"made with 2 shards, the query now asks for 3; start it with shards=2"):
        stream_of(streaming(spark, source)).start(**options, shards=3)
    other = lw.stream(streaming(spark, source), progress="ts", disorder="3 seconds").window(range="5 seconds")
    window = r"window of its aggregate was 'RANGE 10 seconds SLIDE 1 second.*' and is now 'RANGE 5 seconds"
    with pytest.raises(lw.LowwaterError, match=f"This checkpoint belongs to another query: {window}"):
        other.agg(n=lw.count()).start(**options, shards=2)


def test_a_finished_query_is_not_started_again_and_its_shards_are_remembered(
    spark: SparkSession, source: Path, tmp_path: Path
) -> None:
    options = {"checkpoint": str(tmp_path / "checkpoint"), "results": str(tmp_path / "out"), "trigger": ONCE}
    stream_of(streaming(spark, source)).start(**options, shards=3).await_termination()
    again = stream_of(streaming(spark, source)).start(**options)  # with the 3 shards of the checkpoint
    again.finish()
    assert again.metrics().low_watermark == "end"
    with pytest.raises(lw.LowwaterError, match="was finished, and all its windows are answered"):
        stream_of(streaming(spark, source)).start(**options)


def test_state_of_another_query_is_refused_by_the_host_too(spark: SparkSession, source: Path, tmp_path: Path) -> None:
    def run(query: lw.Query, shards: int) -> None:
        writer = query.to_spark(shards=shards).writeStream.format("noop")
        writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True)
        writer.start().awaitTermination()

    run(stream_of(streaming(spark, source)), 2)
    write_part(rows(100), source, 9)
    with pytest.raises(StreamingQueryException, match="was made with 2 shards, the query now asks for 3"):
        run(stream_of(streaming(spark, source)), 3)


def test_expressions_that_spark_cannot_read_are_refused_at_once(spark: SparkSession, source: Path) -> None:
    stream = lw.stream(streaming(spark, source), progress="ts", disorder="3 seconds")
    with pytest.raises(lw.LowwaterError, match=r"Spark cannot evaluate 'nothing > 1'"):
        stream.where("nothing > 1")
    with pytest.raises(
        lw.LowwaterError, match=r"where\(\) takes an expression over one row, but count\(\) is over several"
    ):
        stream.where("count(v) > 1")
    with pytest.raises(lw.LowwaterError, match=r"Spark cannot evaluate .*kurtosis.*: \[MISSING_GROUP_BY\]"):
        stream.window(range="5 seconds").agg(n=lw.count()).where("soundex('a') = string(kurtosis(n))")
    with pytest.raises(lw.LowwaterError, match=r"progress= of stream 'stream' names column 'when'"):
        lw.stream(streaming(spark, source), progress="when", disorder="3 seconds")


def test_start_wants_a_stream_and_collect_a_finite_input(spark: SparkSession, source: Path, tmp_path: Path) -> None:
    with pytest.raises(lw.LowwaterError, match="need a finite input"):
        stream_of(streaming(spark, source)).collect()
    batch = stream_of(spark.read.parquet(str(source)))
    with pytest.raises(lw.LowwaterError, match=r"start\(\) needs streaming DataFrames"):
        batch.start(checkpoint=str(tmp_path / "c"), results=str(tmp_path / "o"))


def test_a_number_of_shards_or_partitions_is_one_or_more(spark: SparkSession, source: Path, tmp_path: Path) -> None:
    with pytest.raises(lw.LowwaterError, match=r"^shards= is a number of shards, 1 or more, not 0\.$"):
        stream_of(spark.read.parquet(str(source))).collect(shards=0)
    stream = stream_of(streaming(spark, source))
    with pytest.raises(lw.LowwaterError, match=r"^shards= is a number of shards, 1 or more, not -1\.$"):
        stream.to_spark(shards=-1)
    options = {"checkpoint": str(tmp_path / "c"), "results": str(tmp_path / "o")}
    with pytest.raises(lw.LowwaterError, match=r"^partitions= is a number of partitions, 1 or more, not 0\.$"):
        stream.start(**options, partitions=0)
    with pytest.raises(lw.LowwaterError, match=r"^shards= is a number of shards, 1 or more, not 1\.5\.$"):
        stream.start(**options, shards=1.5)
