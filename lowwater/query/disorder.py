"""Progress policies as users name them: how late rows of a stream can be, and what to do when a source falls silent."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa

from lowwater.errors import BadProgress
from lowwater.model.policy import Delay, DelayRows, Learned, Policy
from lowwater.model.progress import Idle
from lowwater.model.ticks import Length, Ticks, microseconds
from lowwater.query.plan import PunctuatedBy


@dataclass(frozen=True)
class Disorder:
    """A progress policy before the type of the progressing attribute is known."""

    policy: Callable[[Ticks], Policy]
    punctuation: PunctuatedBy | None = None


def ordered() -> Disorder:
    """Rows of a source come in order of the progressing attribute."""
    return Disorder(lambda ticks: Delay(0))


def delay(at_most: Length) -> Disorder:
    """No row comes more than this behind the largest value of its source."""
    return Disorder(lambda ticks: Delay(_not_negative(ticks.length(at_most, "disorder"), "disorder")))


def delay_rows(at_most: int) -> Disorder:
    """No row comes more than so many rows after one of a larger value (k-slack)."""
    if at_most < 1:
        raise BadProgress(f"delay_rows() needs at least 1 row, not {at_most}; for a stream in order use ordered().")
    return Disorder(lambda ticks: DelayRows(at_most))


def learned(quantile: float = 0.999, margin: float = 1.0, warmup: int = 1000) -> Disorder:
    """The delay is learned: so large that this share of the rows seen so far would have been in time."""
    if not 0 < quantile <= 1:
        raise BadProgress(f"learned() needs a quantile above 0 and up to 1, not {quantile}.")
    if not margin >= 0:
        raise BadProgress(f"learned() needs a margin of zero or more, not {margin}.")
    return Disorder(lambda ticks: Learned(quantile, margin, warmup))


def punctuated(when: str, upto: str, closed: bool = True) -> Disorder:
    """Progress is in the data: rows for which column `when` is true promise that no row up to column `upto` follows."""
    return Disorder(lambda ticks: Policy(), PunctuatedBy(when, upto, closed))


@dataclass(frozen=True)
class idle:
    """Advance sources that are silent `after` so much system time, to `lag` behind the clock."""

    after: Length
    lag: Length

    def resolved(self, ticks: Ticks, name: str) -> Idle:
        if not (pa.types.is_timestamp(ticks.type) and ticks.type.unit == "us"):
            raise BadProgress(
                f"idle= of stream {name!r} compares with the clock, so progress must be a timestamp, not {ticks.type}."
            )
        return Idle(
            _not_negative(microseconds(self.after, "idle after"), "idle after"),
            _not_negative(microseconds(self.lag, "idle lag"), "idle lag"),
        )


def _not_negative(ticks: int, what: str) -> int:
    if ticks < 0:
        raise BadProgress(f"{what} must not be negative.")
    return ticks
