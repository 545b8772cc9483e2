"""The low-level table sends what it is told to send, when it is told to, and never changes a result.

Two judges work tuple by tuple. `printed` is Fig. 8-6 of the thesis as it stands, for rows in order. `step_by_step`
takes any rows and any policy, and is the definition of what the table does with a whole batch at once. Both must be met
to the last partial, in order, and at the same row, however the rows are cut into batches.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest

import lowwater as lw
from lowwater.aggregates.grouped import Grouped, gather, pick, regroup
from lowwater.errors import LowwaterError
from lowwater.experiments.thesis.flush import highest_rate
from lowwater.model.routing import route
from lowwater.operators import layout
from lowwater.operators.bucket import Bucket, WindowedAggregation
from lowwater.operators.sub_aggregation import Eager, Evictions, Lazy, Slow, SubAggregation
from lowwater.plan.plan import Plan
from lowwater.runtime.ingest import Ingest, Parcel
from lowwater.state.segments import unpack
from lowwater.windows.context_free import Landmark, Sliding

SCHEMA = pa.schema([("ts", pa.int64()), ("k", pa.string()), ("j", pa.int64()), ("v", pa.int64())])
POLICIES = [Eager(), Slow(2, 1), Slow(1, 3), Slow(None, 7), Lazy(0), Lazy(1), Lazy(2), Lazy(None)]
SIZES = [1, 5, 64]
CUTS = [29, 100, 10_000]
RANGE = 40
"""A window of as many rows: rows come one a tick."""

Sent = tuple[int, int, int, int]
"""The row at which a partial left, its group, its slot and its count."""


def stream(seed: int, rows: int, groups: int, disorder: int) -> pa.Table:
    """Rows one a tick, each up to `disorder` ticks late; groups come in trains now and then, and some are null."""
    rng = np.random.default_rng(seed)
    ts = np.argsort(np.arange(rows) + rng.integers(0, disorder + 1, rows), kind="stable")
    j = np.repeat(rng.integers(0, groups, rows), rng.integers(1, 4, rows))[:rows]
    k = pa.array([f"g{n}" if n % 5 else None for n in j])
    return pa.table({"ts": ts, "k": k, "j": j, "v": rng.integers(-9, 9, rows)}, schema=SCHEMA)


def counting(window: Sliding | Landmark | None = None) -> Bucket:
    """Rows by number of group, so that judges need no keys."""
    return Bucket(WindowedAggregation(window or Sliding(RANGE), "ts", SCHEMA, ("j",), (("n", lw.count()),)))


def batches(rows: pa.Table, cut: int) -> Iterator[pa.Table]:
    return (rows.slice(at, cut) for at in range(0, rows.num_rows, cut))


def sent(table: SubAggregation, rows: pa.Table, cut: int) -> list[Sent]:
    """All that leaves before the table is emptied."""
    out: list[Sent] = []
    for batch in batches(rows, cut):
        evicted = table.take(batch)
        out += zip(evicted.row.tolist(), *told(evicted.partials), strict=True)
    return out


def told(partials: Grouped) -> tuple[list[int], list[int], list[int]]:
    groups = pick(partials.keys, partials.group).column("j").to_pylist()
    return groups, partials.slot.tolist(), np.asarray(partials.partials[0][0]).tolist()


@dataclass
class Judge:
    """A table worked tuple by tuple: (group, slot, count) by entry, and what was sent."""

    entries: dict[int, tuple[int, int, int]] = field(default_factory=dict)
    sent: list[Sent] = field(default_factory=list)
    counts: Evictions = field(default_factory=Evictions)

    def send(self, row: int, cause: str, entries: list[int]) -> None:
        for entry in entries:
            self.sent.append((row, *self.entries.pop(entry)))
            setattr(self.counts, cause, getattr(self.counts, cause) + 1)

    def closed(self) -> Judge:
        self.counts.drained = len(self.entries)
        of_row = np.bincount([row for row, *_ in self.sent]) if self.sent else np.zeros(1, int)
        self.counts.burst = int(of_row.max())
        return self


def tuples(rows: pa.Table, size: int) -> Iterator[tuple[int, int, int, int]]:
    """Row, group, window and entry."""
    entries = route(rows.select(["j"]), size).tolist()
    windows = (rows.column("ts").to_numpy() // RANGE).tolist()
    return zip(range(rows.num_rows), rows.column("j").to_pylist(), windows, entries, strict=True)


def printed(rows: pa.Table, size: int) -> Judge:
    """Fig. 8-6: one window is old and one is new. Flushing the rest at a new window counts as the bound."""
    judge = Judge()
    status = ["empty"] * size
    flush_finished, flush_pos, window = True, 0, None

    def flush(row: int, cause: str, entries: list[int]) -> None:
        judge.send(row, cause, entries)
        for entry in entries:
            status[entry] = "empty"

    for row, group, of_row, key in tuples(rows, size):
        if of_row != window:
            if not flush_finished:
                flush(row, "bound", [e for e in range(size) if status[e] == "old"])
            status = ["old" if s == "new" else s for s in status]
            flush_finished, flush_pos, window = False, 0, of_row
        if not flush_finished:
            if status[flush_pos] == "old":
                flush(row, "turn", [flush_pos])
            flush_pos += 1
            flush_finished = flush_pos == size
        count = 0
        if status[key] == "new":
            if judge.entries[key][0] == group:
                count = judge.entries[key][2]
            else:
                flush(row, "forced", [e for e in range(size) if status[e] == "old"])
                flush(row, "collision", [key])
        elif status[key] == "old":
            flush(row, "collision", [key])
        judge.entries[key], status[key] = (group, of_row, count + 1), "new"
    return judge.closed()


def step_by_step(rows: pa.Table, size: int, policy: Lazy) -> Judge:
    """Any rows, any policy: the bound, the turn, the collision, then the row itself."""
    judge, newest, began = Judge(), -(2**62), 0
    for row, group, slot, key in tuples(rows, size):

        def aged(older_than: int) -> list[int]:
            chosen = [e for e, held in judge.entries.items() if held[1] < older_than]
            return sorted(chosen, key=lambda e: (judge.entries[e][1], e))

        if slot > newest:
            newest, began = slot, row
            if policy.windows is not None:
                judge.send(row, "bound", aged(newest - policy.windows))
        old = aged(newest)
        if isinstance(policy, Eager):
            judge.send(row, "turn", [e for e in old if e == row - began])
        if isinstance(policy, Slow) and (row + 1) % policy.every == 0:
            judge.send(row, "turn", old[:1])
        held = judge.entries.get(key)
        if held is not None and held[:2] != (group, slot):
            if policy.in_order and held[1] == newest:
                judge.send(row, "forced", aged(newest))
            judge.send(row, "collision", [key])
        held = judge.entries.get(key)
        judge.entries[key] = (group, slot, held[2] + 1 if held else 1)
    return judge.closed()


@pytest.mark.parametrize("groups", [3, 30])
@pytest.mark.parametrize("size", SIZES)
def test_eager_is_the_printed_algorithm(size: int, groups: int) -> None:
    for seed, cut in ((1, 1), *itertools.product((2, 3), CUTS)):
        rows = stream(seed, 300, groups, disorder=0)
        table, judge = SubAggregation(counting(), size, Eager()), printed(rows, size)
        assert sent(table, rows, cut) == judge.sent
        assert len(table.flush()) == len(judge.entries)
        assert table.evictions == judge.counts


@pytest.mark.parametrize("policy", POLICIES, ids=str)
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("disorder", [0, 25, 130])
def test_a_batch_gives_what_its_rows_give_one_by_one(policy: Lazy, size: int, disorder: int) -> None:
    for groups, cuts in ((3, CUTS), (40, [*CUTS, 1] if (size, disorder) == (5, 25) else CUTS)):
        rows = stream(groups, 300, groups, disorder)
        judge = step_by_step(rows, size, policy)
        assert len(judge.sent) > 10, "the judge must have something to say"
        for cut in cuts:
            table = SubAggregation(counting(), size, policy)
            assert sent(table, rows, cut) == judge.sent
            assert sorted(zip(*told(table.flush()), strict=True)) == sorted(judge.entries.values())
            assert table.evictions == judge.counts


@pytest.mark.parametrize("policy", POLICIES, ids=str)
@pytest.mark.parametrize("by_slot", [False, True])
@pytest.mark.parametrize(
    ("window", "group_by"),
    [
        (Sliding(RANGE), ("k",)),
        (Sliding(60, 20, origin=-7), ("k", "j")),
        (Sliding(60, 20), ()),
        (Sliding(10, 25), ("j",)),
        (Landmark(30), ("k",)),
    ],
    ids=str,
)
def test_what_leaves_merges_to_what_bucket_gives(
    policy: Lazy, by_slot: bool, window: Sliding | Landmark, group_by: tuple[str, ...]
) -> None:
    named = {"s": lw.sum("v"), "low": lw.min("v"), "name": lw.last("k"), "mid": lw.median("v"), "a": lw.avg("v")}
    bucket = Bucket(WindowedAggregation(window, "ts", SCHEMA, group_by, tuple(named.items())))
    rows = stream(5, 250, 12, disorder=30)
    expected = flat(bucket.reduce(rows), bucket)
    for size in SIZES:
        table = SubAggregation(bucket, size, policy, by_slot)
        parts = [table.take(batch).partials for batch in batches(rows, 60)]
        assert len(table) <= size
        together = gather([*parts, table.flush()])
        merged = regroup(together.keys, together.group, together.slot, together.partials, bucket.algebras)
        assert flat(merged, bucket) == expected
        assert len(table) == 0
        assert len(table.flush()) == 0


def flat(grouped: Grouped, bucket: Bucket) -> list[tuple[Any, ...]]:
    """Group, slot and results, in an order of their own."""
    results = [a.lower(p).to_pylist() for a, p in zip(bucket.algebras, grouped.partials, strict=True)]
    keys = [tuple(row.values()) for row in pick(grouped.keys, grouped.group).to_pylist()] or [()] * len(grouped)
    return sorted(zip(map(str, keys), grouped.slot.tolist(), *results, strict=True), key=str)


@pytest.mark.parametrize("size", SIZES)
def test_eager_sends_in_window_order(size: int) -> None:
    rows = stream(3, 2000, 30, disorder=0)
    slots = [slot for _, _, slot, _ in sent(SubAggregation(counting(), size, Eager()), rows, 100)]
    assert len(set(slots)) > 40
    assert slots == sorted(slots)


@pytest.mark.parametrize("policy", [p for p in POLICIES if p.windows is not None], ids=str)
def test_nothing_leaves_later_than_the_bound(policy: Lazy) -> None:
    """A partial in order leaves before the first row of a window that is more than m windows later is added."""
    rows = stream(4, 2000, 30, disorder=0)
    table = SubAggregation(counting(), 64, policy)
    newest = (rows.column("ts").to_numpy() // RANGE).tolist()
    late = [(row, newest[row] - slot) for row, _, slot, _ in sent(table, rows, 100)]
    assert policy.windows is not None
    assert max(by for _, by in late) <= policy.windows + 1
    assert all(newest[row] > newest[row - 1] for row, by in late if by > policy.windows)


def test_slow_sends_one_old_partial_every_so_many_rows_while_there_is_one() -> None:
    """40 groups of one window, and then one other group, in an entry of its own, which drives out none of them."""
    size = 1 << 12
    groups = next(g for g in range(1000) if len(set(route(pa.table({"j": np.arange(g, g + 41)}), size).tolist())) == 41)
    j = np.concatenate([np.arange(groups, groups + 40), np.full(900, groups + 40)])
    ts = np.concatenate([np.zeros(40, np.int64), np.full(900, RANGE)])
    rows = pa.table({"ts": ts, "k": pa.nulls(940, pa.string()), "j": j, "v": ts}, schema=SCHEMA)
    out = sent(SubAggregation(counting(), size, Slow(2, 16)), rows, 100)
    assert [row for row, *_ in out] == list(range(47, 47 + 40 * 16, 16))
    assert all(slot == 0 for _, _, slot, _ in out)
    assert sent(SubAggregation(counting(), size, Lazy(2)), rows, 100) == []


def test_policies_differ_in_their_bursts() -> None:
    """The force of the order-preserving table sends a window at once; the others never send more than two a row."""
    rows = stream(6, 6000, 200, disorder=0)
    window = Sliding(2000)
    bursts = {}
    for policy in (Eager(), Slow(2, 160), Lazy(2)):
        table = SubAggregation(counting(window), 256, policy)
        sent(table, rows, 1000)
        bursts[type(policy).__name__] = table.evictions.burst
    assert bursts["Eager"] > 50
    assert max(bursts["Slow"], bursts["Lazy"]) <= 2


def test_by_slot_keeps_disordered_rows_apart() -> None:
    rows = stream(7, 3000, 4, disorder=100)
    evictions = {}
    for by_slot in (False, True):
        table = SubAggregation(counting(Sliding(20)), 1 << 12, Lazy(None), by_slot)
        sent(table, rows, 100)
        evictions[by_slot] = table.evictions.collision
    assert evictions[True] < evictions[False] / 10


def test_a_table_has_at_least_one_entry() -> None:
    with pytest.raises(LowwaterError, match="at least 1 entry, not 0"):
        SubAggregation(counting(), 0, Lazy())


@pytest.mark.parametrize("group_by", [(), ("k",), ("k", "j")], ids=str)
@pytest.mark.parametrize("entries", [1, 7, 1 << 12])
def test_a_run_through_a_table_carries_the_same_partials(
    entries: int, group_by: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run of many batches for several shards; what is evicted is packed in several parts."""
    monkeypatch.setattr(layout, "_MERGE_AFTER", 100)
    rows = stream(8, 3000, 60, disorder=50)
    plain, bounded = (asked(rows, group_by, table).plan for table in (None, entries))
    bucket, shards = Bucket(plain.spec.what), 3
    pieces = [batch.to_batches()[0] for batch in batches(rows, 90)]
    runs = [Ingest(plan, [0], shards, late=False).run(pieces) for plan in (plain, bounded)]
    seen = 0
    for messages in zip(*runs, strict=True):
        one, other = (partials(plan, message) for plan, message in zip((plain, bounded), messages, strict=True))
        assert (one is None) == (other is None)
        if one is not None and other is not None:
            assert flat(one, bucket) == flat(other, bucket)
            assert (np.diff(other.group * 10_000 + other.slot) > 0).all(), "distinct and sorted"
            seen += len(one)
    assert seen > 100


