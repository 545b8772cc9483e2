"""Late rows are an input like any other: what they missed is computed later and added to what was answered in time.

Prints:

    answered in time: [(0, 2), (10, 1), (20, 1)]
    late rows:        [(4, 'all its windows are closed'), (9, 'all its windows are closed')]
    with late rows:   [(0, 4), (10, 1), (20, 1)]
"""

import pyarrow as pa

import lowwater as lw

SCHEMA = pa.schema([("at", pa.int64())])


def counts(rows: pa.Table, disorder: int) -> lw.Relation:
    return lw.stream(rows, name="rows", progress="at", disorder=disorder).window(10).agg(n=lw.count())


def windows(table: pa.Table) -> list[tuple[int, int]]:
    return [(row["window_start"], row["n"]) for row in table.to_pylist()]


query = counts(SCHEMA.empty_table(), disorder=3).start()
for at in ([1, 8], [14], [4], [25], [9]):
    query.push(pa.table({"at": at}, SCHEMA))
query.finish()
print("answered in time:", windows(query.result()))
late = query.late_output()
print("late rows:       ", [(row["at"], row["late_reason"]) for row in late.to_pylist()])

# the same query over the late rows, which may be as late as they like, and the sum of both answers
again = counts(late.select(SCHEMA.names), disorder=1000)
before = lw.stream(query.result().select(["window_start", "n"]), name="before", progress="window_start", disorder=1000)
both = before.union(again.select("window_start", "n"))
print("with late rows:  ", windows(both.window(10).agg(n=lw.sum("n")).collect()))
