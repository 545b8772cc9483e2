"""Arrivals: learns progress from a run of rows, and passes on the rows that filters keep.

A run is one partition of one micro-batch (or one batch that is pushed to the local backend), in order of arrival. Rows
without a time are set aside. Rows that are punctuations become promises. The facts of progress are learned from all
other rows, and then the rows that a filter has not marked are dropped.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lowwater.aggregates.grouped import factorise
from lowwater.model.columns import KEEP, whole
from lowwater.model.monitors import Summary
from lowwater.model.policy import Policy
from lowwater.model.progress import Facts, Progress, names_of, observe
from lowwater.model.ticks import END, NEVER, Ticks, checked
from lowwater.plan.inputs import Input

Ints = npt.NDArray[np.int64]
STEPS = 1024
"""The number of steps in which the disorder of collected rows is measured: k is too large by at most two steps."""
_OBSERVE_AFTER = 1 << 19
"""The number of rows that are collected before they are condensed into facts, so that work per source is done once."""


class Arrivals:
    """One run of one input whose rows have `schema`. With `marked`, a column marks the rows that filters keep.

    Progress is learned only where it is asked for: of several readings of the same rows, one learns.
    """

    def __init__(self, input: Input, schema: pa.Schema, marked: bool = False, learns: bool = True) -> None:
        self._input = input
        self._schema = schema
        self._marked, self._learns = marked, learns
        self._time = input.time
        self._ticks = Ticks(schema.field(input.time).type)
        self._progress = Progress(input.policy, run=True)
        self._waiting: list[tuple[Ints, pa.ChunkedArray | None]] = []
        self._nulls: list[pa.Table] = []
        self.disorder: Summary | None = None
        """The disorder of all rows, in steps of a 1024th of the run; None before any."""
        self.read = 0
        self.punctuations = 0
        """Rows that are punctuations and not data."""
        self.selected = 0
        self.span: tuple[int, int] | None = None
        """The smallest and the largest time of the rows that filters keep."""

    def take(self, table: pa.Table) -> tuple[pa.Table, Ints] | None:
        """The rows to compute with, and their times; None if there are none."""
        self.read += table.num_rows
        time = table.column(self._time)
        marks = self._input.punctuation
        is_mark = None if marks is None or marks.data else pc.fill_null(table.column(marks.when), False)
        if time.null_count:
            missing = pc.is_null(time) if is_mark is None else pc.and_(pc.is_null(time), pc.invert(is_mark))
            if pc.any(missing).as_py():
                self._nulls.append(self.as_given(self._let_through(table.filter(missing))))
        present = pc.is_valid(time) if time.null_count else None
        if marks is not None:
            self.promise(table)
        if is_mark is not None:
            self.punctuations += pc.sum(is_mark).as_py() or 0
            rows = pc.invert(is_mark)
            present = rows if present is None else pc.and_(rows, present)
        if present is not None:
            table = table.filter(present)
        if not table.num_rows:
            return None
        ticks = self._count(table)
        if self._learns:
            self._waiting.append((ticks, self._source(table)))
        if sum(len(times) for times, _ in self._waiting) >= _OBSERVE_AFTER:
            self._observe()
        table = self._let_through(table)
        if not table.num_rows:
            return None
        ticks = ticks if len(ticks) == table.num_rows else self._count(table)
        first, last = self.span or (int(ticks[0]), int(ticks[0]))
        self.span = (min(first, int(ticks.min())), max(last, int(ticks.max())))
        self.selected += table.num_rows
        return table, ticks

    def _count(self, table: pa.Table) -> Ints:
        return checked(self._ticks.encode(whole(table.column(self._time))), self._time)

    def _let_through(self, table: pa.Table) -> pa.Table:
        """The rows that filters keep."""
        return table.filter(pc.fill_null(table.column(KEEP), False)) if self._marked else table

    def _source(self, table: pa.Table) -> pa.ChunkedArray | None:
        return None if self._input.source is None else table.column(self._input.source)

    def _observe(self) -> None:
        """Condenses the times that wait into facts. The cut of a run into calls does not change them."""
        if not self._waiting:
            return
        ticks = np.concatenate([times for times, _ in self._waiting])
        source, names = self._named([column for _, column in self._waiting], len(ticks))
        self._waiting = []
        own = Summary.coarse(ticks, STEPS)
        self.disorder = own if self.disorder is None else self.disorder.then(own)
        self._progress.learn(observe(self._input.policy, ticks, source, names, before=self._progress.reached(names)))

    def _named(self, columns: Sequence[pa.ChunkedArray | None], rows: int) -> tuple[Ints, pa.Array]:
        """The position of each row's source among the distinct names, and those names."""
        chunks = [chunk for column in columns if column is not None for chunk in column.chunks]
        if self._input.source is None:
            return np.zeros(rows, np.int64), pa.array([self._input.name])
        if _all_equal(chunks):  # a partition often has one source, and to compare costs less than to count
            return np.zeros(rows, np.int64), names_of(chunks[0][:1])
        code, distinct = factorise(pa.table({"source": pa.chunked_array(chunks)}))
        named = names_of(whole(distinct.column(0))).dictionary_encode()
        if len(named.dictionary) < len(named):  # values with the same name are one source
            code = named.indices.to_numpy().astype(np.int64)[code]
        return code, named.dictionary

    def promise(self, rows: pa.Table) -> None:
        """Learns the furthest promise of each source from rows that are punctuations. Ignores other rows."""
        if self._input.punctuation is None or not self._learns:
            return
        when, until = self._input.punctuation.when, self._input.punctuation.upto
        marks = rows.filter(pc.and_(pc.fill_null(rows.column(when), False), pc.is_valid(rows.column(until))))
        if not marks.num_rows:
            return
        upto = self._ticks.encode(whole(marks.column(until)))
        source, names = self._named([self._source(marks)], marks.num_rows)
        promised = np.full(len(names), NEVER)
        beyond = upto >= -NEVER  # a promise of all values: the source has ended
        np.maximum.at(
            promised, source, np.where(beyond, END, np.minimum(upto, -NEVER) + self._input.punctuation.closed)
        )
        none = np.empty(0, np.int64)
        self._progress.learn(observe(self._input.policy, none, none, names, promised))

    def as_given(self, table: pa.Table, *more: str) -> pa.Table:
        """The user's columns in the order of the plan, and `more`. Inputs of a union can have another order."""
        return table.select([name for name in (*self._schema.names, *more) if name in table.column_names])

    @property
    def nulls(self) -> pa.Table | None:
        """The rows without a progress value, with the user's columns."""
        return pa.concat_tables(self._nulls) if self._nulls else None

    @property
    def counted(self) -> tuple[int, int, int]:
        """Rows read; of these, rows without a progress value, and rows that are punctuations and not data."""
        return self.read, sum(table.num_rows for table in self._nulls), self.punctuations

    def facts(self) -> Facts:
        self._observe()
        return self._progress.facts()


