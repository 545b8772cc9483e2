"""The form of the late output: rows as they came, with the reason and the windows that they missed and kept."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

LATE_COLUMNS = {"late_reason": pa.string(), "windows_missed": pa.int64(), "windows_kept": pa.int64()}

Ints = npt.NDArray[np.int64]


def late_rows(rows: pa.Table, reason: pa.Array, missed: Ints, kept: Ints) -> pa.Table:
    """Rows of the late output: the row, why it is here, how many windows it missed and in how many it still counts.

    A number is null where it is open or not known (landmark windows, windows that tuples define); below zero stands
    for that here.
    """
    values = (reason, pa.array(missed, mask=missed < 0), pa.array(kept, mask=kept < 0))
    for name, column in zip(LATE_COLUMNS, values, strict=True):
        rows = rows.append_column(name, column)
    return rows


def dropped_rows(rows: pa.Table, reason: str) -> pa.Table:
    """Rows of the late output that count nowhere; how many windows they missed is not known."""
    n = rows.num_rows
    return late_rows(rows, pa.array([reason] * n, pa.string()), np.full(n, -1), np.zeros(n, np.int64))
