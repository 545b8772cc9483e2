"""Every outside case as a text: the language says all of them, and the results are those that the suites expect."""

from __future__ import annotations

from pathlib import Path
from random import Random
from types import ModuleType

import pytest

from lowwater.language import read, write
from tests.case_plans import computed
from tests.case_texts import asked, text_of
from tests.join_cases import Case
from tests.test_cases import EXPRESSIBLE, arrival_of, assert_expected, cases
from tests.test_join_cases import made_up, reading

__all__ = ["cases", "reading"]


@pytest.mark.parametrize("name", EXPRESSIBLE)
def test_a_case_as_text(name: str, cases: dict[str, Case], shared: Path) -> None:
    case = cases[name]
    assert_expected(computed(case, arrival_of(case, shared / "cases"), asked), case)


@pytest.mark.parametrize("name", EXPRESSIBLE)
def test_the_text_of_a_case_is_read_again_from_what_is_written(name: str, cases: dict[str, Case]) -> None:
    (statement,) = read(text_of(cases[name]["query"]))
    (again,) = read(write(statement))
    assert again.tree == statement.tree


@pytest.mark.parametrize("seed", range(40))
@pytest.mark.parametrize("kind", ["interval_join", "window_join"])
def test_a_join_as_text_is_as_the_reading_says(kind: str, seed: int, reading: ModuleType) -> None:
    case = made_up(Random(f"{kind}/{seed}"), kind)
    if not case["query"]["on"]:
        case["query"]["on"] = [["v", "w"]]  # the language refuses joins without a key
    expected = getattr(reading, kind)(case, case["query"], case["arrival"])
    assert_expected(computed(case, case["arrival"], asked), {"expected": {"rows": expected}})
