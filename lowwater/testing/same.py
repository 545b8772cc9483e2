"""The test of a streaming query: whatever the order of arrival, the answer is the batch answer."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from lowwater.errors import LowwaterError
from lowwater.generate import Disorder
from lowwater.model.ticks import Length
from lowwater.plan.plan import Plan
from lowwater.testing.arrival import Arrival, Arrivals, arrivals
from lowwater.testing.compare import Difference, difference, settled
from lowwater.testing.query import Function, Query
from lowwater.testing.script import Script

TRIES = 300
"""Runs that are spent on making a failure smaller."""


def assert_same_as_batch(
    query: Function,
    rows: Any = None,
    /,
    *,
    by: Length | Disorder | None = None,
    cases: int = 50,
    seed: int = 0,
    shards: Sequence[int] = (1, 2, 3),
    restarts: bool = True,
    tolerance: float = 1e-9,
    **inputs: Any,
) -> None:
    """Asserts that a query answers a stream as it answers the same rows in order, all at once.

    Runs the query over its rows in many orders of arrival, cut into micro-batches in many ways, on several numbers of
    shards and with restarts in between. The first difference raises an AssertionError that shows the expected row, the
    row that came, and the steps of a small run in which they differ.

    query      a function from streams to a relation; `rows` and `inputs` are its arguments, as of `Script`
    by         how late rows arrive; by default as late as their stream declares, and no later
    cases      the number of runs
    seed       the seed of the first run; run i has the seed `seed` + i
    tolerance  numbers in floating point are the same if they differ by at most this, absolutely or relatively

    >>> import lowwater as lw
    >>> from lowwater.testing import stream
    >>> rows = [{"at": at, "user": "ann"} for at in (1, 4, 12)]
    >>> def per_user(clicks):
    ...     return clicks.window(10).group_by("user").agg(n=lw.count())
    >>> assert_same_as_batch(per_user, stream(rows, progress="at", disorder=5))
    """
    __tracebackhide__ = True  # pytest shows the line of the test instead of these
    if cases < 1:
        raise LowwaterError(f"assert_same_as_batch(cases={cases}) would run nothing; give a number of runs from 1 on.")
    of = Query.of(query, rows, inputs)
    tested = Comparison(of, arrivals(of, by), tolerance)
    expected = tested.batch()
    for number in range(seed, seed + cases):
        arrival = tested.arrivals.draw(number, shards, restarts)
        try:
            found = tested.differs(arrival, expected)
        except Exception as error:
            error.add_note(f"This happened in the run with seed={number}.")
            raise
        if found is not None:
            raise AssertionError(message(tested, arrival, found, number))


@dataclass(frozen=True)
class Comparison:
    """A query, its rows, and the ways in which they may arrive."""

    query: Query
    arrivals: Arrivals
    tolerance: float

    @cached_property
    def revises(self) -> bool:
        """Whether the query may answer more than once about a window and a group."""
        return self.query.built().node.properties.again is not None

    def batch(self, arrival: Arrival | None = None) -> pa.Table:
        """The batch answer over all rows, or over those of an arrival: `collect()` over the rows in order."""
        tables = {}
        for input, (name, table) in enumerate(self.query.tables.items()):
            order = self.arrivals.orders[input]
            if arrival is not None:
                order = order[np.isin(order, arrival.rows_of(input))]
            tables[name] = table.take(pa.array(order))
        relation = self.query.built(tables)
        return settled(relation.collect(), keys_of(relation.plan), self.revises)

    def steps(self, arrival: Arrival) -> Iterator[dict[str, pa.Table] | None]:
        """The rows of each micro-batch by input; None is a restart."""
        for batch in range(int(arrival.batch.max(initial=-1)) + 2):
            yield from [None] * arrival.restarts.count(batch)
            here = arrival.batch == batch
            own = {name: arrival.row[here & (arrival.input == at)] for at, name in enumerate(self.query.tables)}
            if here.any():
                yield {name: self.query.tables[name].take(pa.array(rows)) for name, rows in own.items() if len(rows)}

    def differs(self, arrival: Arrival, expected: pa.Table | None = None) -> Difference | None:
        """How the answer to an arrival differs from the batch answer."""
        running = self.query.start(arrival.shards)
        ports = self.query.ports(running)
        for step in self.steps(arrival):
            if step is None:
                running.restart(self.query.built().node)
            else:
                running.push_all({port: table for name, table in step.items() for port in ports[name]})
        running.finish()
        keys = keys_of(running.plan)
        got = settled(running.result(), keys, self.revises)
        return difference(self.batch(arrival) if expected is None else expected, got, self.tolerance, keys)

    def script(self, arrival: Arrival) -> Script:
        """An arrival as a script, to be shown."""
        script = Script(self.query, shards=arrival.shards)
        script.clock_follows_rows = False
        for step in self.steps(arrival):
            if step is None:
                script.restart()
            else:
                script.rows(**step)
        script.end()
        return script


def keys_of(plan: Plan) -> list[str]:
    """The columns of a window and its group: results are sorted by them, and by the revision."""
    return [name for name, _ in plan.order if name != "revision"]


def message(tested: Comparison, arrival: Arrival, found: Difference, seed: int) -> str:
    """The text of a failed assertion, over as few rows as still differ."""
    small = smallest(arrival, lambda tried: _still(tested, tried))
    smaller = tested.differs(small)
    shown, small = (found, arrival) if smaller is None else (smaller, small)
    script = tested.script(small)
    shards = "1 shard" if small.shards == 1 else f"{small.shards} shards"
    many = f"{len(small)} of {len(arrival)} rows" if len(small) < len(arrival) else f"{len(arrival)} rows"
    lines = [
        "The answer to the stream is not the batch answer over the same rows.",
        "",
        *(f"  {line}".rstrip() for line in shown.lines()),
        "",
        f"The smallest run found that shows it: {many}, on {shards}.",
        "",
        *(f"  {line}".rstrip() for line in str(script).splitlines()),
        "",
        f"To repeat it, give the same arguments and seed={seed}.",
    ]
    return "\n".join(lines)


def _still(tested: Comparison, arrival: Arrival) -> bool:
    """Whether an arrival still differs. A run that fails in another way is another failure."""
    try:
        return tested.differs(arrival) is not None
    except Exception:
        return False


def smallest(arrival: Arrival, fails: Callable[[Arrival], bool], tries: int = TRIES) -> Arrival:
    """An arrival that still fails, with fewer shards, restarts, rows and micro-batches: by halving, then one by one."""
    left = tries

    def better(tried: Arrival) -> bool:
        nonlocal left
        left -= 1
        return left >= 0 and fails(tried)

    for simpler in ({"shards": 1}, {"restarts": ()}):
        tried = replace(arrival, **simpler)
        arrival = tried if better(tried) else arrival
    length = len(arrival) // 2
    while length:
        start = 0
        while start < len(arrival) and left > 0:
            tried = arrival.without(start, start + length)
            if len(tried) and better(tried):
                arrival = tried
            else:
                start += length
        length //= 2
    for at in reversed(range(len(arrival.restarts))):  # restarts that all rows needed may not be needed by few
        tried = replace(arrival, restarts=arrival.restarts[:at] + arrival.restarts[at + 1 :])
        arrival = tried if better(tried) else arrival
    for batch in reversed(sorted(set(arrival.batch.tolist()))[1:]):
        tried = _joined(arrival, batch)
        arrival = tried if better(tried) else arrival
    return arrival


def _joined(arrival: Arrival, batch: int) -> Arrival:
    """The same arrival, with a micro-batch joined to the one before it."""
    before = arrival.batch[arrival.batch < batch].max()
    return replace(arrival, batch=np.where(arrival.batch == batch, before, arrival.batch))
