"""Refusals of columns and types, each with one sentence, before anything runs."""

from __future__ import annotations

import pyarrow as pa

from lowwater.errors import BadAggregate, BadProgress, LowwaterError, UnknownColumn
from lowwater.operators.aggregation import LATE_COLUMNS
from lowwater.operators.bucket import EMITTED, WindowedAggregation
from lowwater.windows.over import Over

RESERVED = ("wid", "window_start", "window_end")


def refuse_columns(what: WindowedAggregation) -> None:
    over = isinstance(what.window, Over)
    reserved = () if over else (*RESERVED, *(EMITTED if what.revises else ()))
    for name in what.group_by:
        if name not in what.schema.names:
            raise UnknownColumn(name, what.schema.names, "group_by()")
        if name in reserved or what.group_by.count(name) > 1:
            raise LowwaterError(f"The result would have two columns named {name!r}; rename or drop the group column.")
        type = what.schema.field(name).type
        if not groupable(type):
            raise LowwaterError(
                f"group_by() cannot group by {name!r} of type {type}; cast it or select its parts first."
            )
    for name in what.schema.names:
        if name in LATE_COLUMNS:
            raise LowwaterError(f"The stream has a column {name!r}, which the late output adds itself; rename it.")
        if name.startswith("__lw_"):
            raise LowwaterError(f"The stream has a column {name!r}; names that begin with __lw_ are lowwater's own.")
    names = list(what.schema.names) if over else [*reserved, *what.group_by]
    for name, _ in what.aggregates:
        if name in names:
            raise LowwaterError(f"The result would have two columns named {name!r}; give the aggregate another name.")
        names.append(name)
    if not what.aggregates:
        raise BadAggregate("agg() needs at least one aggregate, as in agg(n=lw.count()).")


def groupable(type: pa.DataType) -> bool:
    """Types whose values can be told apart and hashed for ever: those that Spark can group by."""
    t = pa.types
    plain = t.is_boolean(type) or t.is_signed_integer(type) or t.is_float32(type) or t.is_float64(type)
    small = type in (pa.uint8(), pa.uint16(), pa.uint32()) or t.is_date32(type) or t.is_timestamp(type)
    text = t.is_string(type) or t.is_large_string(type) or t.is_binary(type) or t.is_large_binary(type)
    return bool(plain or small or text or t.is_decimal128(type) or t.is_duration(type) or t.is_null(type))


def progress_field(schema: pa.Schema, progress: str | None, name: str) -> pa.Field:
    """The progressing attribute of a stream, or a refusal."""
    if not progress:
        raise BadProgress(
            f"Stream {name!r} has no progressing attribute; name the column that windows are over, "
            "as in stream(df, progress='ts')."
        )
    if progress not in schema.names:
        raise UnknownColumn(progress, schema.names, f"progress= of stream {name!r}")
    return schema.field(progress)
