"""Late rows are counted, and the late output has them with the reason. A late row still counts in its open windows.

Prints:

    closed by the first two batches: [(0, 10, 2), (5, 15, 2)]
    at 3: all its windows are closed; missed 2, counted in 0
    at 14: some of its windows are closed; missed 1, counted in 1
    at None: the progressing attribute is null; missed 0, counted in 0
    all windows: [(0, 10, 2), (5, 15, 2), (10, 20, 1), (20, 30, 1), (25, 35, 1)]
    read 6 rows, 1 without a time, 2 late, 1 of them in no window
"""

import pyarrow as pa

import lowwater as lw

SCHEMA = pa.schema([("at", pa.int64())])

stream = lw.stream(SCHEMA.empty_table(), name="readings", progress="at", disorder=10)
query = stream.window(range=10, slide=5).agg(n=lw.count()).start()


def windows(table: pa.Table) -> list[tuple[int, int, int]]:
    return [(row["window_start"], row["window_end"], row["n"]) for row in table.to_pylist()]


query.push([{"at": 6}, {"at": 8}])
query.push([{"at": 26}])  # the low-watermark is now 26 - 10 = 16: windows that end at or before 16 are closed
print("closed by the first two batches:", windows(query.result()))
query.push([{"at": 3}, {"at": 14}, {"at": None}])
for row in query.late_output().to_pylist():
    print(f"at {row['at']}: {row['late_reason']}; missed {row['windows_missed']}, counted in {row['windows_kept']}")
query.finish()
print("all windows:", windows(query.result()))
m = query.metrics()
print(f"read {m.rows} rows, {m.null_rows} without a time, {m.late_rows} late, {m.dropped_rows} of them in no window")
