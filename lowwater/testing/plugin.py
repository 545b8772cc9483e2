"""Fixtures for pytest. Where lowwater is installed, pytest loads this module; nothing else in lowwater imports pytest.

lowwater_script   makes a Script; if the test fails, pytest shows its steps
same_as_batch     assert_same_as_batch with --lowwater-cases and --lowwater-seed
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from lowwater.testing import Script


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("lowwater")
    group.addoption("--lowwater-cases", type=int, help="runs of each test with same_as_batch (default: 50)")
    group.addoption("--lowwater-seed", type=int, help="seed of the first of these runs (default: 0)")


@pytest.fixture
def lowwater_script() -> Iterator[Callable[..., Script]]:
    """A function that makes scripts, as `lowwater.testing.Script` does. The steps of a failed test are shown."""
    from lowwater.testing import Script

    made: list[Script] = []

    def script(*query: Any, **inputs: Any) -> Script:
        made.append(Script(*query, **inputs))
        return made[-1]

    yield script
    for one in made:
        print(one)  # pytest shows the output of tests that fail, and of no others


@pytest.fixture
def same_as_batch(pytestconfig: pytest.Config) -> Callable[..., None]:
    """`lowwater.testing.assert_same_as_batch`; the command line can set the number of runs and their seed."""
    from lowwater.testing import assert_same_as_batch

    options = {"cases": pytestconfig.getoption("lowwater_cases"), "seed": pytestconfig.getoption("lowwater_seed")}
    chosen = {name: value for name, value in options.items() if value is not None}

    def check(*query: Any, **arguments: Any) -> None:
        assert_same_as_batch(*query, **arguments | chosen)

    return check
