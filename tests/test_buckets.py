"""Buckets: groups stay together, few buckets change, and only what is due is looked at."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from lowwater.aggregates.grouped import Grouped
from lowwater.model.routing import route
from lowwater.operators.bucket import WindowedAggregation
from lowwater.operators.buckets import Buckets
from lowwater.operators.fragments import Fragments, last
from lowwater.state.store import Changes, Store
from lowwater.windows.context_aware import Session
from tests.stored import reopened, segments

SCHEMA = pa.schema([("ts", pa.int64()), ("k", pa.string())])
FRAGMENTS = Fragments(WindowedAggregation(Session(10), "ts", SCHEMA, ("k",), ()))


def groups(n: int, at: int = 0) -> Grouped:
    """One row a group, at times that ascend from `at`."""
    return FRAGMENTS.reduce(pa.table({"ts": range(at, at + n), "k": [f"k{i}" for i in range(n)]}, schema=SCHEMA))


def opened(store: Store) -> Buckets:
    return Buckets(FRAGMENTS.algebras, store=store)


def test_buckets_in_which_nothing_is_due_are_not_looked_at() -> None:
    seen = []

    def due(grouped: Grouped) -> Any:
        seen.append(len(grouped))
        return last(grouped)

    buckets = Buckets(FRAGMENTS.algebras, FRAGMENTS.coalesce, due)
    buckets.absorb(groups(300))
    buckets.settle()
    seen.clear()
    assert buckets.extract(-1) is None
    assert seen == []
    found = buckets.extract(0)
    assert found is not None
    assert (found.slot.tolist(), len(seen), buckets.rows) == ([0], 2, 299)  # one bucket, before and after


def test_rows_of_one_group_and_slot_are_combined_unless_told_otherwise() -> None:
    store = Store()
    buckets = opened(store)
    for _ in range(2):
        buckets.absorb(groups(5))
    assert buckets.rows == 5
    buckets.absorb(groups(5, at=2))
    found = buckets.extract(100)
    assert found is not None
    assert sorted(found.partials[0][0].tolist()) == [1] * 5 + [2] * 5
    assert (buckets.rows, segments(store)) == (0, {})


def test_what_is_touched_is_taken_out_with_its_buckets_and_can_be_put_back() -> None:
    store = Store()
    buckets = opened(store)
    buckets.absorb(groups(300))
    before = segments(store)
    asked = pa.table({"k": ["k3", "unknown"]})
    taken = buckets.touched(asked)
    assert taken is not None
    assert "k3" in taken.keys.column("k").to_pylist()
    assert len(taken) + buckets.rows == 300
    assert set(buckets.of(taken.keys)) <= set(buckets.of(asked))
    buckets.absorb(taken)
    assert store.commit() == Changes()
    assert segments(store) == before
    assert buckets.touched(asked.slice(0, 0)) is None


def test_restored_buckets_go_on_as_the_others_do() -> None:
    store = Store()
    buckets = opened(store)
    buckets.absorb(groups(50))
    again = reopened(store)
    other = opened(again)
    for each in (buckets, other):
        each.absorb(groups(9, at=30))
        each.extract(20)
    assert (segments(again), other.rows) == (segments(store), buckets.rows)


def test_groups_of_one_shard_are_spread_over_all_buckets() -> None:
    keys = pa.table({"k": [f"k{i}" for i in range(4000)]})
    of_shard = keys.filter(pa.array(route(keys, 16) == 3))
    assert len(np.unique(Buckets(FRAGMENTS.algebras).of(of_shard))) == 16
