"""Laws of patterns and punctuations: a meet-semilattice whose order is inclusion of what is matched (TH 2.1).

Bounds and listed values are small integers; the witnesses are all quarters around them, null and NaN. A pattern that is
not covered by another then always has a witness that tells them apart, so inclusion is checked in both directions.
"""

from __future__ import annotations

import math
import pickle
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lowwater.errors import BadProgress, UnknownColumn
from lowwater.model.punctuation import ALL, END, Constant, Empty, Pattern, Punctuation, Range, ValueList, Wildcard

WITNESSES: list[Any] = [quarter / 4 for quarter in range(-20, 21)] + [None, math.nan]
WITNESS_ARRAYS = (
    np.array(WITNESSES, object),
    np.array(WITNESSES[:-2]),
    np.array([*WITNESSES[:-2], math.nan]),
    np.arange(-5, 6),
)

value = st.integers(-4, 4)
bound = st.none() | value
patterns: st.SearchStrategy[Pattern] = st.one_of(
    st.just(Wildcard()),
    st.just(Empty()),
    st.builds(Constant, st.none() | value),
    st.builds(ValueList, st.frozensets(st.none() | value, max_size=4)),
    st.builds(Range, bound, bound, st.booleans(), st.booleans()),
)
punctuations = st.dictionaries(st.sampled_from(["ts", "key"]), patterns).map(Punctuation)
FEW: list[Any] = [-5.0, -3.75, -1.0, 0.0, 0.25, 2.0, 4.75, None]
ROWS = [{"ts": ts, "key": key} for ts, key in product(FEW, FEW)]


def matched(pattern: Pattern) -> list[bool]:
    return [pattern.match(witness) for witness in WITNESSES]


@given(patterns, patterns)
def test_meet_matches_what_both_match(a: Pattern, b: Pattern) -> None:
    assert matched(a.meet(b)) == [x and y for x, y in zip(matched(a), matched(b), strict=True)]


@given(patterns, patterns, patterns)
def test_meet_is_commutative_associative_idempotent(a: Pattern, b: Pattern, c: Pattern) -> None:
    assert a.meet(b) == b.meet(a)
    assert a.meet(b).meet(c) == a.meet(b.meet(c))
    assert a.meet(a) == a.normal()


@given(patterns)
def test_wildcard_is_the_unit_and_empty_the_zero(a: Pattern) -> None:
    assert a.meet(Wildcard()) == a.normal() == Wildcard().meet(a)
    assert a.meet(Empty()) == Empty() == Empty().meet(a)
    assert Wildcard().covers(a)
    assert a.covers(Empty())


@given(patterns, patterns)
def test_covers_is_inclusion_of_what_is_matched(a: Pattern, b: Pattern) -> None:
    included = all(x or not y for x, y in zip(matched(a), matched(b), strict=True))
    assert a.covers(b) == included == (a.meet(b) == b.normal())


@given(patterns, patterns, patterns)
def test_covers_is_a_partial_order(a: Pattern, b: Pattern, c: Pattern) -> None:
    assert a.covers(a)
    assert not (a.covers(b) and b.covers(c)) or a.covers(c)
    assert (a.covers(b) and b.covers(a)) == (a.normal() == b.normal())


@given(patterns, patterns)
def test_normal_form_is_one_per_set(a: Pattern, b: Pattern) -> None:
    assert matched(a) == matched(a.normal())
    assert a.normal().normal() == a.normal()
    assert (matched(a) == matched(b)) == (a.normal() == b.normal())
    assert a.normal() != b.normal() or hash(a.normal()) == hash(b.normal())


@given(patterns)
def test_matches_is_match_of_every_element(a: Pattern) -> None:
    for array in WITNESS_ARRAYS:
        mask = a.matches(array)
        assert mask.dtype == np.bool_
        assert mask.tolist() == [a.match(element) for element in array.tolist()]


@pytest.mark.parametrize(
    ("pattern", "normal"),
    [
        (Range(3, 3, closed_high=True), Constant(3)),
        (Range(3, 3), Empty()),
        (Range(4, 3), Empty()),
        (Range(None, 3, closed_low=True), Range(None, 3, closed_low=False)),
        (Range(None, None), Range(None, None)),
        (ValueList(frozenset({3})), Constant(3)),
        (ValueList(frozenset()), Empty()),
    ],
)
def test_normal_forms(pattern: Pattern, normal: Pattern) -> None:
    assert pattern.normal() == normal


def test_strings_and_times_are_ordered_values() -> None:
    names = np.array(["ann", "bob", "cleo"])
    for column in (names, names.astype(object)):
        assert Range("b", "c").matches(column).tolist() == [False, True, False]
        assert ValueList(frozenset({"ann", "cleo"})).matches(column).tolist() == [True, False, True]
    days = np.array(["2024-01-01", "2024-01-02", "NaT"], "M8[D]")
    assert Range(None, np.datetime64("2024-01-02")).matches(days).tolist() == [True, False, False]
    assert Range(None, None).matches(days).tolist() == [True, True, False]


