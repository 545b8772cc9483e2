"""What the results of aggregates mean, told once more in plain Python, and which columns they refuse."""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Callable
from decimal import ROUND_HALF_UP, Decimal, localcontext
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lowwater.aggregates.ranks import kth, smallest
from lowwater.aggregates.rollup import doubling, fold, prefix, scan
from lowwater.aggregates.sorting import LONG, rank_each, sort_each
from lowwater.errors import BadAggregate, UnknownColumn
from tests import oracle
from tests.laws.aggregates import (
    CASES,
    FACTORIES,
    NAN,
    PARAMETERS,
    TYPES,
    close,
    few,
    kernel_of,
    laws,
    made,
    scale_of,
    schema_of,
    streams,
)


def order_key(value: Any) -> tuple[bool, Any]:
    """NaN is larger than any number; all NaN are one value."""
    return (True, 0) if isinstance(value, float) and math.isnan(value) else (False, value)


def total(values: list[Any]) -> Any:
    return math.fsum(values) if isinstance(values[0], float) else sum(values)


def mean(values: list[Any]) -> Any:
    if isinstance(values[0], Decimal):
        with localcontext() as context:
            context.prec = 60
            return (sum(values) / len(values)).quantize(Decimal("1e-6"), ROUND_HALF_UP)
    return total(values) / len(values)


def spread(measure: Callable[[list[Any]], Any], least: int) -> Callable[[list[tuple[int, Any]]], Any]:
    def judge(rows: list[tuple[int, Any]]) -> Any:
        numbers = [float(v) for _, v in rows]
        if any(math.isnan(x) for x in numbers):
            return NAN if len(numbers) >= least else None
        return float(measure(numbers)) if len(numbers) >= least else None

    return judge


def interpolated(q: float) -> Callable[[list[tuple[int, Any]]], Any]:
    def judge(rows: list[tuple[int, Any]]) -> Any:
        ordered = sorted((float(v) for _, v in rows), key=order_key)
        if not ordered:
            return None
        place = (len(ordered) - 1) * q
        below, above = ordered[math.floor(place)], ordered[math.ceil(place)]
        return below if below == above else below + (above - below) * (place - math.floor(place))

    return judge


def chosen(largest: bool, by_time: bool) -> Callable[[list[tuple[int, Any]]], Any]:
    def judge(rows: list[tuple[int, Any]]) -> Any:
        ordered = sorted(rows, key=lambda r: (r[0] if by_time else 0, order_key(r[1])))
        return ordered[-1 if largest else 0][1] if rows else None

    return judge


def valued(judge: Callable[[list[Any]], Any]) -> Callable[[list[tuple[int, Any]]], Any]:
    return lambda rows: judge([v for _, v in rows]) if rows else None


REFERENCE: dict[str, Callable[[list[tuple[int, Any]]], Any]] = {
    "count": len,
    "sum": valued(total),
    "avg": valued(mean),
    "min": chosen(largest=False, by_time=False),
    "max": chosen(largest=True, by_time=False),
    "first": chosen(largest=False, by_time=True),
    "last": chosen(largest=True, by_time=True),
    "variance": spread(statistics.variance, 2),
    "var_pop": spread(statistics.pvariance, 1),
    "stddev": spread(statistics.stdev, 2),
    "stddev_pop": spread(statistics.pstdev, 1),
    "median": interpolated(0.5),
    "quantile": interpolated(0.3),
    "count_distinct": lambda rows: len({order_key(v) for _, v in rows}),
    "udaf": valued(lambda values: math.fsum(float(v) ** 2 for v in values)),
    "holistic": valued(lambda values: len({order_key(v) for v in values})),
}
"""Of (time, value) where the value is not null. All others are told by the oracle."""


def expected_of(name: str, rows: list[dict[str, Any]]) -> Any:
    if name in REFERENCE:
        return REFERENCE[name]([(row["t"], row["v"]) for row in rows if row["v"] is not None])
    return oracle.aggregate(rows, "t", (name, "v", *PARAMETERS.get(name, {}).values()))


