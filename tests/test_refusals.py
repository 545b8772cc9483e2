"""What cannot work is refused before anything runs, by one sentence each: tests/refusals.yaml pairs the two."""

from __future__ import annotations

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
        eval(ask, {"rows": rows, "lw": lw, "pa": pa, "TABLE": TABLE})
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
