"""Arrow columns as one array, how users name columns, and the names of columns that lowwater adds to their rows."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from lowwater.errors import LowwaterError

KEEP = "__lw_keep"
"""Marks the rows that all filters of an input keep. Filters mark rows because progress is learned from all of them."""
ORIGIN = "__lw_origin"
"""The entry of the plan that a row came by, for operators that find out later that it was late (`Operator.defers`)."""
WINDOW_TIME = "window_time"
"""The last tick inside a window: the time of a window result for the operators that follow."""


def whole(column: pa.ChunkedArray) -> pa.Array:
    """A column as one array. Nothing is copied if the column has one chunk."""
    if column.num_chunks == 1:
        return column.chunk(0)
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)


def spelled(name: str, known: Sequence[str], exactly: bool = False) -> str | None:
    """The column that a user names, in its own spelling, or None. Upper and lower case are alike, as in Spark, unless
    names are to be written `exactly`, as with spark.sql.caseSensitive.

    A column that is spelled exactly so comes first: tables, unlike Spark's, may have two that differ in case only.
    """
    if name in known or exactly:
        return name if name in known else None
    found = [one for one in known if one.lower() == name.lower()] if isinstance(name, str) else []
    if len(found) > 1:
        raise LowwaterError(f"The name {name!r} is ambiguous: it may be {', '.join(found)}; rename one of them.")
    return found[0] if found else None
