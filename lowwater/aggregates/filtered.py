"""A filter on an aggregate, SQL's FILTER (WHERE ...): rows for which the condition is not true do not count.

Every aggregate ignores nulls, so the filter replaces the columns of other rows by null before they are lifted. It
chooses no rows: windows, groups and late rows are those of all rows. count(*) has no column, so it counts a column that
is null where the condition is not true.

>>> from lowwater.aggregates import count, max
>>> rows = pa.table({"v": [1, 5, 9, None], "k": ["a", "b", None, "a"]})
>>> of_a = max("v", where="k = 'a'").resolved(rows.schema)
>>> str(of_a), of_a.columns, of_a.argument(rows).to_pylist()
("max(v) FILTER (WHERE k = 'a')", ('v', 'k'), [1, None, None, None])
>>> count(where="v > 4").resolved(rows.schema).argument(rows).to_pylist()
[None, True, True, None]
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pyarrow as pa
import pyarrow.compute as pc

from lowwater.aggregates.base import Aggregate, Algebra, Differential, together
from lowwater.errors import BadAggregate
from lowwater.expressions import Expression, zone_of
from lowwater.expressions.errors import OutsideSubset
from lowwater.model.columns import whole


@dataclass(frozen=True, repr=False)
class Filtered(Aggregate):
    """An aggregate over the rows for which a condition is true."""

    of: Aggregate
    where: str
    condition: Expression | None = field(default=None, compare=False)
    """The condition, bound to the columns of the relation that is aggregated."""

    @property
    def name(self) -> str:
        return self.of.name

    @property
    def bounded(self) -> bool:
        return self.of.bounded

    @property
    def differential(self) -> Differential:
        return self.of.differential

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys([*self.of.columns, *self._bound.columns]))

    @property
    def _bound(self) -> Expression:
        assert self.condition is not None, "agg() binds the condition"
        return self.condition

    def resolved(self, schema: pa.Schema) -> Filtered:
        try:
            bound = Expression.condition(self.where, schema, zone_of(schema), f"where= of {self.of}")
        except OutsideSubset as error:
            raise BadAggregate(
                f"{str(error).split(':')[0]} in where= of {self.of} is for Spark alone; make it a column first, as in "
                "with_column('counts', ...), and use where='counts'."
            ) from error
        return replace(self, condition=bound)

    def bind(self, schema: pa.Schema) -> Algebra:
        return self.of.bind(schema)

    def argument(self, rows: pa.Table) -> pa.Array:
        holds = self._bound.evaluate(rows)
        if not self.of.columns:
            return pc.if_else(holds, True, pa.scalar(None, pa.bool_()))
        columns = [whole(rows.column(name)) for name in self.of.columns]
        return together([pc.if_else(holds, one, pa.scalar(None, one.type)) for one in columns], self.of.columns)

    def __str__(self) -> str:
        return f"{self.of} FILTER (WHERE {self.where})"

    def __repr__(self) -> str:
        return f"{self.of!r}.where({self.where!r})"


def filtered(aggregate: Aggregate, where: object) -> Aggregate:
    """The aggregate over the rows for which `where` is true, over all rows without it."""
    if where is None:
        return aggregate
    if not isinstance(where, str):
        raise BadAggregate(f"where= of {aggregate} is SQL text such as 'n > 3', not {where!r}.")
    return Filtered(aggregate.column, aggregate, where)
