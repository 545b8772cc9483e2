"""The logical tree: what a query computes, one frozen node per verb of the API or of the language.

    Scan      rows of a declared stream                Union      rows of all inputs
    Filter    rows for which a condition holds         Distinct   each row once, or the first of each key
    Derive    a column added or replaced               Aggregate  aggregates over windows
    Project   some columns                             GroupBy    aggregates without a window, closed by punctuation
    Map       a function over Arrow tables             Join       rows of all inputs that belong together
    Ending    how an input reports that values end

A node knows its inputs and its properties (lowwater/model/properties.py), which follow from those of its inputs. It
does not know how it will run: rules rewrite the tree (query/rules/) and the planner turns it into operators.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import pyarrow as pa

from lowwater.aggregates.base import Aggregate as AggregateFunction
from lowwater.errors import LowwaterError
from lowwater.expressions import Expression, zone_of
from lowwater.expressions.types import spark_name
from lowwater.joins.condition import Condition
from lowwater.joins.spec import JoinSide, WindowJoin
from lowwater.model.columns import WINDOW_TIME
from lowwater.model.policy import Delay
from lowwater.model.properties import GREATEST, LEAST, Progressing, Properties
from lowwater.model.ticks import Ticks
from lowwater.model.words import length
from lowwater.operators.bucket import WindowedAggregation, WindowKind
from lowwater.operators.flush import EAGER, Flush
from lowwater.operators.group_by import Grouping
from lowwater.plan.inputs import Ends, Input
from lowwater.query.frame import Backend, Frame, RowFunction
from lowwater.query.promises import behind_join, promised
from lowwater.windows.context_aware import Partitioned
from lowwater.windows.context_free import Sliding, TupleBased
from lowwater.windows.describe import describe
from lowwater.windows.over import Over


class Node(ABC):
    """A node of the logical tree. Frozen; see the module text."""

    inputs: tuple[Node, ...]

    @property
    @abstractmethod
    def properties(self) -> Properties:
        """What is known of its rows before any of them comes."""

    @property
    def schema(self) -> pa.Schema:
        """All columns, hidden ones included."""
        return self.properties.schema

    @abstractmethod
    def over(self, *inputs: Node) -> Node:
        """The same node over other inputs."""

    @abstractmethod
    def line(self) -> str:
        """The node in one line, for EXPLAIN and for the fixtures of the rules."""

    def meaning(self) -> dict[str, Any]:
        """Everything of this node that state depends on, as plain values by their names; `operator` is one of them.

        Row-wise steps list nothing, so that a condition or an expression can be mended on an existing checkpoint.
        """
        return {}

    def walk(self) -> Iterator[Node]:
        """This node and all below it, inputs first."""
        for node in self.inputs:
            yield from node.walk()
        yield self

    @cached_property
    def backend(self) -> Backend:
        """The backend that the inputs belong to."""
        return next(node.frame.backend for node in self.walk() if isinstance(node, Scan))


@dataclass(frozen=True, eq=False)
class Scan(Node):
    """Rows of a declared stream."""

    input: Input
    time: str
    frame: Frame = field(repr=False)

    @property
    def inputs(self) -> tuple[Node, ...]:  # type: ignore[override]
        return ()

    @cached_property
    def properties(self) -> Properties:
        policy = self.input.policy
        behind = policy.ticks if isinstance(policy, Delay) else None
        return Properties(
            self.frame.schema,
            (Progressing(self.time, behind),),
            apart=self.input.source is not None,
            skewed=self.input.skewed,
        )

    def over(self, *inputs: Node) -> Scan:
        return self

    def line(self) -> str:
        return f"Input {self.input.name}"

    def meaning(self) -> dict[str, Any]:
        i = self.input
        return {
            "operator": "input",
            "name": i.name,
            "source": i.source,
            "disorder": i.policy.kind,
            "punctuated": None if i.punctuation is None else repr(i.punctuation),
            "progress": str(self.frame.schema.field(self.time)),
        }


@dataclass(frozen=True, eq=False)
class Unary(Node):
    """A node with one input."""

    of: Node

    @property
    def inputs(self) -> tuple[Node, ...]:  # type: ignore[override]
        return (self.of,)

    def over(self, *inputs: Node) -> Node:
        return replace(self, of=inputs[0])


@dataclass(frozen=True, eq=False)
class Filter(Unary):
    """Rows for which a condition holds; null does not hold."""

    condition: str

    @cached_property
    def properties(self) -> Properties:
        found = type_of(self.condition, self.of, "where()")
        if not pa.types.is_boolean(found):
            raise LowwaterError(f"where() needs a condition, but {self.condition!r} is {spark_name(found)}.")
        return self.of.properties

    def line(self) -> str:
        return f"Select  {self.condition}"


@dataclass(frozen=True, eq=False)
class Mark(Unary):
    """A filter where rows are read: it marks rows in a column and drops none (rules/mark_filters.py)."""

    condition: str
    again: bool = False
    """Whether a filter before it has marked rows already."""

    @cached_property
    def properties(self) -> Properties:
        return self.of.properties

    def line(self) -> str:
        return f"Select  {self.condition}"


@dataclass(frozen=True, eq=False)
class Derive(Unary):
    """A column added or replaced by an expression over the others."""

    name: str
    expression: str
    guarded: bool = False
    """Whether the expression is evaluated only for the rows that a filter before it keeps."""

    @cached_property
    def properties(self) -> Properties:
        before = self.of.properties
        field = pa.field(self.name, type_of(self.expression, self.of, "with_column()"))
        return before.with_column(field, tuple(self._progress(before)))

    def _progress(self, before: Properties) -> Iterator[Progressing]:
        """The new column, if it moves with a time that progresses."""
        for p, _ in self.moves:
            yield replace(p, attribute=self.name)
        bound = bound_to(self.expression, before.schema)
        extreme = None if bound is None else bound.extreme
        if extreme is not None:
            together = before.progressing(GREATEST if extreme[0] == "greatest" else LEAST)
            if together is not None and all(before.progressing(column) for column in extreme[1]):
                yield replace(together, attribute=self.name)

    @cached_property
    def moves(self) -> tuple[tuple[Progressing, int], ...]:
        """The time that the new column moves with, and by how many ticks the column is ahead."""
        before = self.of.properties
        bound = bound_to(self.expression, before.schema)
        shift = None if bound is None else bound.shift
        if shift is None or (p := before.progressing(shift[0])) is None:
            return ()
        return ((p, shift[1]),)

    def line(self) -> str:
        return f"Apply  {self.name} = {self.expression}"


@dataclass(frozen=True, eq=False)
class Project(Unary):
    """Some columns. Hidden columns stay, and stay hidden unless they are named."""

    columns: tuple[str, ...]
    strict: bool = False
    """Whether hidden columns are dropped too, because no later operator reads them."""

    @cached_property
    def properties(self) -> Properties:
        before = self.of.properties
        hidden = [] if self.strict else [name for name in before.hidden if name not in self.columns]
        kept = before.keeping([*self.columns, *hidden])
        return replace(kept, hidden=tuple(hidden))

    def line(self) -> str:
        return f"Project  {', '.join(self.columns)}"


@dataclass(frozen=True, eq=False)
class Map(Unary):
    """A function from an Arrow table to one of as many rows in the same order."""

    function: RowFunction
    result: pa.Schema

    @cached_property
    def properties(self) -> Properties:
        before = self.of.properties
        same = [
            f.name for f in self.result if f.name in before.schema.names and before.schema.field(f.name).type == f.type
        ]
        kept = before.keeping([*same, *(name for name in before.hidden if name not in self.result.names)])
        hidden = tuple(name for name in before.hidden if name not in self.result.names)
        schema = pa.schema([*self.result, *(before.schema.field(name) for name in hidden)])
        return replace(kept, schema=schema, hidden=hidden, identified=None if kept.identified else kept.identified)

    def line(self) -> str:
        return f"Apply  {getattr(self.function, '__name__', type(self.function).__name__)}"


@dataclass(frozen=True, eq=False)
class Ending(Unary):
    """How the rows of an input report that values of a column have ended."""

    ends: Ends

    @cached_property
    def properties(self) -> Properties:
        before = self.of.properties
        marks = tuple(name for name in self.ends.columns if name != self.ends.attribute)
        return replace(before, ends=(self.ends.attribute,), hidden=tuple(dict.fromkeys([*before.hidden, *marks])))

    def line(self) -> str:
        return f"Ends  {self.ends}"

    def meaning(self) -> dict[str, Any]:
        return {"operator": "stream with ended values", "ends": str(self.ends)}


@dataclass(frozen=True, eq=False)
class Union(Node):
    """Meld: rows of all inputs; progress is that of the slowest."""

    inputs: tuple[Node, ...]

    @cached_property
    def properties(self) -> Properties:
        each = [node.properties for node in self.inputs]
        first, derived = each[0], any(one.derived for one in each)
        progress = []
        for p in first.progress:
            same = [found for one in each if (found := one.progressing(p.attribute)) is not None]
            if len(same) == len(each):
                known = [one.behind for one in same]
                behind = None if None in known else max(b for b in known if b is not None)
                progress.append(Progressing(p.attribute, behind, any(one.nullable for one in same)))
        hidden = [name for name in first.hidden if all(name in one.hidden for one in each)]
        names = [name for name in first.visible.names if all(name in one.visible.names for one in each)] + hidden
        return Properties(
            pa.schema([first.schema.field(name) for name in names]),
            tuple(p for p in progress if p.attribute in names),
            ends=() if derived else first.ends,  # of inputs they are declared of all rows of the union
            apart=True,
            hidden=tuple(hidden),
            silent=next((one.silent for one in each if one.silent), None),
            again=next((one.again for one in each if one.again), None),
            skewed=all(one.skewed for one in each),
            derived=derived,
        )

    def over(self, *inputs: Node) -> Union:
        return Union(tuple(inputs))

    def line(self) -> str:
        return f"Meld  of {len(self.inputs)} inputs: rows pass at once, progress is the minimum"

    def meaning(self) -> dict[str, Any]:
        return {"operator": "union"}


@dataclass(frozen=True, eq=False)
class Distinct(Unary):
    """DupElim. With `within`, a row is dropped if a survivor of its key is at most that much older."""

    on: tuple[str, ...]
    time: str
    within: int | None = None
    """None: each combination of the columns `on` once. The time is one of them, and results have no other columns."""

    @cached_property
    def properties(self) -> Properties:
        before = self.of.properties
        own = before.progressing(self.time)
        assert own is not None
        known = replace(before, ends=(), derived=True, identified=self.on)
        if self.within is None:
            return replace(known.keeping(self.on), progress=(own,), hidden=())
        return replace(known, progress=(replace(own, behind=0),), apart=False)  # rows leave when they are final

    def line(self) -> str:
        if self.within is None:
            return f"Distinct  {', '.join(self.on)}"
        return f"Drop-duplicates  on {', '.join(self.on)}"

    def meaning(self) -> dict[str, Any]:
        own = {"on": list(self.on), "time": self.time, "within": self.within, "columns": str(self.schema)}
        return {"operator": "distinct", **own}


@dataclass(frozen=True, eq=False)
class Aggregate(Unary):
    """Aggregates over the windows of a time, by groups."""

    window: WindowKind
    time: str
    groups: tuple[str, ...]
    aggregates: tuple[tuple[str, AggregateFunction], ...]
    anchored: bool = True
    late: str = "include"
    early: bool = False
    lateness: int = 0
    flush: Flush = EAGER
    strategy: str = "auto"
    table: int | None = None
    timed: bool = True
    """Whether answers have the column `window_time`, for a follower. The rule that prunes columns clears it."""

    @cached_property
    def what(self) -> WindowedAggregation:
        return WindowedAggregation(
            self.window,
            self.time,
            self.of.schema,
            self.groups,
            self.aggregates,
            self.anchored,
            self.late,
            self.early,
            self.lateness,
            self.timed and not isinstance(self.window, Over | TupleBased | Partitioned),
        )

    @cached_property
    def properties(self) -> Properties:
        return promised(self.what, self.of.properties, self.flush)

    def line(self) -> str:
        aggregates = ", ".join(f"{name} = {aggregate}" for name, aggregate in self.aggregates)
        return f"Aggregate  {aggregates} over {self.window} of {self.time} by {', '.join(self.groups) or 'nothing'}"

    def meaning(self) -> dict[str, Any]:
        what = self.what
        return {
            "operator": "aggregate",
            "window": describe(what.window, Ticks(what.schema.field(what.time).type)),
            "window in ticks": str(what.window),
            "time": str(what.schema.field(what.time)),
            "known origin": what.anchored,
            "group_by": [str(what.schema.field(name)) for name in what.group_by],
            "aggregates": {name: repr(aggregate) for name, aggregate in what.aggregates},
            "late": what.late,
            "early": what.early,
            "allowed_lateness": length(what.lateness, Ticks(what.schema.field(what.time).type)),
            "partials": [[str(field) for field in algebra.fields] for algebra in what.algebras()],
            # whole rows are kept and come back
            "columns": str(what.schema) if isinstance(what.window, Over) else None,
        }


@dataclass(frozen=True, eq=False)
class GroupBy(Unary):
    """Aggregates without a window: a group is answered when punctuation proves that it is complete."""

    groups: tuple[str, ...]
    aggregates: tuple[tuple[str, AggregateFunction], ...]

    @cached_property
    def what(self) -> Grouping:
        before = self.of.properties
        times = [p.attribute for p in before.progress if p.attribute in before.schema.names]
        twice = [name for name in self.groups if self.groups.count(name) > 1]
        if twice:
            raise LowwaterError(f"The result would have two columns named {twice[0]!r}; name it once in group_by().")
        for name, _ in self.aggregates:
            if name in self.groups:
                raise LowwaterError(
                    f"The result would have two columns named {name!r}; give the aggregate another name."
                )
        return Grouping(before.schema, self.groups, self.aggregates, tuple(times))

    @cached_property
    def properties(self) -> Properties:
        before = self.of.properties
        return Properties(
            self.what.result_schema(),
            tuple(p for p in before.progress if p.attribute in self.groups),
            ends=tuple(name for name in before.ends if name in self.groups),
            apart=False,
            again=before.again,
            derived=True,
            identified=self.groups,
        )

    def line(self) -> str:
        aggregates = ", ".join(f"{name} = {aggregate}" for name, aggregate in self.aggregates)
        return f"Group-by  {aggregates} by {', '.join(self.groups)}"

    def meaning(self) -> dict[str, Any]:
        what = self.what
        return {
            "operator": "group-by",
            "group_by": list(what.group_by),
            "aggregates": {name: repr(aggregate) for name, aggregate in what.aggregates},
            "columns": str(what.result_schema()),
        }


@dataclass(frozen=True, eq=False)
class Join(Node):
    """Rows of all inputs that are equal on the key and within each other's window."""

    inputs: tuple[Node, ...]
    schemas: tuple[pa.Schema, ...]
    """The columns of each input as the query was written: the names of the results follow from them."""
    names: tuple[str, ...]
    times: tuple[str, ...]
    keys: tuple[tuple[str, ...], ...]
    waits: tuple[int | None, ...]
    how: str = "inner"
    grid: Sliding | None = None
    condition: str | Callable[[pa.Table], pa.Array] | None = None
    null_safe: bool = False
    rows: tuple[int | None, ...] | None = None
    per_key: bool = True
    emits: tuple[str, ...] | None = None
    """The columns that later operators read, by their names in the result; None is all."""
    extremes: bool = False
    """Whether a later operator asks for progress on the greatest or the least of the times."""

    @cached_property
    def plain(self) -> WindowJoin:
        """The join without its condition."""
        sides = tuple(
            JoinSide(name, schema, time, key)
            for schema, name, time, key in zip(self.schemas, self.names, self.times, self.keys, strict=True)
        )
        return WindowJoin(
            sides, self.waits, self.how, self.grid, None, self.null_safe, self.rows, self.per_key, self.emits
        )

    @cached_property
    def what(self) -> WindowJoin:
        plain = self.plain
        if self.condition is None:
            return plain
        paired = pa.schema([plain.field(column) for column in plain.paired])
        return replace(plain, condition=Condition.of(self.condition, paired))

    @cached_property
    def properties(self) -> Properties:
        return behind_join(self.what, [node.properties for node in self.inputs])

    def over(self, *inputs: Node) -> Join:
        return replace(self, inputs=tuple(inputs))

    def line(self) -> str:
        return f"Join  {self.how}, of {', '.join(self.names)}"

    def meaning(self) -> dict[str, Any]:
        what = self.what
        ticks = Ticks(what.sides[0].schema.field(what.sides[0].time).type)
        return {
            "operator": "join",
            "names": [side.name for side in what.sides],
            "on": [list(side.on) for side in what.sides],
            "times": [side.time for side in what.sides],
            "columns": [str(side.schema) for side in what.sides],
            "within": [None if wait is None else length(wait, ticks) for wait in what.waits],
            "window": None if what.grid is None else describe(what.grid, ticks),
            "window in ticks": None if what.grid is None else str(what.grid),
            "rows": what.rows,
            "rows per key": what.per_key,
            "how": what.how,
            "null_safe": what.null_safe,
            "condition": None if what.condition is None else str(what.condition),
        }


