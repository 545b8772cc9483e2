"""Codes of keys: equal rows share one, and distinct rows are numbered as they first occur, by a hash or by a table."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lowwater.aggregates.grouped import factorise
from tests.soak import examples

WIDTHS = {pa.int8(): 8, pa.int16(): 16, pa.int32(): 32, pa.int64(): 64}


def integers(type: pa.DataType) -> st.SearchStrategy[int | None]:
    """Close together, far apart, and at the ends of the type."""
    most = 1 << WIDTHS[type] - 1
    near = st.integers(-100, 100)
    return near | st.integers(-most, most - 1) | st.sampled_from([-most, most - 1])


def numbered(rows: list[Any]) -> tuple[list[int], list[Any]]:
    seen: dict[Any, int] = {}
    return [seen.setdefault(row, len(seen)) for row in rows], list(seen)


@pytest.mark.parametrize("type", WIDTHS, ids=str)
@examples(60)
@given(data=st.data())
def test_integers_are_numbered_as_they_first_occur(type: pa.DataType, data: st.DataObject) -> None:
    values = data.draw(st.lists(integers(type) | st.none() if data.draw(st.booleans()) else integers(type), min_size=1))
    code, distinct = factorise(pa.table({"k": pa.array(values, type)}))
    assert (code.tolist(), distinct.column("k").to_pylist()) == numbered(values)


@examples(60)
@given(rows=st.lists(st.tuples(st.integers(-3, 3), st.sampled_from(["a", "b", None]), st.integers(0, 2)), min_size=1))
def test_keys_of_several_columns_are_numbered_as_they_first_occur(rows: list[tuple[int, str | None, int]]) -> None:
    columns = dict(zip("xyz", map(list, zip(*rows, strict=True)), strict=True))
    code, distinct = factorise(pa.table(columns))
    found = [tuple(row.values()) for row in distinct.to_pylist()]
    assert (code.tolist(), found) == numbered(rows)


def test_unsigned_integers_beyond_the_signed_ones() -> None:
    values = [2**64 - 1, 5, 2**64 - 1, 2**63]
    code, distinct = factorise(pa.table({"k": pa.array(values, pa.uint64())}))
    assert (code.tolist(), distinct.column("k").to_pylist()) == numbered(values)
