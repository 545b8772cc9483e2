"""The aggregates of the package and the streams they are tried on: what all law tests of aggregates share.

An aggregate is found by its factory: a public function of a module in lowwater.aggregates that is annotated to return
Aggregate. It is tried on every type it does not refuse. Parameters besides the column are in PARAMETERS. Streams have
two columns of the same type: v, and w without negative values, which is the weight of aggregates that take one.
"""

from __future__ import annotations

import datetime as dt
import importlib
import inspect
import math
import pkgutil
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import strategies as st

import lowwater.aggregates as package
from lowwater.aggregates.base import Aggregate, Algebra, to_arrow
from lowwater.aggregates.order import is_number
from lowwater.aggregates.user import UserAggregate
from lowwater.errors import BadAggregate
from tests.soak import examples


class energy(UserAggregate):
    """The sum of squares: with an inverse that rounds."""

    state, result = (pa.float64(),), pa.float64()

    def lift(self, values: Any) -> Any:
        if not is_number(values.type):
            raise TypeError("only numbers have a square")
        return (values.cast(pa.float64(), safe=False).to_numpy() ** 2,)

    def combine(self, a: Any, b: Any) -> Any:
        return (a[0] + b[0],)

    def inverse(self, a: Any, b: Any) -> Any:
        return (a[0] - b[0],)

    def lower(self, partial: Any) -> Any:
        return partial[0]


def distinct_values(values: pa.Array) -> int:
    return len(values.unique())


PARAMETERS: dict[str, dict[str, Any]] = {
    "quantile": {"q": 0.3},
    "center_of_mass": {"weight": "w"},
    "heavy_hitters": {"share": 0.3},
    "top_k": {"k": 3},
    "top_rows": {"k": 3, "label": "w"},
    "max_by": {"by": "w"},
    "min_by": {"by": "w"},
    "approx_quantile": {"q": 0.3},
    "approx_heavy_hitters": {"share": 0.3},
    "udaf": {"definition": energy()},
    "holistic": {"function": distinct_values, "result": pa.int64()},
}
SKETCHES = {"approx_count_distinct", "approx_quantile", "approx_heavy_hitters"}
SQUARED = {"variance", "var_pop", "stddev", "stddev_pop", "udaf"}
"""Whose results are squares of the input, or come from them."""

NAN = float("nan")
DOUBLES = st.one_of(st.floats(-1e6, 1e6), st.sampled_from([0.0, -0.0, 1.0, NAN]))
TYPES: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "int8": (pa.int8(), st.integers(-128, 127)),
    "int64": (pa.int64(), st.integers(-(2**62), 2**62) | st.integers(-2, 2)),
    "float32": (pa.float32(), st.sampled_from([0.5, -0.0, 0.0, 2.25, -7.0, NAN])),
    "float64": (pa.float64(), DOUBLES),
    "decimal": (pa.decimal128(18, 2), st.decimals(-(10**15), 10**15, places=2)),
    "wide decimal": (pa.decimal128(30, 2), st.decimals(-(10**20), 10**20, places=2)),
    "boolean": (pa.bool_(), st.booleans()),
    "string": (pa.string(), st.sampled_from(["", "a", "b", "ab", "é"])),
    "binary": (pa.binary(), st.sampled_from([b"", b"\x00", b"\xff", b"a"])),
    "date": (pa.date32(), st.dates(dt.date(1960, 1, 1), dt.date(2030, 1, 1))),
    "timestamp": (pa.timestamp("us"), st.datetimes(dt.datetime(1960, 1, 1), dt.datetime(2030, 1, 1))),
}


def factories() -> dict[str, Callable[..., Aggregate]]:
    found: dict[str, Callable[..., Aggregate]] = {}
    for module in pkgutil.iter_modules(package.__path__, package.__name__ + "."):
        for name, function in inspect.getmembers(importlib.import_module(module.name), inspect.isfunction):
            here = function.__module__ == module.name and name in package.__all__
            if here and function.__annotations__.get("return") == "Aggregate":
                found[name] = function
    return found


FACTORIES = factories()
FACTORIES["top_rows"] = FACTORIES["top_k"]


