"""Comparing what a backend gave with what the oracle says: by window and group, numbers up to rounding."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa

from tests.oracle import key

Row = dict[str, Any]
EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
TIMES = ("window_start", "window_end")


def ticks(value: Any) -> Any:
    """A value of a progressing attribute as the oracle counts it, told without the package."""
    if isinstance(value, dt.datetime):
        return (value - EPOCH) // dt.timedelta(microseconds=1)
    if isinstance(value, dt.date):
        return value.toordinal() - EPOCH.date().toordinal()
    if isinstance(value, Decimal):
        return int(value.scaleb(-int(value.as_tuple().exponent)))
    return value


def in_ticks(rows: Iterable[Row]) -> list[Row]:
    """Result rows with their times in ticks."""
    return [{name: ticks(value) if name in TIMES else value for name, value in row.items()} for row in rows]


def same(a: Any, b: Any) -> bool:
    """Equal; NaN equals NaN, and doubles may differ by rounding."""
    if isinstance(a, float) and isinstance(b, float):
        return (a != a and b != b) or math.isclose(a, b, rel_tol=1e-9, abs_tol=1e-6)
    return type(a) is type(b) and bool(a == b)


def difference(got: pa.Table | Sequence[Row], expected: Sequence[Row], group_by: Sequence[str]) -> str:
    """What is missing, too much, twice or different; the empty string if nothing is."""
    rows = in_ticks(got.to_pylist() if isinstance(got, pa.Table) else got)
    place = ["wid", *group_by]
    ours: dict[Any, Row] = {}
    for row in rows:
        if ours.setdefault(key(row, place), row) is not row:
            return f"twice: {row}"
    theirs = {key(row, place): row for row in expected}
    missing = [theirs[at] for at in theirs if at not in ours]
    if missing:
        return f"missing: {missing[0]} and {len(missing) - 1} more"
    extra = [ours[at] for at in ours if at not in theirs]
    if extra:
        return f"too much: {extra[0]} and {len(extra) - 1} more"
    for at, row in theirs.items():
        unequal = [name for name in row if name not in group_by and not same(ours[at][name], row[name])]
        if unequal:
            return f"{unequal} differ: got {ours[at]}, expected {row}"
    return ""


def multiset(rows: Iterable[Row]) -> list[str]:
    """Rows without their order."""
    return sorted(repr(sorted(row.items())) for row in rows)


def counted(pairs: list[Any]) -> list[str]:
    """Pairs without their order."""
    return sorted(map(repr, pairs))
