"""The batch answer of a sliding count / sum / max by Spark's own window(), and helpers to write input in steps."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import lowwater as lw
from lowwater.generate import keyed

SCHEMA = "ts timestamp, key bigint, val double"
Answer = dict[tuple[int, int], tuple[int, float, float]]


def stream_of(df: DataFrame) -> lw.Query:
    """The query of most tests here: sliding windows of 10 s by 1 s, per key, with disorder up to 3 s."""
    return (
        lw.stream(df, name="keyed", progress="ts", disorder="3 seconds")
        .window(range="10 seconds", slide="1 second")
        .group_by("key")
        .agg(n=lw.count(), s=lw.sum("val"), m=lw.max("val"))
    )


def rows(n: int = 20_000, seconds: float = 60, keys: int = 50, seed: int = 7) -> pa.Table:
    return keyed(n, seconds, keys, seed=seed)


def write_part(table: pa.Table, directory: Path, part: int) -> None:
    """One more file of the stream. Names and times ascend, so that the file source takes parts in order."""
    directory.mkdir(parents=True, exist_ok=True)
    file = directory / f"{part:04d}.parquet"
    hidden = directory / f".{part:04d}.tmp"
    pq.write_table(table, hidden)
    os.utime(hidden, (1_000_000_000 + part,) * 2)
    hidden.rename(file)


def parts(table: pa.Table, n: int) -> list[pa.Table]:
    step = -(-table.num_rows // n)
    return [table.slice(at, step) for at in range(0, table.num_rows, step)]


def streaming(spark: SparkSession, directory: Path, schema: str = SCHEMA) -> DataFrame:
    return spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(directory))


def batch_answer(spark: SparkSession, directory: Path) -> Answer:
    """By Spark's own window() over the same files as a batch."""
    windows = spark.read.schema(SCHEMA).parquet(str(directory)).groupBy(F.window("ts", "10 seconds", "1 second"), "key")
    found = windows.agg(F.count("*").alias("n"), F.sum("val").alias("s"), F.max("val").alias("m"))
    return as_answer(found.select(F.col("window.end").alias("window_end"), "key", "n", "s", "m"))


def as_answer(df: DataFrame) -> Answer:
    table = df.select(F.unix_micros("window_end").alias("end"), "key", "n", "s", "m").toPandas()
    answer = {
        (int(end), int(key)): (int(n), float(s), float(m))
        for end, key, n, s, m in table.itertuples(index=False, name=None)
    }
    assert len(answer) == len(table), "a window of a group was answered twice"
    return answer


def assert_same(got: Answer, expected: Answer) -> None:
    assert expected, "the judge saw no rows"
    assert got.keys() == expected.keys()
    for key, (n, s, m) in expected.items():
        assert got[key][0] == n
        assert got[key][2] == m
        assert abs(got[key][1] - s) <= 1e-9 * max(1.0, abs(s))


def child(program: str, *arguments: str) -> subprocess.Popen[str]:
    """A program in a process group of its own: the child, its JVM and its workers die together."""
    return subprocess.Popen(
        [sys.executable, "-c", program, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        cwd=Path(__file__).parents[2],
        env=os.environ | {"PYSPARK_PYTHON": sys.executable},
        start_new_session=True,
        text=True,
    )
