"""State: bounded as EXPLAIN says, written in pieces, and the same whoever wrote it."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import lowwater as lw
from lowwater.aggregates.base import Aggregate
from lowwater.backends.local import LocalQuery
from lowwater.errors import CheckpointMismatch
from lowwater.generate import keyed
from lowwater.query.bound import slots
from lowwater.state.segments import VERSION, SegmentCache, hash_of, pack, unpack
from tests.stored import segments

DELAY = 3_000_000


def sliding(table: pa.Table, range: str, slide: str, strategy: str = "auto", **aggregates: Aggregate) -> lw.Query:
    stream = lw.stream(table, progress="ts", disorder="3 seconds")
    return stream.window(range=range, slide=slide).group_by("key").agg(strategy, **aggregates)


@pytest.mark.parametrize(
    ("range", "slide"), [("60 seconds", "1 second"), ("10 seconds", "10 seconds"), ("9 seconds", "6 seconds")]
)
@pytest.mark.parametrize("strategy", ["wid", "panes"])
def test_a_differential_aggregate_holds_at_most_panes_times_groups(range: str, slide: str, strategy: str) -> None:
    table = keyed(20_000, 200, 40, seed=3)
    query = sliding(table, range, slide, strategy, n=lw.count(), s=lw.sum("val"))
    running = query.start()
    window, most = query.plan.spec.what.window, 0
    for at in np.arange(0, table.num_rows, 500).tolist():
        running.push(table.slice(at, 500))
        most = max(most, running.metrics().state_rows)
        assert running.metrics().state_rows <= 40 * slots(window, strategy, DELAY)
    assert most > 40, "the bound was never put to the test"
    running.finish()
    assert running.metrics().state_rows == 0
    assert running.metrics().state_bytes == 0


def test_a_landmark_holds_one_partial_a_group_and_the_open_panes() -> None:
    table = keyed(20_000, 200, 40, seed=3)
    stream = lw.stream(table, progress="ts", disorder="3 seconds")
    query = stream.window(range="all", slide="1 second").group_by("key").agg(n=lw.count())
    running = query.start()
    for at in np.arange(0, table.num_rows, 500).tolist():
        running.push(table.slice(at, 500))
        assert running.metrics().state_rows <= 40 * slots(query.plan.spec.what.window, "landmark", DELAY)


def test_ten_thousand_groups_of_which_ten_stay_leave_the_state_of_ten() -> None:
    def part(second: int, keys: int) -> pa.Table:
        key = np.arange(keys)
        ts = pa.array(1_700_000_000_000_000 + second * 1_000_000 + key, pa.int64()).cast(pa.timestamp("us", "UTC"))
        return pa.table({"ts": ts, "key": key, "val": key.astype(float)})

    query = sliding(part(0, 1), "60 seconds", "1 second", n=lw.count(), s=lw.sum("val"), m=lw.max("val"))
    running = query.start(shards=2)
    running.push(part(0, 10_000))
    assert running.metrics().state_rows == 10_000
    for second in np.arange(1, 130).tolist():
        running.push(part(second, 10))
    assert running.metrics().state_rows <= 10 * slots(query.plan.spec.what.window, "panes", DELAY)
    assert running.metrics().dropped_rows == 0


def segment_ids(running: LocalQuery) -> dict[str, str]:
    return {path: id for path, id in segments(running.graph(0, 0).store) if "/blocks/" in path}


def test_a_batch_rewrites_only_the_blocks_it_touches() -> None:
    table = keyed(40_000, 400, 40, seed=5)
    running = sliding(table, "320 seconds", "1 second", n=lw.count()).start()
    running.push(table.slice(0, 30_000))
    before = segment_ids(running)
    running.push(table.slice(30_000, 500))
    after = segment_ids(running)
    same = [block for block in before if after.get(block) == before[block]]
    assert len(before) >= 12
    assert len(same) >= len(before) - 2, "a small batch must not rewrite all state"


def test_segments_are_the_same_whoever_packs_them() -> None:
    tables = {"a": pa.table({"x": [1, 2, 3]}), "none": pa.table({"": pa.nulls(4)}).select([])}
    first, second = pack(tables), pack(tables)
    assert hash_of(first) == hash_of(second)
    opened = unpack(first)
    assert opened["a"].equals(tables["a"])
    assert opened["none"].num_rows == 4
    assert hash_of(pack({"a": pa.table({"x": [1, 2, 4]})})) != hash_of(first)


def test_segments_of_another_format_are_refused() -> None:
    data = bytearray(pack({"a": pa.table({"x": [1]})}))
    data[2] = 99
    with pytest.raises(CheckpointMismatch, match=rf"segment format 99, this lowwater reads format {VERSION};"):
        unpack(bytes(data))
    with pytest.raises(CheckpointMismatch, match="not written by lowwater"):
        unpack(b"something else")


def test_the_cache_keeps_the_latest_within_its_budget() -> None:
    cache = SegmentCache(budget=100)
    for name in "abc":
        cache.put(name, 40, name)
    assert cache.get("c", 40, lambda: "loaded") == "c"
    assert cache.get("a", 40, lambda: "loaded") == "loaded"
    assert (cache.hits, cache.misses) == (1, 1)


@pytest.mark.parametrize("order", ["time", "arrival"])
@pytest.mark.parametrize(("range", "slide"), [(12, 4), (10, 10), (9, 6), (3, 8)])
def test_windows_of_rows_hold_panes_and_a_count_for_each_key(range: int, slide: int, order: str) -> None:
    table = keyed(10_000, 100, 20, seed=4)
    stream = lw.stream(table, progress="ts", disorder="3 seconds")
    query = stream.window(f"{range} rows", f"{slide} rows", partition_by="key", order=order).agg(n=lw.count())
    running = query.start(shards=2)
    panes = range // np.gcd(range, slide) + 1
    times = np.asarray(table.column("ts").cast(pa.int64()))
    for at in np.arange(0, table.num_rows, 400).tolist():
        running.push(table.slice(at, 400))
        seen = times[: at + 400]
        waiting = int((seen >= seen.max() - DELAY).sum()) if order == "time" else 0
        assert running.metrics().state_rows <= 20 * (panes + 1) + waiting
    running.finish()
    assert running.metrics().state_rows == 0


def test_sessions_hold_what_is_open_and_quiet_keys_leave() -> None:
    stream = lw.stream(pa.table({"ts": [0], "key": [0]}).slice(0, 0), progress="ts", disorder=10)
    running = stream.session(5).group_by("key").agg(n=lw.count()).start(shards=2)
    for start in np.arange(0, 5_000, 100).tolist():  # a thousand keys, twenty at a time
        keys = (start // 100 * 20 + np.arange(60) % 20) % 1000
        running.push(pa.table({"ts": np.sort(start + np.arange(60) % 17), "key": keys}))
        assert running.metrics().state_rows <= 60, "sessions of this push alone"
    running.push(pa.table({"ts": [10_000], "key": [-1]}))
    assert running.metrics().state_rows == 1
