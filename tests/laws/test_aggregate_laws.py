"""The laws every aggregate of the package obeys, whichever it is; a new one is found by itself (aggregates.py)."""

from __future__ import annotations

import io
import pickle
import re

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lowwater.aggregates.base import Differential, concat, from_arrow, take, to_arrow
from lowwater.errors import BadAggregate
from tests.laws.aggregates import (
    CASES,
    FACTORIES,
    SKETCHES,
    TYPES,
    close,
    few,
    kernel_of,
    laws,
    made,
    same,
    scale_of,
    schema_of,
    streams,
)


def test_the_package_has_aggregates_to_judge() -> None:
    assert len(FACTORIES) >= 25
    assert {"count", "sum", "median", "mode", "top_k", "udaf", "holistic", "approx_quantile"} <= FACTORIES.keys()


@laws
@few
@given(data=st.data())
def test_combining_any_cut_in_any_order_is_lifting_all(name: str, kind: str, data: st.DataObject) -> None:
    kernel, stream = kernel_of(name, kind), data.draw(streams(kind))
    part = np.array(data.draw(st.lists(st.integers(0, 2), min_size=len(stream.time), max_size=len(stream.time))))
    cells, cell = np.unique(stream.group * 3 + part, return_inverse=True)
    partial = stream.lift(name, kernel, cell, len(cells))
    order = np.array(data.draw(st.permutations(range(len(cells)))), np.intp)
    shuffled = tuple(take(c, order) for c in partial)
    combined = kernel.combine(shuffled, (cells // 3)[order], stream.n)
    assert same(name, kernel, combined, stream.lift(name, kernel), stream)


@laws
@few
@given(data=st.data())
def test_combine_is_associative(name: str, kind: str, data: st.DataObject) -> None:
    kernel, stream = kernel_of(name, kind), data.draw(streams(kind, groups=8))
    partial = stream.lift(name, kernel)
    fine = np.arange(stream.n) // 2
    twice = kernel.combine(kernel.combine(partial, fine, int(fine[-1]) + 1), np.zeros(int(fine[-1]) + 1, np.intp), 1)
    assert same(name, kernel, twice, kernel.combine(partial, np.zeros(stream.n, np.intp), 1), stream)


@laws
@few
@given(data=st.data())
def test_merge_is_combine_of_two_and_inverse_undoes_it(name: str, kind: str, data: st.DataObject) -> None:
    kernel, stream = kernel_of(name, kind), data.draw(streams(kind))
    if not kernel.exact_inverse and made(name).differential is Differential.FULL:
        stream = stream.finite(kind)  # which cannot be taken off again
    a = stream.lift(name, kernel)
    b = tuple(take(c, np.arange(stream.n)[::-1].copy()) for c in a)
    merged = kernel.merge(a, b)
    both = tuple(concat([x, y]) for x, y in zip(a, b, strict=True))
    assert same(name, kernel, merged, kernel.combine(both, np.tile(np.arange(stream.n), 2), stream.n), stream)
    if made(name).differential is Differential.NO:
        with pytest.raises(TypeError, match="not differential"):
            kernel.inverse(merged, b)
        return
    undone = kernel.inverse(merged, b)
    assert same(name, kernel, undone, a, stream)
    if kernel.exact_inverse:
        numbers = [(x, y) for x, y in zip(undone, a, strict=True) if isinstance(x, np.ndarray)]
        assert all(np.array_equal(x, y) for x, y in numbers)


@laws
@few
@given(data=st.data())
def test_roll_is_combine_of_each_range(name: str, kind: str, data: st.DataObject) -> None:
    kernel, stream = kernel_of(name, kind), data.draw(streams(kind, groups=20))
    partial = stream.lift(name, kernel)
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
    assert close(rolled.to_pylist(), combined.to_pylist(), scale_of(name, stream))


@laws
@few
@given(data=st.data())
def test_windows_in_their_order_roll_as_ranges_in_any_order(name: str, kind: str, data: st.DataObject) -> None:
    kernel, stream = kernel_of(name, kind), data.draw(streams(kind, groups=20))
    partial = stream.lift(name, kernel)
    lo = np.arange(stream.n, dtype=np.intp)
    hi = np.minimum(lo + data.draw(st.integers(1, 12)), stream.n)
    order = np.array(data.draw(st.permutations(range(stream.n))), np.intp)
    try:
        shuffled = kernel.roll(partial, lo[order], hi[order]).to_pylist()
    except BadAggregate:
        return  # a sum of a window exceeds int64
    in_order = kernel.roll(partial, lo, hi).to_pylist()
    assert close([in_order[i] for i in order], shuffled, scale_of(name, stream))


MANY = [(n, k) for n, k in CASES if k in ("int8", "float64", "string") and n != "approx_quantile"]


@pytest.mark.parametrize(("name", "kind"), MANY, ids=[f"{n}-{k}" for n, k in MANY])
def test_windows_of_many_groups_and_rows_are_what_their_panes_combine_to(name: str, kind: str) -> None:
    """Beyond a few dozen values other paths are taken than in the laws above: the same must come out."""
    rng = np.random.default_rng(11)
    rows, groups, panes, width = 24_000, 6, 60, 9
    number = np.where(rng.random(rows) < 0.4, 7, rng.integers(-100, 100, rows))
    values = pa.array(np.where(rng.random(rows) < 0.01, np.nan, number / 4)) if kind == "float64" else pa.array(number)
    values = pa.array(values.cast(TYPES[kind][0]).to_pylist(), TYPES[kind][0], mask=rng.random(rows) < 0.05)
    table = pa.table([values, values], schema_of(TYPES[kind][0]))
    cells, cell = np.unique(rng.integers(0, groups, rows) * panes + rng.integers(0, panes, rows), return_inverse=True)
    kernel = kernel_of(name, kind)
    partial = kernel.lift(made(name).argument(table), rng.integers(0, 50, rows), cell, len(cells))
    first = np.maximum(cells - width + 1, cells // panes * panes)
    lo, hi = np.searchsorted(cells, first), np.arange(len(cells)) + 1
    at = np.concatenate([np.arange(i, j) for i, j in zip(lo, hi, strict=True)])
    laid_out = tuple(take(column, at) for column in partial)
    combined = kernel.combine(laid_out, np.repeat(np.arange(len(lo)), hi - lo), len(lo))
    assert close(kernel.roll(partial, lo, hi).to_pylist(), kernel.lower(combined).to_pylist(), 100.0**2)


@laws
def test_bounded_partials_have_constant_size_and_holistic_ones_grow(name: str, kind: str) -> None:
    type = TYPES[kind][0]
    if name in SKETCHES or (pa.types.is_boolean(type) and not made(name).bounded):
        return  # sketches grow up to their size, sets of booleans up to two
    kernel = kernel_of(name, kind)

    def size(rows: int) -> int:
        values = pa.array([str(i) for i in range(1000, 1000 + rows)])
        if not (pa.types.is_string(type) or pa.types.is_binary(type)):
            ticks = pa.int64() if pa.types.is_timestamp(type) else pa.int32()
            values = pa.array(np.arange(rows) % 100).cast(ticks).cast(type, safe=False)
        else:
            values = values.cast(type)
        table = pa.table([values, values], schema_of(type))
        partial = kernel.lift(made(name).argument(table), np.arange(rows), np.zeros(rows, np.intp), 1)
        return sum(to_arrow(c, f).nbytes for c, f in zip(partial, kernel.fields, strict=True))

    assert (size(90) == size(9)) is made(name).bounded


@laws
@few
@given(data=st.data())
def test_partials_survive_arrow_ipc_and_kernels_survive_pickle(name: str, kind: str, data: st.DataObject) -> None:
    kernel, stream = pickle.loads(pickle.dumps(kernel_of(name, kind))), data.draw(streams(kind))
    assert pickle.loads(pickle.dumps(made(name))) == made(name)
    partial = stream.lift(name, kernel)
    assert all(len(c) == stream.n for c in partial)
    columns = [to_arrow(c, f) for c, f in zip(partial, kernel.fields, strict=True)]
    table = pa.Table.from_arrays(columns, schema=pa.schema(kernel.fields))
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    back = pa.ipc.open_stream(sink.getvalue()).read_all()
    returned = tuple(from_arrow(back.column(i), f) for i, f in enumerate(kernel.fields))
    assert same(name, kernel, returned, partial, stream)
    whole = np.array([0]), np.array([stream.n])
    try:
        expected = kernel.roll(partial, *whole)
    except BadAggregate:
        return  # the sum of all groups exceeds int64
    assert close(kernel.roll(returned, *whole).to_pylist(), expected.to_pylist(), scale_of(name, stream))
