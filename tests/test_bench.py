"""The benchmarks at a tiny size: engines agree, and disagreement is seen (`sliding` is in test_cli.py).

Windows, joins, plans and topics run always, each with Spark's own engines beside ours; the others under `make soak`.
"""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest
from rich.console import Console

from benchmarks import bench, flush, join, oblivious, plans, slide_by_tuple
from benchmarks import kafka as topics
from benchmarks.agreement import digest, read, times, unlike_digests
from benchmarks.rounds import Result
from lowwater import generate
from lowwater.backends.spark.demo import Files
from tests.soak import only_soaking

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
    assert flush.difference(counts([1, 2, 3, 3]), eager) == "an answer occurs twice"
    assert flush.difference(counts([]), eager) == "window_end differs"
    assert flush.difference(counts([1]), counts([1, 2])) == "no answers to compare"


def test_the_largest_batch_of_a_flush_is_printed_beside_the_median() -> None:
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


def pairs(directory: Path, ids: list[tuple[int, int]], blocks: int = 3, key: str = "a") -> pa.Table:
    """The digest, in blocks of ten rows a side, of answers that pair these rows."""
    left, right = ([pair[side] for pair in ids] for side in (0, 1))
    generate.write_files(pa.table({"key": [key] * len(ids), "l_id": left, "r_id": right}), directory, 2)
    return digest(directory, ("key", "l_id", "r_id"), ("l_id", "r_id"), 10, blocks)


def test_pairs_are_compared_in_any_order_and_by_the_micro_batches_that_both_have_read(tmp_path: Path) -> None:
    ours = pairs(tmp_path / "ours", [(1, 2), (3, 4), (5, 15), (25, 6)])
    assert ours["rows"].to_pylist() == [2, 1, 1]
    shorter = pairs(tmp_path / "shorter", [(3, 4), (5, 15), (1, 2)], blocks=2)
    assert unlike_digests(ours, shorter) is None
    others = {
        "turned": ([(25, 6), (3, 4), (1, 2), (5, 15)], None),
        "silent": ([(3, 4), (5, 15), (1, 2)], "answers of micro-batch 2 differ"),
        "other": ([(1, 2), (3, 4), (5, 16), (25, 6)], "answers of micro-batch 1 differ"),
        "twice": ([(1, 2), (3, 4), (3, 4), (5, 15), (25, 6)], "answers of micro-batch 0 differ"),
        "swapped": ([(2, 1), (3, 4), (5, 15), (25, 6)], "answers of micro-batch 0 differ"),
    }
    for name, (ids, what) in others.items():
        assert unlike_digests(ours, pairs(tmp_path / name, ids)) == what
    again = pairs(tmp_path / "key", [(1, 2), (3, 4), (5, 15), (25, 6)], key="b")
    assert unlike_digests(ours, again) == "answers of micro-batch 0 differ"
    assert unlike_digests(pairs(tmp_path / "none", []), ours) == "no answers to compare"


def test_a_join_tells_what_a_larger_state_costs_and_whether_batches_grow() -> None:
    results = tuple(
        Result("lowwater", name, 6, 6 * seconds, 1.0, (seconds, 1.0, 2 * seconds) * 2)
        for name, seconds in (("state1", 1.0), ("state10", 1.5))
    )
    grown = {f"{name}: last third of the micro-batches over the first": 2.0 for name in ("state1", "state10")}
    over = {"state10 over state1": 1.5, "state10 over state1 by the mean": 5.5 / 4}
    assert join.Report("join", (), results, 3).own == over | grown
    assert join.Report("join", ("rows differ",), results, 3).own == {}


def test_a_smaller_join_has_as_many_partners_a_row() -> None:
    for workload in (*join.BANDS, *join.STATES):
        small = workload.capped(4001)
        assert (small.rows, small.rows * workload.keys) == (4000, small.keys * workload.rows)
        assert workload.capped(None) == workload
    for less, more in pairwise(join.STATES):
        assert less.band / less.keys == more.band / more.keys
        assert 10 * (less.band + 3) == more.band + 3 < more.history * more.seconds, "full when the clock starts"


