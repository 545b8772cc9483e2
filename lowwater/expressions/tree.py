"""The bound form of an expression: a tree of columns, literals and calls, each with the type that it has in Spark.

A part is evaluated only on the rows on which Spark would evaluate it. `CASE`, `AND`, `OR` and `COALESCE` restrict the
rows before they evaluate a branch that can raise. A call restricts its later arguments to rows whose earlier arguments
are not null.

>>> rows = Rows(pa.table({"n": [6, 1], "d": [2, 0]}))
>>> rows.where(np.array([True, False])).column("n", pa.int64()).to_pylist()
[6]
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeGuard

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lowwater.expressions.kernels import Kernel, Mask, Raised, all_valid, pick, validity, with_nulls


class Rows:
    """The rows of a table on which an expression is evaluated."""

    def __init__(self, table: pa.Table, chosen: npt.NDArray[np.intp] | None = None) -> None:
        self.table = table
        self.chosen = chosen
        self._columns: dict[str, pa.Array] = {}

    def __len__(self) -> int:
        return self.table.num_rows if self.chosen is None else len(self.chosen)

    def column(self, name: str, type: pa.DataType) -> pa.Array:
        if name not in self._columns:
            found = self.table.column(name)
            found = found.combine_chunks() if isinstance(found, pa.ChunkedArray) else found
            if self.chosen is not None:
                found = found.take(pa.array(self.chosen))
            self._columns[name] = as_spark_stores(found, type)
        return self._columns[name]

    def where(self, mask: Mask) -> Rows:
        kept = np.flatnonzero(mask)
        return Rows(self.table, kept if self.chosen is None else self.chosen[kept])


def as_spark_stores(column: pa.Array, type: pa.DataType) -> pa.Array:
    """A column in Spark's type for it: timestamps in microseconds, strings without a dictionary."""
    if column.type == type:
        return column
    if pa.types.is_timestamp(type) and column.type.unit == "ns":
        micros = np.floor_divide(column.cast(pa.int64()).fill_null(0).to_numpy(), 1000)
        return with_nulls(pa.array(micros).cast(type), ~validity(column))
    return column.cast(type)


@dataclass(frozen=True)
class Column:
    """A column, by its name in the schema."""

    name: str
    type: pa.DataType
    raises = False
    children: tuple[Node, ...] = ()

    def evaluate(self, rows: Rows) -> pa.Array:
        return rows.column(self.name, self.type)


@dataclass(frozen=True)
class Literal:
    """A constant. `value` is what `pa.scalar` takes for the type; dates and timestamps are integers.

    `written` marks a number that is a literal in the text: in operations with decimals, Spark gives it as many digits
    as are written.
    """

    value: Any
    type: pa.DataType
    written: bool = False
    raises = False
    children: tuple[Node, ...] = ()

    def scalar(self) -> pa.Scalar:
        return pa.scalar(self.value, self.type)

    def evaluate(self, rows: Rows) -> pa.Array:
        return pa.repeat(self.scalar(), len(rows))


@dataclass(frozen=True)
class Call:
    """A kernel applied to the values of its arguments.

    A strict call is null if an argument is null. Spark evaluates arguments from left to right and stops at the first
    null. Division evaluates the right argument first (`last_first`).
    """

    kernel: Kernel
    children: tuple[Node, ...]
    type: pa.DataType
    strict: bool = True
    last_first: bool = False

    @cached_property
    def raises(self) -> bool:
        return getattr(self.kernel, "raises", False) or any(child.raises for child in self.children)

    def evaluate(self, rows: Rows) -> pa.Array:
        constants = sum(_constant(child) for child in self.children)
        if getattr(self.kernel, "scalars", False) and 0 < constants < len(self.children):
            return self.kernel(*(c.scalar() if _constant(c) else c.evaluate(rows) for c in self.children))
        ordered = self.children[::-1] if self.last_first else self.children
        values: list[pa.Array] = []
        for child in ordered:
            if self.strict and child.raises and any(value.null_count for value in values):
                values.append(within(all_valid(values), child, rows))
            else:
                values.append(child.evaluate(rows))
        found = self.kernel(*(values[::-1] if self.last_first else values))
        if self.strict and any(value.null_count for value in values):
            found = with_nulls(found, ~all_valid(values))
        return found


