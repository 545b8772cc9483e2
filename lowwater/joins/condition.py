"""The residual predicate of a join: what else must hold of rows that are equal on the key and in each other's window.

It is Spark SQL over the columns of a pair, or a function from an Arrow table of pairs to a boolean array. The planner
binds the text to the schema of a pair; only the columns that it reads are put side by side before it is asked.

>>> pairs = pa.table({"price": [5, 9, None], "reserve": [7, 7, 7], "other": [0, 0, 0]})
>>> condition = Condition("price >= reserve").bind(pairs.schema)
>>> condition.holds(pairs).tolist(), condition.reads(pairs.column_names)
([False, True, False], ['price', 'reserve'])
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lowwater.errors import LowwaterError
from lowwater.expressions import Expression, zone_of

Predicate = Callable[[pa.Table], pa.Array]


@dataclass(frozen=True)
class Condition:
    """A predicate over pairs; null is no."""

    of: str | Predicate
    bound: Expression | None = field(default=None, compare=False, repr=False)

    def bind(self, schema: pa.Schema) -> Condition:
        """The condition over pairs of a schema, or a refusal of its text."""
        if not isinstance(self.of, str):
            return self
        return replace(self, bound=Expression.condition(self.of, schema, zone_of(schema), "join(condition=)"))

    def reads(self, columns: Sequence[str]) -> list[str]:
        """The columns of a pair that it needs, among all of them."""
        return list(columns) if self.bound is None else [name for name in columns if name in self.bound.columns]

    def holds(self, pairs: pa.Table) -> npt.NDArray[np.bool_]:
        if isinstance(self.of, str):
            bound = self.bound or self.bind(pairs.schema).bound
            assert bound is not None
            return np.asarray(bound.evaluate(pairs).fill_null(False), np.bool_)
        found = self._called(self.of, pairs)
        if not pa.types.is_boolean(found.type) or len(found) != pairs.num_rows:
            raise LowwaterError(
                f"The condition {self} must give true or false for each of {pairs.num_rows} pairs, but gave "
                f"{len(found)} of type {found.type}."
            )
        return np.asarray(found.fill_null(False).to_numpy(zero_copy_only=False), np.bool_)

    def _called(self, predicate: Predicate, pairs: pa.Table) -> pa.Array:
        try:
            found = predicate(pairs)
            return found.combine_chunks() if isinstance(found, pa.ChunkedArray) else pa.array(found)
        except Exception as error:
            raise LowwaterError(f"The condition {self} failed: {type(error).__name__}: {error}.") from error

    def __str__(self) -> str:
        return repr(self.of) if isinstance(self.of, str) else getattr(self.of, "__name__", type(self.of).__name__)