def test_large_integers_are_not_compared_as_floats() -> None:
    column = np.array([2**53, 2**53 + 1])
    assert ValueList(frozenset({float(2**53), 0.5})).matches(column).tolist() == [True, False]


@pytest.mark.parametrize("holder", [Constant, lambda nan: Range(0, nan), lambda nan: ValueList(frozenset({1, nan}))])
def test_nan_is_refused_in_patterns(holder: Any) -> None:
    with pytest.raises(BadProgress, match="NaN"):
        holder(math.nan)


# Punctuations: the same laws for the product over attributes.


@given(punctuations, punctuations)
def test_punctuations_meet_in_what_both_match(a: Punctuation, b: Punctuation) -> None:
    assert [a.meet(b).match(row) for row in ROWS] == [a.match(row) and b.match(row) for row in ROWS]


@given(punctuations, punctuations, punctuations)
def test_meet_of_punctuations_is_commutative_associative_idempotent(
    a: Punctuation, b: Punctuation, c: Punctuation
) -> None:
    assert a.meet(b) == b.meet(a)
    assert a.meet(b).meet(c) == a.meet(b.meet(c))
    assert a.meet(a) == a
    assert a.meet(ALL) == a
    assert ALL.covers(a)


@given(punctuations, punctuations, punctuations)
def test_covers_of_punctuations_is_a_partial_order(a: Punctuation, b: Punctuation, c: Punctuation) -> None:
    assert a.covers(a)
    assert a.covers(b) == (a.meet(b) == b)
    assert not a.covers(b) or all(a.match(row) for row in ROWS if b.match(row))
    assert not (a.covers(b) and b.covers(c)) or a.covers(c)
    assert (a.covers(b) and b.covers(a)) == (a == b)


@given(punctuations, punctuations)
def test_punctuation_covers_attribute_by_attribute(a: Punctuation, b: Punctuation) -> None:
    each = all(a.pattern(attribute).covers(b.pattern(attribute)) for attribute in ("ts", "key"))
    assert a.covers(b) == (each or b.matches_nothing)


@given(punctuations)
def test_punctuation_matches_is_match_of_every_row(a: Punctuation) -> None:
    columns = {name: np.array([row[name] for row in ROWS], object) for name in ("ts", "key")}
    assert a.matches(columns, len(ROWS)).tolist() == [a.match(row) for row in ROWS]


@given(patterns)
def test_one_empty_pattern_makes_the_punctuation_match_nothing(other: Pattern) -> None:
    nothing = Punctuation({"ts": Empty(), "key": other})
    assert nothing == Punctuation({"else": Range(2, 1)})
    assert nothing.low_watermark("ts") is None
    assert not nothing.matches({}, 3).any()


@given(st.integers(-(2**62), 2**62))
def test_linear_punctuation_carries_its_low_watermark(lwm: int) -> None:
    linear = Punctuation.linear("ts", lwm)
    assert linear.low_watermark("ts") == lwm
    assert linear.low_watermark("key") is None
    assert linear.match({"ts": lwm - 1})
    assert not linear.match({"ts": lwm})
    assert linear.matches({"ts": np.array([lwm - 1, lwm])}, 2).tolist() == [True, False]


@given(value, value)
def test_linear_punctuations_are_ordered_by_low_watermark(a: int, b: int) -> None:
    linear = Punctuation.linear("ts", a).meet(Punctuation.linear("ts", b))
    assert linear == Punctuation.linear("ts", min(a, b))
    assert Punctuation.linear("ts", a).covers(Punctuation.linear("ts", b)) == (a >= b)


@pytest.mark.parametrize(
    ("punctuation", "lwm"),
    [
        (ALL, END),
        (Punctuation({"ts": Range(None, None)}), END),
        (Punctuation({"ts": Range(None, 7, closed_high=True)}), 8),
        (Punctuation({"ts": Range(None, 7.5)}), None),
        (Punctuation({"ts": Range(0, 7)}), None),
        (Punctuation({"ts": Constant(7)}), None),
        (Punctuation.linear("ts", 7, within={"key": Constant(1)}), None),
        (Punctuation({"ts": Range(None, 7), "key": Range(None, 7)}), None),
    ],
)
def test_low_watermark_only_of_linear_punctuation(punctuation: Punctuation, lwm: int | None) -> None:
    assert punctuation.low_watermark("ts") == lwm


@given(punctuations)
def test_punctuations_are_keys_and_travel(a: Punctuation) -> None:
    assert {a: 1}[pickle.loads(pickle.dumps(a))] == 1


def test_unknown_attribute_is_named() -> None:
    with pytest.raises(UnknownColumn, match="'ts'"):
        Punctuation.linear("ts", 1).match({"time": 0})
