"""The disorder of a finite stream, and the `disorder=` that would lose none of its rows (WO 2.2, 3.2)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lowwater.model.policy import Int, running_max
from lowwater.model.scrambling import Scrambling, multiplicity
from lowwater.model.ticks import Ticks
from lowwater.model.words import length, rows


@dataclass(frozen=True)
class DisorderReport:
    """What a stream looked like. Prints itself; the numbers are its fields."""

    name: str
    rows: int
    sources: int
    scrambling_factor: int
    """k of Definition 2.2: how many rows later a row came than a row with a value as large. Equal values count."""
    multiplicity: int
    """The largest number of rows with one value."""
    late_by: int
    """The largest lateness of a row within its source, in ticks."""
    suggested: str | int
    """The smallest round `disorder=` under which no row is late."""

    @staticmethod
    def of(name: str, time: Int, source: Int, ticks: Ticks) -> DisorderReport:
        """The report of rows in order of arrival; `source` numbers the source of each."""
        order = np.argsort(source, kind="stable")
        values, of = time[order], source[order]
        late = int((running_max(values, of) - values).max(initial=0))
        k, most = Scrambling.of(time).factor, multiplicity(time)
        sources = len(np.unique(source))
        return DisorderReport(name, len(time), sources, k, most, late, suggested(late, ticks))

    def __str__(self) -> str:
        k, by = self.scrambling_factor, self.suggested
        sources = f" of {self.sources} sources" if self.sources > 1 else ""
        return (
            f"{self.name}: {rows(self.rows)}{sources}\n"
            f"  scrambling factor  {k}: a row came at most {rows(k)} after one with a value as large\n"
            f"  multiplicity       {self.multiplicity}: the most rows with one value\n"
            f"  suggested          disorder={by!r}: no row was later than that"
        )


def suggested(late_by: int, ticks: Ticks) -> str | int:
    """A delay of at least so many ticks with at most two digits, in the largest unit that expresses it.

    >>> import pyarrow as pa
    >>> suggested(2_930_119, Ticks(pa.timestamp("us"))), suggested(1234, Ticks(pa.int64()))
    ('3 seconds', 1300)
    """
    if not ticks.is_time:
        return _rounded(late_by)
    per_second = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[getattr(ticks.type, "unit", "s")]
    if not hasattr(ticks.type, "unit"):
        return length(late_by, ticks)
    if late_by >= per_second:
        seconds = -(-late_by // per_second)
        unit = next(size for size in (86_400, 3_600, 60, 1) if seconds >= size)
        return length(_rounded(-(-seconds // unit)) * unit * per_second, ticks)
    if per_second >= 10**3:
        milli = per_second // 10**3
        return f"{_rounded(-(-late_by // milli))} milliseconds"
    return length(late_by, ticks)


def _rounded(n: int) -> int:
    """At least n, with at most two digits that are not zero."""
    size: int = 10 ** max(0, len(str(n)) - 2)
    return -(-n // size) * size
