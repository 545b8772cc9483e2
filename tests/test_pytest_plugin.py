"""The fixtures of lowwater for pytest, in a pytest of their own as a user has it."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PLUGIN = "lowwater.testing.plugin"
TESTS = """
import pyarrow as pa

import lowwater as lw
from lowwater.testing import stream

CLICKS = pa.schema({"at": pa.int64(), "user": pa.string()})
ROWS = [{"at": at, "user": "ann"} for at in range(0, 60, 7)]


def per_user(clicks):
    return clicks.window(10).group_by("user").agg(n=lw.count())


def test_passes(lowwater_script):
    script = lowwater_script(per_user, stream(CLICKS, progress="at", disorder=5))
    script.rows([(1, "secret")])
    assert script.end().answers("n") == [1]


def test_fails(lowwater_script):
    script = lowwater_script(per_user, clicks=stream(CLICKS, progress="at", disorder=5))
    script.rows([(1, "ann"), (2, "ann")])
    assert script.end().answers("n") == [1]


def test_same(same_as_batch):
    same_as_batch(per_user, stream(ROWS, progress="at", disorder=5), cases=3)


def test_not_same(same_as_batch):
    same_as_batch(per_user, stream(ROWS, progress="at", disorder=1), by=20)
"""


def run(folder: Path, *options: str) -> str:
    file = folder / "test_of_a_user.py"
    file.write_text(TESTS)
    paths = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", PLUGIN, "-p", "no:cacheprovider", "-q", *options, str(file)],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": paths, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_ADDOPTS": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout + done.stderr


@pytest.fixture(scope="module")
def output(tmp_path_factory: pytest.TempPathFactory) -> str:
    return run(tmp_path_factory.mktemp("user"))


def test_fixtures_work_and_failures_show_the_steps(output: str) -> None:
    assert "2 failed, 2 passed" in output
    assert "2  end\n   results        window_start  window_end  user  n" in output
    assert "secret" not in output
    assert "The answer to the stream is not the batch answer" in output


def test_the_command_line_chooses_runs_and_seed(tmp_path: Path) -> None:
    chosen = run(tmp_path, "-k", "not_same", "--lowwater-seed", "70", "--lowwater-cases", "40")
    seed = int(chosen.split("same arguments and seed=")[1].split(".")[0])
    assert 70 <= seed < 110
    assert "1 failed, 3 deselected" in chosen
    assert "cases=0) would run nothing" in run(tmp_path, "-k", "not_same", "--lowwater-cases", "0")


def test_the_entry_point_is_declared_and_nothing_else_imports_pytest() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["entry-points"]["pytest11"] == {"lowwater": PLUGIN}
    assert not any(name.startswith("pytest") for name in project["dependencies"])
    program = "import sys, lowwater, lowwater.testing; print('pytest' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