def type_of(expression: str, node: Node, role: str) -> pa.DataType:
    """Spark's type of an expression over the rows of a node. `role` names the expression in a refusal."""
    bound = bound_to(expression, node.schema, role)
    if bound is not None and node.properties.derived:
        return bound.type
    return node.backend.type_of(expression, node.schema, role)


def bound_to(expression: str, schema: pa.Schema, role: str = "The expression") -> Expression | None:
    """The expression on Arrow, or None if the subset of Spark SQL that runs there lacks something."""
    try:
        return Expression.of(expression, schema, zone_of(schema), role)
    except LowwaterError:  # the backend refuses what it cannot evaluate either, in its own words
        return None


def rowwise(node: Node) -> bool:
    """Whether a node is evaluated row by row, so that it can run where rows are read."""
    return isinstance(node, Filter | Mark | Derive | Project | Map | Ending)


def scan_like(node: Node) -> bool:
    """Whether a node is a scan or row-wise steps over one."""
    while rowwise(node):
        (node,) = node.inputs
    return isinstance(node, Scan)


def meaning(root: Node) -> dict[str, Any]:
    """The meaning of the whole tree, for the fingerprint of a checkpoint."""
    if scan_like(root) and not isinstance(root, Scan | Ending):  # a step where rows are read leaves no trace
        return meaning(root.inputs[0])
    own = root.meaning() or {"operator": "row-wise step"}  # elsewhere it has a place among the operators
    return own | {"inputs": [meaning(node) for node in root.inputs]}


__all__ = [
    "WINDOW_TIME",
    "Aggregate",
    "Derive",
    "Distinct",
    "Ending",
    "Filter",
    "GroupBy",
    "Join",
    "Map",
    "Node",
    "Project",
    "Scan",
    "Union",
]
