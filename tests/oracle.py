"""The judge of window aggregation: windows x extent x group x aggregate, with no state and no cleverness.

Rows are dicts. Every window of `windows(T)` takes the rows of its extent, splits them into the groups that occur there
and computes each aggregate from the list of values. Arithmetic is exact (fractions) and rounded once, so a difference
is never the judge's rounding.

    nulls    are a group like any other; ignored by every aggregate but count(*); a row without a time is in no window
    no value gives None, count gives 0
    NaN      is larger than any number and equal to itself, as in Spark

>>> rows = [{"ts": 5, "k": "a", "v": 1}, {"ts": 65, "k": "a", "v": 3}, {"ts": 7, "k": None, "v": None}]
>>> for row in aggregate_windows(rows, "ts", Sliding(120, 60), ["k"], {"n": ("count", None), "s": ("sum", "v")}):
...     print(row)
{'wid': 0, 'window_start': -60, 'window_end': 60, 'k': 'a', 'n': 1, 's': 1}
{'wid': 0, 'window_start': -60, 'window_end': 60, 'k': None, 'n': 1, 's': None}
{'wid': 1, 'window_start': 0, 'window_end': 120, 'k': 'a', 'n': 2, 's': 4}
{'wid': 1, 'window_start': 0, 'window_end': 120, 'k': None, 'n': 1, 's': None}
{'wid': 2, 'window_start': 60, 'window_end': 180, 'k': 'a', 'n': 1, 's': 3}
>>> aggregate_windows(rows, "ts", Session(60), ["k"], {"m": ("median", "v")})[0]
{'wid': 5, 'window_start': 5, 'window_end': 65, 'k': 'a', 'm': 1.0}
"""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal, localcontext
from fractions import Fraction
from typing import Any

import numpy as np

from lowwater.windows.context_aware import Session
from lowwater.windows.context_free import Landmark, Sliding
from lowwater.windows.spec import Tuples

Row = dict[str, Any]
Aggregation = tuple[Any, ...]
"""(function, column or None, further parameters...), such as ("quantile", "v", 0.9)."""


def aggregate_windows(
    rows: list[Row],
    time: str,
    window: Sliding | Landmark | Session,
    group_by: list[str],
    aggs: dict[str, Aggregation],
) -> list[Row]:
    """One row per window and group present in it, by window and then by first arrival of the group.

    Keys: wid, window_start, window_end (ticks; no start for a landmark without period), the groups, the aggregates.
    Every group is a partition of a session window; the wid of a session is its start.
    """
    rows = [row for row in rows if row[time] is not None]
    groups = list(dict.fromkeys(key(row, group_by) for row in rows))
    partition = [groups.index(key(row, group_by)) for row in rows]
    result = []
    for wid, start, end, extent in extents(rows, time, window, partition):
        for group in groups:
            inside = [row for row in extent if key(row, group_by) == group]
            if not inside:
                continue
            out = {"wid": wid, "window_start": start, "window_end": end}
            for name in group_by:
                out[name] = inside[0][name]
            for name, agg in aggs.items():
                out[name] = aggregate(inside, time, agg)
            result.append(out)
    return result


def key(row: Row, group_by: list[str]) -> tuple[Any, ...]:
    """Rows with equal keys are one group: null equals null, NaN equals NaN."""
    return tuple(None if row[name] is None else ordered(row[name]) for name in group_by)


def extents(
    rows: list[Row], time: str, window: Sliding | Landmark | Session, partition: list[int]
) -> list[tuple[int, int | None, int, list[Row]]]:
    """(wid, start, end, rows) of every window of these rows, ascending by wid."""
    tuples = Tuples(np.array([row[time] for row in rows], np.int64), np.array(partition, np.int64))
    found: list[tuple[int, int | None, int, list[Row]]] = []
    if isinstance(window, Session):
        for position, (_, start, end) in enumerate(window.windows(tuples).tolist()):
            mask = window.extent(position, tuples)
            found.append((start, start, end, [row for row, inside in zip(rows, mask, strict=True) if inside]))
        return sorted(found, key=lambda session: session[0])
    for wid in window.windows(tuples).tolist():
        mask = window.extent(wid, tuples)
        starts, ends = window.interval(np.array([wid]))
        begin = None if starts is None else int(starts[0])
        found.append((wid, begin, int(ends[0]), [row for row, inside in zip(rows, mask, strict=True) if inside]))
    return found


