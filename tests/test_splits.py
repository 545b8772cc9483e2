"""Splits by shard: every row in its own shard, in the order of arrival, whatever the number of shards."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lowwater as lw
from lowwater.aggregates import sorting
from lowwater.aggregates.grouped import Grouped, lift, split, without_columns
from lowwater.aggregates.sorting import order_of, parted
from tests.soak import examples

SHARDS = (1, 2, 8, 64)


def rows_of(n: int, seed: int = 3) -> pa.Table:
    """Rows of several types, in chunks of uneven length; `row` is the order of arrival."""
    r = np.random.default_rng(seed)
    text = pa.array(["x", None, "", "long text " * 9]).take(pa.array(r.integers(0, 4, n)))
    lists = pa.array([[1, 2], None, [], [3]], pa.list_(pa.int64())).take(pa.array(r.integers(0, 4, n)))
    table = pa.table({"row": np.arange(n), "key": r.integers(0, 97, n), "text": text, "list": lists})
    return pa.concat_tables([table.slice(0, n // 3), table.slice(n // 3, 1), table.slice(n // 3 + 1)])


@pytest.mark.parametrize("shards", SHARDS)
@pytest.mark.parametrize("n", [0, 1, 1000])
@pytest.mark.parametrize("piece", [1, 1 << 14, 1 << 28])
def test_a_shard_has_its_rows_in_the_order_of_arrival(
    shards: int, n: int, piece: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sorting, "_PIECE", piece)
    rows = rows_of(n)
    shard = rows.column("key").to_numpy() % shards
    found = parted(rows, shard, shards)
    assert len(found) == shards
    for number, table in enumerate(found):
        table.validate(full=True)
        assert table.equals(rows.filter(pa.array(shard == number)))


@examples(30)
@given(st.sampled_from([2, 4, 5, 300, 1 << 16, (1 << 16) + 1, 1 << 40]), st.integers(0, 2**31), st.integers(0, 300))
def test_order_of_is_stable_for_keys_of_every_width(stop: int, seed: int, n: int) -> None:
    key = np.random.default_rng(seed).choice([0, 1, stop // 2, stop - 1], n)
    expected = sorted(range(n), key=lambda row: int(key[row]))
    assert order_of(key, stop).tolist() == expected


def reduced(keyed: bool) -> tuple[Grouped, list[object]]:
    """Partials of NumPy and of Arrow columns, one group of which has lost its rows."""
    rows = rows_of(1000)
    keys = rows.select(["key", "text"]) if keyed else without_columns(1000)
    slot = rows.column("row").to_numpy() // 100
    aggregates = [lw.count(), lw.sum("key"), lw.collect_list("key")]
    algebras = [aggregate.bind(rows.schema) for aggregate in aggregates]
    values = [None, *[rows.column("key").combine_chunks()] * 2]
    grouped = lift(keys, slot, values, slot, algebras)
    return grouped.take(np.flatnonzero((grouped.group != 5) | (grouped.slot == 0))), list(algebras)


@pytest.mark.parametrize("keyed", [True, False])
@pytest.mark.parametrize("shards", SHARDS)
def test_partials_are_split_by_the_shard_of_their_group(shards: int, keyed: bool) -> None:
    grouped, algebras = reduced(keyed)
    shard = np.arange(grouped.keys.num_rows) * 7 % shards
    parts = split(grouped, shard, shards)
    assert len(parts) == shards
    for number, part in enumerate(parts):
        expected = grouped.take(np.flatnonzero(shard[grouped.group] == number))
        assert part.keys.num_rows == expected.keys.num_rows
        found, wanted = part.tables(algebras), expected.tables(algebras)  # type: ignore[arg-type]
        assert found["partials"].equals(wanted["partials"])
        assert found["keys"].equals(wanted["keys"])


def test_a_group_without_rows_goes_to_no_shard() -> None:
    grouped, _ = reduced(keyed=True)
    bare = Grouped(grouped.keys, grouped.group[:3], grouped.slot[:3], tuple((c[0][:3],) for c in grouped.partials))
    parts = split(bare, np.arange(bare.keys.num_rows) % 2, 2)
    assert sum(part.keys.num_rows for part in parts) == len(set(bare.group.tolist()))
