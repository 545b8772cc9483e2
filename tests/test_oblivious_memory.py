"""The memory of a join without a window as the operating system sees it, and the work of its monitors."""

from __future__ import annotations

import gc
import subprocess
import sys
import tracemalloc
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pytest

import lowwater as lw
from lowwater.generate.scrambled import scrambled
from lowwater.joins.aside import PIECES
from lowwater.joins.complete_keys import RECENT, WIDTH
from lowwater.model import monitors
from tests.test_oblivious import named, operators, streams

PROGRAM = """
import sys
import numpy as np, pyarrow as pa
import lowwater as lw

def resident():
    fields = dict(line.split(":", 1) for line in open("/proc/self/status"))
    return int(fields["VmRSS"].split()[0]) * 1024

pa.set_memory_pool(pa.system_memory_pool())
text = pa.array(["x" * 1000] * 2000)
def rows(first, name):
    return pa.table({"t": np.arange(first, first + 2000), name: text})
one, two = (lw.stream(rows(0, n), name=n, progress="t", disorder=lw.measured()) for n in "ab")
memory = None if sys.argv[1] == "free" else sys.argv[1]
query = lw.oblivious_join([one, two], on="t", expect=lw.expect(scrambling=0), memory=memory).start()
query.push(rows(0, "b"), "b")
query.push(rows(0, "a"), "a")
before, most = resident(), 0
for first in range(2000, 120_000, 2000):
    query.push(rows(first, "a"), "a")
    most = max(most, resident())
(metrics,) = query.metrics().operators
print(most - before, metrics.aside_rows, metrics.evicted_rows)
"""


def grown(memory: str) -> list[int]:
    """The growth of the process in bytes while one stream runs 118,000 rows of 1 kB ahead; rows aside, and evicted."""
    found = subprocess.run([sys.executable, "-c", PROGRAM, memory], capture_output=True, text=True, check=True)
    return [int(number) for number in found.stdout.split()]


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="resident memory is read from /proc")
def test_process_grows_by_the_limit_and_not_by_the_lag() -> None:
    free, _, _ = grown("free")
    limited, aside, evicted = grown("8 MB")
    assert free > 100e6
    assert limited < 8e6 + 25e6, "the limit, and a few micro-batches of 2 MB on their way"
    assert aside > 100_000
    assert evicted == 0


MONITORS = 200_000
"""Bytes of the monitors of one input, at most (docs/algorithms.md)."""
DIRECTORY = 100_000
"""Bytes that an input with rows on disk takes beyond that, at most."""


@pytest.fixture
def allocated() -> Iterator[object]:
    """The bytes that Arrow, numpy and Python have allocated, as both count them."""
    tracemalloc.start()

    def now() -> int:
        gc.collect()
        return pa.total_allocated_bytes() + tracemalloc.get_traced_memory()[0]

    yield now
    tracemalloc.stop()


@pytest.mark.parametrize("budget", [400_000, 1_500_000])
@pytest.mark.parametrize("measured", [False, True])
def test_allocations_stay_within_the_limit_whether_or_not_metrics_are_read(
    budget: int, measured: bool, allocated
) -> None:
    def rows(first: int, name: str) -> pa.Table:
        text = pa.array([f"{number:08d}" * 10 for number in range(first, first + 2000)])
        return pa.table({"t": np.arange(first, first + 2000), name: text})

    each = [lw.stream(rows(0, n).schema.empty_table(), name=n, progress="t", disorder=lw.measured()) for n in "ab"]
    query = lw.oblivious_join(each, on="t", expect=lw.expect(scrambling=0), memory=budget).start()
    query.metrics()
    before, most, used = allocated(), 0, set()
    steps = [(name, first) for name in "ab" for first in range(0, 20_000, 2000)]
    for name, first in steps:
        query.push(rows(first, name), name)
        query.results.clear()
        if measured:
            assert query.metrics().operators[0].memory_bytes <= budget
        most = max(most, allocated() - before)
        used |= {join.strategy.name for join in operators(query)}
    assert most <= budget + 2 * MONITORS
    assert used >= {"plain", "DBF"}
    (metrics,) = query.metrics().operators
    assert (metrics.result_rows, metrics.evicted_rows) == (20_000, 0)