def aggregate(rows: list[Row], time: str, agg: Aggregation) -> Any:
    """One aggregate over the rows of one group in one window."""
    function, column, *parameters = agg
    if column is None:
        if function != "count":
            raise ValueError(f"{function} needs a column.")
        return len(rows)
    present = [row for row in rows if row[column] is not None]
    values = [row[column] for row in present]
    if function == "count":
        return len(values)
    if function == "count_distinct":
        return len({ordered(value) for value in values})
    if not values:
        return None
    if function == "first":
        return min(present, key=lambda row: (row[time], ordered(row[column])))[column]
    if function == "last":
        return max(present, key=lambda row: (row[time], ordered(row[column])))[column]
    return REFERENCE[function](values, *parameters)


def ordered(value: Any) -> tuple[bool, Any]:
    """A key that sorts and hashes as Spark does: NaN above all numbers and equal to itself."""
    is_nan = value != value
    return is_nan, 0 if is_nan else value


def exact(values: list[Any]) -> list[Fraction] | None:
    """The values as fractions, None if one of them is infinite or NaN."""
    if all(math.isfinite(value) for value in values):
        return [Fraction(value) for value in values]
    return None


def rounded(value: Fraction) -> float:
    """The nearest double; beyond the largest one, infinity."""
    try:
        return float(value)
    except OverflowError:
        return math.copysign(math.inf, value)


def total(values: list[Any]) -> Any:
    """int for integers, Decimal for decimals, else double."""
    if all(isinstance(value, int) for value in values):
        return sum(values)
    if all(isinstance(value, Decimal) for value in values):
        with localcontext(prec=100):
            return sum(values, Decimal(0))
    fractions = exact(values)
    return sum(map(float, values)) if fractions is None else rounded(sum(fractions, Fraction(0)))


def average(values: list[Any]) -> float:
    fractions = exact(values)
    if fractions is None:
        return sum(map(float, values)) / len(values)
    return rounded(sum(fractions, Fraction(0)) / len(values))


def variance(values: list[Any], degrees_lost: int) -> float | None:
    """Sum of squared deviations from the mean over n - degrees_lost; None where that is zero.

    With an infinite value or NaN among them it is NaN: there is no finite mean to deviate from.
    """
    if len(values) <= degrees_lost:
        return None
    fractions = exact(values)
    if fractions is None:
        return math.nan
    mean = sum(fractions, Fraction(0)) / len(fractions)
    squares = sum(((number - mean) ** 2 for number in fractions), Fraction(0))
    return rounded(squares / (len(fractions) - degrees_lost))


def deviation(values: list[Any], degrees_lost: int) -> float | None:
    squared = variance(values, degrees_lost)
    return None if squared is None else math.sqrt(squared)


def quantile(values: list[Any], q: float) -> float:
    """Linear between the two values around position q * (n - 1) of the sorted ones."""
    ascending = sorted(values, key=ordered)
    position = q * (len(ascending) - 1)
    below, above = ascending[math.floor(position)], ascending[math.ceil(position)]
    if ordered(below) == ordered(above):
        return float(below)
    share = position - math.floor(position)
    if exact([below, above]) is None:
        return float(below) * (1 - share) + float(above) * share
    return rounded(Fraction(below) + (Fraction(above) - Fraction(below)) * Fraction(share))


REFERENCE: dict[str, Callable[..., Any]] = {
    "sum": total,
    "avg": average,
    "min": lambda values: min(values, key=ordered),
    "max": lambda values: max(values, key=ordered),
    "var_samp": lambda values: variance(values, 1),
    "var_pop": lambda values: variance(values, 0),
    "stddev_samp": lambda values: deviation(values, 1),
    "stddev_pop": lambda values: deviation(values, 0),
    "median": lambda values: quantile(values, 0.5),
    "quantile": quantile,
}
