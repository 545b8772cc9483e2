"""What a session of Spark Connect does in its own way. Runs on a classic session too, with the same answers."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import lowwater as lw
from lowwater.backends.spark.connect import default_parallelism, errand, is_connect, size_in_bytes, streaming_sources
from lowwater.backends.spark.reach import files_of, temporary
from lowwater.backends.spark.session import ship
from tests.spark.answers import SCHEMA, as_answer, assert_same, batch_answer, parts, rows, stream_of, write_part
from tests.spark.server import REMOTE

pytestmark = pytest.mark.spark


def test_the_session_is_of_the_kind_that_was_asked_for(spark: SparkSession) -> None:
    assert is_connect(spark) == (REMOTE in os.environ)
    assert is_connect(spark.range(1)) == is_connect(spark)


def test_plans_tell_sources_sizes_and_parallelism(spark: SparkSession, tmp_path: Path) -> None:
    write_part(rows(100), tmp_path / "in", 0)
    files = spark.readStream.schema(SCHEMA).parquet(str(tmp_path / "in"))
    rate = spark.readStream.format("rate").load().select(F.col("timestamp").alias("ts"))
    assert streaming_sources(files.select("ts").union(rate)) == ["FileSource", "rate"]
    assert streaming_sources(spark.range(3).toDF("id")) == []
    assert default_parallelism(spark) == 2
    size = size_in_bytes(spark.read.parquet(str(tmp_path / "in")))
    assert size is not None
    assert abs(size - os.path.getsize(tmp_path / "in" / "0000.parquet")) < 100


def test_files_are_those_of_the_server(spark: SparkSession, tmp_path: Path) -> None:
    files = files_of(spark, str(tmp_path / "own"))
    assert files.qualified == f"file:{tmp_path}/own"
    files.write("a/b", "text")
    assert (files.names(), files.names("a"), files.read("a/b"), files.read("c")) == (["a"], ["b"], "text", None)
    files.delete("a")
    assert not files.exists("a")
    with temporary(spark, "lowwater-test-") as place:
        assert Path(place).is_dir()
    assert not Path(place).exists()


def test_the_package_is_shipped_to_a_server(spark: SparkSession) -> None:
    def packages() -> list[str]:
        return [os.path.basename(place) for place in sys.path]

    ship(spark)
    shipped = f"lowwater-{lw.__version__}.zip" in errand(spark, packages)
    assert shipped == is_connect(spark)


def test_columns_have_text_with_the_same_meaning(spark: SparkSession, tmp_path: Path) -> None:
    write_part(rows(2_000), tmp_path / "in", 0)
    stream = lw.stream(spark.read.schema(SCHEMA).parquet(str(tmp_path / "in")), progress="ts", disorder="3 seconds")
    kept = (F.col("key") % 2 == 0) & ~F.col("val").isNull() | F.col("key").isin(1, 3) & (F.col("val") > 0.5)
    marked = F.when(F.col("key").cast("string").like("1%"), F.lit("it's")).otherwise("\\")
    by_column = stream.where(kept).with_column("mark", marked).window("10 seconds").group_by("mark")
    in_text = "key % 2 = 0 AND val IS NOT NULL OR key IN (1, 3) AND val > 0.5"
    case = r"CASE WHEN CAST(key AS STRING) LIKE '1%' THEN 'it\'s' ELSE '\\' END"
    by_text = stream.where(in_text).with_column("mark", case).window("10 seconds").group_by("mark")
    found = by_column.agg(n=F.count("*"), s=F.sum("key")).collect()
    assert found.num_rows > 5
    assert found.equals(by_text.agg(n=lw.count(), s=lw.sum("key")).collect())


def test_parquet_files_and_a_function_as_output(spark: SparkSession, tmp_path: Path) -> None:
    """The function runs where the micro-batches are taken: of a Connect session, in the server."""
    source, out = tmp_path / "in", str(tmp_path / "out")
    for i, piece in enumerate(parts(rows(), 2)):
        write_part(piece, source, i)

    def write(df: pa.Table, batch: int) -> None:
        df.write.mode("overwrite").parquet(f"{out}/batch={batch}")

    query = stream_of(lw.parquet_files(spark, str(source), maxFilesPerTrigger=1))  # type: ignore[arg-type]
    running = query.start(checkpoint=str(tmp_path / "checkpoint"), results=write)
    running.process_available()
    running.finish()
    assert (running.metrics().rows, running.metrics().low_watermark) == (rows().num_rows, "end")
    assert_same(as_answer(spark.read.parquet(out)), batch_answer(spark, source))


@pytest.mark.skipif(REMOTE not in os.environ, reason="a classic session can rescale")
def test_rescale_is_refused_with_the_next_step(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(lw.LowwaterError, match="needs a classic session"):
        lw.rescale(spark, str(tmp_path), 4)
