"""Tables as small texts, the same on every run: for scripts, for messages of failed tests, for golden files."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence

import pyarrow as pa

LIMIT = 20
"""Rows that are shown of a longer table."""


def value_text(value: object) -> str:
    """One value. Times in UTC are written without their offset.

    >>> value_text(dt.datetime(2026, 1, 1, 12, tzinfo=dt.UTC)), value_text(None), value_text("")
    ('2026-01-01 12:00:00', 'null', "''")
    """
    if value is None:
        return "null"
    if isinstance(value, dt.datetime):
        return str(value).removesuffix("+00:00")
    text = str(value)
    return text if text and text.isprintable() and text == text.strip() else repr(value)


def table_lines(table: pa.Table, labels: Sequence[str] | None = None, limit: int = LIMIT) -> list[str]:
    """A line of names and one line per row, numbers to the right; `labels` stand before the rows.

    >>> print("\\n".join(table_lines(pa.table({"user": ["ann", "bob"], "n": [1, 20]}))))
    user   n
    ann    1
    bob   20
    """
    rows = [[value_text(row[name]) for name in table.column_names] for row in table.slice(0, limit).to_pylist()]
    numeric = [_is_number(field.type) for field in table.schema]
    names = list(table.column_names)
    if labels is not None:
        rows = [[label, *row] for label, row in zip(labels, rows, strict=False)]
        names, numeric = ["", *names], [False, *numeric]
    widths = [max(len(row[at]) for row in [names, *rows]) for at in range(len(names))]
    lines = [
        "  ".join(
            text.rjust(width) if right else text.ljust(width)
            for text, width, right in zip(row, widths, numeric, strict=True)
        ).rstrip()
        for row in [names, *rows]
    ]
    return [*lines, f"... and {table.num_rows - limit} more"] if table.num_rows > limit else lines


def _is_number(type: pa.DataType) -> bool:
    return bool(pa.types.is_integer(type) or pa.types.is_floating(type) or pa.types.is_decimal(type))


def without_wid(table: pa.Table) -> pa.Table:
    """Results without the number of the window, where its start and end are there."""
    names = set(table.column_names)
    return table.drop_columns(["wid"]) if names >= {"wid", "window_start", "window_end"} else table


def block(parts: Sequence[tuple[str, Sequence[str]]]) -> list[str]:
    """Lines with a label in front of the first line of each part."""
    width = max((len(label) for label, _ in parts), default=0)
    lines = []
    for label, content in parts:
        for at, line in enumerate(content):
            lines.append(f"{(label if at == 0 else '').ljust(width)}  {line}".rstrip())
    return lines