def test_answers_are_compared_with_a_batch_computation_as_far_as_progress_must_have_reached() -> None:
    batch = pa.table({"window_end": [1, 2, 2, 3], "key": [1, 1, 2, 1], "n": [4, 5, 6, 7], "due": [True] * 3 + [False]})
    assert plans.difference(batch.drop(["due"]), batch) is None
    assert plans.difference(batch.drop(["due"]).slice(0, 3), batch) is None, "the last window is not due"
    assert plans.difference(batch.drop(["due"]).slice(0, 1), batch) == "windows are missing"
    assert plans.difference(batch.drop(["due"]).slice(0, 0), batch) == "no answers to compare"
    assert plans.difference(batch.drop(["due"]).slice(1, 3), batch) == "window_end differs"
    wrong = batch.drop(["due"]).set_column(2, "n", pa.array([4, 5, 6, 8]))
    assert plans.difference(wrong, batch) == "n differs", "what is answered early must be right too"


def test_the_batch_computation_counts_what_the_definition_counts() -> None:
    rng = np.random.default_rng(5)
    ts, key = rng.integers(0, 100 * generate.SECOND, 300), rng.integers(0, 3, 300)
    ends, keys, n = plans.batch_counts(ts, key)
    found = {(end, k): count for end, k, count in zip(ends.tolist(), keys.tolist(), n.tolist(), strict=True)}
    every = [second * generate.SECOND for second in range(161)]
    inside = {
        (end, k): int(((key == k) & (ts >= end - every[60]) & (ts < end)).sum()) for end in every for k in (0, 1, 2)
    }
    assert found == {window: count for window, count in inside.items() if count}


def test_plans_are_divided_by_the_plainer_ones() -> None:
    results = tuple(
        Result(name, "stages", 2, seconds, 1.0, (seconds,))
        for name, seconds in (("two-stages", 3.0), ("one-stage", 2.0))
    )
    report = plans.Report("plans", (), results)
    assert (report.ratios, [report.ratio_of(r) for r in results]) == ({"two-stages/one-stage": 1.5}, [1.5, None])
    assert plans.Report("plans", ("n differs",), results).ratios == {}


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


@only_soaking
@pytest.mark.spark
def test_slide_by_tuple_agrees_with_spark_by_hand(spark: SparkSession, tmp_path: Path) -> None:
    report = slide_by_tuple.run(spark, rounds=1, rows=2000, batches=2, warm=False)
    assert report.disagreements == ()
    printed = json.loads(json.dumps(bench.as_json(report)))
    rows = {f"{r['workload']}/{r['engine']}": r["rows"] for r in printed["results"]}
    alone = {f"{name}/lowwater": 4000 for name in slide_by_tuple.AGGREGATES}
    beside = dict.fromkeys(["lowwater", "lowwater-dataframe", "by-hand", "scan"], 4000)
    assert rows == {f"slide-by-tuple/{engine}": n for engine, n in beside.items()} | alone
    assert set(printed["ratios"]) == {f"slide-by-tuple/{engine}" for engine in beside if engine != "lowwater"}
    assert set(printed["own"]) == {"max60 over sum60", "median60 over sum60"}
    bench.plot(report, tmp_path / "plot.png")
    Console(quiet=True).print(bench.as_table(report))


