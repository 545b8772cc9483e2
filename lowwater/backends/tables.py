"""Rows as users have them, as Arrow tables: tables, record batches, lists of dicts, pandas and Polars frames.

Types follow Spark: text is `string`, and timestamps count microseconds wherever that loses nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from lowwater.errors import LowwaterError

KINDS = "an Arrow table, a list of dicts, or a pandas or Polars frame"


def table_of(data: Any, what: str, also: str = "") -> pa.Table:
    """The rows as a table; of a schema, a table without rows. `what` begins a refusal, `also` names other kinds."""
    if isinstance(data, pa.Table):
        return data
    if isinstance(data, pa.RecordBatch):
        return pa.Table.from_batches([data])
    if isinstance(data, pa.Schema):
        return data.empty_table()
    if isinstance(data, list):
        return _of_dicts(data, what)
    if type(data).__module__.split(".")[0] == "pandas" and hasattr(data, "columns"):
        return _as_spark(pa.Table.from_pandas(data, preserve_index=False).replace_schema_metadata(None))
    if hasattr(data, "__arrow_c_stream__"):  # Polars, and all others with Arrow's stream interface
        return _as_spark(pa.table(data))
    raise LowwaterError(f"{what} are given as {type(data).__name__}; give {also}{KINDS}.")


def rows_of(data: Any, schema: pa.Schema, what: str) -> pa.Table:
    """The rows in the columns and types of a schema. Refuses unknown and missing columns, and other types."""
    if isinstance(data, list):
        _refuse_names([_keys(row, what) for row in data], schema, what)
        return pa.table([_column([row[f.name] for row in data], f, what) for f in schema], schema=schema)
    table = table_of(data, what)
    _refuse_names([table.column_names], schema, what)
    return pa.table([_cast(table.column(f.name), f, what) for f in schema], schema=schema)


def _keys(row: Any, what: str) -> Sequence[str]:
    if not isinstance(row, dict):
        raise LowwaterError(f"{what} are given as a list with {type(row).__name__} in it; give each row as a dict.")
    return tuple(row)


def _of_dicts(rows: list[Any], what: str) -> pa.Table:
    for row in rows:
        _keys(row, what)
    return pa.Table.from_pylist(rows)


def _refuse_names(rows: Sequence[Sequence[str]], schema: pa.Schema, what: str) -> None:
    known = set(schema.names)
    for names in rows:
        unknown = [name for name in names if name not in known]
        if unknown:
            raise LowwaterError(
                f"{what} have a column {unknown[0]!r}, but the stream has only: {', '.join(schema.names)}."
            )
        missing = [name for name in schema.names if name not in names]
        if missing:
            raise LowwaterError(f"{what} lack the column {missing[0]!r}; where a value is unknown, write None.")


def _column(values: list[Any], field: pa.Field, what: str) -> pa.Array:
    try:
        return pa.array(values, field.type)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, OverflowError) as error:
        raise _misfit(field, what, error) from error


def _cast(column: pa.ChunkedArray, field: pa.Field, what: str) -> pa.ChunkedArray:
    if column.type == field.type:
        return column
    try:
        return column.cast(field.type)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError) as error:
        raise _misfit(field, what, error) from error


def _misfit(field: pa.Field, what: str, error: Exception) -> LowwaterError:
    what = what[0].lower() + what[1:]
    return LowwaterError(f"Column {field.name!r} of {what} is not {field.type}, as the stream declares it: {error}.")


def _as_spark(table: pa.Table) -> pa.Table:
    for at, field in enumerate(table.schema):
        type = field.type
        if pa.types.is_large_string(type) or pa.types.is_string_view(type):
            table = table.set_column(at, field.name, table.column(at).cast(pa.string()))
        elif pa.types.is_timestamp(type) and type.unit == "ns":
            try:
                exact = table.column(at).cast(pa.timestamp("us", type.tz))
            except pa.ArrowInvalid:  # finer than a microsecond
                continue
            table = table.set_column(at, field.name, exact)
    return table
