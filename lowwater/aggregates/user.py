"""udaf: aggregates that users define by lift, combine and lower, over whole columns.

A definition is a class. Its methods work on NumPy arrays of any length, row by row:

    lift(values)       one partial per row: one array per type in `state`. Nulls are removed before
    combine(a, b)      merges two partials row by row; must be associative and commutative
    lower(partial)     partials to results of type `result`
    inverse(a, b)      optional: a without b, which was combined into a. If it is exact to the last bit, set
                       `exact_inverse`; windows are then differences of running partials instead of new combinations

The result of combine must not depend on order, because rows are combined in order of arrival, within a batch and across
batches and shards. A method must not change its arguments.

A partial is bounded: the columns of `state`, and a count of values. A group without values has a count of 0 and the
result null. Errors in a definition are raised with its name, and with the original error as the cause.

>>> import numpy as np, pyarrow as pa
>>> class geometric_mean(UserAggregate):
...     state, result = (pa.int64(), pa.float64()), pa.float64()
...     def lift(self, values):
...         return np.ones(len(values), np.int64), np.log(values.to_numpy())
...     def combine(self, a, b):
...         return a[0] + b[0], a[1] + b[1]
...     def lower(self, partial):
...         return np.exp(partial[1] / partial[0])
>>> mean = udaf("v", geometric_mean())
>>> kernel = mean.bind(pa.schema([("v", pa.float64())]))
>>> partial = kernel.lift(pa.array([2.0, None, 8.0, None]), np.zeros(4, np.int64), np.array([0, 0, 0, 1]), 2)
>>> str(mean), [round(x, 9) if x else x for x in kernel.lower(partial).to_pylist()]
('geometric_mean(v)', [4.0, None])
"""

from __future__ import annotations

import pickle
import re
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lowwater.aggregates.base import Aggregate, Algebra, Differential, Group, Partial
from lowwater.aggregates.bounded import Times, column_of
from lowwater.aggregates.filtered import filtered
from lowwater.aggregates.order import complete, spread
from lowwater.aggregates.rollup import Columns, doubling, fold, scan
from lowwater.aggregates.sorting import by_group
from lowwater.errors import BadAggregate


class UserAggregate(ABC):
    """A definition for udaf(). Plans and checkpoints identify an instance by its repr: its name and attributes."""

    name: str
    """The name in plans and errors; by default the name of the class."""
    state: tuple[pa.DataType, ...]
    """The types of a partial: integers and floats."""
    result: pa.DataType
    exact_inverse: bool = False

    def __init_subclass__(cls) -> None:
        cls.name = cls.__dict__.get("name", cls.__name__)

    @abstractmethod
    def lift(self, values: Any) -> Any:
        """One partial per row of an Arrow array without nulls. Several columns arrive as a struct array."""

    @abstractmethod
    def combine(self, a: Any, b: Any) -> Any: ...

    @abstractmethod
    def lower(self, partial: Any) -> Any: ...

    def inverse(self, a: Any, b: Any) -> Any:
        raise TypeError(f"{self.name} has no inverse.")

    @classmethod
    def has_inverse(cls) -> bool:
        return cls.inverse is not UserAggregate.inverse

    def __repr__(self) -> str:
        return f"{self.name}({', '.join(f'{name}={_repr(value)}' for name, value in sorted(vars(self).items()))})"


def _repr(value: Any) -> str:
    """The repr of an attribute. The repr of an array leaves out the middle, so a hash of its content replaces it."""
    if isinstance(value, np.ndarray):
        return f"array({value.dtype}, {value.shape}, {blake2b(value.tobytes(), digest_size=8).hexdigest()})"
    return repr(value)


def _alike(a: UserAggregate, b: UserAggregate) -> bool:
    """Whether two definitions are equal. Also compares their pickles, because a repr can leave something out."""
    if a is b:
        return True
    try:
        return type(a) is type(b) and repr(a) == repr(b) and pickle.dumps(a) == pickle.dumps(b)
    except (pickle.PicklingError, AttributeError, TypeError):  # only Spark's own pickler can take it
        return False


