"""The residual predicate of a join: a further condition on pairs that agree on the key and are in each other's window.

It is Spark SQL over the columns of a pair, with Spark's meaning (lowwater/expressions), or a function from an Arrow
table of pairs to a boolean array. Only the columns that the SQL text names are paired before it is evaluated.

>>> pairs = pa.table({"price": [5, 9, None], "reserve": [7, 7, 7]})
>>> condition = Condition.of("price >= reserve", pairs.schema)
>>> condition.holds(pairs).tolist(), condition.reads(pairs.column_names)
([False, True, False], ['price', 'reserve'])
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lowwater.errors import LowwaterError
from lowwater.expressions import Expression, zone_of

Predicate = Callable[[pa.Table], pa.Array]


@dataclass(frozen=True)
class Condition:
    """A predicate over pairs. Null counts as false."""

    predicate: Expression | Predicate

    @staticmethod
    def of(condition: object, pairs: pa.Schema) -> Condition:
        """The condition that a user wrote, over pairs of this schema. Refuses other objects."""
        if isinstance(condition, str):
            return Condition(Expression.condition(condition, pairs, zone_of(pairs), "join(condition=)"))
        if not callable(condition):
            raise LowwaterError(
                f"join(condition=) is SQL text or a function of an Arrow table of pairs, not {condition!r}."
            )
        return Condition(condition)

    def reads(self, columns: Sequence[str]) -> list[str]:
        """The columns that the condition needs, out of all columns of a pair."""
        if isinstance(self.predicate, Expression):
            wanted = set(self.predicate.columns)
            return [name for name in columns if name in wanted]
        return list(columns)

    def holds(self, pairs: pa.Table) -> npt.NDArray[np.bool_]:
        if isinstance(self.predicate, Expression):
            found = self.predicate.evaluate(pairs)
        else:
            found = self._called(self.predicate, pairs)
        if not pa.types.is_boolean(found.type) or len(found) != pairs.num_rows:
            raise LowwaterError(
                f"The condition {self} must return true or false for each of {pairs.num_rows} pairs, but returned "
                f"{len(found)} of type {found.type}."
            )
        return np.asarray(found.fill_null(False).to_numpy(zero_copy_only=False), np.bool_)

    def _called(self, predicate: Predicate, pairs: pa.Table) -> pa.Array:
        try:
            found = predicate(pairs)
            return found.combine_chunks() if isinstance(found, pa.ChunkedArray) else pa.array(found)
        except Exception as error:
            raise LowwaterError(f"The condition {self} failed: {type(error).__name__}: {error}.") from error

    @property
    def text(self) -> str:
        """The condition as EXPLAIN prints it."""
        if isinstance(self.predicate, Expression):
            return self.predicate.text
        return getattr(self.predicate, "__name__", type(self.predicate).__name__)

    def __str__(self) -> str:
        return repr(self.text) if isinstance(self.predicate, Expression) else self.text
