"""The physical plan: operators, the stages they run in, and how rows come to them. Frozen, the same for every backend.

    entry      rows of an input enter a stage, laid out for the operator that reads them
    edge       results of an operator go to another one: directly, or across a shuffle into a later stage
    stage      all operators at one depth of re-shuffling; Spark runs a stage as one stateful operator
    root       results of an operator leave the plan. A plan of several queries has a root for each of them

Stages run one after the other in every micro-batch. A crossing into a later stage is packed like the first shuffle:
rows in the layout of the next operator, and the punctuation.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from hashlib import blake2b
from typing import Any

import pyarrow as pa

from lowwater.errors import LowwaterError
from lowwater.metrics import Metrics
from lowwater.operators.late import LATE_COLUMNS
from lowwater.operators.layout import Layout
from lowwater.operators.rowwise import RowFunction
from lowwater.operators.spec import OperatorSpec
from lowwater.plan.inputs import Ends, Input

VERSION = 1
"""The version of the choices that a checkpoint pins."""
WHERE_FROM = {"input": pa.string(), "operator": pa.string()}
"""Columns of the late output: the input of a late row, and the operator that it was too late for."""
BOUNDS = ("window_start", "window_end")
"""The columns of a window's bounds, which stand for its number in the order of results."""


@dataclass(frozen=True)
class Entry:
    """Rows of an input on their way into a stage."""

    input: int
    frame: int
    """Entries of one frame and one stage are read together."""
    schema: pa.Schema
    """The rows as the frame hands them over, without marks."""
    stage: int = 0
    operator: int = 0
    port: int = 0
    reader: tuple[int, int] = (0, 0)
    """The operator and port whose layout the rows have: that behind a union, not the union itself."""
    route: tuple[str, ...] | None = None
    marked: bool = False
    """Whether filters have marked rows."""
    ends: Ends | None = None
    moves: tuple[tuple[str, int], ...] = ()
    """Columns that move with the input's time, and by how many ticks they are ahead of it."""
    learns: bool = True
    """Whether this entry carries the facts of the input's progress. One entry per input and stage does."""
    steps: tuple[str, ...] = ()
    """The row-wise steps where rows are read, for EXPLAIN."""
    how: str = ""
    """How values become columns, for EXPLAIN, if there are several ways."""

    @property
    def data(self) -> list[pa.Field]:
        """The columns of rows that are data, without those that only carry punctuations of values."""
        marks = set() if self.ends is None else {*self.ends.columns} - {self.ends.attribute}
        return [f for f in self.schema if f.name not in marks]


@dataclass(frozen=True)
class OutsideStep:
    """A row-wise step that Spark evaluates between two stages, because Arrow cannot."""

    kind: str
    """filter, derive, project or map"""
    name: str = ""
    expression: str = ""
    columns: tuple[str, ...] = ()
    function: RowFunction | None = None
    schema: pa.Schema | None = None
    hidden: tuple[str, ...] = ()
    """Columns that the function does not see, and that stay with their rows"""
    unchanged: tuple[str, ...] = ()
    """Columns on which rows progress, so that the function must not change them"""

    def __str__(self) -> str:
        if self.kind == "filter":
            return f"Select  {self.expression}"
        if self.kind == "derive":
            return f"Apply  {self.name} = {self.expression}"
        return f"Project  {', '.join(self.columns)}" if self.kind == "project" else "Apply  a function"


@dataclass(frozen=True)
class Edge:
    """Results of an operator on their way to another one."""

    source: int
    operator: int
    port: int
    crosses: bool = False
    reader: tuple[int, int] = (0, 0)
    route: tuple[str, ...] | None = None
    attributes: tuple[str, ...] = ()
    """The attributes whose progress crosses."""
    why: str = ""
    """Why there is a shuffle."""
    schema: pa.Schema | None = None
    """The schema of the rows after the outside steps, if there are any."""
    outside: tuple[OutsideStep, ...] = ()


@dataclass(frozen=True)
class Placed:
    """An operator in its stage. `routes` are, per port, the columns by which rows were sent to their shard."""

    spec: OperatorSpec
    stage: int
    label: str
    routes: tuple[tuple[str, ...] | None, ...] = ()
    times: tuple[str | None, ...] = ()
    """The time of each port: spans of rows are in its ticks."""


