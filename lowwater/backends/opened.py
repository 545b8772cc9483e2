"""Opens declared streams in this process: generated streams, and files that Arrow reads. Runs nothing."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds

from lowwater.backends.local import frame
from lowwater.errors import LowwaterError
from lowwater.generate.named import GENERATORS, generated
from lowwater.generate.named import columns_of as named_columns
from lowwater.language import Declaration
from lowwater.relation import Relation

FILES = ("parquet", "csv", "json", "orc", "arrow")


def opened(declared: Declaration) -> Relation:
    """A stream over the rows of a declaration, all of which are read now."""
    return declared.relation(frame(as_declared(rows_of(declared), declared)))


def rows_of(declared: Declaration) -> pa.Table:
    options = declared.options.resolved()
    name = declared.format.lower()
    if name in GENERATORS:
        options.pop("files", None)  # how many files Spark reads them from
        return generated(name, options)
    if name in FILES:
        path = options.get("path")
        if path is None:
            raise LowwaterError(f"CREATE STREAM {declared.name} FROM {name} needs OPTIONS (path '...').")
        try:
            return ds.dataset(path, format=name).to_table()
        except (OSError, pa.ArrowException) as error:
            raise LowwaterError(f"{path!r} cannot be read as {name}: {str(error).splitlines()[0]}.") from error
    raise LowwaterError(
        f"The format {declared.format!r} of stream {declared.name!r} needs Spark; in this process a stream is "
        f"generated ({', '.join(GENERATORS)}) or read from files ({', '.join(FILES)})."
    )


def first_rows(declared: Declaration, n: int) -> pa.Table | None:
    """The first rows of a stream that is read from files of this machine; None if there are none to look at."""
    name, path = declared.format.lower(), declared.options.resolved().get("path", "")
    if name not in FILES or not Path(path).is_dir():
        return None
    try:
        return as_declared(ds.dataset(path, format=name).head(n), declared)
    except (OSError, pa.ArrowException, LowwaterError):  # Spark reads more than Arrow does
        return None


def columns_of(declared: Declaration) -> pa.Schema:
    """The columns of a generated stream as declared. Only a few rows are generated for it."""
    options = declared.options.resolved()
    options.pop("files", None)
    few = named_columns(declared.format.lower(), options).empty_table()
    return as_declared(few, declared).schema


def as_declared(table: pa.Table, declared: Declaration) -> pa.Table:
    """The columns that are declared, in their types; all columns if none are."""
    if declared.schema is None:
        return table
    picked = table.select(declared.found_in(table.column_names)).rename_columns(declared.schema.names)
    try:
        for at, field in enumerate(declared.schema):
            if pa.types.is_decimal(field.type) and pa.types.is_integer(picked.schema.field(at).type):
                wide = picked.column(at).cast(pa.decimal128(38, field.type.scale))  # Arrow casts to the widest alone
                picked = picked.set_column(at, field.name, wide)
        return picked.cast(declared.schema)
    except pa.ArrowException as error:
        raise LowwaterError(f"The rows of {declared.name!r} have other types than declared: {error}.") from error
