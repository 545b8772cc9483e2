"""The documentation is run: every Python block, in order, a page in one namespace; what a page shows it must print.

    ```python          run it                      ```python spark     it needs the session `spark`
    ```python raises   it must be refused          ```text             right after a block: exactly what it prints
    ```python spark kafka   it also needs `servers`, the address of a broker

The output of a refused block is the last line of its traceback: a refusal, or an assertion that fails. Functions named
test_... are called after their block, with the fixtures of lowwater/testing/plugin.py.
"""

from __future__ import annotations

import contextlib
import inspect
import io
import re
import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from lowwater.errors import LowwaterError
from lowwater.testing import Script, assert_same_as_batch

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
ALL = [*PAGES, ROOT / "CONTRIBUTING.md"]
"""Also the page whose blocks tests/test_contributing.py runs."""
FENCE = re.compile(r"^```(?P<info>[^\n`]*)\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL)
KNOWN = {
    "python",
    "python spark",
    "python raises",
    "python spark raises",
    "python spark kafka",
    "text",
    "console",
    "sql",
    "",
}
"""SQL is run by tests/test_language_docs.py."""


@dataclass(frozen=True)
class Block:
    line: int
    marks: frozenset[str]
    code: str
    shown: str | None


def fences(text: str) -> list[re.Match[str]]:
    return list(FENCE.finditer(text))


def blocks(text: str) -> list[Block]:
    """The Python blocks of a page, each with the output shown right after it."""
    found = fences(text)
    out = []
    for here, after in zip(found, [*found, None][1:], strict=True):
        language, *marks = here["info"].split() or [""]
        if language != "python":
            continue
        shown = None
        if after is not None and after["info"] == "text" and not text[here.end() : after.start()].strip():
            shown = after["body"]
        out.append(Block(text.count("\n", 0, here.start()) + 2, frozenset(marks), here["body"], shown))
    return out


def run(block: Block, namespace: dict[str, Any], page: str) -> str:
    """What the block prints, tracebacks with the line numbers of the page."""
    said = io.StringIO()
    program = compile("\n" * (block.line - 1) + block.code, page, "exec")
    with contextlib.redirect_stdout(said):
        try:
            before = dict(namespace)
            exec(program, namespace)
            call_tests({name: value for name, value in namespace.items() if before.get(name) is not value})
        except (LowwaterError, AssertionError) as error:
            if "raises" not in block.marks:
                raise
            print("".join(traceback.format_exception_only(error)), end="")
        else:
            assert "raises" not in block.marks, f"{page}:{block.line} should be refused"
    return said.getvalue()


def call_tests(defined: dict[str, Any]) -> None:
    fixtures = {"lowwater_script": Script, "same_as_batch": assert_same_as_batch}
    for name, function in defined.items():
        if name.startswith("test_"):
            function(**{fixture: fixtures[fixture] for fixture in inspect.signature(function).parameters})


def play(page: Path, namespace: dict[str, Any]) -> None:
    for block in blocks(page.read_text()):
        printed = run(block, namespace, page.name)
        if block.shown is not None or printed:
            assert printed == block.shown, f"{page.name}:{block.line}"


def needs_spark(page: Path) -> bool:
    return any("spark" in block.marks for block in blocks(page.read_text()))


@pytest.mark.parametrize("page", [p for p in PAGES if not needs_spark(p)], ids=lambda p: str(p.relative_to(ROOT)))
def test_the_page_does_what_it_shows(page: Path) -> None:
    play(page, {"__name__": "__page__"})


@pytest.mark.spark
@pytest.mark.parametrize("page", [p for p in PAGES if needs_spark(p)], ids=lambda p: str(p.relative_to(ROOT)))
def test_the_page_does_what_it_shows_on_spark(page: Path, spark: Any, request: pytest.FixtureRequest) -> None:
    namespace = {"__name__": "__page__", "spark": spark}
    if any("kafka" in block.marks for block in blocks(page.read_text())):
        namespace["servers"] = request.getfixturevalue("kafka")
    play(page, namespace)


@pytest.mark.parametrize("page", ALL, ids=lambda p: str(p.relative_to(ROOT)))
def test_every_fence_is_of_a_known_kind_and_closed(page: Path) -> None:
    text = page.read_text()
    assert {fence["info"] for fence in fences(text)} <= KNOWN
    assert len(re.findall(r"^```", text, re.MULTILINE)) == 2 * len(fences(text))


@pytest.mark.parametrize("page", ALL, ids=lambda p: str(p.relative_to(ROOT)))
def test_every_link_inside_the_repository_leads_somewhere(page: Path) -> None:
    prose = FENCE.sub("", page.read_text())
    for target in re.findall(r"\]\((?!https?:|#)([^)#\s]+)", prose):
        assert (page.parent / target).exists(), f"{page.name} links to {target}"


@pytest.mark.parametrize("page", ALL, ids=lambda p: str(p.relative_to(ROOT)))
def test_every_file_of_the_package_that_is_named_exists(page: Path) -> None:
    for name in re.findall(
        r"`((?:lowwater|benchmarks|tests|examples|docs)/[\w./-]+)`", FENCE.sub("", page.read_text())
    ):
        assert (ROOT / name).exists(), f"{page.name} names {name}"


def test_the_tester_sees_other_output_output_not_shown_and_a_missing_refusal(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    for wrong in (
        "```python\nprint(1)\n```\n\n```text\n2\n```\n",
        "```python\nprint(1)\n```\n\nThat is it.\n\n```text\n1\n```\n",
        "```python raises\nx = 1\n```\n",
        "```python\ndef test_one():\n    assert 1 == 2\n```\n",
        "```python raises\ndef test_one():\n    assert 1 == 1\n```\n",
    ):
        page.write_text(wrong)
        with pytest.raises(AssertionError):
            play(page, {})
    page.write_text("```python\nx = 1\n```\n\n```python\nprint(x)\n```\n\n```text\n1\n```\n")
    play(page, {})