def made(name: str) -> Aggregate:
    return FACTORIES[name]("v", **PARAMETERS.get(name, {}))


def schema_of(type: pa.DataType) -> pa.Schema:
    return pa.schema([("v", type), ("w", type)])


def accepted() -> list[tuple[str, str]]:
    cases = []
    for name in FACTORIES:
        for kind, (type, _) in TYPES.items():
            try:
                made(name).bind(schema_of(type))
            except BadAggregate:
                continue
            cases.append((name, kind))
    return cases


CASES = accepted()
laws = pytest.mark.parametrize(("name", "kind"), CASES, ids=[f"{n}-{k}" for n, k in CASES])
few = examples(3)


class Stream:
    """Rows (v, w) with times and groups 0..n-1, each group with at least one row."""

    def __init__(self, kind: str, rows: list[tuple[Any, Any, int, int]]) -> None:
        self.table = pa.table([[r[0] for r in rows], [r[1] for r in rows]], schema_of(TYPES[kind][0]))
        self.time = np.array([r[2] for r in rows], np.int64)
        self.codes, self.group = np.unique(np.array([r[3] for r in rows]), return_inverse=True)
        self.n = len(self.codes)

    def lift(self, name: str, kernel: Algebra, group: Any = None, n: int | None = None) -> Any:
        values = made(name).argument(self.table)
        return kernel.lift(values, self.time, self.group if group is None else group, self.n if n is None else n)

    def finite(self, kind: str) -> Stream:
        """With null for NaN."""
        values = [[None if x != x else x for x in column.to_pylist()] for column in self.table.columns]
        return Stream(kind, list(zip(*values, self.time.tolist(), self.group.tolist(), strict=True)))

    def of(self, group: int) -> list[dict[str, Any]]:
        """The rows of a group, with their times."""
        rows = zip(self.table.to_pylist(), self.time.tolist(), self.group.tolist(), strict=True)
        return [row | {"t": t} for row, t, g in rows if g == group]


def streams(kind: str, groups: int = 4) -> st.SearchStrategy[Stream]:
    value = st.none() | TYPES[kind][1] | TYPES[kind][1]
    row = st.tuples(value, value.map(weight), st.integers(-3, 3), st.integers(0, groups))
    return st.lists(row, min_size=1, max_size=24).map(lambda r: Stream(kind, r))


def weight(value: Any) -> Any:
    return abs(value) % 100 if isinstance(value, int | float | Decimal) and not isinstance(value, bool) else value


def kernel_of(name: str, kind: str) -> Algebra:
    return made(name).bind(schema_of(TYPES[kind][0]))


def close(a: Any, b: Any, scale: float) -> bool:
    if isinstance(a, list):
        return len(a) == len(b) and all(close(x, y, scale) for x, y in zip(a, b, strict=True))
    if isinstance(a, dict):
        return list(a) == list(b) and close(list(a.values()), list(b.values()), scale)
    if isinstance(a, float) and isinstance(b, float):
        return (math.isnan(a) and math.isnan(b)) or a == b or math.isclose(a, b, rel_tol=1e-9, abs_tol=1e-9 * scale)
    return type(a) is type(b) and bool(a == b)


def scale_of(name: str, stream: Stream) -> float:
    """Rounding is judged against the largest input, squared where squares are."""
    values = pc.drop_null(stream.table.column("v")).to_pylist()
    numbers = [abs(float(v)) for v in values if isinstance(v, int | float | Decimal) and v == v]
    return max([1.0, *numbers]) ** (2 if name in SQUARED else 1)


def same(name: str, kernel: Algebra, a: Any, b: Any, stream: Stream) -> bool:
    """Equal partials. Images of sketches of the same values may differ; what they say may not."""
    scale = scale_of(name, stream) * (100 if name == "center_of_mass" else 1)
    if name in SKETCHES:
        return close(kernel.lower(a).to_pylist(), kernel.lower(b).to_pylist(), scale)
    columns = zip(a, b, kernel.fields, strict=True)
    return all(close(to_arrow(x, f).to_pylist(), to_arrow(y, f).to_pylist(), scale) for x, y, f in columns)