def test_pieces_on_disk_do_not_grow_with_the_lag(allocated) -> None:
    """One stream runs 300 small micro-batches ahead, each of which puts rows aside."""
    tables = {n: named(n, list(range(60_000))) for n in "ab"}
    query = lw.oblivious_join(streams(tables), on="t", expect=lw.expect(scrambling=0), memory=100_000).start()
    before, most, pieces = allocated(), 0, 0
    for first in range(0, 60_000, 200):
        query.push(tables["a"].slice(first, 200), "a")
        query.results.clear()
        (join,) = operators(query)
        pieces = max(pieces, join.aside[0].pieces)
        if first % 10_000 == 0:
            most = max(most, allocated() - before)
    assert (pieces, join.aside[0].rows > 58_000) == (2 * PIECES, True)
    assert most <= 100_000 + MONITORS + DIRECTORY
    for first in range(0, 60_000, 2000):
        query.push(tables["b"].slice(first, 2000), "b")
        query.results.clear()
        assert operators(query)[0].memory <= 100_000
    (metrics,) = query.metrics().operators
    assert (metrics.result_rows, metrics.evicted_rows, metrics.aside_rows) == (60_000, 0, 0)


@pytest.mark.parametrize("limit", [None, 100_000])
def test_complete_keys_are_on_disk_and_their_pieces_do_not_grow_with_them(limit: int | None, allocated) -> None:
    """80,000 keys that come once per side, with a factor that keeps all of them remembered."""
    tables = {n: named(n, list(range(80_000))) for n in "ab"}
    expect = lw.expect(scrambling=10**6, multiplicity=1)
    query = lw.oblivious_join(streams(tables), on="t", expect=expect, memory=limit).start()
    before, most = allocated(), 0
    for first in range(0, 80_000, 1000):
        query.push(**{n: table.slice(first, 1000) for n, table in tables.items()})
        query.results.clear()
        (join,) = operators(query)
        assert join.memory <= (limit or WIDTH * RECENT)
        if first % 20_000 == 0:
            most = max(most, allocated() - before)
    assert (join.complete.rows, join.rows) == (80_000, 0)
    assert most <= (limit or WIDTH * RECENT) + 2 * MONITORS + DIRECTORY
    query.push(named("b", [5, 79_999]), "b")
    (metrics,) = query.metrics().operators
    assert (metrics.lost_to_multiplicity, metrics.evicted_rows, metrics.result_rows) == (2, 0, 80_000)


def test_monitors_take_less_than_a_tenth_of_the_operations_of_the_join(monkeypatch: pytest.MonkeyPatch) -> None:
    """In the paper's units: one operation per tuple that is inserted, searched for, found or removed.

    The steps of summaries are counted. A monitor also reads each run once, to summarise it: a few passes and a sort of
    numbers. `lowwater reproduce WO-monitors` measures the processor time of all.
    """
    steps = 0
    read = monitors.StreamMonitor.read

    def counted(self: monitors.StreamMonitor, runs: list[monitors.Summary], forget: int | None = None) -> None:
        nonlocal steps
        steps += sum(len(run.disorder.rises.top) + len(run.disorder.fall_at) + len(run.ranks.values) for run in runs)
        read(self, runs, forget)

    monkeypatch.setattr(monitors.StreamMonitor, "read", counted)
    made = {n: scrambled(200_000, i, factor=k).values for i, (n, k) in enumerate({"a": 500, "b": 200}.items())}
    tables = {n: named(n, values.tolist()) for n, values in made.items()}
    query = lw.oblivious_join(streams(tables), on="t").start()
    for at in range(0, 200_000, 100_000):
        for name, table in tables.items():
            query.push(table.slice(at, 100_000), name)
    (join,) = operators(query)
    operations = sum(side.operations.total for side in join.sides)
    assert operations > 400_000
    assert steps < operations / 10
    assert np.isclose(join.streams.monitors[0].rate, 50_000, rtol=0.5)
