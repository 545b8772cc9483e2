"""What cannot work is refused before anything runs, by one sentence each: tests/refusals.yaml pairs the two."""

from __future__ import annotations

import datetime
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import yaml

import lowwater as lw

TABLE = pa.schema(
    [
        ("ts", pa.timestamp("us", "UTC")),
        ("n", pa.int64()),
        ("x", pa.float64()),
        ("k", pa.string()),
        ("l", pa.list_(pa.int64())),
        ("ok", pa.bool_()),
        ("b", pa.binary()),
    ]
).empty_table()
KNOWN = yaml.safe_load((Path(__file__).parent / "refusals.yaml").read_text())


def rows(
    progress: str | None = "n", disorder: Any = 5, name: str = "rows", table: pa.Table = TABLE, **more: Any
) -> Any:
    return lw.stream(table, name=name, progress=progress, disorder=disorder, **more)


def refused(ask: str) -> str:
    """What lowwater says to a query, written as users would write it."""
    with pytest.raises(lw.LowwaterError) as error:
        eval(ask, {"rows": rows, "lw": lw, "pa": pa, "datetime": datetime, "TABLE": TABLE})
    return str(error.value)


def is_one_sentence(text: str) -> bool:
    return text.endswith(".") and "\n" not in text and not re.search(r"\. [A-Z]", text)


def test_every_refusal_has_its_own_name_and_known_keys() -> None:
    names = [refusal["name"] for refusal in KNOWN["refusals"]]
    assert len(set(names)) == len(names)
    assert all(set(refusal) == {"name", "ask", "says"} for refusal in KNOWN["refusals"])


@pytest.mark.parametrize("refusal", KNOWN["refusals"], ids=lambda refusal: refusal["name"])
def test_it_is_refused_by_this_sentence(refusal: dict[str, str]) -> None:
    said = refused(refusal["ask"])
    assert said == refusal["says"]
    assert is_one_sentence(said)


@pytest.mark.parametrize("text", ["no end", "two\nlines.", "One sentence. Then another."])
def test_the_tester_sees_what_is_not_one_sentence(text: str) -> None:
    assert not is_one_sentence(text)


AGGREGATES = {
    "center_of_mass": lw.center_of_mass("x", "n"),
    "heavy_hitters": lw.heavy_hitters("k", 0.1),
    "approx_heavy_hitters": lw.approx_heavy_hitters("k", 0.1),
    "top_k": lw.top_k("x", 3),
    "max_by": lw.max_by("k", "x"),
    "min_by": lw.min_by("k", "x"),
    "quantile": lw.quantile("x", 0.5),
    "approx_quantile": lw.approx_quantile("x", 0.5),
    "holistic": lw.holistic("x", len, pa.int64(), name="values"),
}
WINDOWS = {
    "sliding": lambda: rows().window(9, 3),
    "tumbling": lambda: rows().window(9),
    "gaps": lambda: rows().window(3, 9),
    "landmark": lambda: rows().window("all", 5),
    "cumulate": lambda: rows().window("all", 5, period=10),
    "rows": lambda: rows().window("9 rows", "2 rows"),
    "rows of each key": lambda: rows().window("9 rows", partition_by="k"),
    "slide-by-tuple": lambda: rows().window(9, "1 row"),
    "every third arrival": lambda: rows().window(9, "3 rows", order="arrival"),
    "every third rank": lambda: rows().window(9, "3 rows", order="rank"),
    "session": lambda: rows().session(9),
    "over rows": lambda: rows().over(rows=(3, 1)),
    "over range": lambda: rows().over(range=(3, 1)),
    "over all rows": lambda: rows().over(rows=(None, 0)),
    "over all time": lambda: rows().over(range=(None, 0)),
}
ENDLESS = {"landmark", "over all rows", "over all time"}
"""Windows that never let go of a row, so that only bounded aggregates are legal."""


def aggregates() -> dict[str, Any]:
    """One of each that the API has."""
    named = [
        name for name in lw.__all__ if getattr(getattr(lw, name), "__annotations__", {}).get("return") == "Aggregate"
    ]
    return {name: AGGREGATES.get(name) or getattr(lw, name)("x") for name in named if name != "udaf"}


@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("name", aggregates())
def test_each_pair_of_window_and_aggregate_is_planned_or_refused(window: str, name: str) -> None:
    aggregate = aggregates()[name]
    if window in ENDLESS and not aggregate.bounded:
        with pytest.raises(lw.LowwaterError, match="would keep every value for ever") as error:
            WINDOWS[window]().agg(a=aggregate)
        assert is_one_sentence(str(error.value))
    else:
        assert WINDOWS[window]().agg(a=aggregate).explain()
