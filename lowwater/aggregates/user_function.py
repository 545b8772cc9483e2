"""holistic: any function of the values of a group in a window.

    partial  the values, sorted          window  the function is called once for each (group, window)

All values are kept, so state grows with the rows of a window, and Python calls the function for every answer. If an
aggregate can be combined from parts, udaf() needs less state and fewer calls.

The function takes an Arrow array of all values that are not null, sorted (NaN last), so that the result does not depend
on the order of arrival. Without a value it is not called, and the result is null. Errors are raised with the name of
the aggregate, and with the original error as the cause.

>>> import numpy as np, pyarrow as pa
>>> def spread(values):
...     return values[-1].as_py() - values[0].as_py()
>>> ranges = holistic("v", spread, pa.int64())
>>> kernel = ranges.bind(pa.schema([("v", pa.int64())]))
>>> partial = kernel.lift(pa.array([5, 1, 9]), np.zeros(3, np.int64), np.array([0, 0, 1]), 2)
>>> str(ranges), kernel.lower(partial).to_pylist(), kernel.roll(partial, np.array([0]), np.array([2])).to_pylist()
('spread(v)', [4, 0], [8])
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from lowwater.aggregates.base import Aggregate, Algebra, Partial
from lowwater.aggregates.filtered import filtered
from lowwater.aggregates.holistic import Holistic, Ints, Lists, lengths
from lowwater.aggregates.order import keys, ordered_type
from lowwater.aggregates.sorting import explode, offsets, sort_each
from lowwater.aggregates.user import failed
from lowwater.errors import BadAggregate

Function = Callable[[pa.Array], Any]
AT_ONCE = 1 << 22
"""Approximate number of values that are expanded at once. Overlapping windows have many more values than are kept."""


class Applied(Lists):
    """Keeps the sorted values and calls the function on them."""

    def __init__(self, type: pa.DataType, function: Function, result: pa.DataType, label: str) -> None:
        super().__init__(type)
        self.function, self.result, self.label = function, result, label

    def lower(self, partial: Partial) -> pa.Array:
        (lists,) = partial
        return self._results(self._calls(lists.flatten(), offsets(lengths(lists))))

    def over(self, values: pa.Array, lo: Ints, hi: Ints) -> pa.Array:
        known = keys(values)
        upto = np.cumsum(hi - lo)
        found: list[Any] = []
        while len(found) < len(lo):
            done = len(found)
            before = int(upto[done - 1]) if done else 0
            stop = max(done + 1, int(np.searchsorted(upto, before + AT_ONCE, "right")))
            first, last = lo[done:stop], hi[done:stop]
            begin = offsets(last - first)
            found += self._calls(known.decode(sort_each(known.key[explode(first, last)], begin)), begin)
        return self._results(found)

    def _calls(self, values: pa.Array, begin: Ints) -> list[Any]:
        """The results of the function for values[begin[i]:begin[i+1]], None for an empty range."""
        out: list[Any] = []
        try:
            for a, b in zip(begin[:-1].tolist(), begin[1:].tolist(), strict=True):
                value = self.function(values.slice(a, b - a)) if a < b else None
                out.append(value.as_py() if isinstance(value, pa.Scalar) else value)
        except Exception as error:
            raise failed(self.label, "its function", error) from error
        return out

    def _results(self, found: list[Any]) -> pa.Array:
        try:
            return pa.array(found, self.result)
        except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
            raise failed(self.label, f"its function, which does not give its declared {self.result}", error) from error


@dataclass(frozen=True, repr=False)
class UserFunction(Holistic):
    function: Function
    result: pa.DataType
    called: str

    @property
    def name(self) -> str:
        return self.called

    def bind(self, schema: pa.Schema) -> Algebra:
        return Applied(ordered_type(str(self), self.type_in(schema)), self.function, self.result, str(self))

    def __repr__(self) -> str:
        return f"holistic({self.column!r}, {self.called}, {self.result})"


def holistic(
    column: str, function: Function, result: pa.DataType, name: str | None = None, *, where: str | None = None
) -> Aggregate:
    """Calls a function on an Arrow array of all values. Plans and checkpoints identify the aggregate by its name."""
    if not callable(function):
        raise BadAggregate(f"holistic({column}) takes a function of an Arrow array, not {function!r}.")
    called = str(name or getattr(function, "__name__", "<lambda>"))
    if called == "<lambda>":
        raise BadAggregate(f"holistic({column}) needs name=, because its function has no name.")
    return filtered(UserFunction(column, function, result, called), where)
