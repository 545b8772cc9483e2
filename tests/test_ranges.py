"""Ranges in order: what a set of values says, of any type that has an order."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lowwater.joins.ended import EndedValues, Spans
from lowwater.joins.ranges import Ranges, first_of, none

TYPES: dict[str, tuple[pa.DataType, list[Any]]] = {
    "number": (pa.int64(), [-5, 0, 1, 2, 3, 2**53, 2**53 + 1]),
    "small": (pa.int8(), [-128, -1, 0, 1, 2, 3, 127]),
    "double": (pa.float64(), [float("-inf"), -1.5, 0.0, 0.25, 1.0, 2.0, float("inf")]),
    "text": (pa.string(), ["", "a", "aa", "b", "ba", "c", "é"]),
    "bytes": (pa.binary(), [b"", b"\0", b"a", b"a\0", b"b", b"c", b"\xff"]),
    "decimal": (pa.decimal128(20, 2), [Decimal(n) / 4 for n in (-9, -1, 0, 1, 2, 3, 4)]),
    "date": (pa.date32(), [date(2020 + n, 1, 1) for n in range(7)]),
    "time": (pa.timestamp("us", "UTC"), [pa.scalar(n, pa.timestamp("us", "UTC")).as_py() for n in range(7)]),
}
Pairs = list[tuple[int, int]]
pairs = st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), max_size=6)


def columns(kind: str, some: Pairs) -> tuple[pa.Array, pa.Array]:
    type, values = TYPES[kind]
    return pa.array([values[a] for a, _ in some], type), pa.array([values[b] for _, b in some], type)


def members(some: Pairs) -> set[int]:
    """The values in half-open ranges, by their number."""
    return {n for low, high in some for n in range(low, high)}


def found(ranges: Ranges, kind: str) -> set[int]:
    type, values = TYPES[kind]
    return set(np.flatnonzero(ranges.has(pa.table({"k": pa.array([*values, None], type)}))).tolist())


@pytest.mark.parametrize("kind", TYPES)
@given(a=pairs, b=pairs)
def test_ranges_are_sets_of_values(kind: str, a: Pairs, b: Pairs) -> None:
    one, other = (Ranges.of(*columns(kind, some)) for some in (a, b))
    assert found(one, kind) == members(a)
    assert found(one.meet(other), kind) == members(a) & members(b)
    assert found(one.minus(other), kind) == members(a) - members(b)
    for ranges in (one, other, one.meet(other), one.minus(other)):
        assert all(high < low for (_, high), (low, _) in zip(ranges.to_pylist(), ranges.to_pylist()[1:], strict=False))
    again = Ranges.of(*one.columns)
    assert again.to_pylist() == one.to_pylist()


@pytest.mark.parametrize("kind", TYPES)
@given(a=pairs, data=st.data())
def test_the_first_range_of_a_key(kind: str, a: Pairs, data: st.DataObject) -> None:
    type, values = TYPES[kind]
    position = data.draw(st.lists(st.integers(0, 9), min_size=len(a), max_size=len(a)))
    got = first_of(*columns(kind, a), np.array(position, np.int64), pa.array([*values, None], type))
    never = np.iinfo(np.int64).max
    expected = [
        min([at for at, some in zip(position, a, strict=True) if n in members([some])], default=never)
        for n in range(len(values))
    ]
    assert got.tolist() == [*expected, never]


@given(added=st.lists(st.tuples(pairs, st.integers(0, 5), st.booleans()), max_size=5))
def test_what_is_added_later_is_what_is_known_of_a_value(added: list[tuple[Pairs, int, bool]]) -> None:
    """The position of neighbours that are over may be that of the larger: they are kept as one."""
    spans, known = Spans(none(pa.int64())), dict[int, tuple[int, bool]]()
    for some, last, over in added:
        ranges = Ranges.of(*columns("number", some))
        spans.add(ranges, np.full(len(ranges), last), np.full(len(ranges), over))
        known |= dict.fromkeys(members(some), (last, over))
        which = spans.ranges.numbers(pa.array(TYPES["number"][1]))
        assert {n for n, of in enumerate(which) if of >= 0} == known.keys()
        for n, (at, done) in known.items():
            assert spans.over[which[n]] == done
            assert spans.last[which[n]] >= at if done else spans.last[which[n]] == at


def test_many_disjoint_ranges_are_searched_and_not_gone_through() -> None:
    """Ten thousand of them, which time lets go in pieces; those that touch are one."""
    ended = EndedValues(("k",), pa.int64())
    low = np.arange(0, 40_000, 4)
    ranges = Ranges.of(pa.array(low), pa.array(low + 2))
    ended.spans.add(ranges, low, np.zeros(len(low), np.bool_))
    assert ended.rows == 10_000
    left = ended.spans_left(20_000)
    ended.finish_ranges(left, 7)
    assert len(left) == len(ended.over) == 5_000
    assert len(ended.spans_left(20_000)) == 0, "each leaves once"
    gaps = Ranges.of(pa.array(low + 2), pa.array(low + 4))
    ended.finish_ranges(gaps.where(gaps.low < 20_000), 9)
    assert ended.over.to_pylist() == [(0, 20_000)]
    ended.forget(30_000)
    assert ended.rows == 2_500
