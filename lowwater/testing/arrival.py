"""Orders in which rows may arrive: within the disorder that a stream declares, and no further.

Rows of one source are delayed as its policy allows (the patterns of lowwater/generate). Inputs, and sources that a
stream waits for from the start, lag behind each other by any length. Rows that are punctuations are barriers: no row
crosses one, so that no promise is broken.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lowwater.backends.local import LocalQuery
from lowwater.backends.tables import table_of
from lowwater.errors import LowwaterError
from lowwater.generate import Band, Blocks, Delay, Disorder, disorder
from lowwater.model.columns import whole
from lowwater.model.policy import Delay as DelayPolicy
from lowwater.model.policy import DelayRows, Learned, Policy
from lowwater.model.progress import names_of
from lowwater.model.ticks import Length, Ticks
from lowwater.plan.inputs import Input
from lowwater.testing.query import Query

Ints = npt.NDArray[np.int64]
MOST_BATCHES = 24


def disordered(rows: Any, by: Length | Disorder, seed: int = 0, progress: str | None = None) -> pa.Table:
    """The rows in an order of arrival: each is delayed by at most `by`, or by a pattern of `lowwater.generate`.

    `progress` names the column of times; without it, the rows must have only one column of times.

    >>> rows = [{"at": at} for at in range(8)]
    >>> disordered(rows, by=3, seed=1, progress="at")["at"].to_pylist()
    [0, 1, 3, 4, 2, 5, 6, 7]
    """
    table = table_of(rows, "The rows of disordered()")
    time = progress or _only_time(table.schema)
    if time not in table.column_names:
        raise LowwaterError(f"disordered() has no column {time!r}; its columns are {', '.join(table.column_names)}.")
    ticks, times = _times(table, time)
    return table.take(pa.array(disorder(times, np.random.default_rng(seed), _patterns_of(by, ticks)[0])))


def _only_time(schema: pa.Schema) -> str:
    times = [f.name for f in schema if pa.types.is_timestamp(f.type) or pa.types.is_date(f.type)]
    if len(times) != 1:
        raise LowwaterError("disordered() cannot tell which column holds the times; name it in progress=.")
    return str(times[0])


def _times(table: pa.Table, time: str) -> tuple[Ticks, Ints]:
    """The times in ticks. A row without a time, which counts nowhere, gets the time of the row before it."""
    ticks = Ticks(table.schema.field(time).type)
    column = whole(table.column(time))
    if column.null_count == len(column):
        return ticks, np.zeros(len(column), np.int64)
    return ticks, ticks.encode(pc.fill_null_backward(pc.fill_null_forward(column)))


def _patterns_of(by: Length | Disorder, ticks: Ticks) -> list[Disorder]:
    if hasattr(by, "order"):
        return [by]
    return _delays(ticks.length(by, "by"))


def _delays(most: int) -> list[Disorder]:
    """Patterns with a lateness of at most so many ticks. Of rows that arrive at once none is late: hence one more."""
    if most <= 0:
        return [Delay(0, 0)]
    return [Delay(max(1, most // 2), most + 1), Delay(max(1, most // 8), most + 1), Blocks(most + 1)]


@dataclass(frozen=True)
class Ranked:
    """A pattern over the places of rows in order of time, instead of over their times."""

    pattern: Disorder

    def order(self, times: Ints, rng: np.random.Generator) -> npt.NDArray[np.intp]:
        by_time = np.argsort(times, kind="stable")
        return by_time[self.pattern.order(np.arange(len(times), dtype=np.int64), rng)]


def patterns(policy: Policy, name: str) -> list[Disorder]:
    """The patterns that keep what a policy promises."""
    if isinstance(policy, DelayPolicy):
        return _delays(policy.ticks)
    if isinstance(policy, DelayRows):  # a row of a band of k can come 2k rows after a larger one
        return [Ranked(Blocks(policy.rows + 1)), Band(policy.rows // 2)]
    if isinstance(policy, Learned):
        raise LowwaterError(
            f"Stream {name!r} learns its disorder, so any row may be late; give by=, as in by='5 seconds', or declare "
            "another disorder for the test."
        )
    return [Blocks(2**62)]  # between two punctuations, any order


@dataclass(frozen=True)
class Arrival:
    """How the rows of all inputs arrive: their order, the micro-batches, the restarts, the shards."""

    input: npt.NDArray[np.intp]
    """Per row in order of arrival: the place of its input, and its place in the rows of the input."""
    row: npt.NDArray[np.intp]
    batch: npt.NDArray[np.intp]
    """The micro-batch of each row; never decreases."""
    restarts: tuple[int, ...]
    """Micro-batches before which the query is restarted; the number of batches stands for the end."""
    shards: int

    def __len__(self) -> int:
        return len(self.row)

    def without(self, start: int, stop: int) -> Arrival:
        """The same arrival, with some rows left out."""
        kept = np.r_[0:start, stop : len(self)]
        return replace(self, input=self.input[kept], row=self.row[kept], batch=self.batch[kept])

    def rows_of(self, input: int) -> npt.NDArray[np.intp]:
        """The rows of an input that arrive, as they stand in its table."""
        return np.sort(self.row[self.input == input])


@dataclass(frozen=True)
class Lane:
    """The rows of one source of one input."""

    input: int
    rows: npt.NDArray[np.intp]
    times: Ints
    segments: Ints
    """How many punctuations came before each row."""
    patterns: Sequence[Disorder]

    def arriving(self, rng: np.random.Generator, lag: float) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.float64]]:
        """The rows in an order of arrival, and a number per row by which lanes are merged."""
        order = self.patterns[int(rng.integers(len(self.patterns)))].order(self.times, rng)
        order = order[np.argsort(self.segments[order], kind="stable")]
        return self.rows[order], np.maximum.accumulate(self.times[order]) + lag


@dataclass(frozen=True)
class Arrivals:
    """Draws arrivals of a query's rows. `orders` are the rows of each input in order of time."""

    lanes: Sequence[Lane]
    orders: Sequence[npt.NDArray[np.intp]]

    def draw(self, seed: int, shards: Sequence[int], restarts: bool) -> Arrival:
        rng = np.random.default_rng(seed)
        latest = max((float(np.ptp(lane.times)) for lane in self.lanes), default=0.0)
        lags = rng.choice([0.0, 0.1, 1.0], len(self.lanes)) * rng.random(len(self.lanes)) * latest
        rows, keys, inputs = [], [], []
        for at in rng.permutation(len(self.lanes)):
            own, key = self.lanes[at].arriving(rng, lags[at])
            rows.append(own)
            keys.append(key)
            inputs.append(np.full(len(own), self.lanes[at].input, np.intp))
        merged = np.argsort(np.concatenate(keys), kind="stable")
        n = len(merged)
        batches = int(np.exp(rng.uniform(0, np.log(min(n, MOST_BATCHES) + 1))))
        cuts = np.sort(rng.choice(np.arange(1, n), min(batches, n) - 1, replace=False)) if n > 1 else np.empty(0)
        share = rng.choice([0.0, 0.2, 0.5]) if restarts else 0.0
        stopped = np.flatnonzero(rng.random(len(cuts) + 1) < share) + 1
        return Arrival(
            np.concatenate(inputs)[merged],
            np.concatenate(rows)[merged],
            np.searchsorted(cuts, np.arange(n), side="right"),
            tuple(int(batch) for batch in stopped),
            int(rng.choice(shards)),
        )