def _all_equal(chunks: Sequence[pa.Array]) -> bool:
    """Whether all values are one, which is not null. Ends at the first chunk that has another."""
    kinds = (pa.types.is_string, pa.types.is_large_string, pa.types.is_integer, pa.types.is_boolean)
    if not chunks or not len(chunks[0]) or not any(kind(chunks[0].type) for kind in kinds):
        return False
    return all(not chunk.null_count and pc.all(pc.equal(chunk, chunks[0][0])).as_py() for chunk in chunks)


def facts_table(facts: Facts) -> pa.Table:
    columns = {
        "source": facts.source,
        "rows": facts.rows,
        "least": facts.least,
        "most": facts.most,
        "promised": facts.promised,
    }
    if facts.memory.size:
        columns["memory"] = pa.FixedSizeListArray.from_arrays(
            pa.array(facts.memory.ravel()), max(1, facts.memory.shape[1])
        )
    return pa.table(columns)


def facts_of(table: pa.Table, policy: Policy) -> Facts:
    numbers = {name: table.column(name).to_numpy() for name in ("rows", "least", "most", "promised")}
    memory = policy.empty(table.num_rows)
    if "memory" in table.column_names:
        memory = pc.list_flatten(table.column("memory")).to_numpy().reshape(memory.shape)
    return Facts(whole(table.column("source")), **numbers, memory=memory)


def conformed(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """A batch in the types of the plan. Spark's timestamps carry the session's time zone; their values are equal."""
    known = {f.name: f for f in schema}
    wanted = pa.schema([pa.field(f.name, known[f.name].type) if f.name in known else f for f in batch.schema])
    return batch if batch.schema.equals(wanted) else batch.cast(wanted)
