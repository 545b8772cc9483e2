"""A query with its test: over many orders of arrival, cuts, shards and restarts it must answer as over a table.

The second query counts rows in a Python variable. That depends on the order of arrival, and a restart loses it.

Prints:

    totals: as in batch
    numbered: differs from batch
"""

import pyarrow as pa

import lowwater as lw
from lowwater.testing import assert_same_as_batch, stream

ROWS = pa.table({"minute": list(range(40)), "shop": ["a", "b"] * 20, "cents": list(range(100, 140))})


def totals(sales: lw.Relation) -> lw.Relation:
    return sales.window(10).group_by("shop").agg(total=lw.sum("cents"))


def numbered(sales: lw.Relation) -> lw.Relation:
    seen = [0]

    def number(rows: pa.Table) -> pa.Table:
        seen[0] += rows.num_rows
        return rows.append_column("number", pa.array([seen[0]] * rows.num_rows, pa.int64()))

    rows = sales.apply(number, ROWS.schema.append(pa.field("number", pa.int64())))
    return rows.window(10).agg(last=lw.max("number"))


for query in (totals, numbered):
    try:
        assert_same_as_batch(query, sales=stream(ROWS, progress="minute", disorder=5), cases=20, seed=1)
        print(f"{query.__name__}: as in batch")
    except AssertionError:
        print(f"{query.__name__}: differs from batch")
