"""Progress policies as users name them: how late rows of a stream can be, and what to do when a source falls silent."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa

from lowwater.errors import BadProgress
from lowwater.model.policy import Delay, DelayRows, Learned, Measured, Policy
from lowwater.model.progress import Idle
from lowwater.model.ticks import Length, Ticks, microseconds, not_negative
from lowwater.plan.inputs import PunctuatedBy


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
    return Disorder(lambda ticks: Delay(ticks.not_negative(at_most, "disorder")))


def delay_rows(at_most: int) -> Disorder:
    """No row comes more than this many rows after a row with a larger value (k-slack)."""
    if at_most < 1:
        raise BadProgress(f"delay_rows() needs at least 1 row, not {at_most}; for a stream in order use ordered().")
    return Disorder(lambda ticks: DelayRows(at_most))


def learned(quantile: float = 0.999, margin: float = 1.0, warmup: int = 1000) -> Disorder:
    """Learns the delay: large enough that this share of the rows seen so far would have been in time."""
    if not 0 < quantile <= 1:
        raise BadProgress(f"learned() needs a quantile above 0 and up to 1, not {quantile}.")
    if not margin >= 0:
        raise BadProgress(f"learned() needs a margin of zero or more, not {margin}.")
    return Disorder(lambda ticks: Learned(quantile, margin, warmup))


def measured() -> Disorder:
    """Nothing is known: rows grow in the long run, and `oblivious_join` measures how scrambled they are.

    Other operators cannot follow, because a stream without a declared disorder closes no window. Its
    `disorder_report()` suggests what to declare.
    """
    return Disorder(lambda ticks: Measured())


def punctuated(when: str, upto: str, closed: bool = True, data: bool = False) -> Disorder:
    """Progress is in the data: rows for which column `when` is true promise that no row up to column `upto` follows.

    closed   whether rows at `upto` itself are ended, too
    data     whether a row that promises is also data. By default it is a punctuation and nothing else: it is in no
             window and joins nothing, and `Metrics.punctuations` counts it. With data=True it is a row like any other,
             and is not counted there

    A promise takes effect after all rows of its micro-batch. So a row with data=True is never late by its own promise,
    even if `upto` is beyond its own time.

    >>> import lowwater as lw
    >>> def counted(**reading):
    ...     rows = [{"ts": 3, "last": False}, {"ts": 4, "last": True}, {"ts": 12, "last": False}]
    ...     disorder = lw.punctuated("last", "ts", **reading)
    ...     stream = lw.stream(pa.Table.from_pylist(rows), progress="ts", disorder=disorder)
    ...     query = stream.window(10).agg(n=lw.count()).start()
    ...     query.push(rows)
    ...     query.finish()
    ...     return query.result()["n"].to_pylist(), query.metrics().rows, query.metrics().punctuations
    >>> counted()
    ([1, 1], 3, 1)
    >>> counted(data=True)
    ([2, 1], 3, 0)
    """
    return Disorder(lambda ticks: Policy(), PunctuatedBy(when, upto, closed, data))


@dataclass(frozen=True)
class idle:
    """Advances a source that has been silent for `after` of system time to `lag` behind the clock."""

    after: Length
    lag: Length

    def resolved(self, ticks: Ticks, name: str) -> Idle:
        if not (pa.types.is_timestamp(ticks.type) and ticks.type.unit == "us"):
            raise BadProgress(
                f"idle= of stream {name!r} compares with the clock, so progress must be a timestamp, not {ticks.type}."
            )
        return Idle(
            not_negative(microseconds(self.after, "idle(after=)"), "idle(after=)", self.after),
            not_negative(microseconds(self.lag, "idle(lag=)"), "idle(lag=)", self.lag),
        )
