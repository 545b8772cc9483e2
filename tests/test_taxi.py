"""Taxi rides of a morning: their starts joined with their ends, as a real stream of 100,000 rows.

The number of pairs by the longest ride that is asked for is known from outside; the pairs themselves are judged by
Arrow's own hash join. Rows come in order of their own time, so none is late, and a ride waits no longer than asked.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as csv
import pytest

import lowwater as lw
from tests.soak import sampled

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PAIRS = {600: 22_693, 1800: 45_116, 3600: 46_427}
"""Rides that took at most so many seconds."""
STARTS, ENDS = 53_550, 46_450
COLUMNS = ["ride", "kind", "ts", "other", "lon", "lat", "end_lon", "end_lat", "passengers", "taxi", "driver"]
STEP = 5_000


@pytest.fixture(scope="module")
def rides(shared: Path) -> pa.Table:
    """All rows in the order of the file; text of times as times."""
    file = shared / "data" / "nyc_taxi_rides" / "nycTaxiRides.gz"
    if not file.is_file():
        pytest.skip("the taxi rides are not in the folder `shared`")
    rows = csv.read_csv(file, csv.ReadOptions(column_names=COLUMNS))
    times = rows.column("ts").cast(pa.timestamp("us", "UTC"))
    return rows.select(["ride", "kind", "taxi"]).append_column("ts", times)


def of_kind(rows: pa.Table, kind: str) -> pa.Table:
    return rows.filter(pc.equal(rows.column("kind"), kind)).drop_columns(["kind"])


def joined(starts: Any, ends: Any, seconds: int, how: str = "inner") -> lw.Joined:
    left = lw.stream(starts, name="start", progress="ts", disorder=lw.ordered())
    right = lw.stream(ends, name="end", progress="ts", disorder=lw.ordered())
    return left.join(right, on="ride", within=("0 seconds", f"{seconds} seconds"), how=how)


def judged(rides: pa.Table, seconds: int) -> set[int]:
    """The rides of at most this length, found by a join of the whole tables."""
    both = of_kind(rides, "START").join(of_kind(rides, "END"), "ride", join_type="inner", right_suffix="_end")
    took = pc.subtract(both.column("ts_end").cast(pa.int64()), both.column("ts").cast(pa.int64()))
    short = pc.and_(pc.greater_equal(took, 0), pc.less_equal(took, seconds * 1_000_000))
    return set(both.filter(short).column("ride").to_pylist())


def run(rides: pa.Table, query: lw.Joined) -> tuple[pa.Table, int]:
    """All results, and the most rows that were kept after a batch. Starts and ends come in step, as in the file."""
    running = query.start(shards=2)
    kept = 0
    for at in range(0, rides.num_rows, STEP):
        rows = rides.slice(at, STEP)
        for port, kind in enumerate(("START", "END")):
            running.push(of_kind(rows, kind), port)
        kept = max(kept, running.metrics().state_rows)
    running.finish()
    told = running.metrics()
    assert (told.rows, told.late_rows, told.state_rows) == (STARTS + ENDS, 0, 0)
    assert running.late_output().num_rows == 0
    return running.result(), kept


def empty(rides: pa.Table) -> pa.Table:
    return of_kind(rides.slice(0, 0), "START")


@pytest.mark.parametrize("seconds", PAIRS)
def test_starts_meet_their_ends(seconds: int, rides: pa.Table) -> None:
    found, kept = run(rides, joined(empty(rides), empty(rides), seconds))
    assert found.num_rows == PAIRS[seconds]
    assert found.schema.names == ["ride", "start_taxi", "start_ts", "end_taxi", "end_ts"]
    assert pc.all(pc.equal(found.column("start_taxi"), found.column("end_taxi"))).as_py()
    assert set(found.column("ride").to_pylist()) == judged(rides, seconds)
    assert kept <= most_within(rides, seconds) + STEP


def most_within(rides: pa.Table, seconds: int) -> int:
    """The most starts in an interval of this length, its ends included; ends themselves need no keeping."""
    times = sorted(of_kind(rides, "START").column("ts").cast(pa.int64()).to_pylist())
    most = first = 0
    for last, time in enumerate(times):
        while times[first] < time - seconds * 1_000_000:
            first += 1
        most = max(most, last - first + 1)
    return most


def test_rides_that_take_longer_stay_alone(rides: pa.Table) -> None:
    found, _ = run(rides, joined(empty(rides), empty(rides), 600, "left"))
    assert found.num_rows == STARTS
    alone = found.filter(pc.is_null(found.column("end_ts")))
    assert alone.num_rows == STARTS - PAIRS[600]
    started = set(of_kind(rides, "START").column("ride").to_pylist())
    assert set(alone.column("ride").to_pylist()) == started - judged(rides, 600)


def test_a_ride_that_has_ended_is_forgotten_at_once(rides: pa.Table) -> None:
    """A ride starts once and ends once. Who says so keeps the rides on the road, whatever the window."""
    starts, ends = (
        lw.stream(empty(rides), name=name, progress="ts", disorder=lw.ordered()).unique("ride")
        for name in ("start", "end")
    )
    found, kept = run(rides, starts.join(ends, on="ride", within=("0 seconds", "3600 seconds")))
    assert found.num_rows == PAIRS[3600]
    begun = [1 if kind == "START" else -1 for kind in rides.column("kind").to_pylist()]
    on_the_road = [sum(begun[: at + STEP]) for at in range(0, len(begun), STEP)]
    assert kept <= max(on_the_road)


@pytest.mark.spark
@pytest.mark.parametrize("seconds", sampled(list(PAIRS), [3600]))
def test_starts_meet_their_ends_on_spark(seconds: int, rides: pa.Table, spark: SparkSession, tmp_path: Path) -> None:
    """Pairs of the shorter distances are among those of the longer one."""
    from tests.spark.answers import parts, streaming, write_part

    for number, rows in enumerate(parts(rides, 3)):
        for kind in ("START", "END"):
            write_part(of_kind(rows, kind), tmp_path / kind, number)
    sources = (streaming(spark, tmp_path / kind, "ride bigint, taxi bigint, ts timestamp") for kind in ("START", "END"))
    query = joined(*sources, seconds).start(
        checkpoint=str(tmp_path / "checkpoint"),
        results=str(tmp_path / "pairs"),
        late=str(tmp_path / "late"),
    )
    query.finish()
    assert spark.read.parquet(str(tmp_path / "late")).count() == 0
    pairs = spark.read.parquet(str(tmp_path / "pairs"))
    found = pairs.selectExpr("ride", "unix_seconds(end_ts) - unix_seconds(start_ts) AS took").toArrow()
    for distance in [distance for distance in PAIRS if distance <= seconds]:
        within = found.filter(pc.less_equal(found.column("took"), distance)).column("ride").to_pylist()
        assert len(within) == PAIRS[distance]
        assert set(within) == judged(rides, distance)
    assert found.num_rows == PAIRS[seconds]
    told = query.metrics()
    assert (told.rows, told.late_rows, told.state_rows) == (STARTS + ENDS, 0, 0)