@dataclass(frozen=True)
class Root:
    """Where the results of a query leave the plan."""

    operator: int
    shown: tuple[str, ...]
    """The columns of the operator that results show."""
    outside: tuple[OutsideStep, ...] = ()
    """Steps behind the operator that Spark evaluates on the results."""
    result: pa.Schema = field(default_factory=lambda: pa.schema([]))
    name: str = ""
    """The name of the query, if the plan has several."""


@dataclass(frozen=True)
class Plan:
    """The physical plan. Picklable, because it is sent to the workers; see the module text."""

    inputs: tuple[Input, ...]
    entries: tuple[Entry, ...]
    operators: tuple[Placed, ...]
    edges: tuple[Edge, ...]
    roots: tuple[Root, ...]
    """One per query. What follows from the only root is asked of a plan with one, or of one of the `queries`."""
    meaning: str
    """Everything of the logical tree that state depends on, as text."""
    late: bool = True
    """Whether inputs are read whole, so that late rows can be reported whole."""

    @property
    def name(self) -> str:
        """The query as errors name it."""
        return " + ".join(i.name for i in self.inputs)

    # -- queries ---------------------------------------------------------------------------------------------------

    @cached_property
    def queries(self) -> tuple[Plan, ...]:
        """The plan as each of its queries sees it: with the numbers of this plan, and with its own root alone."""
        return (self,) if len(self.roots) == 1 else tuple(map(self._alone, self.roots))

    def _alone(self, root: Root) -> Plan:
        """Operators of the query are called as in a plan of the query alone."""
        alone = replace(self, roots=(root,))
        labels = labels_of([self.operators[i].spec.name for i in sorted(alone.reached)])
        named = dict(zip(sorted(alone.reached), labels, strict=True))
        operators = (replace(placed, label=named.get(i, placed.label)) for i, placed in enumerate(self.operators))
        return replace(alone, operators=tuple(operators))

    @cached_property
    def reached(self) -> frozenset[int]:
        """The operators whose results reach a root."""
        before = {
            number: [e.source for e in self.edges if e.operator == number] for number in range(len(self.operators))
        }
        found, waiting = set[int](), [root.operator for root in self.roots]
        while waiting:
            number = waiting.pop()
            if number not in found:
                found.add(number)
                waiting += before[number]
        return frozenset(found)

    @cached_property
    def read(self) -> tuple[Entry, ...]:
        """The entries whose rows reach a root."""
        return tuple(entry for entry in self.entries if entry.operator in self.reached)

    @cached_property
    def readers(self) -> tuple[tuple[int, ...], ...]:
        """Per entry, the queries that hear by it of rows without a time: by one entry per input, at the first stage."""
        heard: list[list[int]] = [[] for _ in self.entries]
        for query, of in enumerate(self.queries):
            for input in {entry.input for entry in of.read}:
                own = [n for n, e in enumerate(self.entries) if e.input == input and e.operator in of.reached]
                heard[min(own, key=lambda n: (self.entries[n].stage, not self.entries[n].learns))].append(query)
        return tuple(tuple(queries) for queries in heard)

    def number_of(self, query: str) -> int:
        """The number of a query by its name."""
        names = [root.name for root in self.roots]
        if query not in names:
            known = (
                f"; its queries are {' and '.join(names)}" if len(names) > 1 else "; it has one query, without a name"
            )
            raise LowwaterError(f"{query!r} is no query of this plan{known}.")
        return names.index(query)

    def metrics_of(self, query: int, metrics: Metrics) -> Metrics:
        """The part of the metrics that belongs to one of the queries."""
        of = self.queries[query]
        labels = {number: of.operators[number].label for number in sorted(of.reached)}
        return metrics.part(labels, of.root, {self.inputs[entry.input].name for entry in of.read})

    @property
    def only(self) -> Root:
        (root,) = self.roots
        return root

    @property
    def root(self) -> int:
        return self.only.operator

    @property
    def shown(self) -> tuple[str, ...]:
        return self.only.shown

    @property
    def outside(self) -> tuple[OutsideStep, ...]:
        return self.only.outside

    @property
    def result_schema(self) -> pa.Schema:
        return self.only.result

    @property
    def spec(self) -> OperatorSpec:
        """The operator whose results are those of the query."""
        return self.operators[self.root].spec

    @property
    def stages(self) -> int:
        return 1 + max(placed.stage for placed in self.operators)

    @property
    def shares(self) -> bool:
        """Whether several operators read the results of one."""
        return len({edge.source for edge in self.edges}) < len(self.edges)

    @property
    def shown_schema(self) -> pa.Schema:
        """What the last stage emits, before Spark evaluates any steps."""
        schema = self.spec.result
        return pa.schema([pa.field(name, schema.field(name).type) for name in self.shown])

    @property
    def order(self) -> list[tuple[str, str]]:
        """The sort order of a finite result: that of the last operator that has one."""
        known = [f.name for f in self.result_schema if not pa.types.is_null(f.type)]  # null alone orders nothing
        number = self.root
        while not self.operators[number].spec.order:
            before = [edge.source for edge in self.edges if edge.operator == number]
            if not before:
                return []
            number = before[0]
        order = self.operators[number].spec.order
        if "wid" not in known:  # the bounds of windows ascend as their numbers do
            order = [(each, how) for name, how in order for each in (BOUNDS if name == "wid" else (name,))]
        return [(name, how) for name, how in order if name in known]

    def in_order(self, results: pa.Table) -> pa.Table:
        """A finite result, sorted if it has an order; a union of inputs has none."""
        return results.sort_by(self.order) if self.order else results

    @property
    def late_schema(self) -> pa.Schema:
        """The late output: input and operator, the columns of all inputs, and the reason."""
        columns: dict[str, pa.DataType] = {}
        for entry in self.read:
            for f in entry.data:
                columns.setdefault(late_name(self, entry, f), f.type)
        fields = [pa.field(name, type) for name, type in columns.items()]
        where_from = [pa.field(name, type) for name, type in WHERE_FROM.items()]
        return pa.schema([*where_from, *fields, *(pa.field(name, type) for name, type in LATE_COLUMNS.items())])

    def layout(self, at: Entry | Edge) -> Layout:
        """How rows travel along an entry or an edge."""
        operator, port = at.reader
        return self.operators[operator].spec.layout(port, at.route)

    def closes_by(self, at: Entry | Edge) -> str | None:
        """The source column by which the operator that reads these rows closes each group on its own, if it does."""
        operator, port = at.reader
        return self.operators[operator].spec.closes_by(port)

    def of_stage(self, stage: int) -> list[int]:
        """The operators of a stage, in the order that rows pass them."""
        return [i for i, placed in enumerate(self.operators) if placed.stage == stage]

    @contextmanager
    def speaking(self) -> Iterator[None]:
        """Adds the name of the query to errors that are raised while it runs."""
        try:
            yield
        except LowwaterError as error:
            error.args = (f"Query over {self.name!r}: {error}",)
            raise

    @property
    def query(self) -> str:
        return blake2b(self.meaning.encode(), digest_size=8).hexdigest()

    def fingerprint(self, shards: int) -> dict[str, Any]:
        """The owner of a checkpoint: what must not change between two runs, and the pinned choices."""
        return {"query": self.query, "shards": shards, "meaning": self.meaning, "plan": self.choices()}

    def choices(self) -> dict[str, Any]:
        """The planner's choices as plain values. A later planner follows the choices of the checkpoint."""
        return {
            "version": VERSION,
            "whole": self.late,
            **({"shared": True} if self.shares else {}),
            "operators": [
                {
                    "label": placed.label,
                    "stage": placed.stage,
                    "routes": [None if route is None else list(route) for route in placed.routes],
                    **placed.spec.choice(),
                }
                for placed in self.operators
            ],
        }

    def pinned(self) -> str:
        return json.dumps(self.choices(), sort_keys=True)


def labels_of(names: Sequence[str]) -> list[str]:
    """Names of operators, told apart by numbers.

    >>> labels_of(["Select", "Meld", "Select"])
    ['Select', 'Meld', 'Select 2']
    """
    seen: Counter[str] = Counter()
    labels = []
    for name in names:
        seen[name] += 1
        labels.append(name if seen[name] == 1 else f"{name} {seen[name]}")
    return labels


def late_name(plan: Plan, entry: Entry, column: pa.Field) -> str:
    """The name of a column in the late output: its own, if all inputs that have it agree on its spelling and type.

    Otherwise the name of the input comes before it, also if it would be a column that the late output adds itself.
    Names that differ in case only are one name to readers of the output, such as Spark.
    """
    own: str = column.name
    every = {(f.name, f.type) for other in plan.read for f in other.data}
    alike = {one for one in every if one[0].lower() == own.lower()}
    if len(alike) == 1 and own.lower() not in WHERE_FROM:
        return own
    name = f"{plan.inputs[entry.input].name}_{own}"
    while any(name.lower() == other.lower() for other, _ in every):
        name += "_"
    return name
