"""A query with its test: over many orders of arrival, cuts, shards and restarts it must answer as over a table.

The second query keeps the last row of each minute in a Python variable. It looks right until rows arrive in another
order, and the test shows a run of a few rows in which it fails.

Prints:

    totals: as in batch
    newest: differs from batch
"""

import pyarrow as pa

import lowwater as lw
from lowwater.testing import assert_same_as_batch, stream

ROWS = pa.table({"minute": list(range(40)), "shop": ["a", "b"] * 20, "cents": list(range(100, 140))})


def totals(sales: lw.Relation) -> lw.Relation:
    return sales.window(10).group_by("shop").agg(total=lw.sum("cents"))


def newest(sales: lw.Relation) -> lw.Relation:
    seen: dict[str, int] = {}

    def rise(rows: pa.Table) -> pa.Table:
        """Wrong: what it remembers depends on the order of arrival, and is lost on a restart."""
        before = [seen.get(shop, 0) for shop in rows["shop"].to_pylist()]
        seen.update(zip(rows["shop"].to_pylist(), rows["cents"].to_pylist(), strict=True))
        return rows.append_column("before", pa.array(before, pa.int64()))

    schema = ROWS.schema.append(pa.field("before", pa.int64()))
    return sales.apply(rise, schema).window(10).group_by("shop").agg(total=lw.sum("before"))


for query in (totals, newest):
    try:
        assert_same_as_batch(query, sales=stream(ROWS, progress="minute", disorder=5), cases=20, seed=1)
        print(f"{query.__name__}: as in batch")
    except AssertionError:
        print(f"{query.__name__}: differs from batch")
