"""Conditions on the times of two inputs as a band: `r.ts BETWEEN l.ts - INTERVAL 1 MINUTE AND l.ts`, -1 minute to 0."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pyarrow as pa
from sqlglot import exp

from lowwater.language.names import Scope
from lowwater.model.ticks import Ticks, microseconds
from lowwater.model.words import length
from lowwater.relation import Relation

MICROSECONDS = Ticks(pa.timestamp("us"))
Difference = int | Decimal
"""A difference of times in microseconds, or in units of a number."""
Bound = tuple[Difference, bool]
"""A difference of times, and whether it belongs to the band."""


@dataclass
class Band:
    """`low <= right.time - left.time <= high`, with the times that are compared."""

    low: Bound | None = None
    high: Bound | None = None
    times: tuple[str, str] | None = None

    @property
    def given(self) -> bool:
        return self.times is not None

    def take(self, other: Band | None) -> bool:
        """Narrows the band. False if there is nothing to take, or if it is of other times."""
        if other is None or (self.times is not None and self.times != other.times):
            return False
        self.times = other.times
        if other.low is not None:
            self.low = other.low if self.low is None else max(self.low, other.low, key=lambda b: (b[0], not b[1]))
        if other.high is not None:
            self.high = other.high if self.high is None else min(self.high, other.high, key=lambda b: (b[0], b[1]))
        return True

    def options(self, left: Relation, right: Relation) -> dict[str, Any]:
        """The options of join() that say the same."""
        assert self.times is not None
        is_time = Ticks(left.node.schema.field(self.times[0]).type).is_time
        low, high = (
            None if b is None else (length(int(b[0]), MICROSECONDS) if is_time else b[0]) for b in (self.low, self.high)
        )
        options: dict[str, Any] = {"within": (low, high)}
        opened = ("(" if self.low and not self.low[1] else "[") + (")" if self.high and not self.high[1] else "]")
        if opened != "[]":
            options["bounds"] = opened
        if self.times != (left.progress, right.progress):
            options["over"] = self.times
        return options


def band_of(tree: Any, left: Scope, right: Scope) -> Band | None:
    """The band of a comparison of times, or None if it is none."""
    if isinstance(tree, exp.Between) and not tree.args.get("symmetric"):
        low = band_of(exp.GTE(this=tree.this, expression=tree.args["low"]), left, right)
        high = band_of(exp.LTE(this=tree.this, expression=tree.args["high"]), left, right)
        return low if low is not None and high is not None and low.take(high) else None
    if not isinstance(tree, exp.GT | exp.GTE | exp.LT | exp.LTE):
        return None
    one, other = _moved(tree.this), _moved(tree.expression)
    if one is None or other is None:
        return None
    (a, plus_a), (b, plus_b) = one, other
    above = isinstance(tree, exp.GT | exp.GTE)
    closed = isinstance(tree, exp.GTE | exp.LTE)
    if left.find(a) and right.find(b):  # turned round, so that the column of the right stands first
        a, plus_a, b, plus_b, above = b, plus_b, a, plus_a, not above
    if not (right.find(a) and left.find(b)):
        return None
    times = left.column(b), right.column(a)
    progressing = [s.relation.node.properties.progressing(t) for s, t in zip((left, right), times, strict=True)]
    if None in progressing:
        return None
    bound = (plus_b - plus_a, closed)  # a + plus_a >= b + plus_b
    return Band(bound, None, times) if above else Band(None, bound, times)


def _moved(tree: Any) -> tuple[exp.Column, Difference] | None:
    """A column plus a constant."""
    while isinstance(tree, exp.Paren):
        tree = tree.this
    if isinstance(tree, exp.Column):
        return tree, 0
    if isinstance(tree, exp.Add | exp.Sub):
        column, by = _moved(tree.this), _constant(tree.expression)
        if column is None or by is None:
            return None
        return column[0], column[1] + (by if isinstance(tree, exp.Add) else -by)
    return None


def _constant(tree: Any) -> Difference | None:
    if isinstance(tree, exp.Neg | exp.Paren):
        within = _constant(tree.this)
        return -within if within is not None and isinstance(tree, exp.Neg) else within
    if isinstance(tree, exp.Literal) and not tree.is_string:
        return int(tree.this) if tree.this.isdigit() else Decimal(tree.this)
    if isinstance(tree, exp.Interval) and isinstance(tree.this, exp.Literal):
        unit = tree.args.get("unit")
        text = tree.this.this if unit is None else f"{tree.this.this} {unit.name.lower()}"
        return microseconds(text, "INTERVAL")
    return None
