"""Arrow columns as one array."""

from __future__ import annotations

import pyarrow as pa


def whole(column: pa.ChunkedArray) -> pa.Array:
    """The one array of a column; nothing is copied where it has one chunk."""
    if column.num_chunks == 1:
        return column.chunk(0)
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)
