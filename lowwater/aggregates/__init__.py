"""Aggregates, by the names Spark users know."""

from lowwater.aggregates.bounded import avg, count, sum
from lowwater.aggregates.holistic import count_distinct, median, quantile
from lowwater.aggregates.moments import stddev, stddev_pop, var_pop, variance
from lowwater.aggregates.ordered import first, last, max, min

__all__ = [
    "avg",
    "count",
    "count_distinct",
    "first",
    "last",
    "max",
    "median",
    "min",
    "quantile",
    "stddev",
    "stddev_pop",
    "sum",
    "var_pop",
    "variance",
]