@laws
@few
@given(data=st.data())
def test_result_is_what_plain_python_says(name: str, kind: str, data: st.DataObject) -> None:
    kernel, stream = kernel_of(name, kind), data.draw(streams(kind))
    expected = []
    for group in range(stream.n):
        try:
            expected.append(expected_of(name, stream.of(group)))
        except OverflowError:
            return
    if name == "sum" and any(isinstance(e, int) and not -(2**63) <= e < 2**63 for e in expected):
        with pytest.raises(BadAggregate, match="exceeds the range of int64"):
            kernel.lower(stream.lift(name, kernel))
        return
    result = kernel.lower(stream.lift(name, kernel))
    assert result.type == kernel.result
    assert close(result.to_pylist(), expected, scale_of(name, stream))


def test_count_star_counts_nulls_and_count_of_a_column_does_not() -> None:
    values, time, group = pa.array([None, 1, None], pa.int64()), np.zeros(3, np.int64), np.array([0, 0, 1])
    schema = pa.schema([("v", pa.int64())])
    star, column = FACTORIES["count"](), FACTORIES["count"]("v")
    assert star.bind(schema).lift(None, time, group, 2)[0].tolist() == [2, 1]
    assert column.bind(schema).lift(values, time, group, 2)[0].tolist() == [1, 0]
    assert (str(star), str(column)) == ("count(*)", "count(v)")


@few
@given(
    st.lists(st.sampled_from([1e16, -1e16, 1.0, -1.0, 0.1, 1e-9, 1e300]), min_size=3, max_size=60), st.integers(1, 9)
)
def test_what_leaves_a_window_takes_nothing_with_it(values: list[float], width: int) -> None:
    """A window's error is bounded by its own values: sum and avg against fsum, with 1e16 and 1e300 passing by."""
    width = min(width, len(values))
    lo = np.arange(len(values) - width + 1)
    rows = np.arange(len(values))
    for name in ("sum", "avg"):
        kernel = kernel_of(name, "float64")
        rolled = kernel.roll(kernel.lift(pa.array(values), rows, rows, len(rows)), lo, lo + width).to_pylist()
        for start, got in zip(lo.tolist(), rolled, strict=True):
            window = values[start : start + width]
            divisor = width if name == "avg" else 1
            assert abs(got - math.fsum(window) / divisor) <= 1e-15 * math.fsum(map(abs, window)) * width


def test_a_far_mean_does_not_drown_the_variance() -> None:
    values = [1e9 + x for x in (4.0, 7.0, 13.0, 16.0)]
    kernel, rows = kernel_of("variance", "float64"), np.arange(4)
    partial = kernel.lift(pa.array(values), rows, rows, 4)
    assert kernel.roll(partial, np.array([0]), np.array([4])).to_pylist() == [30.0]
    assert kernel.lower(kernel.combine(partial, np.zeros(4, np.intp), 1)).to_pylist() == [30.0]


def test_integer_sum_is_refused_only_where_the_window_itself_overflows() -> None:
    kernel, rows = kernel_of("sum", "int64"), np.arange(3)
    partial = kernel.lift(pa.array([2**63 - 1, 1, -1]), rows, rows, 3)
    assert kernel.roll(partial, np.array([0, 1]), np.array([3, 3])).to_pylist() == [2**63 - 1, 0]
    with pytest.raises(BadAggregate, match=r"sum\(v\) exceeds the range of int64"):
        kernel.roll(partial, np.array([0]), np.array([2]))