@dataclass(frozen=True)
class Both:
    """`AND` (stop = False) and `OR` (stop = True). The right side is not evaluated where the left side decides."""

    left: Node
    right: Node
    stop: bool
    type: pa.DataType = field(default=pa.bool_(), init=False)

    @property
    def children(self) -> tuple[Node, ...]:
        return (self.left, self.right)

    @property
    def raises(self) -> bool:
        return self.left.raises or self.right.raises

    def evaluate(self, rows: Rows) -> pa.Array:
        left = self.left.evaluate(rows)
        if self.right.raises:
            decided = pc.equal(left, self.stop).fill_null(False)
            right = within(~np.asarray(decided), self.right, rows)
        else:
            right = self.right.evaluate(rows)
        return pc.or_kleene(left, right) if self.stop else pc.and_kleene(left, right)


@dataclass(frozen=True)
class Case:
    """The value of the first branch whose condition is true. A branch is evaluated only on its own rows."""

    branches: tuple[tuple[Node, Node], ...]
    default: Node
    type: pa.DataType

    @property
    def children(self) -> tuple[Node, ...]:
        return (*(node for branch in self.branches for node in branch), self.default)

    @cached_property
    def raises(self) -> bool:
        return any(child.raises for child in self.children)

    def evaluate(self, rows: Rows) -> pa.Array:
        left = np.ones(len(rows), np.bool_)
        chosen: list[Mask] = []
        values: list[pa.Array] = []
        for condition, value in self.branches:
            holds = np.asarray(restricted(left, condition, rows).fill_null(False)) & left
            chosen.append(holds)
            values.append(restricted(holds, value, rows))
            left = left & ~holds
        values.append(restricted(left, self.default, rows))
        return pick(chosen, values)


@dataclass(frozen=True)
class Coalesce:
    """The first argument that is not null. An argument is evaluated only where all arguments before it are null."""

    children: tuple[Node, ...]
    type: pa.DataType

    @cached_property
    def raises(self) -> bool:
        return any(child.raises for child in self.children)

    def evaluate(self, rows: Rows) -> pa.Array:
        found = self.children[0].evaluate(rows)
        for child in self.children[1:]:
            if not found.null_count:
                break
            found = pc.coalesce(found, restricted(~validity(found), child, rows))
        return found


Node = Column | Literal | Call | Both | Case | Coalesce


def folded(node: Node) -> Node:
    """Constant folding: a call of literals as a literal. A call that raises stays, as it may never be evaluated."""
    if isinstance(node, (Column, Literal)) or not all(isinstance(child, Literal) for child in node.children):
        return node
    try:
        found = node.evaluate(Rows(pa.table({"": [0]})))[0]
    except Raised:
        return node
    timed = pa.types.is_temporal(node.type) and found.is_valid
    return Literal(found.value if timed else found.as_py(), node.type)


def _constant(node: Node) -> TypeGuard[Literal]:
    return isinstance(node, Literal) and node.value is not None


def walk(node: Node) -> Iterator[Node]:
    yield node
    for child in node.children:
        yield from walk(child)


def restricted(mask: Mask, node: Node, rows: Rows) -> pa.Array:
    """Evaluates a node on the rows of a mask. A node that cannot raise is evaluated on all rows, which is faster."""
    return within(mask, node, rows) if node.raises else node.evaluate(rows)


def within(mask: Mask, node: Node, rows: Rows) -> pa.Array:
    """Evaluates a node on the rows of a mask only. The other rows are null."""
    if mask.all():
        return node.evaluate(rows)
    if not mask.any():
        return pa.nulls(len(rows), node.type)
    found = node.evaluate(rows.where(mask))
    at = np.cumsum(mask) - 1
    return found.take(pa.array(at, mask=~mask))
