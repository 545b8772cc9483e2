"""The laws every aggregate of the package obeys, whichever it is; a new one is found by itself.

An aggregate is found by its factory: a public function of a module in lowwater.aggregates that is annotated to return
Aggregate. It is tried on every type it does not refuse. What its result means is told once more in plain Python, in
REFERENCE; parameters besides the column are in PARAMETERS.
"""

from __future__ import annotations

import datetime as dt
import importlib
import inspect
import io
import math
import pickle
import pkgutil
import re
import statistics
from collections.abc import Callable
from decimal import ROUND_HALF_UP, Decimal, localcontext
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lowwater.aggregates as package
from lowwater.aggregates.base import Aggregate, Algebra, Differential, concat, from_arrow, take, to_arrow
from lowwater.aggregates.ranks import count_below, kth
from lowwater.aggregates.rollup import doubling, prefix
from lowwater.errors import BadAggregate, UnknownColumn

PARAMETERS: dict[str, dict[str, Any]] = {"quantile": {"q": 0.3}}

NAN = float("nan")
DOUBLES = st.one_of(st.floats(-1e6, 1e6), st.sampled_from([0.0, -0.0, 1.0, NAN]))
TYPES: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "int8": (pa.int8(), st.integers(-128, 127)),
    "int64": (pa.int64(), st.integers(-(2**62), 2**62) | st.integers(-2, 2)),
    "float32": (pa.float32(), st.sampled_from([0.5, -0.0, 0.0, 2.25, -7.0, NAN])),
    "float64": (pa.float64(), DOUBLES),
    "decimal": (pa.decimal128(18, 2), st.decimals(-(10**15), 10**15, places=2)),
    "wide decimal": (pa.decimal128(30, 2), st.decimals(-(10**20), 10**20, places=2)),
    "boolean": (pa.bool_(), st.booleans()),
    "string": (pa.string(), st.sampled_from(["", "a", "b", "ab", "é"])),
    "binary": (pa.binary(), st.sampled_from([b"", b"\x00", b"\xff", b"a"])),
    "date": (pa.date32(), st.dates(dt.date(1960, 1, 1), dt.date(2030, 1, 1))),
    "timestamp": (pa.timestamp("us"), st.datetimes(dt.datetime(1960, 1, 1), dt.datetime(2030, 1, 1))),
}


def factories() -> dict[str, Callable[..., Aggregate]]:
    found: dict[str, Callable[..., Aggregate]] = {}
    for module in pkgutil.iter_modules(package.__path__, package.__name__ + "."):
        for name, function in inspect.getmembers(importlib.import_module(module.name), inspect.isfunction):
            here = function.__module__ == module.name and not name.startswith("_")
            if here and function.__annotations__.get("return") == "Aggregate":
                found[name] = function
    return found


FACTORIES = factories()


def made(name: str) -> Aggregate:
    return FACTORIES[name]("v", **PARAMETERS.get(name, {}))


def accepted() -> list[tuple[str, str]]:
    cases = []
    for name in FACTORIES:
        for kind, (type, _) in TYPES.items():
            try:
                made(name).bind(pa.schema([("v", type)]))
            except BadAggregate:
                continue
            cases.append((name, kind))
    return cases


CASES = accepted()
laws = pytest.mark.parametrize(("name", "kind"), CASES, ids=[f"{n}-{k}" for n, k in CASES])
few = settings(max_examples=6, deadline=None, derandomize=True)


class Stream:
    """Rows with values, times and groups 0..n-1, each group with at least one row."""

    def __init__(self, kind: str, rows: list[tuple[Any, int, int]]) -> None:
        self.values = pa.array([r[0] for r in rows], TYPES[kind][0])
        self.time = np.array([r[1] for r in rows], np.int64)
        self.codes, self.group = np.unique(np.array([r[2] for r in rows]), return_inverse=True)
        self.n = len(self.codes)

    def lift(self, kernel: Algebra, group: Any = None, n: int | None = None) -> Any:
        return kernel.lift(self.values, self.time, self.group if group is None else group, self.n if n is None else n)

    def without_nan(self, kind: str) -> Stream:
        values = [None if v != v else v for v in self.values.to_pylist()]
        return Stream(kind, list(zip(values, self.time.tolist(), self.group.tolist(), strict=True)))

    def of(self, group: int) -> list[tuple[int, Any]]:
        """(time, value) of the rows of a group that are not null."""
        rows = zip(self.values.to_pylist(), self.time.tolist(), self.group.tolist(), strict=True)
        return [(t, v) for v, t, g in rows if g == group and v is not None]


def streams(kind: str, groups: int = 4) -> st.SearchStrategy[Stream]:
    value = st.none() | TYPES[kind][1] | TYPES[kind][1]
    rows = st.lists(st.tuples(value, st.integers(-3, 3), st.integers(0, groups)), min_size=1, max_size=24)
    return rows.map(lambda r: Stream(kind, r))