def partials(plan: Plan, message: list[bytes]) -> Grouped | None:
    """What a run of the only entry brings to a shard, as its operator takes it."""
    (blob,) = message
    messages = list(plan.layout(plan.entries[0]).messages([(0, Parcel.of(unpack(blob), plan).tables)]))
    return messages[0].grouped if messages else None  # type: ignore[attr-defined, union-attr]


@pytest.mark.parametrize("group_by", [(), ("k", "j")], ids=str)
def test_a_query_with_a_table_gives_the_same_answers(group_by: tuple[str, ...]) -> None:
    rows = stream(8, 3000, 60, disorder=50)
    plain, bounded = (asked(rows, group_by, table).start(shards=2) for table in (None, 7))
    for query in (plain, bounded):
        for batch in batches(rows, 700):
            query.push(batch)
        query.finish()
    assert plain.result().num_rows > 100
    assert bounded.result().equals(plain.result())


def asked(rows: pa.Table, group_by: tuple[str, ...], table: int | None) -> lw.Query:
    stream = lw.stream(rows, name="rows", progress="ts", disorder=50, groups="dense")
    aggregates = {"n": lw.count(), "s": lw.sum("v"), "low": lw.min("v"), "mid": lw.median("v")}
    return stream.window(range=60, slide=20).group_by(*group_by).agg(table=table, **aggregates)


