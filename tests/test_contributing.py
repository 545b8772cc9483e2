"""The operator of CONTRIBUTING.md is added to a copy of the repository, as the page says, and judged there.

A block of the page is a new file, an addition to a class, a list or a table of a file, or a program:

    # lowwater/operators/when_final.py      the block is that file
    # lowwater/relation.py, in Relation     the block is added to the end of `Relation`, its imports to the file
    anything else                           a program that prints what the page shows after it
"""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.test_docs import ROOT, Block, blocks

PAGE = ROOT / "CONTRIBUTING.md"
PLACE = re.compile(r"# (?P<path>[\w/]+\.py)(?:, in (?P<name>\w+))?\n(?P<code>.*)", re.DOTALL)
IMPORTS = re.compile(r"(?P<imports>(?:(?:from|import) [^\n]*\n)*)\n*(?P<rest>.*)", re.DOTALL)
FUTURE = "from __future__ import annotations\n"


def placed() -> list[re.Match[str]]:
    return [found for block in blocks(PAGE.read_text()) if (found := PLACE.match(block.code))]


def programs() -> list[Block]:
    return [block for block in blocks(PAGE.read_text()) if not PLACE.match(block.code)]


def added(text: str, name: str, code: str) -> str:
    """The text of a file with code at the end of a class, or of a list or a table in brackets."""
    found = IMPORTS.fullmatch(code)
    assert found is not None
    lines = text.splitlines(keepends=True)
    (node,) = [node for node in ast.parse(text).body if name in named(node)]
    assert node.end_lineno is not None
    body, is_class = found["rest"], isinstance(node, ast.ClassDef)
    lines.insert(node.end_lineno if is_class else node.end_lineno - 1, f"\n{body}" if is_class else body)
    return "".join(lines).replace(FUTURE, f"{FUTURE}\n{found['imports']}", 1)


def named(node: ast.stmt) -> set[str]:
    if isinstance(node, ast.ClassDef):
        return {node.name}
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    return {target.id for target in targets if isinstance(target, ast.Name)}


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The repository with the operator of the page."""
    folder = tmp_path_factory.mktemp("repository")
    for name in ("lowwater", "tests"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", folder)
    for block in placed():
        file = folder / block["path"]
        if block["name"] is None:
            assert not file.exists(), f"{block['path']} exists already"
            file.write_text(block["code"])
        else:
            file.write_text(added(file.read_text(), block["name"], block["code"]))
    return folder


def run(folder: Path, *arguments: str) -> str:
    environment = {"PYTHONPATH": str(folder), "PATH": "", "HOME": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        [sys.executable, *arguments], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_an_operator_touches_three_files_of_the_package() -> None:
    files = {block["path"] for block in placed()}
    assert len({file for file in files if file.startswith("lowwater/")}) == 3
    assert {"tests/laws/recipes.py", "tests/tree_oracle.py", "tests/trees.py"} <= files


def test_the_operator_of_the_page_prints_what_the_page_shows(copy: Path) -> None:
    (program,) = programs()
    assert run(copy, "-c", program.code) == program.shown


def test_the_new_files_of_the_page_are_in_the_style_of_the_package(copy: Path) -> None:
    new = [block["path"] for block in placed() if block["name"] is None]
    assert len(new) == 2
    run(copy, "-m", "ruff", "check", "--no-cache", *new)
    run(copy, "-m", "ruff", "format", "--no-cache", "--check", *new)


def test_the_operator_of_the_page_obeys_the_laws(copy: Path) -> None:
    said = run(copy, *PYTEST, "tests/laws/test_operator_laws.py", "-k", "when-final or has_a_recipe")
    passed = re.search(r"(\d+) passed", said)
    assert passed is not None
    assert int(passed[1]) >= 7, said


def test_plans_with_the_operator_of_the_page_give_what_their_definitions_say(copy: Path) -> None:
    said = run(copy, "-m", "tests.judge", "WhenFinal", "60")
    found = re.fullmatch(r"(\d+) of 60 plans have WhenFinal, 0 of them are wrong\n", said)
    assert found is not None, said
    assert int(found[1]) >= 8, said


PYTEST = ("-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider")
