"""What a user learns of the disorder of a stream: the report of a finite input, and the metrics while it runs."""

from __future__ import annotations

import datetime as dt

import numpy as np
import pyarrow as pa
import pytest

import lowwater as lw
from lowwater.generate.scrambled import scrambled

ROWS = pa.table({"ts": [5, 1, 7, 3, 7], "s": ["a", "b", "a", "b", "a"]})


def test_report_has_the_definitions_over_the_whole_stream() -> None:
    report = lw.stream(ROWS, name="rows", progress="ts", disorder=9).disorder_report()
    assert (report.rows, report.scrambling_factor, report.multiplicity, report.late_by) == (5, 3, 2, 4)
    assert report.suggested == 4
    assert "disorder=4" in str(report)


def test_report_measures_lateness_within_sources() -> None:
    report = lw.stream(ROWS, name="rows", progress="ts", disorder=9, source="s").disorder_report()
    assert (report.sources, report.late_by, report.scrambling_factor) == (2, 0, 3)


def test_no_row_is_late_under_the_suggested_disorder() -> None:
    rng = np.random.default_rng(4)
    time = np.arange(3000) * 1000 + rng.integers(0, 123_456, 3000)
    rows = pa.table({"ts": pa.array(time, pa.timestamp("us"))})
    found = lw.stream(rows, progress="ts", disorder="1 day").disorder_report()
    assert found.suggested == "130 milliseconds"
    query = lw.stream(rows, progress="ts", disorder=found.suggested).window("1 second").agg(n=lw.count()).start()
    for at in range(0, 3000, 100):
        query.push(rows.slice(at, 100))
    assert query.metrics().late_rows == 0


def test_rows_without_a_time_do_not_count() -> None:
    rows = pa.table({"ts": pa.array([3, None, 1], pa.int64())})
    assert lw.stream(rows, progress="ts", disorder=9).disorder_report().rows == 2


def test_results_have_no_report() -> None:
    counts = lw.stream(ROWS, name="rows", progress="ts", disorder=9).window(5).agg(n=lw.count())
    with pytest.raises(lw.LowwaterError, match="results of another operator"):
        counts.disorder_report()


@pytest.mark.parametrize("shards", [1, 3])
def test_metrics_show_the_disorder_of_every_input_and_survive_a_restart(shards: int) -> None:
    start = dt.datetime(2026, 1, 1)
    time = [start + dt.timedelta(seconds=s) for s in (0, 5, 2, 9, 8)]
    stream = lw.stream(pa.table({"ts": time, "k": list("abcde")}), name="in", progress="ts", disorder="1 minute")
    query = stream.window("1 second").group_by("k").agg(n=lw.count()).start(shards=shards)
    rows = stream.node.frame.table
    query.push(rows.slice(0, 2))
    assert [one.late_by for one in query.metrics().disorder] == [0]
    query.push(rows.slice(2, 1))
    query.restart()
    query.push(rows.slice(3))
    (found,) = query.metrics().disorder
    assert (found.input, found.scrambling_factor, found.late_by, found.suggested) == ("in", 1, 3_000_000, "3 seconds")


def test_metrics_show_rate_lag_and_multiplicity_of_every_stream() -> None:
    """Two inputs of a union, of which one is slow: each value comes twice, and 300 of 400 values have not come."""
    values = pa.table({"ts": np.repeat(np.arange(400), 2)})
    one, slow = (lw.stream(values, name=name, progress="ts", disorder=9) for name in ("one", "slow"))
    query = one.union(slow).window(50).agg(n=lw.count()).start()
    for at in range(0, 800, 80):
        query.push(one=values.slice(at, 80), slow=values.slice(at // 4, 20))
        query.restart()
    first, second = query.metrics().disorder
    assert (first.multiplicity, second.multiplicity) == (2, 2)
    assert (first.rate, second.rate) == (80, 20)
    assert first.lag == pytest.approx(600, abs=2)
    assert second.lag == 0


def test_sampled_metrics_of_a_large_micro_batch_are_near_the_definitions() -> None:
    made = {"one": scrambled(200_000, 1, factor=3000, multiplicity=3).values}
    made["slow"] = scrambled(150_000, 2, factor=500, multiplicity=3).values
    each = [lw.stream(pa.table({"ts": own[:0]}), name=name, progress="ts", disorder=9) for name, own in made.items()]
    query = each[0].union(each[1]).window(50).agg(n=lw.count()).start()
    query.push(**{name: pa.table({"ts": own}) for name, own in made.items()})
    first, second = query.metrics().disorder
    assert first.lag == pytest.approx(50_000, rel=0.02)
    assert second.lag == 0
    assert 3000 <= first.scrambling_factor <= 3000 + 2 * 200_000 / 1024 * 1.1
    assert (first.multiplicity, second.multiplicity) == (3, 3)
