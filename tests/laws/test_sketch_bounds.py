"""Sketches keep their size, err no more than they say, and say the same in every run."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import datasketches
import numpy as np
import pyarrow as pa
import pytest

from lowwater.aggregates import approx_count_distinct, approx_heavy_hitters, approx_quantile
from lowwater.aggregates.approx_count_distinct import HyperLogLog
from lowwater.aggregates.base import Aggregate, Algebra, take
from lowwater.model.routing import route

ROOT = Path(__file__).parent.parent.parent
PANES = 40


def panes_of(aggregate: Aggregate, values: pa.Array, panes: int = PANES) -> tuple[Algebra, Any]:
    """The partials of values dealt out to panes."""
    kernel = aggregate.bind(pa.schema([("v", values.type)]))
    rows = len(values)
    return kernel, kernel.lift(values, np.zeros(rows, np.int64), np.arange(rows) % panes, panes)


def rolled(aggregate: Aggregate, values: pa.Array, panes: int = PANES) -> Any:
    kernel, partial = panes_of(aggregate, values, panes)
    return kernel.roll(partial, np.array([0]), np.array([panes]))[0].as_py()


@pytest.mark.parametrize("rows", [1, 7, 8, 24, 25, 48, 49, 3000])
def test_images_of_hll_hold_what_the_library_puts_into_its_own(rows: int) -> None:
    values = pa.array(np.arange(rows))
    kernel = HyperLogLog(9)
    partial = kernel.lift(values, np.zeros(rows, np.int64), np.zeros(rows, np.intp), 1)
    own = datasketches.hll_sketch(9, datasketches.HLL_8)
    for word in route(pa.table({"v": values}), 1 << 63).tolist():
        own.update(word)
    ours, theirs = partial[0][0].as_py(), own.serialize_compact()
    if rows > 48:  # a byte for each place
        assert ours[40:] == theirs[40:]
    else:
        ahead = 8 if rows < 8 else 12  # the library has a third form for the fewest
        coupons = (np.sort(np.frombuffer(image, "<u4")) for image in (ours[12:], theirs[ahead:]))
        assert len({tuple(c.tolist()) for c in coupons}) == 1


@pytest.mark.parametrize("rsd", [0.05, 0.02])
@pytest.mark.parametrize("distinct", [10, 500, 20_000])
def test_distinct_counts_err_by_their_standard_deviation(rsd: float, distinct: int) -> None:
    errors = []
    for seed in range(12):
        rng = np.random.default_rng(seed)
        values = rng.integers(0, 2**60, distinct)
        rows = pa.array(np.concatenate([values, rng.choice(values, 2 * distinct)]))
        errors.append(rolled(approx_count_distinct("v", rsd), rows) / distinct - 1)
    assert max(map(abs, errors)) <= 4 * rsd
    assert np.sqrt(np.mean(np.square(errors))) <= 1.5 * rsd


def test_distinct_counts_do_not_depend_on_panes_or_repetition() -> None:
    values = np.random.default_rng(3).integers(0, 9000, 30_000)
    results = {rolled(approx_count_distinct("v"), pa.array(np.sort(values)), panes) for panes in (1, 7, 200)}
    results |= {rolled(approx_count_distinct("v"), pa.array(np.concatenate([values, values[::-1]])))}
    assert len(results) == 1


DISTRIBUTIONS: dict[str, Callable[[np.random.Generator], Any]] = {
    "uniform": lambda rng: rng.random(50_000),
    "normal": lambda rng: rng.normal(size=50_000),
    "lognormal": lambda rng: rng.lognormal(0, 2, 50_000),
    "two hills": lambda rng: rng.normal(size=50_000) + 20 * (rng.random(50_000) < 0.3),
    "twenty values": lambda rng: rng.integers(0, 20, 50_000).astype(float),
    "descending": lambda rng: -np.arange(50_000.0),
}


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_quantiles_are_off_by_less_than_half_a_percent_of_the_ranks(name: str) -> None:
    values = DISTRIBUTIONS[name](np.random.default_rng(5))
    ordered = np.sort(values)
    for q in (0.0, 0.001, 0.01, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99, 0.999, 1.0):
        for panes in (1, 60):
            found = rolled(approx_quantile("v", q), pa.array(values), panes)
            below, upto = (np.searchsorted(ordered, found, side) / len(values) for side in ("left", "right"))
            assert below - 0.005 <= q <= upto + 0.005, (q, panes)
    assert rolled(approx_quantile("v", 0.0), pa.array(values)) == ordered[0]
    assert rolled(approx_quantile("v", 1.0), pa.array(values)) == ordered[-1]


def test_quantiles_take_infinities_and_nan_in_their_order() -> None:
    values = [np.nan, np.inf, 1.0, -np.inf, 3.0]
    got = [rolled(approx_quantile("v", q), pa.array(values), 2) for q in (0, 0.25, 0.375, 0.5, 0.75, 1)]
    assert got[:5] == [-np.inf, 1.0, 2.0, 3.0, np.inf]
    assert np.isnan(got[5])


def test_heavy_hitters_miss_none_and_err_within_their_bound() -> None:
    values = [f"ip{n}" for n in np.random.default_rng(2).zipf(1.2, 60_000) % 20_000]
    true, size = Counter(values), 256
    error = 3.5 / size * len(values)
    assert len(true) > 4 * size
    hits = rolled(approx_heavy_hitters("v", 0.02, size), pa.array(values))
    found = {hit["value"]: hit["count"] for hit in hits}
    assert {value for value, n in true.items() if n >= 0.02 * len(values)} <= found.keys()
    assert all(true[value] <= count <= true[value] + error for value, count in found.items())
    assert all(true[value] >= 0.02 * len(values) - error for value in found)
    assert [hit["count"] for hit in hits] == sorted(found.values(), reverse=True)


SKETCHED = [approx_count_distinct("v"), approx_quantile("v", 0.5), approx_heavy_hitters("v", 0.1, 64)]


@pytest.mark.parametrize("aggregate", SKETCHED, ids=str)
def test_the_order_of_partials_and_of_rows_says_nothing(aggregate: Aggregate) -> None:
    rng = np.random.default_rng(9)
    values = rng.integers(0, 4000, 20_000)
    kernel, partial = panes_of(aggregate, pa.array(values))
    one_group = np.zeros(PANES, np.intp)
    whole = kernel.combine(partial, one_group, 1)
    order = rng.permutation(PANES)
    assert kernel.combine(tuple(take(c, order) for c in partial), one_group, 1)[0].equals(whole[0])
    within = np.concatenate([rng.permutation(np.arange(pane, len(values), PANES)) for pane in range(PANES)])
    shuffled = kernel.lift(pa.array(values[within]), within * 0, within % PANES, PANES)
    assert shuffled[0].equals(partial[0])


@pytest.mark.parametrize("aggregate", SKETCHED, ids=str)
def test_sketches_stop_growing(aggregate: Aggregate) -> None:
    def size(rows: int) -> int:
        values = pa.array(np.random.default_rng(1).integers(10**6, 10**7, rows))
        return len(panes_of(aggregate, values, 1)[1][0][0].as_py())

    assert size(10) < size(1000) <= 6000
    assert size(300_000) <= 6000


def test_every_process_says_the_same() -> None:
    program = (
        "import numpy as np, pyarrow as pa\n"
        "from tests.laws.test_sketch_bounds import SKETCHED, rolled\n"
        "values = pa.array(np.random.default_rng(4).integers(0, 5000, 20_000))\n"
        "print([rolled(aggregate, values) for aggregate in SKETCHED], SKETCHED)"
    )
    said = set()
    for seed in ("1", "2"):
        environment = os.environ | {"PYTHONHASHSEED": seed}
        command = [sys.executable, "-c", program]
        done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        said.add(done.stdout)
    assert len(said) == 1
