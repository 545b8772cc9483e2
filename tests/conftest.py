"""Fixtures of all tests: one small Spark session per process, and the folder of outside material if it is there."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

settings.register_profile("lowwater", deadline=None, derandomize=True, print_blob=True)
settings.load_profile("lowwater")

SHARED = Path(__file__).parent.parent.parent / "shared"


WITH_SPARK = ("bench", "cases", "cases_of_ours", "cli", "docs", "examples", "taxi", "transcripts")
"""Tests outside tests/spark that need Spark are in these files."""


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """With several processes, a file goes to one of them whole. Files that need Spark take longest, so they come first:
    the order of the files stays as it is made below."""
    from xdist.scheduler import LoadScopeScheduling

    config.option.loadscopereorder = False

    class ByFile(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return nodeid.partition("::")[0]

    return ByFile(config, log)


def needs_spark(file: str) -> bool:
    return file.startswith("tests/spark/") or file in {f"tests/test_{name}.py" for name in WITH_SPARK}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    files = {item: item.nodeid.partition("::")[0] for item in items}
    for item in items:
        if item.get_closest_marker("spark") and not needs_spark(files[item]):
            raise pytest.UsageError(f"{item.nodeid} needs Spark: name its file in WITH_SPARK of tests/conftest.py.")
    items.sort(key=lambda item: not needs_spark(files[item]))


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    from pyspark.sql import SparkSession

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    session = (
        SparkSession.builder.master("local[2]")
        .appName("lowwater-tests")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.driver.memory", "3g")
        .config("spark.sql.session.timeZone", "UTC")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()


@pytest.fixture(scope="session")
def shared() -> Path:
    """Outside cases and data; they are not part of the project, so tests that need them say so and skip."""
    if not SHARED.is_dir():
        pytest.skip("the folder `shared` with outside cases and data is not beside the project")
    return SHARED