def kernel_of(name: str, kind: str) -> Algebra:
    return made(name).bind(pa.schema([("v", TYPES[kind][0])]))


def close(a: Any, b: Any, scale: float) -> bool:
    if isinstance(a, list):
        return len(a) == len(b) and all(close(x, y, scale) for x, y in zip(a, b, strict=True))
    if isinstance(a, float) and isinstance(b, float):
        return (math.isnan(a) and math.isnan(b)) or a == b or math.isclose(a, b, rel_tol=1e-9, abs_tol=1e-9 * scale)
    return type(a) is type(b) and bool(a == b)


SQUARED = {"variance", "var_pop", "stddev", "stddev_pop"}


def scale_of(name: str, values: pa.Array) -> float:
    """Rounding is judged against the largest input, squared where distances are."""
    numbers = [abs(float(v)) for v in values.to_pylist() if isinstance(v, int | float | Decimal) and v == v]
    return max([1.0, *numbers]) ** (2 if name in SQUARED else 1)


def same(name: str, kernel: Algebra, a: Any, b: Any, values: pa.Array) -> bool:
    columns = zip(a, b, kernel.fields, strict=True)
    return all(
        close(to_arrow(x, f).to_pylist(), to_arrow(y, f).to_pylist(), scale_of(name, values)) for x, y, f in columns
    )


def test_the_package_has_aggregates_to_judge() -> None:
    assert {"count", "sum", "avg", "min", "max", "first", "last", "variance", "median", "quantile"} <= FACTORIES.keys()


