"""Punctuation: a promise about the rest of a stream, as an algebra of patterns (TH 2.1).

A punctuation has one pattern per attribute. It promises that no later tuple matches all of them. A pattern is a set of
values; `meet` is the intersection and `covers` the inclusion of sets, and the two agree:

    a.meet(b) matches v   iff   a matches v and b matches v
    a.covers(b)           iff   a.meet(b) = b          (everything that b matches, a matches)

The domain of an attribute is ordered and dense: between two bounds there is always another value, so the open range
(1, 2) is not empty although it contains no integer. Constants and lists are finite, so they never cover a range. Null
and NaN are outside the order: no range matches them, not even the unbounded one. Null can be a constant, NaN cannot.

>>> ended = Punctuation.linear("ts", 100)                          # no more tuples with ts < 100
>>> ended.match({"ts": 99, "src": 7}), ended.match({"ts": 100, "src": 7})
(True, False)
>>> groupwise = Punctuation.linear("ts", 250, within={"src": Constant(7)})
>>> print(ended.meet(groupwise), ended.covers(groupwise))
(src: 7, ts: (-inf, 100)) False
>>> joint = Punctuation({"l.ts": Range(None, 60), "r.ts": Range(None, 90)})
>>> [p.low_watermark("ts") for p in (ended, groupwise, joint)], ALL.low_watermark("ts") == END
([100, None, None], True)
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from lowwater.errors import BadProgress, UnknownColumn
from lowwater.model.ticks import END as END

Value = Any
"""A hashable scalar. All values and bounds of one attribute must be comparable with each other."""
Array = npt.NDArray[Any]
Mask = npt.NDArray[np.bool_]


class Pattern(ABC):
    """A set of values of one attribute. Patterns in normal form are equal iff they match the same values."""

    @abstractmethod
    def match(self, value: Value) -> bool: ...

    @abstractmethod
    def matches(self, array: Array) -> Mask:
        """`match` of every element."""

    @abstractmethod
    def meet(self, other: Pattern) -> Pattern:
        """The intersection, in normal form."""

    @abstractmethod
    def normal(self) -> Pattern:
        """The unique form of this set: Empty, Constant, ValueList of two or more, Range with low < high, Wildcard."""

    def covers(self, other: Pattern) -> bool:
        return self.meet(other) == other.normal()


@dataclass(frozen=True)
class Wildcard(Pattern):
    """Every value, null and NaN included: the unit of meet."""

    def match(self, value: Value) -> bool:
        return True

    def matches(self, array: Array) -> Mask:
        return np.ones(len(array), np.bool_)

    def meet(self, other: Pattern) -> Pattern:
        return other.normal()

    def normal(self) -> Pattern:
        return self

    def __str__(self) -> str:
        return "*"


class Finite(Pattern):
    """A pattern that lists its values. It meets another by keeping those that the other matches."""

    @abstractmethod
    def listed(self) -> frozenset[Value]: ...

    def match(self, value: Value) -> bool:
        return value in self.listed()

    def matches(self, array: Array) -> Mask:
        """`match` of every element. Values of another kind than the column are compared as Python objects, exactly."""
        listed = np.array(list(self.listed()))
        if listed.dtype.kind != array.dtype.kind:
            array, listed = array.astype(object), listed.astype(object)
        return np.isin(array, listed)

    def meet(self, other: Pattern) -> Pattern:
        return one_of(value for value in self.listed() if other.match(value))

    def normal(self) -> Pattern:
        return one_of(self.listed())

    def __str__(self) -> str:
        return "{" + ", ".join(sorted(map(str, self.listed()))) + "}"


@dataclass(frozen=True)
class Empty(Finite):
    """No value: the zero of meet."""

    def listed(self) -> frozenset[Value]:
        return frozenset()


@dataclass(frozen=True)
class Constant(Finite):
    value: Value

    def __post_init__(self) -> None:
        refuse_nan(self.value)

    def listed(self) -> frozenset[Value]:
        return frozenset((self.value,))

    def __str__(self) -> str:
        return str(self.value)


@dataclass(frozen=True)
class ValueList(Finite):
    values: frozenset[Value]

    def __post_init__(self) -> None:
        refuse_nan(*self.values)

    def listed(self) -> frozenset[Value]:
        return self.values


@dataclass(frozen=True)
class Range(Pattern):
    """The values between two bounds, half-open as windows are. None means unbounded.

    >>> print(Range(1, 5).meet(Range(3, None)), Range(1, 5).meet(Range(5, 9)))
    [3, 5) {}
    >>> print(Range(1, 5, closed_high=True).meet(Range(5, 9)))
    5
    """

    low: Value | None
    high: Value | None
    closed_low: bool = True
    closed_high: bool = False

    def __post_init__(self) -> None:
        refuse_nan(self.low, self.high)
        # An absent bound is never closed, so that equal sets are equal objects.
        object.__setattr__(self, "closed_low", self.closed_low and self.low is not None)
        object.__setattr__(self, "closed_high", self.closed_high and self.high is not None)

    def match(self, value: Value) -> bool:
        return value is not None and bool(value == value) and bool(self._between(value))

    def matches(self, array: Array) -> Mask:
        mask = np.asarray(array == array, np.bool_)
        if array.dtype == object:
            mask &= np.asarray(array != None, np.bool_)  # noqa: E711  elementwise
        mask[mask] = self._between(array[mask])
        return mask

    def _between(self, value: Any) -> Any:
        """Whether both bounds hold, for one value or elementwise for an array of ordered values."""
        above = self.low is None or (value >= self.low if self.closed_low else value > self.low)
        below = self.high is None or (value <= self.high if self.closed_high else value < self.high)
        return above & below

    def normal(self) -> Pattern:
        if self.low is None or self.high is None or self.low < self.high:
            return self
        closed_point = self.low == self.high and self.closed_low and self.closed_high
        return Constant(self.low) if closed_point else Empty()

    def meet(self, other: Pattern) -> Pattern:
        """The higher low and the lower high. Of two equal bounds the open one, because it excludes more."""
        if not isinstance(other, Range):
            return other.meet(self)
        lows = [(r.low, not r.closed_low) for r in (self, other) if r.low is not None]
        highs = [(r.high, r.closed_high) for r in (self, other) if r.high is not None]
        low, open_low = max(lows, default=(None, True))
        high, closed_high = min(highs, default=(None, False))
        return Range(low, high, not open_low, closed_high).normal()

    def __str__(self) -> str:
        low = "-inf" if self.low is None else self.low
        high = "inf" if self.high is None else self.high
        return f"{'[' if self.closed_low else '('}{low}, {high}{']' if self.closed_high else ')'}"


def one_of(values: Iterable[Value]) -> Pattern:
    """The normal form of a finite set."""
    distinct = frozenset(values)
    if not distinct:
        return Empty()
    return Constant(*distinct) if len(distinct) == 1 else ValueList(distinct)


def refuse_nan(*values: Value) -> None:
    """Refuses NaN in a pattern: NaN equals nothing, so a promise about it could be neither kept nor broken."""
    if any(value != value for value in values):
        raise BadProgress("A punctuation pattern must be made of ordered values, but holds NaN; use a wildcard.")


@dataclass(frozen=True, init=False)
class Punctuation:
    """One pattern per attribute, by default the wildcard. A tuple matches if all its attributes match.

    Always in normal form: wildcards are left out, patterns are sorted by attribute, and one Empty makes the punctuation
    match nothing. So equal promises are equal objects and can be keys of a dictionary.
    """

    patterns: tuple[tuple[str, Pattern], ...]
    matches_nothing: bool

    def __init__(self, patterns: Mapping[str, Pattern] | None = None, matches_nothing: bool = False) -> None:
        normal = {attribute: pattern.normal() for attribute, pattern in sorted((patterns or {}).items())}
        nothing = matches_nothing or Empty() in normal.values()
        kept = tuple((a, p) for a, p in normal.items() if not nothing and p != Wildcard())
        object.__setattr__(self, "patterns", kept)
        object.__setattr__(self, "matches_nothing", nothing)

    @classmethod
    def linear(cls, attribute: str, low_watermark: int, within: Mapping[str, Pattern] | None = None) -> Punctuation:
        """Promises no more tuples with attribute < low_watermark; with `within`, no more such tuples that match it."""
        return cls({**(within or {}), attribute: Range(None, low_watermark)})

    def pattern(self, attribute: str) -> Pattern:
        return Empty() if self.matches_nothing else dict(self.patterns).get(attribute, Wildcard())

    def match(self, row: Mapping[str, Value]) -> bool:
        return not self.matches_nothing and all(p.match(named(row, a)) for a, p in self.patterns)

    def matches(self, columns: Mapping[str, Array], n: int) -> Mask:
        """`match` of each of n rows."""
        mask = np.full(n, not self.matches_nothing)
        for attribute, pattern in self.patterns:
            mask &= pattern.matches(named(columns, attribute))
        return mask

    def meet(self, other: Punctuation) -> Punctuation:
        attributes = dict(self.patterns) | dict(other.patterns)
        return Punctuation(
            {a: self.pattern(a).meet(other.pattern(a)) for a in attributes},
            matches_nothing=self.matches_nothing or other.matches_nothing,
        )

    def covers(self, other: Punctuation) -> bool:
        """Whether this promise implies the other."""
        return self.meet(other) == other

    def low_watermark(self, attribute: str) -> int | None:
        """The low-watermark that this punctuation promises for all tuples, in ticks; None if it is not linear.

        Ticks are integers, so a closed bound h is the low-watermark h + 1.
        """
        if self.matches_nothing:
            return None
        match self.patterns:
            case ():
                return END
            case ((name, Range(low=None, high=None)),) if name == attribute:
                return END
            case ((name, Range(low=None, high=int() | np.integer() as high, closed_high=closed)),) if name == attribute:
                return min(int(high) + closed, END)
        return None

    def __str__(self) -> str:
        return "{}" if self.matches_nothing else "(" + ", ".join(f"{a}: {p}" for a, p in self.patterns) + ")"


def named(row: Mapping[str, Any], attribute: str) -> Any:
    if attribute not in row:
        raise UnknownColumn(attribute, list(row), "A punctuation")
    return row[attribute]


ALL = Punctuation()
"""Matches every tuple: the end of the stream."""
