"""State by path: what is committed, what comes back, and that equal bytes in two places do not share a life."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pytest

from lowwater.errors import CheckpointMismatch
from lowwater.state import store as module
from lowwater.state.segments import SegmentCache, pack
from lowwater.state.store import Changes, OneTable, Saved, Slots, Store, segment_sizes


@dataclass
class Numbers:
    low: int = 0
    bounds: list[int] = field(default_factory=list)
    name: str | None = None


def table(*values: int) -> pa.Table:
    return pa.table({"v": pa.array(values, pa.int64())})


def values(slots: Slots[pa.Table]) -> list[list[int]]:
    return [entry.value["v"].to_pylist() for entry in slots]


def opened(saved: Saved, name: str = "parts") -> tuple[Store, Slots[pa.Table]]:
    store = saved.open()
    return store, store.slots(name, OneTable())


def test_a_record_comes_back_and_is_written_only_when_it_changed() -> None:
    saved, store = Saved(), Store()
    numbers = store.record("numbers", Numbers())
    assert store.commit() == Changes()
    numbers.low, numbers.bounds, numbers.name = int(np.int64(4)), [1, 2], "x"
    changes = store.commit()
    assert list(changes.entries) == ["numbers"]
    assert store.commit() == Changes()
    saved.apply(changes)
    other = saved.open()
    assert other.record("numbers", Numbers()) == Numbers(4, [1, 2], "x")
    assert other.commit() == Changes()


def test_a_record_that_is_as_at_first_again_is_written() -> None:
    store = Store()
    numbers = store.record("numbers", Numbers())
    numbers.low = 1
    store.commit()
    numbers.low = 0
    assert list(store.commit().entries) == ["numbers"]


def test_only_what_changed_is_committed() -> None:
    saved = Saved()
    store, parts = opened(saved)
    parts.add(table(1), rows=1)
    parts.add(table(2), rows=1)
    saved.apply(store.commit())
    parts.put("1", table(3), rows=1)
    changes = store.commit()
    assert list(changes.entries) == ["parts/1"]
    assert [path for path, _ in changes.written] == [path for path, _ in changes.dropped] == ["parts/1"]
    saved.apply(changes)
    assert values(opened(saved)[1]) == [[1], [3]]


def test_meta_changes_without_writing_the_segment_again() -> None:
    saved = Saved()
    store, parts = opened(saved)
    parts.add(table(1, 2, 3), passed=0)
    saved.apply(store.commit())
    store, parts = opened(saved)
    parts["0"].meta["passed"] = 2
    changes = store.commit()
    assert list(changes.entries) == ["parts/0"]
    assert not changes.written
    assert not changes.dropped
    saved.apply(changes)
    assert opened(saved)[1]["0"].meta == {"passed": 2}


def test_equal_bytes_in_two_places_do_not_share_a_life() -> None:
    saved, store = Saved(), Store()
    left, right = (store.at(side).slots("parts", OneTable()) for side in ("left", "right"))
    for slots in (left, left, right):
        slots.add(table(7))
    saved.apply(store.commit())
    assert len(saved.segments) == 3
    assert len({id for _, id in saved.segments}) == 1
    left.drop("0")
    changes = store.commit()
    assert changes.entries == {"left/parts/0": None}
    saved.apply(changes)
    other = saved.open()
    assert [values(other.at(side).slots("parts", OneTable())) for side in ("left", "right")] == [[[7]], [[7]]]


def test_what_is_put_back_with_equal_bytes_is_not_written_again() -> None:
    saved = Saved()
    store, parts = opened(saved)
    parts.put("a", table(7))
    saved.apply(store.commit())
    parts.put("a", table(7))
    assert store.commit() == Changes()
    parts.drop("a")
    parts.put("a", table(7))
    assert store.commit() == Changes()


def test_entries_keep_the_order_that_they_were_arranged_in() -> None:
    saved = Saved()
    store, parts = opened(saved)
    a, b, c = (parts.add(table(v)) for v in (1, 2, 3))
    saved.apply(store.commit())
    parts.arrange([c, a])
    assert "1" not in parts
    d = parts.add(table(4))
    parts.arrange([c, d, a])
    saved.apply(store.commit())
    assert values(parts) == values(opened(saved)[1]) == [[3], [4], [1]]
    assert b.name == "1"


def test_values_are_read_when_they_are_looked_at_and_then_kept() -> None:
    saved = Saved()
    store, parts = opened(saved)
    parts.add(table(1), rows=1)
    parts.add(table(2), rows=1)
    saved.apply(store.commit())
    fetched = []

    def read(path: str, id: str) -> bytes:
        fetched.append(path)
        return saved.segments[path, id]

    other = Store.open(saved.entries, read)
    parts = other.slots("parts", OneTable())
    assert (parts.rows, parts.bytes, len(parts)) == (2, sum(map(len, saved.segments.values())), 2)
    assert other.commit() == Changes()
    assert fetched == []
    assert [parts["1"].value["v"].to_pylist() for _ in range(2)] == [[2], [2]]
    assert fetched == ["parts/1"]


def test_a_cache_is_asked_by_query_path_and_id() -> None:
    cache, saved = SegmentCache(), Saved()

    def run(query: str, change: Callable[[Slots[pa.Table]], object] = lambda parts: None) -> list[list[int]]:
        store = Store.open(saved.entries, lambda path, id: saved.segments[path, id], cache.of(query))
        parts = store.slots("parts", OneTable())
        change(parts)
        saved.apply(store.commit())
        return values(parts)

    run("one", lambda parts: parts.add(table(5)))
    assert run("one") == [[5]]
    assert (cache.hits, cache.misses) == (1, 0), "what was written is there"
    assert run("other") == [[5]]
    assert (cache.hits, cache.misses) == (1, 1)


def test_a_large_value_is_cut_into_segments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SEGMENT", 1000)
    saved = Saved()
    store, parts = opened(saved)
    parts.add(table(*range(1000)))
    saved.apply(store.commit())
    assert len(saved.segments) > 8
    assert max(map(len, saved.segments.values())) == 1000
    assert segment_sizes(saved.entries) == {key: len(data) for key, data in saved.segments.items()}
    store, parts = opened(saved)
    assert values(parts) == [list(range(1000))]
    parts.put("0", table(1))
    saved.apply(store.commit())
    assert len(saved.segments) == 1
    assert values(opened(saved)[1]) == [[1]]


def test_what_waits_is_settled_before_it_is_weighed_or_committed() -> None:
    store, waiting = Store(), [table(1)]
    parts = store.slots("parts", OneTable())

    def settle() -> None:
        while waiting:
            parts.add(waiting.pop())

    store.settling(settle)
    assert store.bytes > 0
    waiting.append(table(2))
    assert len(store.commit().written) == 2


def test_bytes_are_those_of_a_path_and_below() -> None:
    store = Store()
    one, other = (store.at(name).slots("parts", OneTable()) for name in ("a", "ab"))
    one.add(table(1))
    other.add(table(1))
    assert store.at("a").bytes == one.bytes == store.bytes / 2


def test_another_version_is_refused_in_a_sentence() -> None:
    saved = Saved()
    store, parts = opened(saved)
    parts.add(table(1))
    saved.apply(store.commit())
    ((key, data),) = saved.segments.items()
    saved.segments[key] = data[:2] + b"\x02" + data[3:]
    with pytest.raises(CheckpointMismatch, match="written in segment format 2, this lowwater reads format 3"):
        values(opened(saved)[1])
    assert pack({"rows": table(1)}) == data
