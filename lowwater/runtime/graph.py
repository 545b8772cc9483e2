"""The graph: one shard of one stage, its operators connected as in the plan. It is the same under every backend.

One call of `apply` is one micro-batch. Its order is fixed:

    begin          every operator gets the facts of the batch, which all shards know
    rows           of all inputs and of earlier stages
    ended values
    punctuation    that follows from the progress of the inputs, of each source and then of all, and that earlier
                   stages have promised
    end

A shuffle keeps no order between rows and punctuation. Punctuation may take effect late. If it took effect too early, it
would make rows late. There is one exception: if every row ends its own value (`unique()`), that takes effect at once,
because a second row of the value breaks the promise in whichever run it comes.

Operators of a stage pass messages to each other directly. Output leaves piece by piece through `deliver`: results and
late rows as tables. Messages for later stages (crossing.py) are returned at the end of the batch.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import astuple, dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lowwater.joins.pwjoin import UNGRAMMATICAL
from lowwater.metrics import ADAPTING, LOST, Metrics, OperatorMetrics
from lowwater.model.columns import ORIGIN
from lowwater.model.punctuation import ALL, Punctuation
from lowwater.model.ticks import END, NEVER, Ticks
from lowwater.operators.base import Batch, Ended, Late, Message, Operator, PortFacts, Reduced, StreamProperties
from lowwater.operators.late import LATE_COLUMNS, dropped_rows, late_rows
from lowwater.plan.inputs import Input
from lowwater.plan.plan import Entry, Plan, late_name
from lowwater.runtime.activity import Activity
from lowwater.runtime.crossing import Crossed, Incoming, Outgoing
from lowwater.runtime.endings import BROKEN, ENDED, MARKED, RANGES
from lowwater.runtime.ingest import NULLS, Parcel
from lowwater.runtime.inputs import Inputs, Stamp
from lowwater.state.segments import unpack
from lowwater.state.store import Store

RESULT, LATE, OUTSIDE = "result", "late", "outside"
"""Kinds of tables that leave a stage. `outside` is followed by the number of the edge, the others by that of the query
if it is not the first (`of_query`)."""
Deliver = Callable[[str, pa.Table], None]
NULL_TIME = "the progressing attribute is null"


def of_query(kind: str, query: int) -> str:
    """The kind of the results or of the late rows of a query of the plan.

    >>> [of_query(RESULT, query) for query in range(3)]
    ['result', 'result1', 'result2']
    """
    return f"{kind}{query}" if query else kind


@dataclass(frozen=True)
class Run:
    """A message to this shard, from an input or from a shard of an earlier stage."""

    number: int
    """Orders the messages of a micro-batch, so that a repeated batch computes the same."""
    content: Parcel | Crossed

    @staticmethod
    def of(number: int, data: bytes | memoryview, plan: Plan) -> Run:
        tables = unpack(data)
        return Run(number, Crossed.of(tables) if "crossed" in tables else Parcel.of(tables, plan))


class Graph:
    """The operators of one shard of one stage. Shard 0 also reports rows that belong to no group."""

    def __init__(self, plan: Plan, stage: int, number: int = 0, shards: int = 1, store: Store | None = None) -> None:
        self.plan, self.stage, self.number, self.shards = plan, stage, number, shards
        self.store = store or Store()
        self.store.record("stamp", Stamp()).check(plan.fingerprint(shards), stage)
        self.entries = {i: entry for i, entry in enumerate(plan.entries) if entry.stage == stage}
        read = sorted({entry.input for entry in self.entries.values()})
        self.inputs = Inputs([plan.inputs[i] for i in read], self.store.at("inputs"))
        self._place = {input: place for place, input in enumerate(read)}
        self.operators: dict[int, Operator] = {
            i: plan.operators[i].spec.open(self.store.at(f"operator/{i}"), shards) for i in plan.of_stage(stage)
        }
        self._reading = {
            i: {n: entry for n, entry in self.entries.items() if entry.reader[0] == i} for i in self.operators
        }
        """The entries that each operator reads, by their numbers. It reads those of a union through a meld."""
        self._incoming = {
            i: Incoming(edge, shards, self.store.at(f"edge/{i}"))
            for i, edge in enumerate(plan.edges)
            if edge.crosses and edge.operator in self.operators
        }
        self._next = {i: [(e, edge) for e, edge in enumerate(plan.edges) if edge.source == i] for i in self.operators}
        self._queries = {i: tuple(k for k, of in enumerate(plan.queries) if i in of.reached) for i in self.operators}
        self._outgoing: dict[int, Outgoing] = {}
        self._activity = Activity()
        self._current: Entry | None = None
        self._deliver: Deliver = lambda kind, table: None

    def run_of(self, number: int, data: bytes | memoryview) -> Run:
        return Run.of(number, data, self.plan)

    def apply(
        self,
        runs: Iterable[Run],
        deliver: Deliver,
        clock: int | None = None,
        end: bool = False,
        started: str | None = None,
    ) -> dict[int, list[list[bytes]]]:
        """Applies a micro-batch. `started` identifies the start of the query, to notice that it has been down.

        Returns the messages for later stages: by stage, a list per shard.
        """
        with self.plan.speaking():
            self._deliver = deliver
            self._outgoing = {
                e: Outgoing(self.plan, e, self.number, self.shards, self._outside(e))
                for edges in self._next.values()
                for e, edge in edges
                if edge.crosses
            }
            ordered = sorted(runs, key=lambda run: run.number)
            parcels = [run.content for run in ordered if isinstance(run.content, Parcel)]
            crossed = [run.content for run in ordered if isinstance(run.content, Crossed)]
            self.inputs.begin(started)
            self.inputs.learn([(self._place[self.plan.entries[p.entry].input], p) for p in parcels], clock)
            self._begin(parcels, crossed)
            self._rows(parcels, crossed)
            self._values(parcels)
            self.inputs.tick(clock)
            if end:
                self.inputs.end()
            self._punctuate(crossed)
            for number, operator in self.operators.items():
                with self._activity.of(number):
                    operator.end(lambda message, of=number: self._emitted(of, message))  # type: ignore[misc]
            self._none_late()
            return self._messages()

    def _none_late(self) -> None:
        """Behind other operators no row is late: none emits a row that its own promises exclude."""
        for number, operator in self.operators.items():
            late = 0 if self._reading[number] else operator.counts.late
            assert not late, f"{late} results of other operators came late to {self.plan.operators[number].label}"

    def _outside(self, edge: int) -> Callable[[pa.Table], None] | None:
        """The way out for rows of an edge with outside steps; None for other edges."""
        if not self.plan.edges[edge].outside:
            return None
        return lambda rows: self._deliver(f"{OUTSIDE}{edge}", rows)

    # -- a micro-batch ---------------------------------------------------------------------------------------------

    def _begin(self, parcels: Sequence[Parcel], crossed: Sequence[Crossed]) -> None:
        """Hands every operator the facts of all runs."""
        for number, operator in self.operators.items():
            facts = [self._facts(number, port, parcels, crossed) for port in range(operator.ports)]
            operator.begin(facts)

    def _facts(self, number: int, port: int, parcels: Sequence[Parcel], crossed: Sequence[Crossed]) -> PortFacts:
        own = [p for p in parcels if self.entries[p.entry].reader == (number, port)]
        others = [c for c in crossed if self.plan.edges[c.edge].reader == (number, port)]
        time = self.plan.operators[number].times[port]
        spans = [s for p in own if (s := self._span(p, time)) is not None] + [c.span for c in others if c.span]
        span = (min(a for a, _ in spans), max(b for _, b in spans)) if spans else None
        counts = np.array([run.selected for run in own] + [run.selected for run in others], np.int64)
        return PortFacts(span, counts, self._sources(number, port))

    def _span(self, parcel: Parcel, time: str | None) -> tuple[int, int] | None:
        """The span of a run in the ticks of the operator's time, which may be ahead of the input's."""
        if parcel.span is None:
            return None
        ahead = dict(self.entries[parcel.entry].moves).get(time or "", 0)
        return parcel.span[0] + ahead, parcel.span[1] + ahead

    def _sources(self, number: int, port: int) -> StreamProperties | None:
        """The progress of the sources that a port reads; None where it also reads another operator."""
        reading = [e for e in self.entries.values() if e.reader == (number, port)]
        if not reading or any(edge.reader == (number, port) for edge in self.plan.edges if edge.crosses):
            return None
        progress = [self.inputs.progress[self._place[i]] for i in dict.fromkeys(e.input for e in reading)]
        return StreamProperties(
            min(p.low_watermark for p in progress),
            np.concatenate([p.most for p in progress]),
            np.concatenate([p.rows for p in progress]),
        )

    def _rows(self, parcels: Sequence[Parcel], crossed: Sequence[Crossed]) -> None:
        """Sends all rows of the batch. The runs of one entry are merged, unless each row ends its own value."""
        numbered = self._numbered(parcels, crossed)
        for number, entry in self.entries.items():
            self._current = entry
            own = [(numbered[id(p)], p) for p in parcels if p.entry == number]
            unique = entry.ends is not None and entry.ends.when is None
            layout = self.plan.layout(entry)
            for some in [[one] for one in own] if unique else [own]:
                for message in layout.messages([(run, p.tables) for run, p in some]):
                    self._send(entry.operator, entry.port, self._with_origin(number, message))
                for _, p in some if unique else []:
                    self._end_values(entry, p)
            for _, p in own:
                self._aside(number, p)
        self._current = None
        for e in self._incoming:
            edge = self.plan.edges[e]
            came = [(numbered[id(c)], c.tables) for c in crossed if c.edge == e]
            for message in self.plan.layout(edge).messages(came):
                self._send(edge.operator, edge.port, message)

    def _with_origin(self, number: int, message: Message) -> Message:
        """Marks rows of an entry for an operator that reports late rows later and also reads other entries."""
        reader = self.entries[number].reader[0]
        if not isinstance(message, Reduced) or message.rows is None or not self.operators[reader].defers:
            return message
        if len(self._reading[reader]) < 2:
            return message
        origin = pa.array(np.full(message.rows.num_rows, number, np.int32))
        return replace(message, rows=message.rows.append_column(ORIGIN, origin))

    def _numbered(self, parcels: Sequence[Parcel], crossed: Sequence[Crossed]) -> dict[int, int]:
        """The number of each run among the runs of its port: the index into `PortFacts.counts`."""
        seen: dict[tuple[int, int], int] = {}
        numbers = {}
        readers = [(p, self.entries[p.entry].reader) for p in parcels]
        for run, reader in [*readers, *((c, self.plan.edges[c.edge].reader) for c in crossed)]:
            numbers[id(run)] = seen.get(reader, 0)
            seen[reader] = numbers[id(run)] + 1
        return numbers

    def _aside(self, number: int, parcel: Parcel) -> None:
        """Reports the rows that ingest has set aside: those without a time, and those that break a promise."""
        entry = self.entries[number]
        if NULLS in parcel.tables:
            rows = parcel.tables[NULLS]
            n = rows.num_rows
            none = np.zeros(n, np.int64)
            told = late_rows(rows, pa.array([NULL_TIME] * n, pa.string()), none, none)
            self._late(told, None, self.plan.readers[number], entry)
        if BROKEN in parcel.tables:
            rows = parcel.tables[BROKEN]
            reader = entry.reader[0]
            self.operators[reader].count_dropped(rows.num_rows)
            self._late(dropped_rows(rows, UNGRAMMATICAL), reader, self._queries[reader], entry)

    def _values(self, parcels: Sequence[Parcel]) -> None:
        for parcel in parcels:
            entry = self.entries[parcel.entry]
            if entry.ends is not None and entry.ends.when is not None:
                self._end_values(entry, parcel)

    def _end_values(self, entry: Entry, parcel: Parcel) -> None:
        tables = parcel.tables
        marked = tables[MARKED].column(0)[0].as_py() if MARKED in tables else None
        if ENDED in tables or RANGES in tables or marked is not None:
            before, self._current = self._current, entry
            assert entry.ends is not None
            none = pa.schema([entry.schema.field(entry.ends.attribute)]).empty_table()
            self._send(entry.operator, entry.port, Ended(tables.get(ENDED, none), tables.get(RANGES), marked))
            self._current = before

    def _punctuate(self, crossed: Sequence[Crossed]) -> None:
        lows = dict(self.inputs.low_watermarks())
        for entry in self.entries.values():
            low = lows.get(self._place[entry.input], NEVER)
            self._punctuate_sources(entry)
            if low == END:
                self._send(entry.operator, entry.port, ALL)
            elif low > NEVER:
                self._send(entry.operator, entry.port, Punctuation.linear(self.plan.inputs[entry.input].time, low))
                for name, ahead in entry.moves:
                    self._send(entry.operator, entry.port, Punctuation.linear(name, low + ahead))
        for c in crossed:
            self._incoming[c.edge].learn(c)
        for e, incoming in self._incoming.items():
            edge = self.plan.edges[e]
            for punctuation in incoming.punctuation():
                self._send(edge.operator, edge.port, punctuation)

    def _punctuate_sources(self, entry: Entry) -> None:
        """Sends the progress of each source to an operator whose groups close by it; at the end all close."""
        column = self.plan.closes_by(entry)
        if column is None:
            return
        lows = self.inputs.lows(self._place[entry.input], self.plan.inputs[entry.input].time, column)
        if lows is not None:
            self._send(entry.operator, entry.port, lows)
            for name, ahead in entry.moves:
                self._send(entry.operator, entry.port, lows.moved(name, ahead))

    # -- messages --------------------------------------------------------------------------------------------------

    def _send(self, number: int, port: int, message: Message) -> None:
        with self._activity.of(number):
            self.operators[number].take(port, message, lambda out: self._emitted(number, out))

    def _emitted(self, number: int, message: Message) -> None:
        """Passes a message that an operator has emitted to all operators that read it."""
        if isinstance(message, Late):
            self._late_rows(number, message)
            return
        for e, edge in self._next[number]:
            if edge.crosses:
                self._outgoing[e].take(message)
            else:
                self._send(edge.operator, edge.port, message)
        if isinstance(message, Batch):
            for query, root in enumerate(self.plan.roots):
                if number == root.operator:
                    self._deliver(of_query(RESULT, query), message.rows.select(list(root.shown)))

    def _late_rows(self, number: int, message: Late) -> None:
        """Delivers late rows of an operator that reads inputs. Behind other operators none is late (_none_late)."""
        queries, reading, rows = self._queries[number], self._reading[number], message.rows
        if ORIGIN in rows.column_names:
            origin = rows.column(ORIGIN)
            for one in pc.unique(origin).to_pylist():
                own = rows.filter(pc.equal(origin, one)).drop_columns([ORIGIN])
                self._late(own, number, queries, reading[one])
            return
        port = message.port
        those = [entry for entry in reading.values() if port is None or entry.reader[1] == port]
        found = [entry for entry in those if entry is self._current]
        if those:
            self._late(rows, number, queries, *(found or those))

    def _late(self, rows: pa.Table, number: int | None, queries: Sequence[int], *entries: Entry) -> None:
        """Delivers rows of these entries that came late to an operator, or that none takes, to these queries."""
        for query in queries:
            plan = self.plan.queries[query]
            self._late_of(plan, rows, "Input" if number is None else plan.operators[number].label, entries, query)

    def _late_of(self, plan: Plan, rows: pa.Table, operator: str, entries: Sequence[Entry], query: int) -> None:
        """Delivers late rows of an entry, or of any of several, in the columns of the late output of a query."""
        entry = entries[0]
        name = " + ".join(dict.fromkeys(plan.inputs[e.input].name for e in entries))
        n = rows.num_rows
        columns: dict[str, pa.Array] = {
            "input": pa.array([name] * n, pa.string()),
            "operator": pa.array([operator] * n),
        }
        for f in entry.data:
            if f.name in rows.column_names:
                columns[late_name(plan, entry, f)] = rows.column(f.name)
        columns |= {name: rows.column(name) for name in LATE_COLUMNS}
        schema = plan.late_schema
        arrays = [columns[f.name] if f.name in columns else pa.nulls(n, f.type) for f in schema]
        self._deliver(of_query(LATE, query), pa.table(arrays, names=schema.names).cast(schema))

    def _messages(self) -> dict[int, list[list[bytes]]]:
        out: dict[int, list[list[bytes]]] = {}
        for e, outgoing in self._outgoing.items():
            stage = self.plan.operators[self.plan.edges[e].operator].stage
            shards = out.setdefault(stage, [[] for _ in range(self.shards)])
            for shard, blobs in zip(shards, outgoing.finish(), strict=True):
                shard += blobs
        return out

    # -- facts -----------------------------------------------------------------------------------------------------

    def wake(self) -> None:
        """Called when the query has been down; see `Progress.wake`."""
        self.inputs.wake()

    def excess(self) -> str | None:
        """A sentence about the first operator that holds more than its bound allows, or None."""
        return next(iter(self.excesses().values()), None)

    def excesses(self) -> dict[int, str]:
        """A sentence about each operator that holds more than its bound allows, by its number."""
        found = {number: operator.excess() for number, operator in self.operators.items()}
        return {n: f"{self.plan.operators[n].label}: {broken}" for n, broken in found.items() if broken is not None}

    def metrics(self, over_bound: Collection[int] = ()) -> Metrics:
        """The numbers of this shard and stage. `over_bound` are the operators that hold more than they may."""
        each = []
        for number, operator in self.operators.items():
            held, counts = operator.held(), operator.counts
            each.append(
                OperatorMetrics(
                    number,
                    self.plan.operators[number].label,
                    counts.late,
                    counts.dropped,
                    counts.results,
                    held.rows,
                    held.bytes,
                    operator.remembered,
                    nanoseconds=self._activity.nanoseconds.get(number, 0),
                    over_bound=int(number in over_bound),
                    beyond_rows=dict(zip(self.plan.operators[number].spec.counted, operator.beyond, strict=True)),
                    **dict(zip(LOST, astuple(operator.lost), strict=True)),
                    **dict(zip(ADAPTING, astuple(operator.adapting), strict=True)),
                )
            )
        ticks = [Ticks(e.schema.field(i.time).type) for e, i in self._inputs_read()]
        roots = [root.operator for root in self.plan.roots]
        here = ((root, self.operators[root].closed_below) for root in roots if root in self.operators)
        closed = {root: wid for root, wid in here if wid is not None}
        several = len(roots) > 1
        return Metrics.of_operators(
            each,
            roots,
            closed_below=None if several else next(iter(closed.values()), None),
            closed_by=closed if several else {},
            by_source=self.inputs.sources(ticks),
        )

    def _inputs_read(self) -> list[tuple[Entry, Input]]:
        """The inputs of this stage, each with an entry that reads it."""
        first = {entry.input: entry for entry in reversed(self.entries.values())}
        return [(first[input], self.plan.inputs[input]) for input in self._place]
