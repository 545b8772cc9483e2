"""The benchmarks `slide-by-tuple` and `flush` at a tiny size: engines agree, and disagreement is seen."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest
from rich.console import Console

from lowwater import generate
from lowwater.backends.spark.engine import Files
from lowwater.errors import LowwaterError
from lowwater.experiments import bench, flush, slide_by_tuple
from lowwater.experiments.agreement import read, times
from lowwater.experiments.rounds import Result

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def sums(ts: list[int], total: float = 1.0) -> pa.Table:
    return pa.table({"ts": ts, "key": [1] * len(ts), "total": [total] * len(ts)})


def counts(ends: list[int], n: int = 1) -> pa.Table:
    """Answers of one key in windows that end after so many of their lengths."""
    length = flush.RANGE * generate.SECOND
    return pa.table({"window_end": [end * length for end in ends], "key": [1] * len(ends), "n": [n] * len(ends)})


def test_rows_are_compared_up_to_the_time_both_have_reached() -> None:
    assert slide_by_tuple.difference(sums([1, 2, 3]), sums([1, 2])) is None
    assert slide_by_tuple.difference(sums([1, 2, 3]), sums([1, 3])) == "ts differs"
    assert slide_by_tuple.difference(sums([1, 2]), sums([1, 2], 1 + 1e-6)) == "total differs"
    assert slide_by_tuple.difference(sums([1, 2]), sums([])) == "no answers to compare"


def test_slow_answers_may_be_two_windows_late_and_no_more() -> None:
    eager = counts([1, 2, 3, 4])
    for slow in ([1, 2], [1, 2, 3], [1, 2, 4]):
        assert flush.difference(counts(slow), eager) is None
    assert flush.difference(counts([1, 3]), eager) == "window_end differs"
    assert flush.difference(counts([1, 2], n=2), eager) == "n differs"
    assert flush.difference(counts([1, 2, 5]), eager) == "an answer differs"
    assert flush.difference(counts([1, 2, 3, 3]), eager) == "an answer is there twice"
    assert flush.difference(counts([]), eager) == "window_end differs"
    assert flush.difference(counts([1]), counts([1, 2])) == "no answers to compare"


def test_the_largest_batch_of_a_flush_is_told_beside_the_median() -> None:
    slow = Result("slow", "flush", 3, 3.0, 1.0, (1.0, 1.0, 1.5))
    eager = Result("eager", "flush", 3, 3.0, 1.0, (1.0, 1.0, 4.0))
    assert list(flush.Report("flush", (), (slow, eager)).own.values()) == [1.5, 4.0]
    assert flush.Report("flush", ("n differs",), (slow, eager)).own == {}


def test_every_group_arrives_once_in_every_window() -> None:
    rows = flush.arrivals(groups=50, windows=3, seed=1)
    ts = rows.column("ts").cast(pa.int64()).to_numpy()
    window = ts // (flush.RANGE * generate.SECOND)
    assert len(np.unique(window)) == 3
    assert len(np.unique(np.stack([window, rows.column("key").to_numpy()]), axis=1).T) == rows.num_rows == 150
    assert 0 < generate.lateness(ts).max() <= 3 * generate.SECOND


def test_the_program_by_hand_is_asked_for_by_name_where_it_is_missing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(slide_by_tuple, "BY_HAND", tmp_path / "by_hand.py")
    with pytest.raises(LowwaterError, match=r"needs benchmarks/by_hand.py, which is not installed"):
        slide_by_tuple.by_hand()


@pytest.mark.spark
def test_the_program_by_hand_answers_equal_times_once_and_keys_that_fell_silent(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Times on a grid of 100 ms, so that many are equal and some are the watermark itself; one key ends early."""
    rng = np.random.default_rng(3)
    ts = np.sort(rng.integers(0, 9000, 3000)) * 100_000
    ts = ts[generate.disorder(ts, rng)] + generate.START * generate.SECOND
    key = np.where(ts < np.median(ts), rng.integers(0, 5, len(ts)), rng.integers(0, 4, len(ts)))
    val = rng.normal(size=len(ts))
    rows = pa.table([pa.array(ts, generate.TIMESTAMP), pa.array(key), pa.array(val)], schema=generate.KEYED)
    generate.write_files(rows, tmp_path / "rows", 6)
    slide_by_tuple.by_hand().run(spark, Files(tmp_path / "rows", 2), tmp_path)
    answers = read(tmp_path / "answers", ("ts", "key"))
    below = ts.max() - 3 * generate.SECOND
    ends = [(int(t), int(k)) for t, k in sorted(set(zip(ts, key, strict=True))) if t < below]
    assert list(zip(times(answers, "ts").tolist(), answers.column("key").to_pylist(), strict=True)) == ends
    inside = (val[(key == k) & (ts > t - 600 * generate.SECOND) & (ts <= t)] for t, k in ends)
    assert np.allclose(answers.column("total").to_numpy(), [part.sum() for part in inside], rtol=1e-9, atol=1e-9)


@pytest.mark.spark
def test_slide_by_tuple_agrees_with_spark_by_hand(spark: SparkSession, tmp_path: Path) -> None:
    report = slide_by_tuple.run(spark, rounds=1, rows=2000, batches=2, warm=False)
    assert report.disagreements == ()
    told = json.loads(json.dumps(bench.as_json(report)))
    rows = {f"{r['workload']}/{r['engine']}": r["rows"] for r in told["results"]}
    alone = {f"{name}/lowwater": 4000 for name in slide_by_tuple.AGGREGATES}
    beside = dict.fromkeys(["lowwater", "lowwater-dataframe", "by-hand", "scan"], 4000)
    assert rows == {f"slide-by-tuple/{engine}": n for engine, n in beside.items()} | alone
    assert set(told["ratios"]) == {f"slide-by-tuple/{engine}" for engine in beside if engine != "lowwater"}
    assert set(told["own"]) == {"max60 over sum60", "median60 over sum60"}
    bench.plot(report, tmp_path / "plot.png")
    Console(quiet=True).print(bench.as_table(report))


@pytest.mark.spark
def test_slow_and_eager_flush_agree(spark: SparkSession, tmp_path: Path) -> None:
    report = flush.run(spark, rounds=1, workload=flush.Workload(rows=500, batches=2, windows=3), warm=False)
    assert report.disagreements == ()
    told = json.loads(json.dumps(bench.as_json(report)))
    assert [(r["engine"], r["rows"], len(r["batch_seconds"])) for r in told["results"]] == [
        ("slow", 3000, 6),
        ("eager", 3000, 6),
    ]
    assert set(told["ratios"]) == {"flush/eager"}
    assert set(told["own"]) == {
        "slow: largest batch after the first closing over median",
        "eager: largest over median",
    }
    bench.plot(report, tmp_path / "plot.png")
