"""Rows as users have them, as Arrow tables: tables, record batches, lists of dicts, pandas and Polars frames.

Types follow Spark: text is `string`, categories are their values, and timestamps count microseconds wherever that
loses nothing. Names of columns follow Spark, too: upper and lower case are alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from lowwater.errors import LowwaterError
from lowwater.model.columns import spelled

KINDS = "an Arrow table, a list of dicts, or a pandas or Polars frame"


def table_of(data: Any, what: str, also: str = "") -> pa.Table:
    """The rows as a table; of a schema, a table without rows. `what` begins a refusal, `also` names other kinds."""
    table = _table_of(data, what, also)
    twice = [name for name in table.column_names if table.column_names.count(name) > 1]
    if twice:
        raise LowwaterError(f"{what} have two columns named {twice[0]!r}; rename one of them.")
    return table


def _table_of(data: Any, what: str, also: str) -> pa.Table:
    if isinstance(data, pa.Table):
        return data
    if isinstance(data, pa.RecordBatch):
        return pa.Table.from_batches([data])
    if isinstance(data, pa.Schema):
        return data.empty_table()
    if isinstance(data, list):
        return _of_dicts(data, what)
    if type(data).__module__.split(".")[0] == "pandas" and hasattr(data, "columns"):
        return _of_pandas(data, what)
    if hasattr(data, "__arrow_c_stream__"):  # Polars, and all others with Arrow's stream interface
        return _as_spark(pa.table(data))
    raise LowwaterError(f"{what} are given as {type(data).__name__}; give {also}{KINDS}.")


def _of_pandas(frame: Any, what: str) -> pa.Table:
    """An index with a name is a column, as the times of a series often are. One without a name numbers the rows."""
    named = [name for name in frame.index.names if name is not None and name not in frame.columns]
    frame = frame.reset_index(named) if named else frame
    if not frame.columns.is_unique:
        raise LowwaterError(
            f"{what} have two columns named {frame.columns[frame.columns.duplicated()][0]!r}; rename one."
        )
    try:
        table = pa.Table.from_pandas(frame, preserve_index=False)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError) as error:
        raise LowwaterError(
            f"{what} do not fit into an Arrow table ({error.args[0]}); cast the column first."
        ) from error
    return _as_spark(table.replace_schema_metadata(None))


def rows_of(data: Any, schema: pa.Schema, what: str) -> pa.Table:
    """The rows in the columns and types of a schema. Refuses unknown and missing columns, and other types."""
    if isinstance(data, list):
        kinds = {keys: _own_names(keys, schema, what) for keys in {_keys(row, what) for row in data}}
        columns = [[row[kinds[tuple(row)][at]] for row in data] for at in range(len(schema))]
        return pa.table([_column(own, f, what) for own, f in zip(columns, schema, strict=True)], schema=schema)
    table = table_of(data, what)
    names = _own_names(table.column_names, schema, what)
    return pa.table([_cast(table.column(n), f, what) for n, f in zip(names, schema, strict=True)], schema=schema)


def _keys(row: Any, what: str) -> tuple[str, ...]:
    if not isinstance(row, dict):
        raise LowwaterError(f"{what} are given as a list with {type(row).__name__} in it; give each row as a dict.")
    return tuple(row)


def _of_dicts(rows: list[Any], what: str) -> pa.Table:
    if not rows:
        raise LowwaterError(f"{what} are an empty list, which has no columns; give a schema, as pa.schema() makes it.")
    for row in rows:
        _keys(row, what)
    return pa.Table.from_pylist(rows)


def _own_names(names: Sequence[str], schema: pa.Schema, what: str) -> list[str]:
    """How these rows spell each column of the schema. Refuses unknown and missing columns."""
    own: dict[str, str] = {}
    for name in names:
        column = spelled(name, schema.names)
        if column is None:
            raise LowwaterError(f"{what} have a column {name!r}, but the stream has only: {', '.join(schema.names)}.")
        if column in own:
            raise LowwaterError(f"{what} have the column {column!r} twice, as {own[column]!r} and as {name!r}.")
        own[column] = name
    missing = [column for column in schema.names if column not in own]
    if missing:
        raise LowwaterError(f"{what} lack the column {missing[0]!r}; where a value is unknown, write None.")
    return [own[column] for column in schema.names]


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
        column = table.column(at)
        if pa.types.is_dictionary(field.type):
            column = pa.chunked_array([_values(chunk) for chunk in column.chunks], _type(field.type.value_type))
        elif _type(field.type) != field.type:
            try:
                column = column.cast(_type(field.type))
            except pa.ArrowInvalid:  # times finer than a microsecond
                continue
        else:
            continue
        table = table.set_column(at, field.name, column)
    return table


def _type(type: pa.DataType) -> pa.DataType:
    if pa.types.is_large_string(type) or pa.types.is_string_view(type):
        return pa.string()
    return pa.timestamp("us", type.tz) if pa.types.is_timestamp(type) and type.unit == "ns" else type


def _values(categories: pa.DictionaryArray) -> pa.Array:
    """The values of a categorical column. Arrow decodes no dictionary of string views, which Polars has."""
    words = categories.dictionary.cast(_type(categories.type.value_type))
    return words.take(categories.indices)
