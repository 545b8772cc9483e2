"""Aggregates, by the names Spark users know."""

from lowwater.aggregates.approx_count_distinct import approx_count_distinct
from lowwater.aggregates.approx_heavy_hitters import approx_heavy_hitters
from lowwater.aggregates.approx_quantile import approx_quantile
from lowwater.aggregates.bounded import avg, count, sum
from lowwater.aggregates.chosen import max_by, min_by
from lowwater.aggregates.collected import collect_list, collect_set, top_k
from lowwater.aggregates.frequent import heavy_hitters, mode
from lowwater.aggregates.holistic import count_distinct, median, quantile
from lowwater.aggregates.moments import center_of_mass, stddev, stddev_pop, var_pop, variance
from lowwater.aggregates.ordered import first, last, max, min
from lowwater.aggregates.user import UserAggregate, udaf
from lowwater.aggregates.user_function import holistic

__all__ = [
    "UserAggregate",
    "approx_count_distinct",
    "approx_heavy_hitters",
    "approx_quantile",
    "avg",
    "center_of_mass",
    "collect_list",
    "collect_set",
    "count",
    "count_distinct",
    "first",
    "heavy_hitters",
    "holistic",
    "last",
    "max",
    "max_by",
    "median",
    "min",
    "min_by",
    "mode",
    "quantile",
    "stddev",
    "stddev_pop",
    "sum",
    "top_k",
    "udaf",
    "var_pop",
    "variance",
]
