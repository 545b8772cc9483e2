"""Two independent streams of measurements to be joined on a key, both late and out of order.

Each side has `rows` rows with ts ~ U[0, seconds), key ~ U{0, ..., keys - 1} and val ~ N(0, 1). Rows arrive in order of

    arrival = ts + min(Exp(0.5 s), 3 s),   so that no row is later than 3 seconds

`id` numbers the rows of a side in the order in which they arrive. A row has about

    rows / seconds * 2 * band / keys

partners at most `band` seconds before or after it, fewer at either end of the stream.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lowwater.generate.arrival import SECOND, START, TIMESTAMP

SIDES = ("l", "r")
MEAN_DELAY = 0.5
MAX_DELAY = 3
"""Seconds of a row's delay."""
MEASURED = pa.schema({"ts": TIMESTAMP, "key": pa.int64(), "val": pa.float64(), "id": pa.int64()})


def sides(rows: int, seconds: float, keys: int, *, text: bool = False) -> dict[str, pa.Table]:
    """Both sides by name, each with its own seed. With `text`, the keys are strings such as "key-17".

    >>> tables = sides(1000, 60, keys=10)
    >>> {name: table.num_rows for name, table in tables.items()}
    {'l': 1000, 'r': 1000}
    >>> tables["l"]["key"][:4].to_pylist(), tables["r"]["key"][:4].to_pylist()
    ([7, 5, 0, 7], [1, 5, 5, 2])
    >>> sides(1000, 60, keys=10, text=True)["l"]["key"][:4].to_pylist()
    ['key-7', 'key-5', 'key-0', 'key-7']
    """
    tables = {name: side(rows, seconds, keys, seed) for seed, name in enumerate(SIDES, start=1)}
    return {name: _with_text(table) for name, table in tables.items()} if text else tables


def side(rows: int, seconds: float, keys: int, seed: int) -> pa.Table:
    """One side, in arrival order.

    Times are drawn, delayed and sorted as doubles, and cut to microseconds last. Another order of these steps would
    give other rows for the same seed, and the published figures are for these rows.

    >>> from lowwater.generate import lateness
    >>> table = side(1000, 60, keys=10, seed=1)
    >>> int(lateness(table["ts"].cast(pa.int64()).to_numpy()).max()) in range(1, MAX_DELAY * SECOND)
    True
    >>> table["id"].to_pylist() == list(range(1000))
    True
    """
    rng = np.random.default_rng(seed)
    at = np.sort(rng.uniform(0, seconds, rows))
    arrival = at + rng.exponential(MEAN_DELAY, rows).clip(0, MAX_DELAY)
    at = at[np.argsort(arrival, kind="stable")]
    columns = [
        pa.array((at * SECOND).astype(np.int64) + START * SECOND, TIMESTAMP),
        pa.array(rng.integers(0, keys, rows)),
        pa.array(rng.normal(size=rows)),
        pa.array(np.arange(rows)),
    ]
    return pa.Table.from_arrays(columns, schema=MEASURED)


def _with_text(table: pa.Table) -> pa.Table:
    text = pc.binary_join_element_wise("key", pc.cast(table["key"], pa.string()), "-")
    return table.set_column(table.column_names.index("key"), "key", text)
