"""The wheel, installed from the registry into an empty environment: the README's first example, extras, the version.

It is built from a copy of the package, so that nothing of an earlier build and nothing of the clone is in it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import lowwater
from tests.test_docs import blocks

ROOT = Path(__file__).parent.parent
UV = Path(sys.executable).parent / "uv"
NO_NETWORK = ("dns error", "Failed to fetch", "error sending request", "Could not connect", "Network is unreachable")


def run(*command: object, cwd: Path) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV"))}
    return subprocess.run([str(c) for c in command], cwd=cwd, env=environment, capture_output=True, text=True)


def fetched(*command: object, cwd: Path) -> None:
    """Runs a command that may need the registry."""
    done = run(*command, cwd=cwd)
    if done.returncode and any(words in done.stderr for words in NO_NETWORK):
        pytest.skip("the package registry cannot be reached, and uv's cache lacks a package that the wheel needs")
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("build")
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "lowwater", place / "lowwater", ignore=ignored)
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, place)
    fetched(UV, "build", "--quiet", "--wheel", "--out-dir", "dist", ".", cwd=place)
    (found,) = (place / "dist").glob("*.whl")
    return found


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs of an environment that has the wheel and what it asks for."""
    place = tmp_path_factory.mktemp("environment")
    assert run(UV, "venv", "--quiet", "--python", sys.executable, "env", cwd=place).returncode == 0
    programs = place / "env" / "bin"
    fetched(UV, "pip", "install", "--quiet", "--python", programs / "python", wheel, cwd=place)
    return programs


def test_the_wheel_has_the_whole_package_its_types_and_nothing_else(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    modules = {str(path.relative_to(ROOT)) for path in (ROOT / "lowwater").rglob("*.py")}
    assert wheel.name == f"lowwater-{lowwater.__version__}-py3-none-any.whl"
    assert {name for name in names if name.endswith(".py")} == modules
    assert "lowwater/py.typed" in names
    assert {name.partition("/")[0] for name in names} == {"lowwater", f"lowwater-{lowwater.__version__}.dist-info"}


def test_the_first_example_of_the_readme_runs_where_only_the_wheel_is(installed: Path, tmp_path: Path) -> None:
    (first, *_) = blocks((ROOT / "README.md").read_text())
    (tmp_path / "example.py").write_text(first.code)
    done = run(installed / "python", "example.py", cwd=tmp_path)
    assert (done.stdout, done.stderr) == (first.shown, "")
    where = "import lowwater; print(lowwater.__file__, lowwater.__version__)"
    file, version = run(installed / "python", "-c", where, cwd=tmp_path).stdout.split()
    assert Path(file).is_relative_to(installed.parent)
    assert version == lowwater.__version__


@pytest.mark.parametrize("module", ["pyspark", "google.protobuf", "typer", "rich", "matplotlib", "prometheus_client"])
def test_pip_brings_nothing_that_a_query_does_not_need(installed: Path, tmp_path: Path, module: str) -> None:
    done = run(installed / "python", "-c", f"import {module}", cwd=tmp_path)
    assert "ModuleNotFoundError" in done.stderr


def test_what_is_missing_is_named_with_its_extra(installed: Path, tmp_path: Path) -> None:
    done = run(installed / "lowwater", "--version", cwd=tmp_path)
    assert done.returncode == 1
    assert done.stderr == "The command line needs typer, which is not installed; run pip install 'lowwater[cli]'.\n"
    picture = (
        "import lowwater as lw, pyarrow as pa\n"
        "rows = pa.table({'ts': [1, 2]})\n"
        "counts = lw.stream(rows, progress='ts', disorder=0).window(10).agg(n=lw.count())\n"
        "try:\n"
        "    counts.explain(format='svg')\n"
        "except lw.LowwaterError as error:\n"
        "    print(error)\n"
    )
    done = run(installed / "python", "-c", picture, cwd=tmp_path)
    assert "A picture of a plan needs matplotlib" in done.stdout
    assert "'lowwater[plot]'" in done.stdout


def test_the_command_line_works_without_a_clone(installed: Path, wheel: Path, tmp_path: Path) -> None:
    wanted = f"lowwater[cli] @ {wheel.as_uri()}"
    fetched(UV, "pip", "install", "--quiet", "--python", installed / "python", wanted, cwd=tmp_path)
    version = run(installed / "lowwater", "--version", cwd=tmp_path)
    assert version.stdout.strip() == lowwater.__version__
    assert run(installed / "python", "-m", "lowwater", "--version", cwd=tmp_path).stdout == version.stdout
    bench = run(installed / "lowwater", "bench", cwd=tmp_path)
    assert (bench.returncode, "from a clone of the repository" in bench.stderr) == (2, True)
    demo = run(installed / "lowwater", "demo", cwd=tmp_path)
    assert (demo.returncode, "'lowwater[spark]'" in demo.stderr) == (2, True)
    doctor = run(installed / "lowwater", "doctor", cwd=tmp_path)
    assert doctor.returncode == 1
    assert "pyspark" in doctor.stdout