def arrivals(query: Query, by: Length | Disorder | None) -> Arrivals:
    """The arrivals that the streams of a query declare, or of rows that are late `by` so much."""
    running = query.start(1)
    lanes: list[Lane] = []
    orders: list[npt.NDArray[np.intp]] = []
    types: set[pa.DataType] = set()
    for input, (name, ports) in enumerate(query.ports(running).items()):
        table = query.tables[name]
        if not ports:
            orders.append(np.arange(table.num_rows))
            continue
        declared = _declared(running, ports, name)
        ticks, times = _times(table, declared.time)
        barriers = _barriers(running, ports[0], table)
        kinds = patterns(declared.policy, name) if by is None else _patterns_of(by, ticks)
        segments = np.cumsum(barriers) * 2 - barriers  # a punctuation is between the rows before and after it
        orders.append(np.lexsort((times, segments)) if barriers.any() else np.argsort(times, kind="stable"))
        types.add(ticks.type)
        lanes += [Lane(input, own, times[own], segments[own], kinds) for own in _sources(declared, table)]
    lanes = [lane for lane in lanes if len(lane.rows)]
    if not lanes:
        raise LowwaterError("There are no rows to arrive; give rows that the query answers.")
    return Arrivals(_on_one_scale(lanes, types), orders)


def _declared(running: LocalQuery, ports: Sequence[int], name: str) -> Input:
    first, *others = [running.plan.inputs[port] for port in ports]
    for other in others:
        if replace(other, name=first.name) != first:
            raise LowwaterError(
                f"Two streams over {name!r} are declared in different ways, so that no order of arrival fits both; "
                "make them two parameters of the query."
            )
    return first


def _sources(declared: Input, table: pa.Table) -> list[npt.NDArray[np.intp]]:
    """The rows that progress by themselves: those of each source, if all sources are waited for from the start.

    The first row of any other source must not come behind the progress of those that are known, so that all sources
    together keep the disorder of one.
    """
    every = np.arange(table.num_rows)
    if declared.source is None:
        return [every]
    named = names_of(whole(table.column(declared.source))).dictionary_encode()
    code, names = named.indices.to_numpy(), named.dictionary.to_pylist()
    return [every[code == at] for at in range(len(names))] if set(names) <= set(declared.sources) else [every]


def _barriers(running: LocalQuery, port: int, table: pa.Table) -> npt.NDArray[np.bool_]:
    """Rows that are punctuations of time or of values."""
    entry = next(entry for entry in running.plan.entries if entry.input == port)
    ready = running.frames[entry.frame].prepare(table)
    promise = running.plan.inputs[port].punctuation
    marks = [promise.when] if promise else []
    marks += [entry.ends.when] if entry.ends and entry.ends.when else []
    found = np.zeros(table.num_rows, np.bool_)
    for name in marks:
        found |= np.asarray(pc.fill_null(ready.column(name), False).combine_chunks(), np.bool_)
    return found


def _on_one_scale(lanes: list[Lane], types: set[pa.DataType]) -> list[Lane]:
    """Lanes with times that can be compared: from the first row of all or, where types differ, of each input."""
    starts = {lane.input: int(lane.times.min()) for lane in reversed(lanes)}
    for lane in lanes:
        starts[lane.input] = min(starts[lane.input], int(lane.times.min()))
    first = min(starts.values(), default=0)
    return [replace(lane, times=lane.times - (first if len(types) == 1 else starts[lane.input])) for lane in lanes]
