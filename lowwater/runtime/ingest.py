"""Ingest: turns one run of rows into packed messages for the shards, where rows are read. It keeps no state.

A run is one partition of one micro-batch of an input. Ingest learns the facts of progress from all rows (arrivals.py),
sets aside rows that break a promise (endings.py), lays out the other rows for the operators that read them
(operators/layout.py), and packs one message per shard. Every shard gets the facts of every run.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lowwater.model.monitors import Summary
from lowwater.model.progress import Facts
from lowwater.operators.layout import Laying, SharedLaying, Tables
from lowwater.plan.plan import Entry, Plan
from lowwater.runtime.arrivals import Arrivals, conformed, facts_of, facts_table
from lowwater.runtime.endings import BROKEN, Endings
from lowwater.state.segments import pack

NULLS = "no time"
"""Rows without a progress value."""


@dataclass(frozen=True)
class Parcel:
    """The message of one run to one shard for one entry. Everything except `tables` is the same for every shard."""

    entry: int
    read: int = 0
    """Rows read. Of these, `nulls` have no time, and `punctuations` are punctuations and not data."""
    nulls: int = 0
    punctuations: int = 0
    selected: int = 0
    """Rows that the filters keep."""
    span: tuple[int, int] | None = None
    """The smallest and largest time of the rows that the filters keep."""
    facts: Facts | None = None
    """The progress of the input in this run; only in the first entry of an input per stage."""
    disorder: Summary | None = None
    """The disorder of the run, for the metrics; beside the facts, and only to the first shard."""
    tables: Tables = field(default_factory=dict)

    def packed(self) -> bytes:
        first, last = self.span or (None, None)
        head = pa.table(
            {
                "entry": [self.entry],
                "read": [self.read],
                "nulls": [self.nulls],
                "punctuations": [self.punctuations],
                "selected": [self.selected],
                "first": pa.array([first], pa.int64()),
                "last": pa.array([last], pa.int64()),
            }
        )
        facts = {} if self.facts is None else {"facts": facts_table(self.facts)}
        disorder = {} if self.disorder is None else {f"disorder {k}": t for k, t in self.disorder.tables().items()}
        return pack({"head": head, **facts, **disorder, **self.tables})

    @staticmethod
    def of(tables: Tables, plan: Plan) -> Parcel:
        """The parcel of unpacked tables."""
        (head,) = tables.pop("head").to_pylist()
        facts = tables.pop("facts", None)
        measured = [name for name in tables if name.startswith("disorder ")]
        disorder = {name.removeprefix("disorder "): tables.pop(name) for name in measured}
        policy = plan.inputs[plan.entries[head["entry"]].input].policy
        return Parcel(
            head["entry"],
            head["read"],
            head["nulls"],
            head["punctuations"],
            head["selected"],
            None if head["first"] is None else (head["first"], head["last"]),
            None if facts is None else facts_of(facts, policy),
            Summary.of_tables(disorder) if disorder else None,
            tables,
        )


class Together:
    """Inputs of a union that are read in one task, and reduced together before they travel.

    One table of partials takes the place of one per input, with fewer partials in total. Late rows travel with their
    own input, because the late output names it, so with them nothing is shared.
    """

    def __init__(self) -> None:
        self._layings: dict[tuple[tuple[int, int], tuple[str, ...] | None], SharedLaying] = {}

    def laying(self, plan: Plan, entry: Entry, shards: int, late: bool, home: int) -> Laying:
        layout = plan.layout(entry)
        if late or entry.ends is not None or not layout.shared:
            return layout.open(shards, late, home)
        key = entry.reader, entry.route
        if key not in self._layings:
            self._layings[key] = SharedLaying(layout.open(shards, late, home), shards)
        return self._layings[key]


class Ingest:
    """One run of the entries that read one frame. With `late`, rows travel with the partials, for the late output.

    Runs that are `together` read all their rows before one of them makes its messages.
    """

    def __init__(
        self,
        plan: Plan,
        entries: Sequence[int],
        shards: int,
        late: bool,
        home: int = 0,
        together: Together | None = None,
    ) -> None:
        self._plan, self._numbers, self._shards, self._late = plan, list(entries), shards, late
        self._entries = [plan.entries[number] for number in entries]
        first = self._entries[0]
        self._input = plan.inputs[first.input]
        self._schema = first.schema
        self._arrivals = Arrivals(self._input, first.schema, first.marked, any(e.learns for e in self._entries))
        self._endings = self._ending(first)
        opened = together or Together()
        self._laying = [opened.laying(plan, entry, shards, late, home) for entry in self._entries]
        self._rows: list[pa.Table] = []

    def _ending(self, entry: Entry) -> Endings | None:
        if entry.ends is None:
            return None
        what = getattr(self._plan.operators[entry.reader[0]].spec, "what", None)
        type = entry.schema.field(entry.ends.attribute).type
        return Endings(entry.ends, type, self._input.time, bool(getattr(what, "null_safe", False)))

    def run(self, batches: Iterable[pa.RecordBatch]) -> list[list[bytes]]:
        """The packed messages of every shard; none if there was no row."""
        self.read(batches)
        return self.messages()

    def read(self, batches: Iterable[pa.RecordBatch]) -> None:
        with self._plan.speaking():
            for batch in batches:
                if batch.num_rows:
                    self._take(pa.Table.from_batches([conformed(batch, self._schema)]))

    def messages(self) -> list[list[bytes]]:
        """The packed messages of every shard; none if there was no row."""
        with self._plan.speaking():
            return self._messages() if self._arrivals.read else []

    @property
    def waits(self) -> bool:
        """Whether its messages have rows of other runs, too."""
        return any(isinstance(laying, SharedLaying) for laying in self._laying)

    def _take(self, table: pa.Table) -> None:
        if self._endings is not None:
            table, marks = self._endings.split(table)
            if marks is not None:
                self._arrivals.promise(marks)  # one row can end a value and move the low-watermark
                self._arrivals.read += marks.num_rows
                self._arrivals.punctuations += marks.num_rows
        found = self._arrivals.take(table)
        if found is None:
            return
        rows, time = found
        if self._endings is not None:
            self._rows.append(rows)  # only the end of the run shows which rows break a promise
            return
        self._lay(rows, time)

    def _lay(self, rows: pa.Table, time: npt.NDArray[np.int64] | None) -> None:
        for entry, laying in zip(self._entries, self._laying, strict=True):
            own = self._plan.operators[entry.reader[0]].times[entry.reader[1]] == self._input.time
            laying.take(rows, time if own else None)

    def _messages(self) -> list[list[bytes]]:
        rows, broken = None, None
        if self._endings is not None and self._rows:
            rows, broken = self._endings.kept(pa.concat_tables(self._rows).combine_chunks())
            if rows.num_rows:
                self._lay(rows, None)
        arrivals = self._arrivals
        progress = arrivals.facts()
        out: list[list[bytes]] = [[] for _ in range(self._shards)]
        for number, entry, laying in zip(self._numbers, self._entries, self._laying, strict=True):
            shards = laying.finish()
            if self._endings is not None:
                for tables, ended in zip(shards, self._endings.tables(rows, self._shards, entry.route), strict=True):
                    tables |= ended
            if broken is not None:  # rows that belong to no shard are reported by the first one
                shards[0][BROKEN] = arrivals.as_given(broken)
            if self._late and self._plan.readers[number] and arrivals.nulls is not None:
                shards[0][NULLS] = arrivals.nulls
            counted = arrivals.counted if entry.learns else (0, 0, 0)
            facts = progress if entry.learns else None
            for shard, tables in enumerate(shards):
                measured = arrivals.disorder if entry.learns and shard == 0 else None
                parcel = Parcel(number, *counted, arrivals.selected, arrivals.span, facts, measured, tables)
                out[shard].append(parcel.packed())
        return out
