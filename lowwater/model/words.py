"""Lengths, counts and lists in words, as EXPLAIN and the refusals print them.

>>> import pyarrow as pa
>>> length(600_000_000, Ticks(pa.timestamp("us"))), length(7, Ticks(pa.int64())), rows(1), listed(["a", "b", "c"])
('10 minutes', '7', '1 row', 'a, b and c')
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

import pyarrow as pa

from lowwater.model.ticks import Ticks


def listed(names: Sequence[str]) -> str:
    """Names as a list in English: a, b and c."""
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def rows(n: int) -> str:
    return f"{n:,} row" + "s" * (n != 1)


def length(n: int, ticks: Ticks) -> str:
    """A length in ticks as text, in the largest unit that divides it."""
    per_second = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
    if not ticks.is_time:
        return str(Decimal(n).scaleb(-ticks.type.scale)) if pa.types.is_decimal(ticks.type) else str(n)
    if not hasattr(ticks.type, "unit"):
        return f"{n} day" + "s" * (n != 1)
    for unit, seconds in (("day", 86_400), ("hour", 3_600), ("minute", 60), ("second", 1)):
        size = seconds * per_second[ticks.type.unit]
        if n and n % size == 0:
            return f"{n // size} {unit}" + "s" * (n != size)
    return f"{n} {ticks.type.unit}"
