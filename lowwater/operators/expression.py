"""SQL expressions over the columns of a table, evaluated by Polars, for what is computed in Python and not in Spark.

>>> rows = pa.table({"a": [1, None, 3], "b": ["x", "y", "z"]})
>>> evaluated("a + 1", rows).to_pylist(), evaluated("upper(b)", rows).to_pylist(), sorted(named("a + 1 > length(b)"))
([2, None, 4], ['X', 'Y', 'Z'], ['a', 'b'])
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from lowwater.errors import LowwaterError

if TYPE_CHECKING:
    import polars as pl

VALUE = "__lw_value"


def named(sql: str) -> set[str]:
    """The columns that an expression reads."""
    return set(_parsed(sql).meta.root_names())


def evaluated(sql: str, rows: pa.Table) -> pa.Array:
    """The value of an expression for every row."""
    import polars as pl

    try:
        frame = pl.DataFrame(pl.from_arrow(rows))
        found = frame.with_columns(_parsed(sql).alias(VALUE)).get_column(VALUE).to_arrow()
    except pl.exceptions.PolarsError as error:
        raise LowwaterError(f"Cannot evaluate {sql!r}: {str(error).splitlines()[0]}.") from error
    text = pa.types.is_large_string(found.type) or pa.types.is_string_view(found.type)
    return found.cast(pa.string()) if text else found


def _parsed(sql: str) -> pl.Expr:
    import polars as pl

    try:
        return pl.sql_expr(sql)
    except pl.exceptions.PolarsError as error:
        raise LowwaterError(f"Cannot read the expression {sql!r}: {str(error).splitlines()[0]}.") from error
