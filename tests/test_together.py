"""Inputs of a union that one task reads are reduced together: fewer partials travel, and the answers are the same."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import lowwater as lw
from lowwater.model.columns import KEEP
from lowwater.plan.plan import Plan
from lowwater.query.planner import plan as planned
from lowwater.runtime.graph import Graph
from lowwater.runtime.ingest import Ingest, Parcel, Together
from lowwater.state.segments import unpack

NAMES = ("a", "b", "c")
SHARDS = 3


def rows(seed: int, n: int, batch: int) -> pa.Table:
    rng = np.random.default_rng(seed + 100 * batch)
    ts = np.sort(rng.integers(100 * batch, 100 * batch + 100, n)) - rng.integers(0, 10, n)
    v = pa.array(rng.random(n), mask=rng.random(n) < 0.1)
    return pa.table({"ts": pa.array(ts, mask=rng.random(n) < 0.05), "k": rng.integers(0, 7, n), "v": v})


def plan_of(late: bool = False, filtered: bool = False) -> Plan:
    first, *others = (lw.stream(rows(0, 10, 0), name=name, progress="ts", disorder=10) for name in NAMES)
    either = (first.where("k < 5") if filtered else first).union(*others)
    counts = either.window(range=30, slide=10).group_by("k").agg(n=lw.count(), total=lw.sum("v"), most=lw.max("v"))
    return planned(counts.node, late, None).plan


def messages(plan: Plan, tables: Sequence[pa.Table], together: bool, late: bool = False) -> list[list[list[bytes]]]:
    """The messages of every input to every shard."""
    shared = Together() if together else None
    runs = [Ingest(plan, [i], SHARDS, late, together=shared) for i in range(len(tables))]
    for run, table, entry in zip(runs, tables, plan.entries, strict=True):
        if entry.marked:
            table = table.append_column(KEEP, pc.less(table.column("k"), 5))
        run.read(table.to_batches(max_chunksize=100))
    assert all(run.waits for run in runs) is not late
    return [run.messages() for run in runs]


def keep(found: list[pa.Table], kind: str, table: pa.Table) -> None:
    found.append(table)


def answers(plan: Plan, together: bool) -> Iterator[pa.Table]:
    """The answers of all shards after each micro-batch. In one of them an input has no rows."""
    graphs = [Graph(plan, 0, shard, SHARDS) for shard in range(SHARDS)]
    for batch, sizes in enumerate([(300, 200, 100), (0, 300, 300), (250, 1, 300), (300, 300, 300)]):
        tables = [rows(i, n, batch) for i, n in enumerate(sizes)]
        sent = [shards for shards in messages(plan, tables, together) if shards]
        found: list[pa.Table] = []
        for shard, graph in enumerate(graphs):
            runs = [graph.run_of(i, blob) for i, shards in enumerate(sent) for blob in shards[shard]]
            graph.apply(runs, partial(keep, found), end=batch == 3)
        by = [(name, "ascending") for name in ("wid", "k")]
        yield pa.concat_tables(found).sort_by(by) if found else plan.shown_schema.empty_table()


@pytest.mark.parametrize("filtered", [False, True], ids=["all rows", "one input filtered"])
def test_the_answers_are_those_of_inputs_that_are_reduced_apart(filtered: bool) -> None:
    plan = plan_of(filtered=filtered)
    both = list(zip(answers(plan, True), answers(plan, False), strict=True))
    for ours, apart in both:
        assert ours.drop_columns("total").equals(apart.drop_columns("total"))
        totals = [table.column("total").to_pylist() for table in (ours, apart)]
        assert totals[0] == pytest.approx(totals[1])  # doubles are added in another order
    assert sum(ours.num_rows for ours, _ in both) > 200


def parcels(plan: Plan, sent: Sequence[Sequence[Sequence[bytes]]], shard: int) -> list[Parcel]:
    return [Parcel.of(unpack(blob), plan) for shards in sent for blob in shards[shard]]


def test_one_table_of_partials_travels_and_facts_of_every_input() -> None:
    plan = plan_of()
    tables = [rows(i, 300, 0) for i in range(3)]
    for shard in range(SHARDS):
        apart, ours = (parcels(plan, messages(plan, tables, together), shard) for together in (False, True))
        sizes = [[p.tables["partials"].num_rows for p in some if "partials" in p.tables] for some in (apart, ours)]
        assert len(sizes[0]) == 3
        assert len(sizes[1]) == 1
        assert sum(sizes[1]) < sum(sizes[0])
        assert [(p.entry, p.read, p.nulls, p.selected, p.span) for p in ours] == [
            (p.entry, p.read, p.nulls, p.selected, p.span) for p in apart
        ]
        assert all(p.facts is not None for p in ours)


def test_late_rows_travel_with_their_own_input() -> None:
    plan = plan_of(late=True)
    tables = [rows(i, 300, 0) for i in range(3)]
    for shard in range(SHARDS):
        ours = parcels(plan, messages(plan, tables, True, late=True), shard)
        assert all({"partials", "rows"} <= p.tables.keys() for p in ours)
