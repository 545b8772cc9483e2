"""What runs with every test run, and what only `make soak` runs: the same tests over more cases."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import Any

import pytest
from hypothesis import settings

SOAKING = "LOWWATER_SOAK" in os.environ


def examples(often: int) -> settings:
    """Settings of a property: so many examples run always, ten times as many under `make soak`."""
    return settings(max_examples=often * (10 if SOAKING else 1))


def only_soaking(test: Any) -> Any:
    """A test that other tests represent: it runs under `make soak` alone."""
    skip = pytest.mark.skipif(not SOAKING, reason="runs under `make soak`")
    return pytest.mark.soak(skip(test))


def sampled(cases: Sequence[Any], often: int | Iterable[Any]) -> list[Any]:
    """Parameters of a test: the first so many cases, or those named, run always; all of them under `make soak`."""
    always = set(cases[:often]) if isinstance(often, int) else set(often)
    skip = pytest.mark.skipif(not SOAKING, reason="runs under `make soak`")
    return [pytest.param(one, marks=() if one in always else (pytest.mark.soak, skip)) for one in cases]