def test_a_run_without_a_row_that_counts_is_sent_as_well() -> None:
    rows = stream(9, 50, 3, disorder=0)
    query = lw.stream(rows, name="rows", progress="ts", disorder=0).where("v > 100").window(range=RANGE)
    assert query.agg(table=4, n=lw.count()).collect().num_rows == 0


@pytest.mark.parametrize("ring", [1, 4, 30])
def test_the_highest_rate_is_the_edge_of_loss(ring: int) -> None:
    """Fig. 8-7 rests on it: a little slower no packet finds the ring full, a little faster one does."""
    rng = np.random.default_rng(ring)
    for bursts in ([0, 0, 1], [0, 0, 0, 60], [0]):
        work = 1 + 1.5 * rng.choice(bursts, 400)
        rate = highest_rate(work, ring)
        assert not loses(work, ring, rate * 0.999)
        assert loses(work, ring, rate * 1.001) or rate == len(work) / work.sum()


def loses(work: npt.NDArray[np.float64], ring: int, rate: float) -> bool:
    """Packet by packet: whether one arrives while the packet `ring` places before it is still there."""
    left: list[float] = []
    for number, cost in enumerate([*work.tolist(), *[0.0] * ring]):  # packets go on arriving after the last that counts
        arrival = number / rate
        if number >= ring and left[number - ring] > arrival * (1 + 1e-12):
            return True
        left.append(max(arrival, left[-1] if left else 0.0) + cost)
    return False
