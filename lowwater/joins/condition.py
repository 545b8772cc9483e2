"""The residual predicate of a join: what else must hold of rows that are equal on the key and in each other's window.

It is SQL text over the columns of a pair, evaluated by Polars, or a function from an Arrow table of pairs to a boolean
array. Only the columns that the text names are put side by side before it is asked.

>>> pairs = pa.table({"price": [5, 9, None], "reserve": [7, 7, 7]})
>>> condition = Condition("price >= reserve")
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
from lowwater.operators.expression import evaluated, named

Predicate = Callable[[pa.Table], pa.Array]


@dataclass(frozen=True)
class Condition:
    """A predicate over pairs; null is no."""

    of: str | Predicate

    def reads(self, columns: Sequence[str]) -> list[str]:
        """The columns of a pair that it needs, among all of them."""
        if not isinstance(self.of, str):
            return list(columns)
        wanted = named(self.of)
        return [name for name in columns if name in wanted]

    def holds(self, pairs: pa.Table) -> npt.NDArray[np.bool_]:
        found = evaluated(self.of, pairs) if isinstance(self.of, str) else self._called(self.of, pairs)
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