def failed(label: str, where: str, error: Exception) -> BadAggregate:
    """The error to raise for an error in the user's code, in one line."""
    text = " ".join(str(error).split()).rstrip(".")
    return BadAggregate(f"{label} failed in {where}: {type(error).__name__}: {text}.")


class UserAlgebra(Algebra):
    """A count of values, and the columns of the state, which are undefined if the count is 0."""

    def __init__(self, definition: UserAggregate, label: str) -> None:
        self.definition, self.label = definition, label
        self.result = definition.result
        self.exact_inverse = definition.has_inverse() and definition.exact_inverse
        self.fields = (
            column_of("n", pa.int64()),
            *(column_of(f"state{i}", type) for i, type in enumerate(definition.state)),
        )

    def lift(self, values: pa.Array | None, time: Times, group: Group, n: int) -> Partial:
        assert values is not None
        values, rows = complete(values)
        lifted = self._called("lift", len(values), values)
        return self.combine((np.ones(len(values), np.int64), *lifted), group[rows], n)

    def combine(self, partial: Partial, group: Group, n: int) -> Partial:
        order, offset = by_group(group, n)
        filled = np.flatnonzero(np.diff(offset))
        folded = fold(tuple(c[order] for c in partial), self.merge, np.append(offset[filled], offset[-1]))
        out = tuple(np.zeros(n, c.dtype) for c in partial)
        for column, values in zip(out, folded, strict=True):
            column[filled] = values
        return out

    def merge(self, a: Partial, b: Partial) -> Partial:
        """Combines two partials. If one has no value, the other is the result, so no neutral element is needed."""
        return a[0] + b[0], *self._chosen("combine", a, b, (a[0] > 0) & (b[0] > 0), np.where(a[0] > 0, 0, 1))

    def inverse(self, a: Partial, b: Partial) -> Partial:
        if not self.definition.has_inverse():
            return super().inverse(a, b)
        n = a[0] - b[0]
        states = self._chosen("inverse", a, b, (n > 0) & (b[0] > 0), np.zeros(len(n), np.int64))
        return n, *(np.where(n > 0, state, 0).astype(state.dtype) for state in states)

    def _chosen(self, method: str, a: Partial, b: Partial, both: npt.NDArray[np.bool_], side: Any) -> Columns:
        """Calls a method of the definition on the rows in `both`. Other rows take the state of their `side`."""
        if both.all():
            return self._called(method, len(both), a[1:], b[1:])
        called = self._called(method, int(both.sum()), *(tuple(c[both] for c in part[1:]) for part in (a, b)))
        out = tuple(np.where(side == 0, x, y) for x, y in zip(a[1:], b[1:], strict=True))
        for column, values in zip(out, called, strict=True):
            column[both] = values
        return out

    def roll(self, partial: Partial, lo: Group, hi: Group) -> pa.Array:
        """Rolls up by differences of running partials if the inverse is exact, otherwise by doubling."""
        if not self.exact_inverse:
            return self.lower(doubling(partial, self.merge, lo, hi))
        running = tuple(np.concatenate([c[:1] * 0, c]) for c in scan(partial, self.merge))
        return self.lower(self.inverse(tuple(c[hi] for c in running), tuple(c[lo] for c in running)))

    def lower(self, partial: Partial) -> pa.Array:
        seen = partial[0] > 0
        values = self._raw("lower", tuple(c[seen] for c in partial[1:]))
        try:
            results = values.cast(self.result) if isinstance(values, pa.Array) else pa.array(values, self.result)
        except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
            raise failed(self.label, "lower(), which does not give its declared result", error) from error
        if len(results) != seen.sum():
            raise BadAggregate(f"{self.label} failed in lower(): {seen.sum()} partials gave {len(results)} results.")
        return spread(results, seen)

    def _called(self, method: str, rows: int, *arguments: Any) -> Columns:
        """The states that a method returns, checked against the declaration."""
        states = self._raw(method, *arguments)
        types = [field.type for field in self.fields[1:]]
        if not isinstance(states, tuple | list) or len(states) != len(types):
            found = len(states) if isinstance(states, tuple | list) else type(states).__name__
            raise BadAggregate(f"{self.label} failed in {method}(): the state has {len(types)} columns, not {found}.")
        try:
            columns = [
                np.asarray(x).astype(t.to_pandas_dtype(), casting="safe", copy=False)
                for x, t in zip(states, types, strict=True)
            ]
        except TypeError as error:
            raise failed(self.label, f"{method}(), which does not give its declared state", error) from error
        for column in columns:
            if column.shape != (rows,):
                raise BadAggregate(
                    f"{self.label} failed in {method}(): {rows} rows gave an array of shape {column.shape}."
                )
        return tuple(columns)

    def _raw(self, method: str, *arguments: Any) -> Any:
        """Calls a method of the definition. Its arguments are read-only, because other partials share their memory."""
        try:
            return getattr(self.definition, method)(*map(_read_only, arguments))
        except Exception as error:
            raise failed(self.label, f"{method}()", error) from error


