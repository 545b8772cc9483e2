"""Every example runs as a script and prints what its docstring shows."""

from __future__ import annotations

import ast
import os
import re
import runpy
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent.parent / "examples"
EXAMPLES = sorted(FOLDER.glob("*.py"))


def on_spark(example: Path) -> bool:
    return "SparkSession" in example.read_text()


def shown(example: Path) -> str:
    """The block after `Prints:` in the docstring."""
    told = ast.get_docstring(ast.parse(example.read_text())) or ""
    found = re.search(r"^Prints:\n\n((?:    .*\n?)+)", told, re.MULTILINE)
    assert found, f"{example.name} does not say what it prints"
    return textwrap.dedent(found[1]).strip() + "\n"


def test_there_are_examples_and_each_fits_on_a_screen() -> None:
    assert len(EXAMPLES) >= 5
    assert all(len(example.read_text().splitlines()) < 40 for example in EXAMPLES)


@pytest.mark.parametrize("example", [e for e in EXAMPLES if not on_spark(e)], ids=lambda e: e.stem)
def test_it_prints_what_it_shows(example: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(example), run_name="__main__")
    assert capsys.readouterr().out == shown(example)


@pytest.mark.spark
@pytest.mark.parametrize("example", [e for e in EXAMPLES if on_spark(e)], ids=lambda e: e.stem)
def test_it_prints_what_it_shows_with_a_spark_session_of_its_own(example: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(example)],
        env=os.environ | {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1", "TMPDIR": str(tmp_path)},
        cwd=tmp_path,  # what Spark leaves behind stays out of the repository
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    lines = [line for line in done.stdout.splitlines(keepends=True) if line.strip() and "Python worker" not in line]
    assert "".join(lines) == shown(example)
