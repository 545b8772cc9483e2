"""Whether two engines gave the same answers. Without that, how fast they were means nothing.

Answers are compared as tables sorted by time and key: some columns exactly, sums of doubles to 1e-9, since engines add
in different orders.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.dataset as ds

TOLERANCE = 1e-9


def read(directory: Path, by: Sequence[str]) -> pa.Table:
    """The answers that an engine has written, sorted by these columns."""
    rows = ds.dataset(directory, format="parquet", exclude_invalid_files=True).to_table()
    return rows.sort_by([(name, "ascending") for name in by]).combine_chunks()


def difference(
    ours: pa.Table, theirs: pa.Table, time: str, exact: Sequence[str], rounded: Sequence[str] = ()
) -> str | None:
    """What differs first, or None. Both are sorted by `time`.

    An engine answers by the progress of the batch before or of this one, so one may have answered more of the last
    windows than the other. Compared is all up to the time that both have reached; there must be something.
    """
    if not ours.num_rows or not theirs.num_rows:
        return "no answers to compare"
    reached = min(int(times(table, time)[-1]) for table in (ours, theirs))
    a, b = (table.slice(0, int((times(table, time) <= reached).sum())) for table in (ours, theirs))
    return unlike(a, b, exact, rounded)


def unlike(a: pa.Table, b: pa.Table, exact: Sequence[str], rounded: Sequence[str] = ()) -> str | None:
    """The column that differs first, row by row, or None."""
    for name in exact:
        if not plain(a.column(name)).equals(plain(b.column(name))):
            return f"{name} differs"
    for name in rounded:
        x, y = a.column(name).to_numpy(), b.column(name).to_numpy()
        if not np.allclose(x, y, rtol=TOLERANCE, atol=TOLERANCE):
            return f"{name} differs"
    return None


def times(table: pa.Table, name: str) -> npt.NDArray[np.int64]:
    return np.asarray(plain(table.column(name)))


def plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Times as microseconds: an instant may be written with a time zone or without, and by Spark in nanoseconds."""
    if not pa.types.is_timestamp(column.type):
        return column
    return column.cast(pa.timestamp("us", column.type.tz)).cast(pa.int64())
