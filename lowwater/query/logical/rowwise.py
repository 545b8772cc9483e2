"""Row-wise nodes: filters, derived columns, projections and functions. They have no state.

Expressions are Spark SQL. The subset of it that Arrow can evaluate is in lowwater/expressions/.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass, replace
from functools import cached_property

import pyarrow as pa

from lowwater.errors import LowwaterError
from lowwater.expressions import Expression, zone_of
from lowwater.expressions.errors import AggregateInside
from lowwater.expressions.types import spark_name
from lowwater.model.columns import KEEP
from lowwater.model.properties import GREATEST, LEAST, Progressing, Properties
from lowwater.operators.rowwise import DeriveSpec, MapSpec, ProjectSpec, SelectSpec
from lowwater.operators.spec import OperatorSpec
from lowwater.plan.plan import OutsideStep
from lowwater.query.frame import RowFunction
from lowwater.query.logical.node import Node
from lowwater.query.logical.scan import Reading, Rowwise


@dataclass(frozen=True, eq=False)
class Filter(Rowwise):
    """Rows for which a condition holds; null does not hold. Over a scan it becomes a `Mark`."""

    condition: str

    @cached_property
    def properties(self) -> Properties:
        found = type_of(self.condition, self.of, "where()")
        if not pa.types.is_boolean(found):
            raise LowwaterError(f"where() needs a condition, but {self.condition!r} is {spark_name(found)}.")
        return self.of.properties

    def line(self) -> str:
        return f"Select  {self.condition}"

    @property
    def text(self) -> str:
        return self.condition

    def reads(self, needed: Set[str]) -> Sequence[Set[str]]:
        return [needed | columns_of(self.condition, self.of)]

    def spec(self) -> OperatorSpec:
        return SelectSpec(self.of.schema, self.condition)

    def step(self) -> OutsideStep:
        return OutsideStep("filter", expression=self.condition)


@dataclass(frozen=True, eq=False)
class Mark(Rowwise):
    """A filter where rows are read: it marks rows in a column and drops none (rules/mark_filters.py)."""

    condition: str
    again: bool = False
    """Whether a filter before it has marked rows already."""

    @cached_property
    def properties(self) -> Properties:
        return self.of.properties

    def line(self) -> str:
        return f"Select  {self.condition}"

    def read(self, at: Reading) -> Reading:
        holds = f"coalesce(({self.condition}), false)"
        text = f"CASE WHEN {KEEP} THEN {holds} ELSE false END" if self.again else holds
        return replace(at, frame=at.frame.with_column(KEEP, text), marked=True, steps=(*at.steps, self.line()))


@dataclass(frozen=True, eq=False)
class Derive(Rowwise):
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
        if self._extreme is not None:
            yield replace(self._extreme, attribute=self.name)

    @cached_property
    def moves(self) -> tuple[tuple[Progressing, int], ...]:
        """The time that the new column moves with, and by how many ticks the column is ahead."""
        bound = bound_to(self.expression, self.of.schema)
        shift = None if bound is None else bound.shift
        if shift is None or (p := self.of.properties.progressing(shift[0])) is None:
            return ()
        return ((p, shift[1]),)

    @cached_property
    def _extreme(self) -> Progressing | None:
        """If the column is just the greatest or the least of the times of a join: the progress on that."""
        bound = bound_to(self.expression, self.of.schema)
        if bound is None or bound.extreme is None:
            return None
        kind, columns = bound.extreme
        return self.of.properties.extreme(GREATEST if kind == "greatest" else LEAST, columns)

    def line(self) -> str:
        return f"Apply  {self.name} = {self.expression}"

    @property
    def text(self) -> str:
        return self.expression

    def narrowed(self, needed: Set[str]) -> Node:
        """A column that nobody reads is not computed."""
        return self if self.name in needed else self.of

    def reads(self, needed: Set[str]) -> Sequence[Set[str]]:
        together = set() if self._extreme is None else {self._extreme.attribute}
        return [needed - {self.name} | columns_of(self.expression, self.of) | together]

    def spec(self) -> OperatorSpec:
        together = [] if self._extreme is None else [(self._extreme.attribute, 0)]
        moves = (*((p.attribute, ahead) for p, ahead in self.moves), *together)
        return DeriveSpec(self.of.schema, self.schema.field(self.name), self.expression, moves)

    def read(self, at: Reading) -> Reading:
        text = f"CASE WHEN {KEEP} THEN ({self.expression}) END" if self.guarded else self.expression
        new = tuple((self.name, ahead) for p, ahead in self.moves if p.attribute == at.scan.time)
        frame = at.frame.with_column(self.name, text)
        return replace(at, frame=frame, moves=(*at.moves, *new), steps=(*at.steps, self.line()))

    def step(self) -> OutsideStep:
        return OutsideStep("derive", self.name, self.expression)


@dataclass(frozen=True, eq=False)
class Project(Rowwise):
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

    def narrowed(self, needed: Set[str]) -> Project:
        return replace(self, columns=tuple(name for name in self.columns if name in needed))

    def spec(self) -> OperatorSpec:
        return ProjectSpec(self.of.schema, tuple(self.schema.names))

    def read(self, at: Reading) -> Reading:
        columns = [*self.schema.names, *([KEEP] if at.marked else [])]
        steps = at.steps if self.strict else (*at.steps, self.line())
        return replace(at, frame=at.frame.select(columns), steps=steps)

    def step(self) -> OutsideStep:
        return OutsideStep("project", columns=tuple(self.schema.names))


@dataclass(frozen=True, eq=False)
class Map(Rowwise):
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

    def reads(self, needed: Set[str]) -> Sequence[Set[str]]:
        return [{*self.of.properties.visible.names, *needed}]

    @property
    def times(self) -> tuple[str, ...]:
        """The columns on which rows progress before and after the function."""
        return tuple(p.attribute for p in self.properties.progress if p.attribute in self.result.names)

    def spec(self) -> OperatorSpec:
        return MapSpec(self.of.schema, self.function, self.result, self.properties.hidden, self.times)

    def read(self, at: Reading) -> Reading:
        return replace(at, frame=at.frame.apply(self.function, self.schema), steps=(*at.steps, self.line()))

    def step(self) -> OutsideStep:
        hidden = self.properties.hidden
        return OutsideStep("map", function=self.function, schema=self.result, hidden=hidden, unchanged=self.times)


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
    except AggregateInside:
        raise
    except LowwaterError:  # the backend refuses what it cannot evaluate either, in its own words
        return None


def columns_of(expression: str, below: Node) -> set[str]:
    """The columns that an expression reads; all of them where only Spark can evaluate it."""
    bound = bound_to(expression, below.schema)
    return set(below.schema.names) if bound is None else set(bound.columns)
