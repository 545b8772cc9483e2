"""The oldest Spark that lowwater runs on. It is looked at before anything of Spark is imported here, because an older
one lacks the modules; so this file imports none of them.
"""

from __future__ import annotations

import importlib.metadata
import sys

from lowwater.errors import NeedsConfiguration

OLDEST = (4, 0)


def installed() -> str | None:
    """The version of the PySpark that is imported already, as on a cluster, or that pip has installed."""
    loaded = sys.modules.get("pyspark")
    if loaded is not None:
        found: str | None = getattr(loaded, "__version__", None)
        return found
    try:
        return importlib.metadata.version("pyspark")
    except importlib.metadata.PackageNotFoundError:
        return None


def minor_of(version: str) -> tuple[int, int]:
    """
    >>> minor_of("4.1.0.dev1") < minor_of("10.2")
    True
    """
    major, minor, *_ = version.split(".")
    return int(major), int(minor)


def refuse_older(version: str | None) -> None:
    """Refuses a Spark without transformWithState.

    >>> refuse_older("4.0.0"), refuse_older("4.1.0.dev1"), refuse_older("10.2"), refuse_older(None)
    (None, None, None, None)
    >>> refuse_older("3.5.9")
    Traceback (most recent call last):
    lowwater.errors.NeedsConfiguration: This is Spark 3.5.9; lowwater needs Spark 4.0 or newer.
    """
    if version is None:
        return
    if minor_of(version) < OLDEST:
        oldest = ".".join(map(str, OLDEST))
        raise NeedsConfiguration(f"This is Spark {version}; lowwater needs Spark {oldest} or newer.")
