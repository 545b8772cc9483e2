"""If you do not know how late rows can be, lowwater can learn the delay: choose the share of rows to be in time.

Prints:

    at most 3 seconds: 3.00 s behind the newest row, 0 of 100000 rows late
    learned(0.9): 1.14 s behind the newest row, 175 of 100000 rows late
    learned(0.99): 2.29 s behind the newest row, 11 of 100000 rows late
    learned(0.999): 2.97 s behind the newest row, 0 of 100000 rows late
"""

import datetime as dt

import lowwater as lw
from lowwater import generate

readings = generate.keyed(100_000, 600, keys=10, seed=3)  # rows arrive up to 3 seconds late, most of them much less


def waits(disorder: object) -> str:
    """The distance of the low-watermark from the newest row, and the number of rows that are late for a window."""
    stream = lw.stream(readings, name="readings", progress="ts", disorder=disorder)
    query = stream.window(range="1 second").agg(n=lw.count()).start()
    for at in range(0, readings.num_rows, 2_000):
        query.push(readings.slice(at, 2_000))
    metrics = query.metrics()
    (source,) = metrics.sources
    low, newest = (dt.datetime.fromisoformat(at) for at in (source.low_watermark, source.largest_seen))
    behind = (newest - low).total_seconds()
    return f"{behind:.2f} s behind the newest row, {metrics.late_rows} of {metrics.rows} rows late"


print("at most 3 seconds:", waits("3 seconds"))
for quantile in (0.9, 0.99, 0.999):
    print(f"learned({quantile}):", waits(lw.learned(quantile)))
