"""Fixtures of all tests: one small Spark session for the run, and the folder of outside material if it is there."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

settings.register_profile("lowwater", deadline=None, derandomize=True, print_blob=True)
settings.load_profile("lowwater")

SHARED = Path(__file__).parent.parent.parent / "shared"


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