def test_infinities_and_decimals_too_long_for_a_word() -> None:
    zeros = np.zeros(3, np.int64)
    doubles = pa.array([math.inf, 1.0, None])
    for name, expected in {"sum": math.inf, "max": math.inf, "min": 1.0, "median": math.inf}.items():
        kernel = kernel_of(name, "float64")
        assert kernel.lower(kernel.lift(doubles, zeros, zeros, 1)).to_pylist() == [expected]
    longest = pa.array([Decimal("9" * 16 + ".99")] * 3, pa.decimal128(18, 2))
    total, middle = kernel_of("sum", "decimal"), kernel_of("avg", "decimal")
    assert total.lower(total.lift(longest, zeros, zeros, 1)).to_pylist() == [3 * Decimal("9" * 16 + ".99")]
    assert middle.lower(middle.lift(longest, zeros, zeros, 1)).to_pylist() == [Decimal("9" * 16 + ".99")]


REFUSED = [(n, k) for n in FACTORIES for k in TYPES if (n, k) not in CASES] + [("max", "list"), ("sum", "list")]


@pytest.mark.parametrize(("name", "kind"), REFUSED, ids=[f"{n}-{k}" for n, k in REFUSED])
def test_a_type_is_refused_with_one_sentence_naming_aggregate_and_type(name: str, kind: str) -> None:
    type = pa.list_(pa.int64()) if kind == "list" else TYPES[kind][0]
    with pytest.raises(BadAggregate) as refusal:
        made(name).bind(schema_of(type))
    sentence = str(refusal.value)
    assert sentence.startswith(str(made(name)))
    assert str(type) in sentence
    assert sentence.endswith(".")
    assert ". " not in sentence


def test_unknown_columns_and_impossible_quantiles_are_refused() -> None:
    with pytest.raises(UnknownColumn, match="'v'"):
        made("sum").bind(pa.schema([("w", pa.int64())]))
    with pytest.raises(BadAggregate, match="between 0 and 1"):
        FACTORIES["quantile"]("v", q=1.5)


def averaged(values: list[Decimal], scale: int) -> Decimal:
    """Spark's avg: rounded to 39 digits behind the point, then to those of its type."""
    with localcontext(prec=200):
        quotient = (sum(values) / len(values)).quantize(Decimal("1e-39"), ROUND_HALF_UP)
        return quotient.quantize(Decimal(1).scaleb(-min(38, scale + 4)), ROUND_HALF_UP)


SHAPES = [(18, 18), (19, 0), (28, 10), (30, 28), (36, 2), (38, 0), (38, 10), (38, 34), (38, 36), (38, 38)]


@pytest.mark.parametrize(("precision", "scale"), SHAPES)
def test_totals_and_means_of_decimals_of_every_length_are_exact(precision: int, scale: int) -> None:
    rng = random.Random(precision * 100 + scale)
    type = pa.decimal128(precision, scale)
    for _ in range(50):
        most = 10 ** rng.randint(0, precision - 6)
        values = [Decimal(rng.randint(-most, most)).scaleb(-scale) for _ in range(rng.randint(1, 20))]
        group = np.zeros(len(values), np.int64)
        with localcontext(prec=200):
            total = sum(values)
        for name, expected in (("sum", total), ("avg", averaged(values, scale))):
            kernel = made(name).bind(pa.schema([("v", type)]))
            found = kernel.lower(kernel.lift(pa.array(values, type), group, group, 1))
            assert found.to_pylist() == [expected], (name, values)
            assert found.type == kernel.result


def test_a_total_of_decimals_may_pass_its_limit_on_the_way_and_not_at_the_end() -> None:
    type = pa.decimal128(38, 2)
    largest = Decimal("9" * 36 + ".99")
    total, middle = (made(name).bind(pa.schema([("v", type)])) for name in ("sum", "avg"))
    rows = np.arange(4)
    partial = total.lift(
        pa.array([largest, largest, largest.copy_negate(), largest.copy_negate()], type), rows, rows, 4
    )
    ends = np.array([4, 3]), np.array([0, 0])
    assert total.roll(partial, ends[1], ends[0]).to_pylist() == [0, largest]
    for kernel, at in ((total, slice(0, 2)), (total, slice(2, 4)), (middle, slice(0, 2))):
        some = tuple(column[at] for column in partial)
        with pytest.raises(BadAggregate, match=r"(sum|avg)\(v\) exceeds decimal\(38, 2\); cast the column to double"):
            kernel.lower(kernel.combine(some, np.zeros(2, np.intp), 1))
    with pytest.raises(BadAggregate, match=r"avg\(v\) exceeds decimal\(38, 6\)"):  # the total fits, the mean does not
        middle.lower(tuple(column[:1] for column in partial))


