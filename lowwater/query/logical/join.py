"""Joins of two relations or more. query/joining.py chooses the operator and refuses what cannot be joined."""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import pyarrow as pa

from lowwater.joins.condition import Condition
from lowwater.joins.spec import JoinSide, WindowJoin
from lowwater.joins.window_join import JoinSpec
from lowwater.model.properties import GREATEST, JOINT, LEAST, Properties
from lowwater.model.ticks import Ticks
from lowwater.model.words import length
from lowwater.query.joining import join_spec, refuse_join
from lowwater.query.logical.node import Node, Stateful
from lowwater.query.promises import behind_join
from lowwater.query.statistics import expected_state
from lowwater.windows.context_free import Sliding
from lowwater.windows.describe import describe


@dataclass(frozen=True, eq=False)
class Join(Stateful):
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
    joint: bool = False
    """Whether the operator behind it asks for promises on both times together."""

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

    @property
    def _each(self) -> list[Properties]:
        return [node.properties for node in self.inputs]

    @cached_property
    def properties(self) -> Properties:
        return behind_join(self.what, self._each)

    def over(self, *inputs: Node) -> Join:
        return replace(self, inputs=tuple(inputs))

    def line(self) -> str:
        return f"Join  {self.how}, of {', '.join(self.names)}"

    def narrowed(self, needed: Set[str]) -> Join:
        emits = tuple(column.name for column in self.what.columns if column.name in needed)
        return replace(self, emits=emits, extremes=bool(needed & {GREATEST, LEAST}), joint=JOINT in needed)

    def reads(self, needed: Set[str]) -> Sequence[Set[str]]:
        """Of each input what is emitted, compared or progressed on."""
        return [own | set(one.properties.ends) for own, one in zip(self.what.reads(), self.inputs, strict=True)]

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

    def refuse(self) -> None:
        """Refuses what cannot be joined. The condition is not bound yet, so that the first refusal is the clearest."""
        refuse_join(self.plain, self._each)

    def spec(self) -> JoinSpec:
        self.refuse()
        kept = tuple(
            tuple(f.name for f in schema if f.name in one.schema.names)
            for schema, one in zip(self.schemas, self.inputs, strict=True)
        )
        spec = join_spec(self.what, self._each, kept)
        expects = expected_state(self.what, self.inputs)
        return replace(spec, joint=self.joint, extremes=self.extremes, expects=expects)
