"""Two answers compared without their order. Numbers in floating point may differ by rounding."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from lowwater.errors import LowwaterError
from lowwater.model.text import table_lines, without_wid

Row = dict[str, Any]


@dataclass(frozen=True)
class Difference:
    """Rows that are in one answer and not in the other."""

    schema: pa.Schema
    keys: Sequence[str]
    """The columns of a window and a group, which no two rows of an answer share."""
    missing: Sequence[Row]
    extra: Sequence[Row]

    def lines(self) -> list[str]:
        """The first difference as a table: the expected row, and the row that came instead if there is one."""
        expected = self.missing[0] if self.missing else None
        got = self._instead(expected) if expected is not None else self.extra[0]
        pairs = [(label, row) for label, row in (("expected", expected), ("got", got)) if row is not None]
        table = without_wid(pa.Table.from_pylist([row for _, row in pairs], schema=self.schema))
        lines = table_lines(table, [label for label, _ in pairs])
        absent = [label for label in ("expected", "got") if label not in dict(pairs)]
        lines += [f"{label.ljust(8)}  no such row" for label in absent]
        more = max(len(self.missing), len(self.extra)) - 1
        return [*lines, f"and {more} more row{'s' if more > 1 else ''}"] if more > 0 else lines

    def _instead(self, expected: Row) -> Row | None:
        """The row that came for the expected one: of the same window and group or, without these, the most similar."""
        names = self.schema.names
        if self.keys:
            return next((row for row in self.extra if all(_same(row[k], expected[k]) for k in self.keys)), None)
        alike = [(sum(_same(row[name], expected[name]) for name in names), row) for row in self.extra]
        most, row = max(alike, key=lambda pair: pair[0], default=(0, None))
        return row if 2 * most >= len(names) else None


def difference(expected: pa.Table, got: pa.Table, tolerance: float, keys: Sequence[str] = ()) -> Difference | None:
    """The rows in which two tables of one schema differ; None if they hold the same rows."""
    if expected.equals(got):
        return None
    floats = [f.name for f in expected.schema if _is_float(f.type)]
    plain = [name for name in expected.column_names if name not in floats]
    waiting: dict[str, list[Row]] = defaultdict(list)
    for row in got.to_pylist():
        waiting[repr([row[name] for name in plain])].append(row)
    missing = []
    for row in expected.to_pylist():
        alike = waiting[repr([row[name] for name in plain])]
        for at, other in enumerate(alike):
            if all(_same(row[name], other[name], tolerance) for name in floats):
                del alike[at]
                break
        else:
            missing.append(row)
    extra = [row for rows in waiting.values() for row in rows]
    return Difference(expected.schema, keys, missing, extra) if missing or extra else None


def settled(table: pa.Table, keys: Sequence[str], revises: bool) -> pa.Table:
    """Answers that hold: of several about one window and group, the one with the largest revision.

    `keys` are the columns of the window and the group. `revises` is whether the query answers more than once; other
    tables may have columns of these names, too.
    """
    if not revises or not {"emitted", "revision"} <= set(table.column_names):
        return table
    last: dict[str, Row] = {}
    known: set[str] = set()
    for row in table.sort_by([("revision", "ascending")]).to_pylist():
        answer = repr([row[name] for name in (*keys, "revision")])
        if answer in known:
            raise LowwaterError(
                "Answers that are revised cannot be compared without all columns of their window and group; keep them "
                "in select()."
            )
        known.add(answer)
        last[repr([row[name] for name in keys])] = row
    held = pa.Table.from_pylist(list(last.values()), schema=table.schema)
    return held.drop_columns(["emitted", "revision"])


def _is_float(type: pa.DataType) -> bool:
    """Whether there is a floating-point number anywhere in it."""
    if pa.types.is_nested(type):
        return any(_is_float(type.field(at).type) for at in range(type.num_fields))
    return bool(pa.types.is_floating(type))


def _same(a: Any, b: Any, tolerance: float = 0.0) -> bool:
    if isinstance(a, float) and isinstance(b, float):
        return (a != a and b != b) or math.isclose(a, b, rel_tol=tolerance, abs_tol=tolerance)
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(_same(x, y, tolerance) for x, y in zip(a, b, strict=True))
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(_same(a[key], b[key], tolerance) for key in a)
    return bool(a == b)
