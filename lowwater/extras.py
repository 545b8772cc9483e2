"""The extras of the package: which packages each of them brings, and the refusal where one is missing.

A query needs none of them in a process that has PySpark. pyproject.toml declares the same extras for pip.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from lowwater.errors import LowwaterError

EXTRAS = {
    "pyspark": "spark",
    "py4j": "spark",
    "google": "spark",
    "google.protobuf": "spark",
    "typer": "cli",
    "rich": "cli",
    "packaging": "cli",
    "prompt_toolkit": "sql",
    "matplotlib": "plot",
    "prometheus_client": "prometheus",
}
"""The extra that brings a package, by the name that Python imports it by."""


class MissingExtra(LowwaterError):
    """A part of lowwater was called that needs a package which is not installed."""


@contextmanager
def needs(what: str) -> Iterator[None]:
    """Turns an import inside that fails for want of an extra's package into a sentence. `what` needs the package.

    >>> with needs("A picture"):
    ...     raise ModuleNotFoundError(name="matplotlib.figure")
    Traceback (most recent call last):
    lowwater.extras.MissingExtra: A picture needs matplotlib, which is not installed; run pip install 'lowwater[plot]'.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        refusal = missing(error, what)
        if refusal is None:
            raise
        raise refusal from error


def missing(error: ModuleNotFoundError, what: str) -> MissingExtra | None:
    """The refusal for a package that an extra brings; None for any other."""
    name = error.name or ""
    package = name if name in EXTRAS else name.partition(".")[0]
    if package not in EXTRAS:
        return None
    shown = "protobuf" if package.startswith("google") else package
    return MissingExtra(f"{what} needs {shown}, which is not installed; run pip install 'lowwater[{EXTRAS[package]}]'.")
