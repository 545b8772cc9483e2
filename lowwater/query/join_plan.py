"""The physical plan of a join: frozen, printable, the same for every backend, sent to workers as it is."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from lowwater.joins.count_join import CountJoin
from lowwater.joins.oa_join import OAJoin
from lowwater.joins.pwjoin import PWJoin
from lowwater.joins.spec import WindowJoin
from lowwater.operators.aggregation import LATE_COLUMNS
from lowwater.operators.base import Operator
from lowwater.operators.group_by import GroupBy, Grouping
from lowwater.query.plan import Plan, Planned, Reason, told


@dataclass(frozen=True)
class JoinPlan(Planned):
    """Inputs, melded into sides, joined by one operator, and what follows in the same shard."""

    sides: tuple[int, ...]
    """The side that each input belongs to."""
    what: WindowJoin
    tactic: str
    reason: Reason
    bounds: tuple[str, ...]
    """The most that is kept of each side, in words."""
    then: Plan | Grouping | None = None
    """An aggregation of the results. By the join's key at least, its groups are in the shard of their rows."""
    single: bool = False
    """Whether all rows go to one shard: something is counted over all keys."""

    def open(self) -> OAJoin | CountJoin:
        if self.tactic == "count":
            return CountJoin(self.what)
        return PWJoin(self.what, self.joint) if self.tactic == "pw" else OAJoin(self.what, self.joint)

    @property
    def joint(self) -> bool:
        """Whether what follows counts by both timestamps, and no row of the result lacks one of them."""
        if not isinstance(self.then, Grouping) or self.what.how != "inner" or len(self.what.sides) > 2:
            return False
        return len(set(self.what.times) & set(self.then.group_by)) == 2

    def open_next(self) -> Operator | None:
        """What takes the results."""
        if isinstance(self.then, Grouping):
            return GroupBy(self.then)
        return None if self.then is None else self.then.open()

    @property
    def joined_schema(self) -> pa.Schema:
        return self.what.result_schema()

    @property
    def result_schema(self) -> pa.Schema:
        if self.then is None:
            return self.joined_schema
        return self.then.result_schema() if isinstance(self.then, Grouping) else self.then.result_schema

    @property
    def late_schema(self) -> pa.Schema:
        return pa.schema([*self.what.late_schema(), *(pa.field(n, t) for n, t in LATE_COLUMNS.items())])

    @property
    def order(self) -> list[tuple[str, str]]:
        if isinstance(self.then, Plan):
            return self.then.order
        known = self.what.result_schema().names
        names = self.then.group_by if self.then is not None else [*self.what.times, *self.what.keys]
        return [(name, "ascending") for name in dict.fromkeys(names) if name in known]

    def read_by(self, port: int) -> list[str]:
        side = self.what.sides[self.sides[port]]
        return list(dict.fromkeys([*side.schema.names, *self.inputs[port].marks]))

    def meaning(self) -> list[object]:
        what = self.what
        following = self.then.meaning() if isinstance(self.then, Plan) else repr(self.then)
        return [
            "join",
            [(side.name, str(side.schema), side.time, side.on) for side in what.sides],
            [what.waits, what.rows, what.per_key, what.how, str(what.grid), what.null_safe],
            None if what.condition is None else str(what.condition),
            self.tactic,
            [told(i) for i in self.inputs],
            [(side, repr(i.ends)) for side, i in zip(self.sides, self.inputs, strict=True)],
            following,
        ]
