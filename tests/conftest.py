"""Fixtures of all tests: one small Spark session per process, and the folder of outside material if it is there."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import settings

from tests.soak import examples
from tests.spark import quick

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

settings.register_profile("lowwater", examples(30), deadline=None, derandomize=True, print_blob=True)
settings.load_profile("lowwater")

quick.use()

SHARED = Path(__file__).parent.parent.parent / "shared"


WITH_SPARK = ("bench", "cases", "cases_of_ours", "cli", "docs", "examples", "taxi", "transcripts")
"""Tests outside tests/spark that need Spark are in these files."""
WHOLE = (
    "tests/spark/test_killed.py",
    "tests/spark/test_kafka.py",
    "tests/spark/test_destinations.py",
    "tests/test_wheel.py",
)
"""Files whose tests share a fixture that takes long: they go to one process whole."""
FIRST = (*WHOLE[:3], "tests/spark/test_cluster.py", "tests/test_bench.py")
"""Files with the longest tests. None of them must be left for the end, when the other processes have nothing to do."""


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """With several processes, each takes the next test when it is done with one, in the order that is made below."""
    from xdist.scheduler import LoadScopeScheduling

    config.option.loadscopereorder = False

    class OneByOne(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file = nodeid.partition("::")[0]
            return file if file in WHOLE else nodeid

        def mark_test_complete(self, node: Any, item_index: int, duration: float = 0) -> None:
            """Forgets what is done: xdist would look through all of it after every test."""
            super().mark_test_complete(node, item_index, duration)
            work = self.assigned_work[node]
            for scope in [scope for scope, tests in work.items() if all(tests.values())]:
                del work[scope]

    return OneByOne(config, log)


def needs_spark(file: str) -> bool:
    return file.startswith("tests/spark/") or file in {f"tests/test_{name}.py" for name in WITH_SPARK}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    files = {item: item.nodeid.partition("::")[0] for item in items}
    for item in items:
        if item.get_closest_marker("spark") and not needs_spark(files[item]):
            raise pytest.UsageError(f"{item.nodeid} needs Spark: name its file in WITH_SPARK of tests/conftest.py.")
    places = {file: place for place, file in enumerate(FIRST)}
    items.sort(key=lambda item: (not needs_spark(files[item]), places.get(files[item], len(FIRST))))


def pytest_collection_finish() -> None:
    """Tests and their modules stay as long as the process: garbage collections leave them out from here on."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    from tests.spark.small import session

    opened = session()
    yield opened
    opened.stop()


@pytest.fixture(scope="module")
def compiled(spark: SparkSession) -> Iterator[None]:
    """Spark compiles its expressions as it does for users; other tests save the time of that."""
    from tests.spark.small import COMPILED

    before = {name: spark.conf.get(name) for name in COMPILED}
    for name, value in COMPILED.items():
        spark.conf.set(name, value)
    yield
    for name, old in before.items():
        spark.conf.set(name, old or "")


@pytest.fixture(scope="session")
def kafka() -> Iterator[str]:
    """The address of a broker of this process. Tests that need it say so where its jars are absent."""
    from benchmarks import broker, jars

    if not (jars.BROKER.there and jars.CONNECTOR.there):
        pytest.skip(jars.missing(jars.BROKER, jars.CONNECTOR))
    with broker.broker() as servers:
        yield servers


@pytest.fixture(scope="session")
def shared() -> Path:
    """Outside cases and data; they are not part of the project, so tests that need them say so and skip."""
    if not SHARED.is_dir():
        pytest.skip("the folder `shared` with outside cases and data is not beside the project")
    return SHARED
