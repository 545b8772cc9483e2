"""User-defined aggregates: by lift, combine and lower, with constant state; or as a function of all values.

Prints:

    0 10 4.0 6.0
    10 20 10.0 15.0
"""

import numpy as np
import pyarrow as pa

import lowwater as lw

rows = pa.table({"at": [1, 2, 3, 11, 12], "price": [2.0, 8.0, 4.0, 5.0, 20.0]})
windows = lw.stream(rows, name="prices", progress="at", disorder=5).window(range=10)


class geometric_mean(lw.UserAggregate):
    state, result = (pa.int64(), pa.float64()), pa.float64()

    def lift(self, values: pa.Array) -> tuple:
        return np.ones(len(values), np.int64), np.log(values.to_numpy())

    def combine(self, a: tuple, b: tuple) -> tuple:
        return a[0] + b[0], a[1] + b[1]

    def lower(self, partial: tuple) -> np.ndarray:
        return np.round(np.exp(partial[1] / partial[0]), 3)


def spread(values: pa.Array) -> float:  # the values are sorted
    return values[-1].as_py() - values[0].as_py()


query = windows.agg(mean=lw.udaf("price", geometric_mean()), spread=lw.holistic("price", spread, pa.float64()))
for row in query.collect().to_pylist():
    print(row["window_start"], row["window_end"], row["mean"], row["spread"])
