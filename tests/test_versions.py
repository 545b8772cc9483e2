"""The declared versions: the README's table is what was tried, the lock file fits the ranges, extras are known."""

from __future__ import annotations

import importlib.metadata
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

import lowwater
from lowwater.extras import EXTRAS, MissingExtra, needs
from scripts import versions

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
DECLARED = PROJECT["project"]
NEEDED = [Requirement(text) for text in DECLARED["dependencies"]]
EXTRA = {name: [Requirement(text) for text in texts] for name, texts in DECLARED["optional-dependencies"].items()}


def test_the_table_of_the_readme_is_what_was_tried() -> None:
    readme = (ROOT / "README.md").read_text()
    assert readme == versions.written(readme, versions.known())


def test_every_set_was_tried_and_has_worked() -> None:
    """With the versions that are declared now: after a change of a range, `make versions` has to run again."""
    found = {one.name: one for one in versions.known()}
    assert list(found) == versions.NAMES
    assert {one.example for one in found.values()} == {"runs"}
    assert all(one.tests.endswith(" pass") == (name in versions.SAMPLED) for name, one in found.items())
    assert all(found[minor].packages["pyspark"].startswith(f"{minor}.") for minor in versions.SPARKS)
    assert "delta-spark" in found["delta"].packages
    locked = lock()
    for requirement in [*NEEDED, *EXTRA["spark"]]:
        name = canonicalize_name(requirement.name)
        assert all(requirement.specifier.contains(one.packages[name]) for one in found.values()), requirement
        assert found["newest"].packages[name] in locked[name]
        (lowest,) = [each for each in requirement.specifier if each.operator == ">="]
        assert Version(found["oldest"].packages[name]) == Version(lowest.version), requirement


def lock() -> dict[str, list[str]]:
    """The versions of the lock file. A package can have several, for several versions of Python."""
    found: dict[str, list[str]] = {}
    for line in (ROOT / "requirements.lock").read_text().splitlines():
        requirement = Requirement(line)
        (exact,) = requirement.specifier
        assert exact.operator == "=="
        found.setdefault(canonicalize_name(requirement.name), []).append(exact.version)
    return found


def test_the_lock_file_fits_what_is_declared() -> None:
    locked = lock()
    for requirement in [*NEEDED, *(each for name in EXTRA for each in EXTRA[name])]:
        if requirement.name != "lowwater":
            chosen = locked[canonicalize_name(requirement.name)]
            assert all(requirement.specifier.contains(one) for one in chosen), requirement


def test_pip_installs_neither_pyspark_nor_anything_of_an_extra() -> None:
    brought = {canonicalize_name(each.name) for name in EXTRA for each in EXTRA[name]} - {"lowwater"}
    assert not brought & {canonicalize_name(each.name) for each in NEEDED}


@pytest.mark.parametrize("module", sorted(set(EXTRAS) - {"py4j", "google"}))
def test_the_sentence_names_an_extra_that_brings_the_package(module: str) -> None:
    package = {"google.protobuf": "protobuf"}.get(module, module)
    assert canonicalize_name(package) in {canonicalize_name(each.name) for each in EXTRA[EXTRAS[module]]}
    with (
        pytest.raises(MissingExtra, match=rf"^A part needs {package}.*'lowwater\[{EXTRAS[module]}\]'\.$"),
        needs("A part"),
    ):
        raise ModuleNotFoundError(name=f"{module}.inner")


def test_other_missing_modules_are_not_taken_for_an_extra() -> None:
    with pytest.raises(ModuleNotFoundError, match="nowhere"), needs("A part"):
        raise ModuleNotFoundError("nowhere", name="nowhere")


def test_there_is_one_version_number() -> None:
    assert "version" not in DECLARED
    assert DECLARED["dynamic"] == ["version"]
    assert importlib.metadata.version("lowwater") == lowwater.__version__
