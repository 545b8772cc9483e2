"""Runs a join without a window in virtual time, and samples its buffers.

A micro-batch has the tuples that arrive within a step, of all streams. The query is the one that users start: planned,
run and cut as in any other program. After each micro-batch the operators are read:

    held        the tuples that a buffer spans in the micro-batch: those kept from the one before, and those that came
    kept        the tuples that a buffer spans behind the micro-batch, for results to come
    in memory   the tuples in memory behind the micro-batch: in the buffer, or waiting to be sorted. Not on disk
    bytes       the bytes of all tuples and complete keys in memory behind the micro-batch

A result waits for `waited` seconds of virtual time, from the end of the micro-batch of its last tuple to the end of the
micro-batch that emits it. At last the streams end. Results that come then are counted, but not how long they waited.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

import lowwater as lw
from lowwater.backends.local import LocalQuery
from lowwater.experiments.oblivious.backtracked import Arrived, Floats, Ints
from lowwater.joins.mjoin import MJoin


@dataclass(frozen=True, eq=False)
class Ran:
    """A run: its results and, per stream and micro-batch, its buffer."""

    results: int
    reported: int
    """Tuples that came when partners of theirs may have left."""
    held: dict[str, Ints]
    kept: dict[str, Ints]
    in_memory: dict[str, Ints]
    bytes: Ints
    waited: float
    """The mean over all results, in seconds; 0 if the tables do not number their tuples."""
    worked: Floats
    """The processor time of each micro-batch, in seconds."""
    moments: Floats
    """The end of each micro-batch."""
    complete: int = 0
    """The most complete keys behind a micro-batch, in memory and on disk."""

    def by_second(self, name: str, seconds: int) -> Ints:
        """The most tuples held in each second. A micro-batch is no longer than a second."""
        most = np.zeros(seconds, np.int64)
        np.maximum.at(most, np.minimum(np.ceil(self.moments).astype(np.int64), seconds) - 1, self.held[name])
        return most

    def memory(self) -> float:
        """The tuples in all buffers, averaged over time."""
        return float(sum(own.mean() for own in self.held.values()))

    def mean_in_memory(self) -> float:
        """The tuples in memory behind a micro-batch, of all streams, averaged over time."""
        return float(sum(own.mean() for own in self.in_memory.values()))


def joins(query: LocalQuery) -> list[MJoin]:
    """The joins without a window of a running query."""
    graphs = [query.graph(stage, shard) for stage in range(query.plan.stages) for shard in range(query.shards)]
    return [join for graph in graphs for join in graph.operators.values() if isinstance(join, MJoin)]


def run(relation: lw.Relation, streams: Mapping[str, Arrived], tables: Mapping[str, pa.Table], step: float) -> Ran:
    """Runs a relation over streams, whose rows are in `tables`, until the last tuple has come."""
    query = relation.start()
    operators = joins(query)
    ports = [(join, port, side.name) for join in operators for port, side in enumerate(join.what.sides)]
    last = max(float(stream.at[-1]) for stream in streams.values())
    steps = int(np.ceil(last / step))
    ends = step * np.arange(1, steps + 1, dtype=np.float64)
    cuts = {name: np.append(0, np.searchsorted(own.at, ends, "right")) for name, own in streams.items()}
    samples: dict[str, list[tuple[int, int, int]]] = {name: [] for _, _, name in ports}
    held_bytes, worked, waited, complete = [], [], [np.empty(0)], 0
    for number in range(steps):
        before = {name: (join.buffer(port), join.streams.monitors[port].rows) for join, port, name in ports}
        parts = {n: tables[n].slice(own[number], own[number + 1] - own[number]) for n, own in cuts.items()}
        rows = {name: part for name, part in parts.items() if part.num_rows}
        begun = time.process_time()
        found = query.push(**rows) if rows else None
        worked.append(time.process_time() - begun)
        if found is not None and found.num_rows:
            waited.append(ends[number] - step * np.ceil(arrival(found, streams) / step))
        for join, port, name in ports:
            stayed, seen = before[name]
            come = join.streams.monitors[port].rows - seen
            samples[name].append((stayed + come, join.buffer(port), join.in_memory(port)))
        held_bytes.append(sum(join.memory for join in operators))
        complete = max(complete, sum(join.complete.rows for join in operators))
    query.finish()
    columns = {name: np.array(own).T for name, own in samples.items()}
    return Ran(
        query.result().num_rows,
        sum(join.losses.rows for join in operators),
        {name: own[0] for name, own in columns.items()},
        {name: own[1] for name, own in columns.items()},
        {name: own[2] for name, own in columns.items()},
        np.array(held_bytes),
        mean_of(np.concatenate(waited)),
        np.array(worked),
        ends,
        complete,
    )


def mean_of(numbers: Floats) -> float:
    return float(numbers.mean()) if len(numbers) else 0.0


def arrival(found: pa.Table, streams: Mapping[str, Arrived]) -> Floats:
    """The second at which the last tuple of each result has come, by the columns that number tuples."""
    numbered = [
        (own, found.column(f"{n}_id").to_numpy()) for n, own in streams.items() if f"{n}_id" in found.schema.names
    ]
    return np.max([own.at[number] for own, number in numbered], axis=0) if numbered else np.empty(0)
