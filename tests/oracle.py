"""The judge of window aggregation: windows x extent x group x aggregate, with no state and no cleverness.

Rows are dicts. Every window of `windows(T)` takes the rows of its extent, splits them into the groups that occur there
and computes each aggregate from the list of values. Arithmetic is exact (fractions) and rounded once, so a difference
is never the judge's rounding.

    nulls    are a group like any other; ignored by every aggregate but count(*); a row without a time is in no window
    no value gives None, count gives 0
    NaN      is larger than any number and equal to itself, as in Spark
    approx_  is exact: sketches that have seen few values are

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

from lowwater.windows.context_aware import Partitioned, Session, SlideByTuple
from lowwater.windows.context_free import Landmark, Sliding, TupleBased
from lowwater.windows.spec import Tuples

Row = dict[str, Any]
WindowKind = Sliding | Landmark | Session | Partitioned | SlideByTuple
Aggregation = tuple[Any, ...]
"""(function, column or None, further parameters...), such as ("quantile", "v", 0.9)."""


def aggregate_windows(
    rows: list[Row],
    time: str,
    window: WindowKind,
    group_by: list[str],
    aggs: dict[str, Aggregation],
) -> list[Row]:
    """One row per window and group present in it, by window and then by first arrival of the group.

    Keys: wid, window_start, window_end (ticks; no start for a landmark without period), the groups, the aggregates.
    Every group is a partition of session, partitioned and slide-by-tuple windows; the wid is then the start of the
    session, the index within the partition, or the end.
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


Extent = tuple[int, int | None, int, list[Row]]
"""(wid, start, end, rows)."""


def extents(rows: list[Row], time: str, window: WindowKind, partition: list[int]) -> list[Extent]:
    """Every window of these rows, ascending by wid. Rows are in arrival order."""
    if isinstance(window, SlideByTuple):  # each partition is a stream of its own
        parts = [[row for row, p in zip(rows, partition, strict=True) if p == q] for q in sorted(set(partition))]
        return sorted((extent for part in parts for extent in _by_position(part, time, window, None)), key=_wid)
    if isinstance(window, Session | Partitioned):
        return sorted(_by_position(rows, time, window, partition), key=_wid)
    at = range(len(rows)) if isinstance(window, TupleBased) else [row[time] for row in rows]
    tuples = Tuples(np.array(at, np.int64))
    found: list[Extent] = []
    for wid in window.windows(tuples).tolist():
        starts, ends = window.interval(np.array([wid]))
        begin = None if starts is None else int(starts[0])
        found.append((wid, begin, int(ends[0]), _inside(rows, window.extent(wid, tuples))))
    return found


def _by_position(
    rows: list[Row], time: str, window: SlideByTuple | Session | Partitioned, partition: list[int] | None
) -> list[Extent]:
    """Kinds whose windows are known by their position among all windows of these rows."""
    code = None if partition is None else np.array(partition, np.int64)
    tuples = Tuples(np.array([row[time] for row in rows], np.int64), code)
    found: list[Extent] = []
    for position, what in enumerate(window.windows(tuples).tolist()):
        inside = _inside(rows, window.extent(position, tuples))
        if isinstance(window, SlideByTuple):
            found.append((what, what - window.range, what, inside))
        elif isinstance(window, Session):
            found.append((what[1], what[1], what[2], inside))
        else:
            stop = (what[1] + 1) * window.slide
            found.append((what[1], stop - window.range, stop, inside))
    return found


def _inside(rows: list[Row], mask: Any) -> list[Row]:
    return [row for row, inside in zip(rows, mask, strict=True) if inside]


def _wid(extent: Extent) -> int:
    return extent[0]


