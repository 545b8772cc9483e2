"""Aggregates by their calls in Spark SQL: `sum(bytes)`, `count(DISTINCT user)`, `max_by(user, bytes)`.

A Spark `Column` such as `F.sum("bytes")` arrives here as its text. An argument is a column or a number; what is to be
aggregated first has to be a column.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sqlglot import exp
from sqlglot.errors import SqlglotError

import lowwater.aggregates as aggregates
from lowwater.aggregates.base import Aggregate
from lowwater.aggregates.filtered import filtered
from lowwater.errors import BadAggregate
from lowwater.expressions.reading import Names

CALLS: dict[str, Callable[..., Aggregate]] = {
    "sum": aggregates.sum,
    "avg": aggregates.avg,
    "mean": aggregates.avg,
    "min": aggregates.min,
    "max": aggregates.max,
    "max_by": aggregates.max_by,
    "min_by": aggregates.min_by,
    "stddev": aggregates.stddev,
    "stddev_samp": aggregates.stddev,
    "stddev_pop": aggregates.stddev_pop,
    "variance": aggregates.variance,
    "var_samp": aggregates.variance,
    "var_pop": aggregates.var_pop,
    "median": aggregates.median,
    "mode": aggregates.mode,
    "collect_list": aggregates.collect_list,
    "collect_set": aggregates.collect_set,
    "approx_count_distinct": aggregates.approx_count_distinct,
}
"""The functions that mean in Spark what they mean here. `first` and `last` do not: Spark's depend on arrival."""


def aggregate_of(text: str) -> Aggregate:
    """The aggregate that a call asks for."""
    try:
        (call,) = Names().parse(text)
    except (SqlglotError, ValueError) as error:
        raise BadAggregate(f"agg() cannot read {text!r}; give an aggregate such as lw.sum('bytes').") from error
    if isinstance(call, exp.Filter) and isinstance(call.expression, exp.Where):
        return filtered(_called(call.this, text), call.expression.this.sql(Names))
    return _called(call, text)


def _called(call: Any, text: str) -> Aggregate:
    if not isinstance(call, exp.Anonymous):
        raise BadAggregate(f"agg() takes a call of an aggregate, as in sum(bytes), not {text!r}.")
    name = str(call.this).lower()
    if name == "count":
        return _count(call, text)
    if name not in CALLS:
        raise BadAggregate(
            f"{text!r} is no aggregate that lowwater knows from Spark; use one of lowwater's own, as in lw.last('n')."
        )
    return CALLS[name](*(_argument(one, text) for one in call.expressions))


def _count(call: exp.Anonymous, text: str) -> Aggregate:
    of = call.expressions[0] if len(call.expressions) == 1 else None
    if isinstance(of, exp.Star) or (isinstance(of, exp.Literal) and not of.is_string):
        return aggregates.count()
    if isinstance(of, exp.Distinct):
        if len(of.expressions) != 1:
            raise BadAggregate(f"{text!r} counts combinations; count the values of one column.")
        return aggregates.count_distinct(_argument(of.expressions[0], text))
    return aggregates.count(_argument(of, text))


def _argument(of: Any, text: str) -> Any:
    if isinstance(of, exp.Column) and not of.table:
        return of.name
    if isinstance(of, exp.Column):  # a part of a struct, or a name with dots
        name = ".".join(part.name for part in of.parts)
        raise BadAggregate(
            f"{text!r} aggregates a part of a column; make it a column first by with_column(), or write a name with "
            f"dots in backticks: `{name}`."
        )
    raise BadAggregate(f"{text!r} aggregates an expression; make it a column first, as in with_column('x', 'a + b').")
