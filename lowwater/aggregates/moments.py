"""variance, var_pop, stddev, stddev_pop and center_of_mass: bounded and full-differential (TH 6.2.2).

    of        partial                                    merge
    variance  n, mean, m2 with m2 = sum((x - mean)**2)   Chan et al.: by the distance of the two means. Sums of squares
                                                         would lose all digits if the mean is large
    centre    n, sum(w), sum(x w)                        +

Windows are rolled up by doubling over panes. Nulls are ignored. The result is null without a value, for the sample
forms with only one value, and for a centre with total weight 0. All numbers become doubles.

Chan, Golub, LeVeque: Updating formulae and a pairwise algorithm for computing sample variances (1979).

>>> import numpy as np, pyarrow as pa
>>> kernel = variance("price").bind(pa.schema([("price", pa.float64())]))
>>> partial = kernel.lift(pa.array([1e9 + 4, 1e9 + 7, 1e9 + 13]), np.zeros(3, np.int64), np.zeros(3, np.intp), 1)
>>> kernel.lower(partial).to_pylist()
[21.0]
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial as given

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lowwater.aggregates.base import Aggregate, Algebra, Group, Partial
from lowwater.aggregates.bounded import Doubles, FloatTotal, FullDifferential, Times, added, column_of
from lowwater.aggregates.filtered import filtered
from lowwater.aggregates.order import complete, floats, is_number, refuse
from lowwater.aggregates.words import nullable


class Moments(Doubles):
    """n, mean and m2 = sum((x - mean)**2); the empty partial is (0, 0, 0)."""

    fields = (column_of("n", pa.int64()), column_of("mean", pa.float64()), column_of("m2", pa.float64()))

    def gather(self, values: npt.NDArray[np.float64], group: Group, n: int) -> Partial:
        """Computes the mean in a first pass and the distances from it in a second."""
        return self.combine((np.ones(len(values), np.int64), values, np.zeros(len(values))), group, n)

    def combine(self, partial: Partial, group: Group, n: int) -> Partial:
        """mean = sum(n_i mean_i) / n;  m2 = sum(m2_i + n_i (mean_i - mean)**2): Chan's merge of many parts at once."""
        count, mean, m2 = partial
        total = added(count, group, n)
        with np.errstate(over="ignore", invalid="ignore"):
            centre = added(count * mean, group, n) / np.maximum(total, 1)
            around = m2 + count * np.where(count == 0, 0.0, mean - centre[group]) ** 2
        return total, centre, added(around, group, n)

    def merge(self, a: Partial, b: Partial) -> Partial:
        """mean = mean_a + d n_b / n;  m2 = m2_a + m2_b + d**2 n_a n_b / n, with d = mean_b - mean_a."""
        n = a[0] + b[0]
        share = b[0] / np.maximum(n, 1)
        with np.errstate(over="ignore", invalid="ignore"):
            apart = b[1] - a[1]
            mean = np.where(a[0] == 0, b[1], np.where(b[0] == 0, a[1], a[1] + apart * share))
            both = np.where((a[0] == 0) | (b[0] == 0), 0.0, apart**2 * share * a[0])
            return n, mean, a[2] + b[2] + both

    def inverse(self, a: Partial, b: Partial) -> Partial:
        """Chan's merge solved for its left side: mean_a = mean + (mean - mean_b) n_b / n_a; m2 never below zero."""
        n = a[0] - b[0]
        left = np.maximum(n, 1)
        with np.errstate(over="ignore", invalid="ignore"):
            mean = np.where(n == 0, 0.0, np.where(b[0] == 0, a[1], a[1] + (a[1] - b[1]) * (b[0] / left)))
            both = np.where((n == 0) | (b[0] == 0), 0.0, (b[1] - mean) ** 2 * (b[0] / np.maximum(a[0], 1)) * n)
            return n, mean, np.where(n == 0, 0.0, np.maximum(a[2] - b[2] - both, 0.0))


class Centre(FloatTotal):
    """n, the total weight and the moment. Rows with a null value or a null weight are ignored."""

    fields = (column_of("n", pa.int64()), column_of("weight", pa.float64()), column_of("moment", pa.float64()))

    def lift(self, values: pa.Array | None, time: Times, group: Group, n: int) -> Partial:
        assert values is not None
        values, rows = complete(values)
        value, weight = (floats(column) for column in values.flatten())
        with np.errstate(over="ignore", invalid="ignore"):
            return self.combine((np.ones(len(value), np.int64), weight, value * weight), group[rows], n)


def _centre(n: Times, weight: npt.NDArray[np.float64], moment: npt.NDArray[np.float64]) -> pa.Array:
    heavy = (n > 0) & (weight != 0)
    with np.errstate(over="ignore", invalid="ignore"):
        return nullable(moment / np.where(heavy, weight, 1.0), heavy)


def _spread(n: Times, mean: npt.NDArray[np.float64], m2: npt.NDArray[np.float64], ddof: int, root: bool) -> pa.Array:
    """m2 / (n - ddof), or its square root; null if the divisor is not positive, as in Spark."""
    variance = m2 / np.maximum(n - ddof, 1)
    return nullable(np.sqrt(variance) if root else variance, n > ddof)


@dataclass(frozen=True)
class Variance(FullDifferential):
    """A variance with divisor n - ddof, or with `root` its square root. Computed in doubles for all numbers."""

    function: str
    ddof: int
    root: bool

    @property
    def name(self) -> str:
        return self.function

    def bind(self, schema: pa.Schema) -> Algebra:
        self.number_in(schema)
        return Moments(given(_spread, ddof=self.ddof, root=self.root))


@dataclass(frozen=True)
class CenterOfMass(FullDifferential):
    weight: str
    name = "center_of_mass"
    naming = ("column", "weight")

    def bind(self, schema: pa.Schema) -> Algebra:
        for type in self.types_in(schema):
            if not is_number(type):
                raise refuse(str(self), type, "two columns of integers, decimals or doubles")
        return Centre(_centre)


def variance(column: str, *, where: str | None = None) -> Aggregate:
    """Sample variance, with divisor n - 1; null for a single value."""
    return filtered(Variance(column, "variance", ddof=1, root=False), where)


def var_pop(column: str, *, where: str | None = None) -> Aggregate:
    """Population variance, with divisor n."""
    return filtered(Variance(column, "var_pop", ddof=0, root=False), where)


def stddev(column: str, *, where: str | None = None) -> Aggregate:
    """Square root of the sample variance; null for a single value."""
    return filtered(Variance(column, "stddev", ddof=1, root=True), where)


def stddev_pop(column: str, *, where: str | None = None) -> Aggregate:
    """Square root of the population variance."""
    return filtered(Variance(column, "stddev_pop", ddof=0, root=True), where)


def center_of_mass(column: str, weight: str, *, where: str | None = None) -> Aggregate:
    """sum(column * weight) / sum(weight), double; null if the weights add up to 0."""
    return filtered(CenterOfMass(column, weight), where)
