"""The examples of docs/language.md run, and are read again from what is written."""

from __future__ import annotations

from pathlib import Path

import pytest

from lowwater.backends.opened import opened
from lowwater.language import bind, read, write
from tests.language_runs import wrong
from tests.test_docs import fences

PAGE = (Path(__file__).parent.parent / "docs" / "language.md").read_text()
DECLARED, *QUERIES = [fence["body"] for fence in fences(PAGE) if fence["info"] == "sql"]


def test_the_page_has_examples_of_each_notation() -> None:
    words = ("WINDOW 1 min", "HOP(", "session_window", "OVER (", "EMIT", "JOIN", "RATTR", "window(ts")
    assert all(any(word in query for query in QUERIES) for word in words)


@pytest.mark.parametrize("text", QUERIES)
def test_an_example_runs_and_equals_its_definition(text: str) -> None:
    (bound,) = bind(read(DECLARED + text), {}, opened)
    assert bound.relation.collect().num_rows > 0
    if "EMIT" not in text:
        assert wrong(bound.relation) == ""


@pytest.mark.parametrize("text", [DECLARED, *QUERIES])
def test_an_example_is_read_again_from_what_is_written(text: str) -> None:
    script = read(text)
    assert [one.tree for one in read(write(script))] == [one.tree for one in script]