def test_doubling_keeps_the_order_of_rows() -> None:
    """Composition of x -> a*x + b does not commute: only left to right gives the reference."""
    rng = np.random.default_rng(7)
    a, b = rng.integers(-1, 3, 40), rng.integers(-3, 4, 40)
    lo, hi = (x.ravel() for x in np.meshgrid(np.arange(40), np.arange(1, 41)))
    lo, hi = lo[lo < hi], hi[lo < hi]
    wide = hi - lo <= 20
    lo, hi = lo[wide], hi[wide]
    slope, offset = doubling((a, b), lambda f, g: (f[0] * g[0], f[1] * g[0] + g[1]), lo, hi)
    for i in range(len(lo)):
        x = 5
        for row in range(lo[i], hi[i]):
            x = int(a[row]) * x + int(b[row])
        assert int(slope[i]) * 5 + int(offset[i]) == x


@few
@given(st.lists(st.integers(0, 9), min_size=1, max_size=40))
def test_wavelet_agrees_with_sorting(codes: list[int]) -> None:
    code = np.array(codes, np.int64)
    pairs = [(i, j) for i in range(len(codes)) for j in range(i + 1, len(codes) + 1)]
    lo, hi = np.array(pairs).T.copy()
    k, of = (hi - lo) // 3, np.arange(len(lo))
    assert kth(code, lo, hi, k).tolist() == [sorted(codes[i:j])[(j - i) // 3] for i, j in pairs]
    assert smallest(code * 0.5, lo, hi, of, k).tolist() == [sorted(codes[i:j])[(j - i) // 3] / 2 for i, j in pairs]
    assert prefix(code, lo, hi).tolist() == [sum(codes[i:j]) for i, j in pairs]


@pytest.mark.parametrize("dtype", ["f8", "f4", "i8", "i1", "u4"])
def test_segments_of_all_lengths_are_sorted_and_ranked(dtype: str) -> None:
    """Short and long segments, with the keys by which short ones are filled up among the values."""
    rng = np.random.default_rng(6)
    offset = np.cumsum([0, *rng.permutation([0, 0, 1, 2, 3, 17, 500, LONG - 1, LONG, 3000])])
    key = rng.integers(0, 100, offset[-1]).astype(dtype)
    key[rng.random(len(key)) < 0.1] = np.nan if dtype[0] == "f" else np.iinfo(dtype).max
    ordered = sort_each(key, offset)
    rank, same = rank_each(key, offset)
    assert np.array_equal(ordered, same, equal_nan=dtype[0] == "f")
    for first, stop in pairwise(offset):
        assert np.array_equal(ordered[first:stop], np.sort(key[first:stop]), equal_nan=dtype[0] == "f")
        assert sorted(rank[first:stop]) == list(range(stop - first))
        assert np.array_equal(ordered[first:stop][rank[first:stop]], key[first:stop], equal_nan=dtype[0] == "f")


@few
@given(st.lists(st.lists(st.text("abc", max_size=2), min_size=1, max_size=9), min_size=1, max_size=6))
def test_fold_and_scan_keep_the_order_of_rows(segments: list[list[str]]) -> None:
    """Joining text does not commute."""
    rows = np.array([text for segment in segments for text in segment], object)
    offset = np.cumsum([0, *(len(segment) for segment in segments)])

    def joined(a: Any, b: Any) -> Any:
        return (a[0] + b[0],)

    assert fold((rows,), joined, offset)[0].tolist() == ["".join(segment) for segment in segments]
    assert scan((rows,), joined)[0].tolist() == ["".join(rows[: i + 1]) for i in range(len(rows))]
