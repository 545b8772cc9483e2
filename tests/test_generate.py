"""Generated streams: the seed decides everything, and the bounds that the docstrings promise hold."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lowwater.generate import (
    SECOND,
    START,
    Band,
    Blocks,
    Delay,
    Disorder,
    disorder,
    keyed,
    lateness,
    packets,
    write_files,
)

SECONDS = 600
seeds = st.integers(0, 2**32 - 1)
ticks = st.lists(st.integers(-(10**6), 10**6), max_size=200).map(lambda t: np.array(t, np.int64))


def ticks_of(table: pa.Table) -> npt.NDArray[np.int64]:
    return np.asarray(table["ts"].cast(pa.int64()), np.int64)


def seconds_of(table: pa.Table) -> npt.NDArray[np.float64]:
    """Data time in seconds since the start of the stream."""
    return (ticks_of(table) - START * SECOND) / SECOND


def of_link(table: pa.Table, link: str) -> pa.Table:
    return table.filter(pc.equal(table["link"], link))


@pytest.mark.parametrize(
    "make",
    [lambda seed: packets(5000, SECONDS, seed).table, lambda seed: keyed(5000, 60, 100, seed)],
    ids=["packets", "keyed"],
)
def test_the_seed_decides_the_stream(make: Callable[[int], pa.Table]) -> None:
    assert make(3).equals(make(3))
    assert not make(3).equals(make(4))


@given(ticks, seeds, st.sampled_from([Delay(50, 300), Band(3), Band(0), Blocks(70)]))
def test_disorder_is_a_permutation_decided_by_the_seed(times: npt.NDArray[np.int64], seed: int, kind: Disorder) -> None:
    order = disorder(times, np.random.default_rng(seed), kind)
    assert sorted(order.tolist()) == list(range(len(times)))
    assert order.tolist() == disorder(times, np.random.default_rng(seed), kind).tolist()


@given(ticks, seeds, st.integers(0, 10**5))
def test_delayed_tuple_is_late_by_no_more_than_the_delay(times: npt.NDArray[np.int64], seed: int, most: int) -> None:
    order = disorder(times, np.random.default_rng(seed), Delay(mean=max(1, most // 2), most=most))
    assert (lateness(times[order]) <= most).all()


@given(ticks, seeds, st.integers(0, 50))
def test_band_displaces_by_no_more_than_k_positions(times: npt.NDArray[np.int64], seed: int, k: int) -> None:
    order = disorder(times, np.random.default_rng(seed), Band(k))
    rank = np.empty(len(times), np.int64)
    rank[np.argsort(times, kind="stable")] = np.arange(len(times))
    assert (np.abs(rank[order] - np.arange(len(times))) <= k).all()


@given(ticks, seeds, st.integers(1, 10**5))
def test_blocks_arrive_in_order_and_bound_lateness(times: npt.NDArray[np.int64], seed: int, length: int) -> None:
    arrived = times[disorder(times, np.random.default_rng(seed), Blocks(length))]
    assert (np.diff(arrived // length) >= 0).all()
    assert (lateness(arrived) < length).all()


def test_every_kind_brings_disorder() -> None:
    times = np.arange(1000, dtype=np.int64)
    for kind in (Delay(5, 30), Band(1), Blocks(10)):
        assert lateness(times[disorder(times, np.random.default_rng(1), kind)]).max() > 0


def test_keyed_is_late_by_no_more_than_max_delay() -> None:
    table = keyed(50_000, 60, keys=100, seed=1, max_delay=2.0)
    ts = ticks_of(table)
    assert 1.0 * SECOND < lateness(ts).max() <= 2.0 * SECOND
    assert table.schema.field("ts").type == pa.timestamp("us", "UTC")
    assert START * SECOND <= ts.min() <= ts.max() < (START + 60) * SECOND


def test_keyed_keys_are_skewed() -> None:
    keys = keyed(50_000, 60, keys=100, seed=1)["key"].to_numpy()
    counts = np.bincount(keys, minlength=100)
    assert len(counts) == 100
    assert counts.max() > 10 * np.median(counts)


def test_packets_state_their_true_disorder() -> None:
    stream = packets(20_000, SECONDS, seed=2, skew=5.0, max_delay=3.0)
    assert stream.disorder == lateness(ticks_of(stream.table)).max()
    assert 5.0 * SECOND < stream.disorder <= 8.0 * SECOND
    for link, known in stream.disorder_of_link.items():
        assert known == lateness(ticks_of(of_link(stream.table, link))).max()
        assert known <= 3.0 * SECOND


def test_packets_leave_control_nearly_silent_and_keep_all_rows() -> None:
    stream = packets(20_001, SECONDS, seed=2)
    rows = {link: of_link(stream.table, link).num_rows for link in stream.disorder_of_link}
    assert rows == {"Control": 20, "Main1": 9990, "Main2": 9991}
    assert stream.table.num_rows == 20_001


def test_packets_lull_silences_control_first_and_then_all() -> None:
    table = packets(20_000, SECONDS, seed=2, quiet=0.05, lull=(0.5, 0.7, 0.8)).table
    control, everything = seconds_of(of_link(table, "Control")), seconds_of(table)
    assert not ((control >= 300) & (control < 480)).any()
    assert not ((everything >= 420) & (everything < 480)).any()
    assert ((everything >= 300) & (everything < 420)).any()
    assert (control >= 480).any()


def test_packets_of_main2_arrive_behind_main1() -> None:
    table = packets(50_000, SECONDS, seed=2, skew=5.0, max_delay=1.0, lull=(0.0, 0.0, 0.0)).table
    ts, link = seconds_of(table), np.array(table["link"].to_pylist())
    newest = {name: np.maximum.accumulate(np.where(link == name, ts, -np.inf)) for name in ("Main1", "Main2")}
    middle = slice(10_000, 40_000)
    behind = newest["Main1"][middle] - newest["Main2"][middle]
    assert abs(np.median(behind) - 5.0) < 0.5
    assert behind.min() > 3.0


def test_packets_sources_are_skewed_and_meet_destinations() -> None:
    table = packets(20_000, SECONDS, seed=2, hosts=500).table
    counts = np.array(table["srcIP"].value_counts().field("counts").to_pylist())
    assert counts.max() > 20 * np.median(counts)
    assert set(table["srcIP"].to_pylist()) & set(table["destIP"].to_pylist())


def test_packets_refuse_a_lull_out_of_order() -> None:
    with pytest.raises(ValueError, match="lull needs fractions"):
        packets(100, SECONDS, seed=1, lull=(0.9, 0.5, 0.6))


def test_files_hold_the_table_in_arrival_order(tmp_path: Path) -> None:
    table = keyed(1003, 60, keys=10, seed=1)
    paths = write_files(table, tmp_path / "in", files=7)
    assert len(paths) == 7
    by_time = sorted((tmp_path / "in").iterdir(), key=lambda path: path.stat().st_mtime)
    assert by_time == sorted(paths) == paths
    assert len({path.stat().st_mtime for path in paths}) == 7
    assert pa.concat_tables(pq.read_table(path) for path in paths).equals(table)


def test_files_refuse_a_directory_with_parquet_in_it(tmp_path: Path) -> None:
    table = keyed(10, 60, keys=10, seed=1)
    write_files(table, tmp_path, files=2)
    with pytest.raises(ValueError, match="empty directory"):
        write_files(table, tmp_path, files=2)