def _read_only(argument: Any) -> Any:
    if not isinstance(argument, tuple):
        return argument
    views = tuple(column.view() for column in argument)
    for view in views:
        view.flags.writeable = False
    return views


@dataclass(frozen=True, repr=False, eq=False)
class Udaf(Aggregate):
    others: tuple[str, ...]
    definition: UserAggregate
    naming = ("column", "others")

    @property
    def name(self) -> str:
        return self.definition.name

    @property
    def bounded(self) -> bool:
        return True

    @property
    def differential(self) -> Differential:
        return Differential.FULL if self.definition.has_inverse() else Differential.NO

    def __post_init__(self) -> None:
        if not isinstance(self.definition, UserAggregate):
            raise BadAggregate(f"udaf() takes an instance of a lw.UserAggregate, not {self.definition!r}.")
        state, plain = getattr(self.definition, "state", ()), (pa.types.is_integer, pa.types.is_floating)
        if not state or not all(any(fits(type) for fits in plain) for type in state):
            raise BadAggregate(
                f"{self} needs a state of integers and floats, not {', '.join(map(str, state)) or 'none'}."
            )
        if not isinstance(getattr(self.definition, "result", None), pa.DataType):
            raise BadAggregate(f"{self} needs a result, the Arrow type that lower() gives.")
        if re.search(r" at 0x[0-9a-f]+", repr(self.definition)):
            raise BadAggregate(
                f"{self} has an attribute that is written differently in each process, {self.definition!r}; "
                "give its class a __repr__, since checkpoints know an aggregate by it."
            )

    def bind(self, schema: pa.Schema) -> Algebra:
        """The kernel. Tries the definition on zero rows, so that a wrong definition is refused before anything runs."""
        types = self.types_in(schema)
        kernel = UserAlgebra(self.definition, str(self))
        empty = [pa.array([], type) for type in types]
        values = empty[0] if len(empty) == 1 else pa.StructArray.from_arrays(empty, names=list(self.columns))
        try:
            kernel.lower(kernel.lift(values, np.zeros(0, np.int64), np.zeros(0, np.intp), 0))
        except BadAggregate as error:
            given = ", ".join(map(str, types))
            raise BadAggregate(f"{str(error).rstrip('.')} (tried on no rows of {given}).") from error.__cause__
        return kernel

    def __repr__(self) -> str:
        return f"udaf({', '.join(map(repr, self.columns))}, {self.definition!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Udaf) and self.columns == other.columns and _alike(self.definition, other.definition)

    def __hash__(self) -> int:
        return hash(repr(self))


def udaf(column: str | Sequence[str], definition: UserAggregate, *, where: str | None = None) -> Aggregate:
    """A user-defined aggregate. With several columns, rows in which one of them is null are ignored."""
    columns = (column,) if isinstance(column, str) else tuple(column)
    if not columns:
        raise BadAggregate("udaf() needs at least one column.")
    return filtered(Udaf(columns[0], columns[1:], definition), where)