@laws
@few
@given(data=st.data())
def test_combining_any_cut_in_any_order_is_lifting_all(name: str, kind: str, data: st.DataObject) -> None:
    kernel, stream = kernel_of(name, kind), data.draw(streams(kind))
    part = np.array(data.draw(st.lists(st.integers(0, 2), min_size=len(stream.time), max_size=len(stream.time))))
    cells, cell = np.unique(stream.group * 3 + part, return_inverse=True)
    partial = stream.lift(kernel, cell, len(cells))
    order = np.array(data.draw(st.permutations(range(len(cells)))), np.intp)
    shuffled = tuple(take(c, order) for c in partial)
    combined = kernel.combine(shuffled, (cells // 3)[order], stream.n)
    assert same(name, kernel, combined, stream.lift(kernel), stream.values)


@laws
@few
@given(data=st.data())
def test_combine_is_associative(name: str, kind: str, data: st.DataObject) -> None:
    kernel, stream = kernel_of(name, kind), data.draw(streams(kind, groups=8))
    partial = stream.lift(kernel)
    fine = np.arange(stream.n) // 2
    twice = kernel.combine(kernel.combine(partial, fine, int(fine[-1]) + 1), np.zeros(int(fine[-1]) + 1, np.intp), 1)
    assert same(name, kernel, twice, kernel.combine(partial, np.zeros(stream.n, np.intp), 1), stream.values)


@laws
@few
@given(data=st.data())
def test_merge_is_combine_of_two_and_inverse_undoes_it(name: str, kind: str, data: st.DataObject) -> None:
    kernel, stream = kernel_of(name, kind), data.draw(streams(kind))
    if not kernel.exact_inverse and made(name).differential is Differential.FULL:
        stream = stream.without_nan(kind)  # which cannot be taken off again
    a = stream.lift(kernel)
    b = tuple(take(c, np.arange(stream.n)[::-1].copy()) for c in a)
    merged = kernel.merge(a, b)
    both = tuple(concat([x, y]) for x, y in zip(a, b, strict=True))
    assert same(name, kernel, merged, kernel.combine(both, np.tile(np.arange(stream.n), 2), stream.n), stream.values)
    if made(name).differential is Differential.FULL:
        undone = kernel.inverse(merged, b)
        assert same(name, kernel, undone, a, stream.values)
        if kernel.exact_inverse:
            assert all(np.array_equal(x, y) for x, y in zip(undone, a, strict=True))
    elif made(name).differential is Differential.NO:
        with pytest.raises(TypeError, match="not differential"):
            kernel.inverse(merged, b)


@laws
@few
@given(data=st.data())
def test_roll_is_combine_of_each_range(name: str, kind: str, data: st.DataObject) -> None:
    kernel, stream = kernel_of(name, kind), data.draw(streams(kind, groups=20))
    partial = stream.lift(kernel)
    pairs = [(i, j) for i in range(stream.n) for j in range(i + 1, stream.n + 1)]
    lo, hi = np.array(pairs, np.intp).T.copy()
    rows = np.concatenate([np.arange(i, j) for i, j in pairs])
    laid_out = tuple(take(c, rows) for c in partial)
    whole = kernel.combine(laid_out, np.repeat(np.arange(len(lo)), hi - lo), len(lo))
    try:
        combined = kernel.lower(whole)
    except BadAggregate as overflow:
        with pytest.raises(BadAggregate, match=re.escape(str(overflow))):
            kernel.roll(partial, lo, hi)
        return
    rolled = kernel.roll(partial, lo, hi)
    assert rolled.type == combined.type == kernel.result
    assert close(rolled.to_pylist(), combined.to_pylist(), scale_of(name, stream.values))


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
}


@laws
@few
@given(data=st.data())
def test_result_is_what_plain_python_says(name: str, kind: str, data: st.DataObject) -> None:
    assert name in REFERENCE, f"{name} has no reference in plain Python yet."
    kernel, stream = kernel_of(name, kind), data.draw(streams(kind))
    expected = []
    for group in range(stream.n):
        try:
            expected.append(REFERENCE[name](stream.of(group)))
        except OverflowError:
            return
    if name == "sum" and any(isinstance(e, int) and not -(2**63) <= e < 2**63 for e in expected):
        with pytest.raises(BadAggregate, match="exceeds the range of int64"):
            kernel.lower(stream.lift(kernel))
        return
    result = kernel.lower(stream.lift(kernel))
    assert result.type == kernel.result
    assert close(result.to_pylist(), expected, scale_of(name, stream.values))


def test_count_star_counts_nulls_and_count_of_a_column_does_not() -> None:
    values, time, group = pa.array([None, 1, None], pa.int64()), np.zeros(3, np.int64), np.array([0, 0, 1])
    schema = pa.schema([("v", pa.int64())])
    star, column = FACTORIES["count"](), FACTORIES["count"]("v")
    assert star.bind(schema).lift(None, time, group, 2)[0].tolist() == [2, 1]
    assert column.bind(schema).lift(values, time, group, 2)[0].tolist() == [1, 0]
    assert (str(star), str(column)) == ("count(*)", "count(v)")


@laws
def test_bounded_partials_have_constant_size_and_holistic_ones_grow(name: str, kind: str) -> None:
    type = TYPES[kind][0]
    if pa.types.is_boolean(type) and not made(name).bounded:
        return  # two values at most
    kernel = kernel_of(name, kind)

    def size(rows: int) -> int:
        values = pa.array([str(i) for i in range(1000, 1000 + rows)])
        if not (pa.types.is_string(type) or pa.types.is_binary(type)):
            ticks = pa.int64() if pa.types.is_timestamp(type) else pa.int32()
            values = pa.array(np.arange(rows) % 100).cast(ticks).cast(type, safe=False)
        else:
            values = values.cast(type)
        partial = kernel.lift(values, np.arange(rows), np.zeros(rows, np.intp), 1)
        return sum(to_arrow(c, f).nbytes for c, f in zip(partial, kernel.fields, strict=True))

    assert (size(90) == size(9)) is made(name).bounded


@laws
@few
@given(data=st.data())
def test_partials_survive_arrow_ipc_and_kernels_survive_pickle(name: str, kind: str, data: st.DataObject) -> None:
    kernel, stream = pickle.loads(pickle.dumps(kernel_of(name, kind))), data.draw(streams(kind))
    assert pickle.loads(pickle.dumps(made(name))) == made(name)
    partial = stream.lift(kernel)
    assert all(len(c) == stream.n for c in partial)
    columns = [to_arrow(c, f) for c, f in zip(partial, kernel.fields, strict=True)]
    table = pa.Table.from_arrays(columns, schema=pa.schema(kernel.fields))
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    back = pa.ipc.open_stream(sink.getvalue()).read_all()
    returned = tuple(from_arrow(back.column(i), f) for i, f in enumerate(kernel.fields))
    assert same(name, kernel, returned, partial, stream.values)
    whole = np.array([0]), np.array([stream.n])
    try:
        expected = kernel.roll(partial, *whole)
    except BadAggregate:
        return  # the sum of all groups exceeds int64
    assert close(kernel.roll(returned, *whole).to_pylist(), expected.to_pylist(), scale_of(name, stream.values))


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
        made(name).bind(pa.schema([("v", type)]))
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
    with pytest.raises(BadAggregate, match=r"at most 18 digits \(cast the column\)"):
        made("sum").bind(pa.schema([("v", pa.decimal128(19, 0))]))


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
    k = (hi - lo) // 3
    assert kth(code, lo, hi, k).tolist() == [sorted(codes[i:j])[(j - i) // 3] for i, j in pairs]
    x = lo % 12
    assert count_below(code, lo, hi, x).tolist() == [sum(c < i % 12 for c in codes[i:j]) for i, j in pairs]
    assert prefix(code, lo, hi).tolist() == [sum(codes[i:j]) for i, j in pairs]
