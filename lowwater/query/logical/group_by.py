"""A group-by without a window: the node, what closes its groups, and what of it is refused."""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from lowwater.aggregates.base import Aggregate as AggregateFunction
from lowwater.errors import LowwaterError
from lowwater.model.properties import JOINT, Properties
from lowwater.model.words import listed
from lowwater.operators.group_by import GroupBySpec, Grouping
from lowwater.query.logical.join import Join
from lowwater.query.logical.node import Stateful, Unary
from lowwater.query.refuse import refuse_key, refuse_names, refuse_revisions


@dataclass(frozen=True, eq=False)
class GroupBy(Unary, Stateful):
    """Aggregates without a window: a group is answered when punctuation proves that it is complete."""

    groups: tuple[str, ...]
    aggregates: tuple[tuple[str, AggregateFunction], ...]

    @cached_property
    def what(self) -> Grouping:
        refuse_key(self.groups, self.of.properties, "group_by()")
        refuse_names(self.groups, [name for name, _ in self.aggregates], self.backend.exact_names)
        return Grouping(self.of.schema, self.groups, self.aggregates, tuple(self._times))

    @property
    def _times(self) -> list[str]:
        before = self.of.properties
        return [p.attribute for p in before.progress if p.attribute in before.schema.names]

    @cached_property
    def properties(self) -> Properties:
        before = self.of.properties
        closing = {*before.ends, *(p.attribute for p in before.progress)} & set(self.groups)
        return Properties(
            self.what.result_schema(),
            tuple(p for p in before.progress if p.attribute in self.groups),
            ends=tuple(name for name in before.ends if name in self.groups),
            apart=before.apart and len(closing) > 1,  # a group that one closes can be ahead of the progress on another
            again=before.again,
            derived=True,
            identified=self.groups,
        )

    def line(self) -> str:
        aggregates = ", ".join(f"{name} = {aggregate}" for name, aggregate in self.aggregates)
        return f"Group-by  {aggregates} by {', '.join(self.groups)}"

    def reads(self, needed: Set[str]) -> Sequence[Set[str]]:
        columns = [column for _, aggregate in self.aggregates for column in aggregate.columns]
        return [{*self.groups, *columns, *self.what.times[:1], *([JOINT] if self._joint_times else [])}]

    def meaning(self) -> dict[str, Any]:
        what = self.what
        return {
            "operator": "group-by",
            "group_by": list(what.group_by),
            "aggregates": {name: repr(aggregate) for name, aggregate in what.aggregates},
            "columns": str(what.result_schema()),
        }

    def spec(self) -> GroupBySpec:
        before = self.of.properties
        refuse_revisions(before, "A group-by")
        schema = before.schema
        closing = list(dict.fromkeys([*before.ends, *self._times]))
        if isinstance(self.of, Join):
            known = [name for name in (*self.of.what.keys, *self.of.what.times) if name in schema.names]
            closing = list(dict.fromkeys([*known, *closing]))
        if not set(self.groups) & set(closing):
            raise LowwaterError(
                f"group_by() without a window needs one of {', '.join(closing) or 'the columns that progress'} at "
                "least: progress proves when a timestamp is past, unique() or ends() when a value is; or use window()."
            )
        self.what.algebras()  # binds every aggregate to its column, which refuses unknown columns and unfit types
        return GroupBySpec(self.what, *self._closed())

    def _closed(self) -> tuple[str, str]:
        """What closes a group, and how long its partial is kept, in words."""
        closed = [name for name in self.groups if name in (*self.of.properties.ends, *self._times)]
        if self._joint_times:
            assert isinstance(self.of, Join)
            closed = [*(name for name in closed if name in self.of.what.keys), listed(self._joint_times)]
        if not closed:
            why = f"punctuation on {listed(self.groups)} does not come before the end, when all groups are answered"
            return why, "until the end"
        why = f"a group is answered when punctuation on {' or '.join(closed)} proves that it is complete"
        return why, "that is not complete"

    @property
    def _joint_times(self) -> tuple[str, ...]:
        """The times that a join in front should promise together: both are grouped by, and no result lacks one."""
        join = self.of
        if not isinstance(join, Join) or join.how != "inner" or len(join.inputs) > 2 or join.rows is not None:
            return ()
        return join.what.times if len(set(join.what.times) & set(self.groups)) == 2 else ()