@only_soaking
@pytest.mark.spark
def test_slow_and_eager_flush_agree(spark: SparkSession, tmp_path: Path) -> None:
    report = flush.run(spark, rounds=1, workload=flush.Workload(rows=500, batches=2, windows=3), warm=False)
    assert report.disagreements == ()
    printed = json.loads(json.dumps(bench.as_json(report)))
    assert [(r["engine"], r["rows"], len(r["batch_seconds"])) for r in printed["results"]] == [
        ("slow", 3000, 6),
        ("eager", 3000, 6),
    ]
    assert set(printed["ratios"]) == {"flush/eager"}
    assert set(printed["own"]) == {
        "slow: largest batch after the first closing over median",
        "eager: largest over median",
    }
    bench.plot(report, tmp_path / "plot.png")


@pytest.mark.spark
def test_join_agrees_with_sparks_own(spark: SparkSession, tmp_path: Path) -> None:
    bands = (join.Workload("band", 2, 100, 2000, 10, 2, text=True),)
    states = (join.Workload("state1", 2, 100, 2000, 10, 3), join.Workload("state10", 4, 200, 2000, 10, 3))
    report = join.run(spark, rounds=1, bands=bands, states=states, warm=False)
    assert report.disagreements == ()
    printed = json.loads(json.dumps(bench.as_json(report)))
    rows = {f"{r['workload']}/{r['engine']}": r["rows"] for r in printed["results"]}
    beside = dict.fromkeys(["lowwater", "lowwater-dataframe", "spark-memory", "spark-rocksdb", "scan"], 4000)
    beside["spark-rocksdb"] = 2000
    alone = {"state1/lowwater": 6000, "state10/lowwater": 6000}
    assert rows == {f"band/{engine}": n for engine, n in beside.items()} | alone
    assert set(printed["ratios"]) == {f"band/{engine}" for engine in beside if engine != "lowwater"}
    assert len(printed["own"]) == 4
    bench.plot(report, tmp_path / "plot.png")
    Console(quiet=True).print(bench.as_table(report))


@pytest.mark.spark
def test_plans_agree_with_the_batch_computation(spark: SparkSession, tmp_path: Path) -> None:
    small = tuple(plans.Workload(name, 3000, batches=2) for name in plans.ROWS)
    report = plans.run(spark, rounds=1, workloads=small, warm=False)
    assert report.disagreements == ()
    printed = json.loads(json.dumps(bench.as_json(report)))
    assert {(r["engine"], r["rows"]) for r in printed["results"]} == {(name, 6000) for name in plans.ENGINES}
    assert set(printed["ratios"]) == {"two-stages/one-stage", "union-of-three/one-input", "sources10000/sources10"}
    assert printed["own"] == {}
    bench.plot(report, tmp_path / "plot.png")
    Console(quiet=True).print(bench.as_table(report))


@only_soaking
@pytest.mark.spark
def test_four_sensors_agree_with_three_joins_of_spark(spark: SparkSession, tmp_path: Path) -> None:
    small = oblivious.WORKLOADS[0].capped(8000)
    report = oblivious.run(spark, rounds=1, workloads=[small], warm=False)
    assert report.disagreements == ()
    printed = json.loads(json.dumps(bench.as_json(report)))
    assert {r["engine"]: r["rows"] for r in printed["results"]} == {
        "lowwater": 32_000,
        "spark-memory": 16_000,
        "spark-rocksdb": 8000,
    }
    assert set(printed["ratios"]) == {"four-sensors/spark-memory", "four-sensors/spark-rocksdb"}


@pytest.mark.spark
def test_windows_over_a_topic_agree_with_sparks_own(spark: SparkSession, kafka: str) -> None:
    small = topics.Workload("range60", topics.Question(20, 1), 2000, 20, 1)
    report = topics.run(spark, rounds=1, workloads=[small], warm=False, servers=kafka)
    assert report.disagreements == ()
    printed = json.loads(json.dumps(bench.as_json(report)))
    assert {r["engine"]: r["rows"] for r in printed["results"]} == dict.fromkeys(
        ("lowwater", "spark-memory", "scan", "source"), 2000
    )
    assert set(printed["ratios"]) == {"range60/spark-memory", "range60/scan", "range60/source"}
