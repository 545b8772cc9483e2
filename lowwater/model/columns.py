"""Arrow columns as one array, and the names of columns that lowwater adds to a user's rows."""

from __future__ import annotations

import pyarrow as pa

KEEP = "__lw_keep"
"""Marks the rows that all filters of an input keep. Filters mark rows because progress is learned from all of them."""
WINDOW_TIME = "window_time"
"""The last tick inside a window: the time of a window result for the operators that follow."""


def whole(column: pa.ChunkedArray) -> pa.Array:
    """A column as one array. Nothing is copied if the column has one chunk."""
    if column.num_chunks == 1:
        return column.chunk(0)
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)
