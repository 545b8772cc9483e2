"""The errors with which expressions are refused."""

from __future__ import annotations

from lowwater.errors import LowwaterError


class OutsideSubset(LowwaterError):
    """An expression that Spark can evaluate and lowwater cannot."""

    def __init__(self, what: str, step: str = "compute it in Spark before the stream is declared") -> None:
        self.what = what
        super().__init__(f"{what}: Spark evaluates it, but lowwater cannot outside Spark; {step}.")


class Mismatch(LowwaterError):
    """An expression whose types do not fit together. Spark refuses it, too."""


class AggregateInside(LowwaterError):
    """An aggregate in an expression over one row. Spark refuses it, too."""

    def __init__(self, what: str) -> None:
        super().__init__(f"{what}; compute it by agg() first, and refer to its column, as in agg(n=lw.count()).")