def aggregate(rows: list[Row], time: str, agg: Aggregation) -> Any:
    """One aggregate over the rows of one group in one window."""
    function, column, *parameters = agg
    if function == "filter":  # ("filter", the column that says which rows count, the aggregate...)
        return aggregate([row for row in rows if row[column] is True], time, tuple(parameters))
    if column is None:
        if function != "count":
            raise ValueError(f"{function} needs a column.")
        return len(rows)
    if function in ("max_by", "min_by"):
        return by_other(rows, column, *parameters, largest=function == "max_by")
    present = [row for row in rows if row[column] is not None]
    values = [row[column] for row in present]
    if function == "count":
        return len(values)
    if function in ("count_distinct", "approx_count_distinct"):
        return len({ordered(value) for value in values})
    if function in LISTS:
        return LISTS[function](present, time, column, *parameters)
    if not values:
        return None
    if function == "first":
        return min(present, key=lambda row: (row[time], ordered(row[column])))[column]
    if function == "last":
        return max(present, key=lambda row: (row[time], ordered(row[column])))[column]
    if function == "center_of_mass":
        return centre([(row[column], row[name]) for row in present for name in parameters if row[name] is not None])
    return REFERENCE[function](values, *parameters)


def by_other(rows: list[Row], column: str, by: str, largest: bool) -> Any:
    """The value in the row with the largest or smallest `by`; of several such values the largest or smallest."""
    known = [row for row in rows if row[by] is not None]
    best = (max if largest else min)((ordered(row[by]) for row in known), default=None)
    values = [row[column] for row in known if ordered(row[by]) == best and row[column] is not None]
    return (max if largest else min)(values, key=ordered, default=None)


def top_rows(rows: list[Row], time: str, column: str, k: int, label: str) -> list[Row]:
    """The rows with the k largest values, of equal values those with the larger label first; null is no label."""
    named = sorted((row for row in rows if row[label] is not None), key=lambda row: ordered(row[label]), reverse=True)
    unnamed = [row for row in rows if row[label] is None]
    best = sorted([*named, *unnamed], key=lambda row: ordered(row[column]), reverse=True)
    return [{label: row[label], column: row[column]} for row in best[:k]]


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


def centre(pairs: list[tuple[Any, Any]]) -> float | None:
    """sum(value * weight) / sum(weight) of pairs; None where nothing weighs anything."""
    if any(exact(list(pair)) is None for pair in pairs):
        weight = sum(float(w) for _, w in pairs)
        return sum(float(v) * float(w) for v, w in pairs) / weight if weight else None
    total = sum((Fraction(w) for _, w in pairs), Fraction(0))
    return rounded(sum(Fraction(v) * Fraction(w) for v, w in pairs) / total) if total else None


def counted(values: list[Any]) -> list[tuple[Any, int]]:
    """Distinct values and how often they are there, the most frequent first, then the smallest."""
    distinct = {ordered(value): value for value in values}
    often = {key: sum(ordered(value) == key for value in values) for key in distinct}
    return [(distinct[key], often[key]) for key in sorted(distinct, key=lambda key: (-often[key], key))]


def hits(rows: list[Row], time: str, column: str, share: float) -> list[Row]:
    """Values with at least a share of the rows; the share is the fraction that its decimal digits say."""
    least = Fraction(str(share)) * len(rows)
    return [{"value": v, "count": n} for v, n in counted([row[column] for row in rows]) if n >= least]


LISTS: dict[str, Callable[..., list[Any]]] = {
    "collect_list": lambda rows, time, column: [
        row[column] for row in sorted(rows, key=lambda row: (row[time], ordered(row[column])))
    ],
    "collect_set": lambda rows, time, column: sorted((v for v, _ in counted([r[column] for r in rows])), key=ordered),
    "heavy_hitters": hits,
    "approx_heavy_hitters": hits,
    "top_k": lambda rows, time, column, k: sorted((row[column] for row in rows), key=ordered, reverse=True)[:k],
    "top_rows": top_rows,
}
"""Aggregates whose result is a list, empty without a value, of the rows where the column is not null."""

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
    "mode": lambda values: counted(values)[0][0],
    "quantile": quantile,
    "approx_quantile": quantile,
}
